"""Deletion of Jobs that no worker follows."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.handlers.handler_harness import running
from tests.kubernetes.conftest import Place
from windlass.handlers.container import orphan_cleaner
from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.cluster_config import connect
from windlass.handlers.container.config import ContainerConfig
from windlass.handlers.container.identity import INSTANCE_LABEL
from windlass.handlers.container.orphan_cleaner import delete_orphans

NODE = {"image": "busybox:1", "command": ["sh", "-c", "true"]}
HOUR = 3600


async def left_behind(place: Place) -> str:
    """Create a Job whose worker was killed."""
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await place.cluster.started()
        await runner.started(task)
    return (await place.cluster.job())["metadata"]["name"]


async def deleted(
    place: Place, instance: str = "default", in_seconds: float = HOUR + 60
) -> list[str]:
    link = connect(place.rules)
    try:
        return await delete_orphans(
            KubernetesApi(link), instance, datetime.now(UTC) + timedelta(seconds=in_seconds), HOUR
        )
    finally:
        await link.aclose()


async def test_a_job_without_a_follower_is_deleted(any_place: Place) -> None:
    name = await left_behind(any_place)

    assert await deleted(any_place) == [name]
    await any_place.cluster.collected()


async def test_a_job_followed_recently_is_kept(any_place: Place) -> None:
    await left_behind(any_place)

    assert await deleted(any_place, in_seconds=HOUR - 60) == []
    assert "deletionTimestamp" not in (await any_place.cluster.job())["metadata"]


async def test_the_orphan_cleaner_keeps_finished_jobs(any_place: Place) -> None:
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await any_place.cluster.end(await any_place.cluster.started())
        await runner.output_of(task)

    assert await deleted(any_place) == []


async def test_jobs_of_another_installation_are_kept(any_place: Place) -> None:
    await left_behind(any_place)

    assert await deleted(any_place, instance="other") == []


async def test_an_orphan_that_is_adopted_meanwhile_is_kept(any_place: Place) -> None:
    name = await left_behind(any_place)
    link = connect(any_place.rules)
    api = KubernetesApi(link)
    (job,) = (await api.jobs({INSTANCE_LABEL: "default"})).items
    await api.mark_followed(name)
    is_deleted = await api.delete(name, job.metadata.uid, job.metadata.resource_version)
    await link.aclose()

    assert not is_deleted
    assert "deletionTimestamp" not in (await any_place.cluster.job())["metadata"]


async def test_a_running_container_is_marked_as_followed_regularly(any_place: Place) -> None:
    rules = replace(any_place.rules, reconcile_seconds=1)
    async with running(container=ContainerConfig("kubernetes", rules)) as runner:
        task = await runner.publish("container", NODE)
        pod = await any_place.cluster.started()
        await runner.started(task)
        first = (await any_place.cluster.job())["metadata"]["annotations"]["windlass/followed-at"]
        await any_place.cluster.job_with(
            lambda job: job["metadata"]["annotations"]["windlass/followed-at"] > first
        )
        await any_place.cluster.end(pod)
        await runner.output_of(task)


async def test_every_worker_that_runs_containers_deletes_orphans(
    any_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = any_place.cluster
    name = await left_behind(any_place)
    await cluster.annotate(name, {"windlass/followed-at": "2020-01-01T00:00:00+00:00"})
    monkeypatch.setattr(orphan_cleaner, "CHECK_SECONDS_MAX", 0.01)
    async with running(container=any_place.defaults) as runner:
        # The first task of a runner has the id of the orphaned Job.
        runner.count = 1
        task = await runner.publish("container", NODE)
        await cluster.deleting(name)
        await runner.broker.cancel([task.task_id])
        await cluster.collected()
        await runner.error_of(task)


async def test_a_job_of_an_ended_attempt_is_deleted_although_it_was_followed_recently(
    any_place: Place,
) -> None:
    cluster = any_place.cluster
    name = await left_behind(any_place)
    body = await cluster.job()
    labels = {**body["metadata"]["labels"], "windlass/attempt": "2"}
    annotations = {**body["metadata"]["annotations"], "windlass/task": "j1/n[0]#2"}
    later = {"name": "windlass-later", "labels": labels, "annotations": annotations}
    template = {"spec": body["spec"]["template"]["spec"]}
    await cluster.put_job(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": later, "spec": {"template": template}}
    )

    assert await deleted(any_place, in_seconds=0) == [name]
