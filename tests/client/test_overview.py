"""Searches, statistics, activity, queues and documents through `windlass.Client`."""

import msgspec
import pytest

from windlass.client import Client
from windlass.core.errors import NotFound, WorkflowNotFound


async def ended(client: Client, workflow_id: str, key: str | None = None) -> str:
    job_id = (await client.jobs.submit(workflow_id, {"n": 7}, idempotency_key=key)).job_id
    await client.jobs.wait(job_id)
    return job_id


async def test_jobs_can_be_searched_for(client: Client) -> None:
    job_id = await ended(client, "echo", "order-7")
    await ended(client, "failing")

    for term in (job_id, "ech", "order-7"):
        assert [job.job_id for job in (await client.jobs.page(search=term)).items] == [job_id]


async def test_workflows_include_recent_jobs(client: Client) -> None:
    job_id = await ended(client, "echo")

    recent = {
        one.workflow_id: [job.job_id for job in one.recent]
        async for one in client.workflows.list(recent=3)
    }

    assert recent == {"echo": [job_id], "failing": [], "gated": []}


async def test_a_document_deploys_as_the_same_version(client: Client) -> None:
    deployed = await client.workflows.deploy(await client.workflows.document("echo", 1))

    assert (deployed.is_new, deployed.workflow.version) == (False, 1)
    with pytest.raises(WorkflowNotFound):
        await client.workflows.document("echo", 2)


async def test_the_params_of_a_node_are_read(client: Client) -> None:
    shown = await client.jobs.params(await ended(client, "echo"), "say")

    assert (shown.rendered, msgspec.json.decode(shown.params)) == (True, {"n": 7})
    with pytest.raises(NotFound):
        await client.jobs.params("nothing", "say")


async def test_statistics_and_activity_are_read(client: Client) -> None:
    await ended(client, "echo")

    statistics = await client.workflows.statistics("echo", jobs=10, version=1)
    assert (statistics.jobs, statistics.completed, [node.node_id for node in statistics.nodes]) == (
        1,
        1,
        ["say"],
    )
    activity = await client.jobs.activity(minutes=5)
    assert sum(bucket.completed for bucket in activity.buckets) == 1


async def test_queues_and_shards_are_read(client: Client) -> None:
    assert await client.workers.queues() == []
    [shard] = (await client.health()).shards
    assert (shard.shard, shard.owner is not None, shard.expires_at) == (0, True, None)
