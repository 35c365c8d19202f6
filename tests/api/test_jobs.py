"""Jobs: submit, list, wait, cancel, retry and rerun."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.api.harness import API, System

WITH_INPUT = """
workflow_id: strict
input: {type: object, properties: {count: {type: integer}, size: {type: integer, default: 7}}, required: [count]}
nodes:
  a: {handler: echo}
"""
FAILING = """
workflow_id: failing
nodes:
  good: {handler: echo}
  bad: {handler: fail, dependencies: [good]}
"""


async def test_a_submit_returns_the_job(system: System, client: httpx2.AsyncClient) -> None:
    await system.deploy()

    response = await client.post(
        f"{API}/jobs", json={"workflow_id": "chain", "input_data": {"message": "hello"}}
    )

    assert response.status_code == 201
    assert response.json()["status"] == "pending"
    assert response.headers["location"] == f"{API}/jobs/{response.json()['job_id']}"


async def test_a_finished_job_shows_the_outputs_of_its_nodes(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy()
    job_id = await system.submit(input_data={"message": "hello"}, priority=3)

    job = (await client.get(f"{API}/jobs/{job_id}", params={"wait": "30s"})).json()

    assert job["status"] == "completed"
    assert job["result_data"]["first"] == {"echoed_params": {"message": "hello"}}
    assert set(job["result_data"]) == {"first", "second"}
    assert (job["version"], job["priority"], job["error"], job["nodes"]) == (1, 3, None, None)
    assert job["created_at"].endswith("Z")


async def test_an_unfinished_job_has_no_result(tmp_path: Path) -> None:
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy()
        job_id = await system.submit()

        job = (await system.client.get(f"{API}/jobs/{job_id}", params={"wait": "20ms"})).json()

    assert job["result_data"] is None
    assert job["status"] in ("pending", "running")


async def test_long_polls_return_when_the_server_stops(tmp_path: Path) -> None:
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy()
        job_id = await system.submit()
        waiting = asyncio.create_task(
            system.client.get(f"{API}/jobs/{job_id}", params={"wait": "60s"})
        )

        system.state.closing.set()

        assert (await asyncio.wait_for(waiting, 10.0)).status_code == 200


async def test_the_nodes_of_a_job_include_unstarted_ones(tmp_path: Path) -> None:
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy()
        job_id = await system.submit()
        await system.dispatched(job_id, "first")

        nodes = (await system.client.get(f"{API}/jobs/{job_id}/nodes")).json()["items"]
        second = (await system.client.get(f"{API}/jobs/{job_id}/nodes/second")).json()

    assert [(node["node_id"], node["status"]) for node in nodes] == [
        ("start", "completed"),
        ("first", "dispatched"),
        ("second", "pending"),
        ("end", "pending"),
    ]
    assert second == nodes[2]


async def test_nodes_are_listed_page_by_page(system: System, client: httpx2.AsyncClient) -> None:
    await system.deploy()
    job_id = await system.submit()
    await system.ended(job_id)

    first = (await client.get(f"{API}/jobs/{job_id}/nodes", params={"limit": 3})).json()
    rest = (
        await client.get(
            f"{API}/jobs/{job_id}/nodes", params={"limit": 3, "cursor": first["next_cursor"]}
        )
    ).json()

    assert [node["node_id"] for node in first["items"] + rest["items"]] == [
        "start",
        "first",
        "second",
        "end",
    ]
    assert rest["next_cursor"] is None


async def test_an_invalid_input_is_refused_with_its_path(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy_text(WITH_INPUT)

    response = await client.post(
        f"{API}/jobs", json={"workflow_id": "strict", "input_data": {"count": "three"}}
    )

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "count"
    assert (await client.get(f"{API}/jobs")).json()["items"] == []


async def test_defaults_are_filled_in(system: System) -> None:
    await system.deploy_text(WITH_INPUT)

    job = await system.ended(await system.submit("strict", input_data={"count": 1}))

    assert job["input_data"] == {"count": 1, "size": 7}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ('{"workflow_id": "chain"', 400),
        ("", 400),
        ('{"workflow_id": "chain", "input_data": NaN}', 400),
        ('{"workflow_id": "chain", "input_data": {"a": "\\ud800"}}', 400),
        ("[]", 422),
        ("{}", 422),
        ('{"workflow_id": "../etc"}', 422),
        ('{"workflow_id": "chain", "input": {}}', 422),
        ('{"workflow_id": "chain", "input_data": []}', 422),
        ('{"workflow_id": "chain", "version": 0}', 422),
        ('{"workflow_id": "chain", "version": 2}', 404),
        ('{"workflow_id": "chain", "priority": 1001}', 422),
        ('{"workflow_id": "chain", "scheduled_at": "tomorrow"}', 422),
        ('{"workflow_id": "chain", "scheduled_at": "2030-13-01T00:00:00Z"}', 422),
        ('{"workflow_id": "chain", "scheduled_at": "2030-01-01T00:00:00"}', 422),
        ('{"workflow_id": "chain", "scheduled_at": "9999-12-31T23:59:59Z"}', 422),
        ('{"workflow_id": "chain", "idempotency_key": "with space"}', 422),
        ('{"workflow_id": "absent"}', 404),
        ('{"workflow_id": "chain", "input_data": ' + '{"a":' * 65 + "1" + "}" * 65 + "}", 422),
        ('{"workflow_id": "chain", "input_data": ' + '{"a":' * 5000 + "1" + "}" * 5000 + "}", 422),
    ],
)
async def test_a_wrong_submit_is_refused(
    system: System, client: httpx2.AsyncClient, body: str, status: int
) -> None:
    await system.deploy()

    response = await client.post(
        f"{API}/jobs", content=body, headers={"content-type": "application/json"}
    )

    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["request_id"] == response.headers["x-request-id"]


async def test_a_scheduled_job_waits_for_its_time(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy()
    later = "2100-01-31T08:00:00.000000Z"

    job_id = await system.submit(scheduled_at=later)

    job = (await client.get(f"{API}/jobs/{job_id}")).json()
    assert (job["status"], job["scheduled_at"]) == ("pending", later)


# Idempotency


async def test_a_hundred_submits_of_one_key_are_one_job(system: System) -> None:
    await system.deploy()
    body = {"workflow_id": "chain", "input_data": {"n": 1}, "idempotency_key": "order-1"}
    async with system.new_client() as one, system.new_client() as other:
        answers = await asyncio.gather(
            *(client.post(f"{API}/jobs", json=body) for client in (one, other) * 50)
        )

    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert sorted(answer.status_code for answer in answers) == [200] * 99 + [201]
    assert len((await system.client.get(f"{API}/jobs")).json()["items"]) == 1


async def test_the_idempotency_key_can_be_a_header(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy()
    first = await client.post(
        f"{API}/jobs", json={"workflow_id": "chain"}, headers={"idempotency-key": "k"}
    )

    again = await client.post(f"{API}/jobs", json={"workflow_id": "chain", "idempotency_key": "k"})

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["job_id"] == again.json()["job_id"]


async def test_a_header_and_a_field_that_differ_are_refused(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy()
    body = {"workflow_id": "chain", "idempotency_key": "a"}

    response = await client.post(f"{API}/jobs", json=body, headers={"idempotency-key": "b"})

    assert response.status_code == 422


@pytest.mark.parametrize(
    "other",
    [
        {"input_data": {"n": 2}},
        {"version": 1},
        {"priority": 1},
        {"scheduled_at": "2030-01-31T08:00:00Z"},
    ],
)
async def test_a_key_with_another_request_is_a_conflict(
    system: System, client: httpx2.AsyncClient, other: dict[str, Any]
) -> None:
    await system.deploy()
    body = {"workflow_id": "chain", "input_data": {"n": 1}, "idempotency_key": "k"}
    await client.post(f"{API}/jobs", json=body)

    response = await client.post(f"{API}/jobs", json={**body, **other})

    assert response.status_code == 409
    assert response.json()["type"] == "urn:windlass:problem:idempotency-conflict"


async def test_a_key_returns_its_job_after_a_new_version(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy(mark=1)
    first = await client.post(f"{API}/jobs", json={"workflow_id": "chain", "idempotency_key": "k"})
    await system.deploy(mark=2)

    again = await client.post(f"{API}/jobs", json={"workflow_id": "chain", "idempotency_key": "k"})

    assert (again.status_code, again.json()["job_id"]) == (200, first.json()["job_id"])


# Batches


async def test_each_job_of_a_batch_has_its_own_result(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy()
    jobs = [
        {"workflow_id": "chain"},
        {"workflow_id": "absent"},
        {"workflow_id": "chain", "idempotency_key": "k", "input_data": {"n": 1}},
        {"workflow_id": "chain", "idempotency_key": "k", "input_data": {"n": 2}},
        {"workflow_id": "chain", "idempotency_key": "k", "input_data": {"n": 1}},
    ]

    answers = (await client.post(f"{API}/jobs/batch", json={"jobs": jobs})).json()["jobs"]

    assert [item["error"] and item["error"]["status"] for item in answers] == [
        None,
        404,
        None,
        409,
        None,
    ]
    assert answers[2]["job_id"] == answers[4]["job_id"]
    assert len((await client.get(f"{API}/jobs")).json()["items"]) == 2


@pytest.mark.parametrize(("count", "status"), [(0, 200), (999, 200), (1000, 200), (1001, 422)])
async def test_the_size_of_a_batch_is_limited(tmp_path: Path, count: int, status: int) -> None:
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy()

        response = await system.client.post(
            f"{API}/jobs/batch", json={"jobs": [{"workflow_id": "chain"}] * count}
        )

    assert response.status_code == status


# Lists


async def test_jobs_are_listed_newest_first_page_by_page(tmp_path: Path) -> None:
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy()
        ids = [await system.submit() for _ in range(5)]
        found: list[str] = []
        params: dict[str, Any] = {"limit": 2}
        page: dict[str, Any] = {}
        for _ in range(3):
            page = (await system.client.get(f"{API}/jobs", params=params)).json()
            found += [job["job_id"] for job in page["items"]]
            params["cursor"] = page["next_cursor"]

    assert found == ids[::-1]
    assert page["next_cursor"] is None


async def test_jobs_are_found_by_workflow_and_status(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy()
    await system.deploy_text(FAILING)
    good, bad = await system.submit(), await system.submit("failing")
    await asyncio.gather(system.ended(good), system.ended(bad))

    failed = (await client.get(f"{API}/jobs", params={"status": "failed"})).json()["items"]
    chains = (await client.get(f"{API}/jobs", params={"workflow_id": "chain"})).json()["items"]

    assert [job["job_id"] for job in failed] == [bad]
    assert [job["job_id"] for job in chains] == [good]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=x",
        "limit=1&limit=2",
        "cursor=%00",
        "cursor=bm8",
        "status=done",
        "status=null",
        "stat=failed",
    ],
)
async def test_a_wrong_parameter_is_refused_with_its_name(
    client: httpx2.AsyncClient, query: str
) -> None:
    response = await client.get(f"{API}/jobs?{query}")

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == query.partition("=")[0]


@pytest.mark.parametrize("wait", ["61s", "2m", "-1s", "soon", "1h"])
async def test_a_wait_is_limited(client: httpx2.AsyncClient, wait: str) -> None:
    assert (await client.get(f"{API}/jobs/x", params={"wait": wait})).status_code == 422


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "?wait=1s"),
        ("GET", "/nodes"),
        ("GET", "/nodes/a"),
        ("GET", "/events"),
        ("GET", "/events/stream"),
        ("POST", "/cancel"),
        ("POST", "/retry"),
        ("POST", "/rerun"),
    ],
)
async def test_a_job_that_does_not_exist_is_not_found(
    client: httpx2.AsyncClient, method: str, path: str
) -> None:
    assert (await client.request(method, f"{API}/jobs/absent{path}")).status_code == 404


async def test_a_node_that_does_not_exist_is_not_found(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy()
    job_id = await system.submit()

    assert (await client.get(f"{API}/jobs/{job_id}/nodes/absent")).status_code == 404


# Cancel, retry and rerun


async def test_a_job_is_cancelled_with_a_reason_and_stays_cancelled(tmp_path: Path) -> None:
    async with System.running(tmp_path, worker=False) as system:
        await system.deploy()
        job_id = await system.submit()

        first = await system.client.post(
            f"{API}/jobs/{job_id}/cancel", json={"reason": "not needed"}
        )
        again = await system.client.post(f"{API}/jobs/{job_id}/cancel")
        events = (await system.client.get(f"{API}/jobs/{job_id}/events")).json()["items"]

    assert (first.json()["status"], again.json()["status"]) == ("cancelled", "cancelled")
    assert again.status_code == 200
    assert "not needed" in str(events[-1]["data"])


async def test_a_retry_runs_only_failed_nodes(system: System, client: httpx2.AsyncClient) -> None:
    await system.deploy_text(FAILING)
    job_id = await system.submit("failing")
    before = await system.ended(job_id)

    response = await client.post(f"{API}/jobs/{job_id}/retry")
    after = await system.ended(job_id)

    assert response.status_code == 200
    attempts = [
        {node["node_id"]: node["attempt"] for node in job["nodes"]} for job in (before, after)
    ]
    assert attempts == [{"good": 1, "bad": 1}, {"good": 1, "bad": 2}]


async def test_a_retry_from_a_node_runs_it_and_all_downstream_nodes(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy()
    job_id = await system.submit()
    await system.ended(job_id)

    await client.post(f"{API}/jobs/{job_id}/retry", params={"from": "second"})

    nodes = {node["node_id"]: node["attempt"] for node in (await system.ended(job_id))["nodes"]}
    assert (nodes["first"], nodes["second"]) == (1, 2)


async def test_an_impossible_retry_is_refused(system: System, client: httpx2.AsyncClient) -> None:
    await system.deploy()
    job_id = await system.submit()
    await system.ended(job_id)

    completed = await client.post(f"{API}/jobs/{job_id}/retry")
    nowhere = await client.post(f"{API}/jobs/{job_id}/retry", params={"from": "absent"})

    assert (completed.status_code, nowhere.status_code) == (409, 404)


async def test_a_rerun_is_a_new_job_of_the_same_version(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy(mark=1)
    job_id = await system.submit(input_data={"n": 1}, idempotency_key="k")
    await system.deploy(mark=2)

    response = await client.post(f"{API}/jobs/{job_id}/rerun")

    again = await system.ended(response.json()["job_id"])
    assert response.status_code == 201
    assert again["job_id"] != job_id
    assert (again["version"], again["input_data"], again["idempotency_key"]) == (1, {"n": 1}, None)


# Searches


async def found(system: System, **query: Any) -> list[str]:
    response = await system.client.get(f"{API}/jobs", params=query)
    assert response.status_code == 200, response.text
    return [job["job_id"] for job in response.json()["items"]]


async def test_a_search_finds_jobs_by_their_id_their_workflow_or_their_key(system: System) -> None:
    await system.deploy("report")
    await system.deploy("other")
    first = await system.submit("report", idempotency_key="order/7")
    second = await system.submit("other", idempotency_key="order/70")

    assert await found(system, search=first) == [first]
    assert sorted(await found(system, search=first[:4])) == sorted([first, second])
    assert await found(system, search="rep") == [first]
    assert await found(system, search="order/7") == [first]
    assert await found(system, search="rep", workflow_id="other") == []
    assert await found(system, search="nothing") == []


async def test_a_search_is_paginated(system: System) -> None:
    await system.deploy("report")
    jobs = [await system.submit("report") for _ in range(5)]

    seen: list[str] = []
    query: dict[str, Any] = {"search": "rep", "limit": 2}
    while True:
        shown = (await system.client.get(f"{API}/jobs", params=query)).json()
        seen += [job["job_id"] for job in shown["items"]]
        if shown["next_cursor"] is None:
            break
        query["cursor"] = shown["next_cursor"]

    assert seen == jobs[::-1]


@pytest.mark.parametrize("term", ["", "a b", "x" * 129, "ä", "a\0"])
async def test_a_search_for_invalid_characters_is_refused(system: System, term: str) -> None:
    response = await system.client.get(f"{API}/jobs", params={"search": term})

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "search"


async def test_a_rerun_may_have_another_version_and_links_to_the_old_job(
    system: System, client: httpx2.AsyncClient
) -> None:
    await system.deploy()
    job_id = await system.submit("chain")
    await system.ended(job_id)

    new = await client.post(f"{API}/jobs/{job_id}/rerun", json={"version": 1})

    shown = (await client.get(f"{API}/jobs/{new.json()['job_id']}")).json()
    listed = (await client.get(f"{API}/jobs", params={"parent_job_id": job_id})).json()["items"]
    assert new.status_code == 201
    assert (shown["origin"], shown["parent_job_id"]) == ("rerun", job_id)
    assert [one["job_id"] for one in listed] == [shown["job_id"]]
    unknown = await client.post(f"{API}/jobs/{job_id}/rerun", json={"version": 99})
    assert unknown.status_code == 404


@pytest.mark.parametrize("path", ["rerun", "retry"])
async def test_unknown_keys_of_a_rerun_and_a_retry_are_refused(
    system: System, client: httpx2.AsyncClient, path: str
) -> None:
    await system.deploy()
    job_id = await system.submit("chain")
    await system.ended(job_id)

    refused = await client.post(f"{API}/jobs/{job_id}/{path}", json={"verison": 1})

    assert refused.status_code == 422
