"""Workflows: deploy, validate, list, aliases and deletion."""

import asyncio
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from tests.api.harness import API, CHAIN, System

YAML = {"content-type": "application/yaml"}
BROKEN = """
workflow_id: broken
nodes:
  a: {handler: echo, dependencies: [b, absent]}
  b: {handler: echo, dependencies: [a]}
  c: {handler: echo, tiemout_seconds: 3}
"""


async def test_a_new_document_becomes_a_version(client: httpx2.AsyncClient) -> None:
    response = await client.post(
        f"{API}/workflows", content=CHAIN.format(workflow_id="chain", mark=1), headers=YAML
    )

    assert response.status_code == 201
    assert response.json()["version"] == 1
    assert response.json()["aliases"] == {"latest": [{"version": 1, "weight": 100}]}


async def test_the_same_document_creates_no_version(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy()

    response = await client.post(
        f"{API}/workflows", content=CHAIN.format(workflow_id="chain", mark=1), headers=YAML
    )

    assert (response.status_code, response.json()["version"]) == (200, 1)


async def test_a_document_may_be_json(client: httpx2.AsyncClient) -> None:
    response = await client.post(
        f"{API}/workflows", json={"workflow_id": "j", "nodes": {"a": {"handler": "echo"}}}
    )

    assert response.status_code == 201


async def test_an_invalid_document_is_refused_with_all_positions(
    client: httpx2.AsyncClient,
) -> None:
    response = await client.post(f"{API}/workflows", content=BROKEN, headers=YAML)

    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    errors = response.json()["errors"]
    assert len(errors) >= 2
    assert all(error["line"] > 0 and error["column"] > 0 for error in errors)
    assert any("absent" in error["message"] for error in errors)
    assert any("timeout_seconds" in (error.get("hint") or "") for error in errors)


async def test_an_invalid_document_stores_nothing(client: httpx2.AsyncClient) -> None:
    await client.post(f"{API}/workflows", content=BROKEN, headers=YAML)

    assert (await client.get(f"{API}/workflows")).json()["items"] == []


async def test_a_document_is_checked_without_being_stored(client: httpx2.AsyncClient) -> None:
    good = await client.post(
        f"{API}/workflows/validate", content=CHAIN.format(workflow_id="chain", mark=1), headers=YAML
    )
    bad = await client.post(f"{API}/workflows/validate", content=BROKEN, headers=YAML)

    assert good.json() == {"valid": True, "workflow_id": "chain", "errors": [], "warnings": []}
    assert (bad.status_code, bad.json()["valid"]) == (200, False)
    assert (await client.get(f"{API}/workflows")).json()["items"] == []


async def test_an_unknown_handler_is_a_warning(client: httpx2.AsyncClient) -> None:
    document = {"workflow_id": "j", "nodes": {"a": {"handler": "ecoh"}}}

    response = await client.post(f"{API}/workflows", json=document)

    assert response.status_code == 201
    assert "ecoh" in response.json()["warnings"][0]["message"]


async def test_a_large_document_is_checked_in_a_thread(client: httpx2.AsyncClient) -> None:
    nodes = {f"n{number}": {"handler": "echo"} for number in range(3_000)}

    response = await client.post(f"{API}/workflows", json={"workflow_id": "wide", "nodes": nodes})

    assert response.status_code == 201
    assert len(response.json()["definition"]["nodes"]) == 3_000


async def test_a_document_of_another_type_is_refused(client: httpx2.AsyncClient) -> None:
    response = await client.post(
        f"{API}/workflows", content="a: 1", headers={"content-type": "text/plain"}
    )

    assert response.status_code == 415


async def test_workflows_are_listed_page_by_page(
    system: System, client: httpx2.AsyncClient
) -> None:
    for name in ("c", "a", "b"):
        await system.deploy(name)

    first = (await client.get(f"{API}/workflows", params={"limit": 2})).json()
    second = (
        await client.get(f"{API}/workflows", params={"limit": 2, "cursor": first["next_cursor"]})
    ).json()

    assert [item["workflow_id"] for item in first["items"] + second["items"]] == ["a", "b", "c"]
    assert second["next_cursor"] is None


async def test_versions_are_shown_newest_first_and_one_by_one(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy(mark=1)
    await system.deploy(mark=2)

    listed = (await client.get(f"{API}/workflows/chain/versions")).json()["items"]
    first = (await client.get(f"{API}/workflows/chain/versions/1")).json()
    newest = (await client.get(f"{API}/workflows/chain")).json()

    assert [item["version"] for item in listed] == [2, 1]
    assert first["definition"]["nodes"][2]["params"]["mark"] == 1
    assert newest["version"] == 2


@pytest.mark.parametrize(
    "path", ["absent", "absent/versions", "absent/versions/1", "chain/versions/7"]
)
async def test_unknown_workflows_and_versions_are_not_found(
    system: System, client: httpx2.AsyncClient, path: str
) -> None:
    await system.deploy()

    response = await client.get(f"{API}/workflows/{path}")

    assert response.status_code == 404
    assert response.json()["type"] == "urn:windlass:problem:not-found"


async def test_a_deleted_workflow_refuses_submits_and_keeps_its_history(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy()
    job_id = await system.submit()
    await system.ended(job_id)

    response = await client.delete(f"{API}/workflows/chain")

    assert response.status_code == 204
    assert (await client.get(f"{API}/workflows")).json()["items"] == []
    assert (await client.post(f"{API}/jobs", json={"workflow_id": "chain"})).status_code == 404
    assert (
        await client.post(f"{API}/jobs", json={"workflow_id": "chain", "version": 1})
    ).status_code == 404
    assert (await client.post(f"{API}/jobs/{job_id}/rerun")).status_code == 404
    assert (await client.get(f"{API}/jobs/{job_id}")).json()["status"] == "completed"
    assert (await client.get(f"{API}/workflows/chain/versions")).status_code == 200


async def test_a_workflow_with_unfinished_jobs_is_deleted_only_by_force(tmp_path: Path) -> None:
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy()
        await system.submit()

        refused = await system.client.delete(f"{API}/workflows/chain")
        forced = await system.client.delete(f"{API}/workflows/chain", params={"force": "true"})

    assert (refused.status_code, forced.status_code) == (409, 204)


# Aliases


@pytest.mark.parametrize(
    ("alias", "body", "status"),
    [
        ("latest", {"version": 1}, 422),
        ("7", {"version": 1}, 422),
        ("stable", {}, 422),
        ("stable", {"version": 1, "targets": [{"version": 1}]}, 422),
        ("stable", {"targets": [{"version": 1}, {"version": 1}]}, 422),
        ("stable", {"targets": [{"version": 1, "weight": 0}]}, 422),
        ("stable", {"version": 0}, 422),
        ("stable", {"verison": 1}, 422),
        ("stable", {"version": 9}, 404),
        ("stable", {"version": 1}, 200),
    ],
)
async def test_an_invalid_alias_target_is_refused(
    system: System, client: httpx2.AsyncClient, alias: str, body: dict[str, object], status: int
) -> None:
    await system.deploy()

    response = await client.put(f"{API}/workflows/chain/aliases/{alias}", json=body)

    assert response.status_code == status, response.text


async def test_an_alias_is_removed_once(system: System, client: httpx2.AsyncClient) -> None:
    await system.deploy()
    await client.put(f"{API}/workflows/chain/aliases/stable", json={"version": 1})

    removed = await client.delete(f"{API}/workflows/chain/aliases/stable")
    again = await client.delete(f"{API}/workflows/chain/aliases/stable")

    assert (removed.status_code, again.status_code) == (204, 404)
    assert (
        await client.post(f"{API}/jobs", json={"workflow_id": "chain", "version": "stable"})
    ).status_code == 404


async def test_the_default_alias_gets_the_submits_without_a_version_once_it_is_set(
    client: httpx2.AsyncClient,
) -> None:
    versions: list[httpx2.Response] = []
    for mark in (1, 2):
        document = CHAIN.format(workflow_id="chain", mark=mark) + "default_alias: live\n"
        versions.append(await client.post(f"{API}/workflows", content=document, headers=YAML))
    before = await client.post(f"{API}/jobs", json={"workflow_id": "chain"})
    await client.put(f"{API}/workflows/chain/aliases/live", json={"version": 1})
    bodies = [{"workflow_id": "chain"}, {"workflow_id": "chain", "version": "latest"}]
    named = [await client.post(f"{API}/jobs", json=body) for body in bodies]

    [warning] = versions[0].json()["warnings"]
    assert warning["path"] == "default_alias"
    assert "the alias is not set: 'live'" in warning["message"]
    jobs = [response.json()["job_id"] for response in (before, *named)]
    views = [(await client.get(f"{API}/jobs/{job_id}")).json() for job_id in jobs]
    assert [view["version"] for view in views] == [2, 1, 2]


async def test_an_unknown_alias_is_refused_with_the_known_ones(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy()
    await client.put(f"{API}/workflows/chain/aliases/stable", json={"version": 1})

    response = await client.post(f"{API}/jobs", json={"workflow_id": "chain", "version": "stabel"})

    assert response.status_code == 404
    assert "did you mean 'stable'?" in response.json()["detail"]


async def test_jobs_stay_on_their_version_while_the_next_one_is_deployed(tmp_path: Path) -> None:
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy(mark=1)
        old = [await system.submit() for _ in range(50)]
        await system.deploy(mark=2)
        new = [await system.submit() for _ in range(5)]
        await system.client.put(f"{API}/workflows/chain/aliases/stable", json={"version": 1})
        back = [await system.submit(version="stable") for _ in range(5)]
        async with system.working():
            ended = await asyncio.gather(*(system.ended(job_id) for job_id in old + new + back))

    marks = [job["result_data"]["second"]["echoed_params"]["mark"] for job in ended]
    assert marks == [1] * 50 + [2] * 5 + [1] * 5
    assert [job["version"] for job in ended] == marks
    assert {job["status"] for job in ended} == {"completed"}


async def test_a_split_sends_each_version_its_share(tmp_path: Path) -> None:
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy(mark=1)
        await system.deploy(mark=2)
        targets = [{"version": 1, "weight": 90}, {"version": 2, "weight": 10}]
        await system.client.put(f"{API}/workflows/chain/aliases/split", json={"targets": targets})
        jobs = [{"workflow_id": "chain", "version": "split"}] * 500
        ids: list[str] = []
        for _ in range(4):
            answer = (await system.client.post(f"{API}/jobs/batch", json={"jobs": jobs})).json()
            ids += [item["job_id"] for item in answer["jobs"]]
        versions = Counter([(await system.store.jobs.get(job_id)).spec.version for job_id in ids])

    assert abs(versions[2] / len(ids) - 0.1) < 0.03
    assert sum(versions.values()) == 2_000


async def test_a_list_includes_recent_jobs_on_request(system: System) -> None:
    await system.deploy("busy")
    await system.deploy("idle")
    jobs = [await system.submit("busy") for _ in range(3)]
    await system.ended(jobs[-1])

    shown = (await system.client.get(f"{API}/workflows", params={"recent": 2})).json()["items"]

    assert [[job["job_id"] for job in one["recent"]] for one in shown] == [[jobs[2], jobs[1]], []]
    newest = shown[0]["recent"][0]
    assert set(newest) == {"job_id", "status", "created_at", "started_at", "completed_at"}
    assert (newest["status"], newest["completed_at"] > newest["started_at"]) == ("completed", True)
    assert [
        one["recent"] for one in (await system.client.get(f"{API}/workflows")).json()["items"]
    ] == [[], []]
    assert (await system.client.get(f"{API}/workflows?recent=51")).status_code == 422


async def test_a_version_is_shown_as_a_document_that_deploys_as_itself(system: System) -> None:
    first = await system.deploy("chain", mark=1)
    await system.deploy("chain", mark=2)

    response = await system.client.get(f"{API}/workflows/chain/versions/1/document")

    assert response.headers["content-type"] == "application/yaml"
    assert response.text.startswith(
        "workflow_id: chain\nnodes:\n  start:\n    type: start\n  first:\n"
    )
    again = await system.deploy_text(response.text)
    assert (again["digest"], again["version"]) == (first["digest"], 3)
    assert (
        await system.client.get(f"{API}/workflows/chain/versions/9/document")
    ).status_code == 404
