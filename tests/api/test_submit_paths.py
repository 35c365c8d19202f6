"""Submits over HTTP and from a program are the same request: one key names one job on both paths."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.deployment import DIALECTS, Deployment, deployed
from windlass.core.errors import IdempotencyConflict, InputInvalid

DEFAULTED = """
workflow_id: defaulted
input:
  type: object
  properties: {size: {type: integer, default: 3}}
nodes:
  one: {handler: echo}
"""


@pytest.fixture(params=DIALECTS)
async def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Deployment]:
    async with deployed(request.param, tmp_path, request) as running:
        await running.deploy(DEFAULTED)
        yield running


def body(size: int = 1) -> dict[str, object]:
    return {"workflow_id": "defaulted", "input_data": {"size": size}, "idempotency_key": "key"}


async def test_a_key_sent_over_http_names_the_same_job_in_a_program(deployment: Deployment) -> None:
    created = await deployment.post("/jobs", body(), 201)

    job = await deployment.embedded.submit("defaulted", {"size": 1}, idempotency_key="key")

    assert job.spec.job_id == created["job_id"]


async def test_a_key_used_by_a_program_names_the_same_job_over_http(deployment: Deployment) -> None:
    job = await deployment.embedded.submit("defaulted", {"size": 1}, idempotency_key="key")

    existing = await deployment.post("/jobs", body(), 200)

    assert existing["job_id"] == job.spec.job_id


async def test_a_key_with_another_body_conflicts_on_both_paths(deployment: Deployment) -> None:
    await deployment.post("/jobs", body(), 201)

    with pytest.raises(IdempotencyConflict, match="another request"):
        await deployment.embedded.submit("defaulted", {"size": 2}, idempotency_key="key")
    await deployment.post("/jobs", body(2), 409)


async def test_a_repeated_request_survives_a_new_version_with_other_defaults(
    deployment: Deployment,
) -> None:
    job = await deployment.embedded.submit("defaulted", {}, idempotency_key="key")
    await deployment.deploy(DEFAULTED.replace("default: 3", "default: 4"))

    repeated = await deployment.embedded.submit("defaulted", {}, idempotency_key="key")

    assert repeated.spec.job_id == job.spec.job_id
    assert (bytes(repeated.spec.input), repeated.spec.version) == (b'{"size":3}', 1)


async def test_both_paths_check_the_input_and_fill_in_defaults(deployment: Deployment) -> None:
    job = await deployment.embedded.submit("defaulted", {})
    created = await deployment.post("/jobs", {"workflow_id": "defaulted"}, 201)

    stored = await deployment.store.jobs.get(created["job_id"])
    assert bytes(job.spec.input) == bytes(stored.spec.input) == b'{"size":3}'
    with pytest.raises(InputInvalid):
        await deployment.embedded.submit("defaulted", {"size": "large"})
    await deployment.post(
        "/jobs", {"workflow_id": "defaulted", "input_data": {"size": "large"}}, 422
    )
