"""Containers for which a quota of the namespace leaves no room, and what the cluster says about those that wait."""

import pytest

from tests.core.job_harness import JobHarness
from tests.handlers.handler_harness import running
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.conftest import Place
from windlass.spec import compile_plan, read_definition

NODE = {"image": "busybox:1", "command": ["sh", "-c", "true"]}
QUOTA = 'pods "x" is forbidden: exceeded quota: small'


async def test_a_job_beyond_a_quota_is_retryable(place: Place, server: ApiServer) -> None:
    server.objects.quota["jobs"] = 0
    async with running(container=place.defaults) as runner:
        error = await runner.error("container", NODE)

    assert (error.type, error.retryable, error.status) == ("quota_exceeded", True, 403)
    assert "exceeded quota: small" in error.message
    assert "permissions" not in error.message
    # Once, and without a deletion of what was not created.
    assert server.count("POST", "/jobs") == 1
    assert server.count("DELETE", "/jobs/") == 0


async def test_a_pod_beyond_a_quota_is_retryable(any_place: Place) -> None:
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", {**NODE, "start_timeout": "500ms"})
        await any_place.cluster.warn(await any_place.cluster.job(), "FailedCreate", QUOTA)
        await any_place.cluster.collected()
        error = await runner.error_of(task)

    assert (error.type, error.retryable) == ("quota_exceeded", True)
    assert f"FailedCreate: {QUOTA}" in error.message


async def test_the_last_warnings_are_in_the_message_of_the_start_timeout(any_place: Place) -> None:
    cluster = any_place.cluster
    async with running(container=any_place.defaults) as runner:
        task = await runner.publish("container", {**NODE, "start_timeout": "500ms"})
        pod = await cluster.make_pod()
        await cluster.warn(pod, "FailedMount", "an earlier warning")
        await cluster.collected()
        error = await runner.error_of(task)

    assert error.type == "pod_start_timeout"
    assert f"last warning: pod {pod['metadata']['name']}: FailedMount: an earlier warning" in (
        error.message
    )


async def test_without_the_right_to_list_events_the_start_timeout_is_the_same(
    place: Place, server: ApiServer
) -> None:
    server.rules = tuple(rule for rule in server.rules if "events" not in rule.resources)
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", {**NODE, "start_timeout": "300ms"})
        await place.cluster.collected()
        error = await runner.error_of(task)

    assert error.type == "pod_start_timeout"
    assert error.message.endswith("it has no pod")


@pytest.mark.parametrize(("type_", "state"), [("quota_exceeded", "waiting"), ("x", "failed")])
def test_an_exceeded_quota_costs_no_attempt(type_: str, state: str) -> None:
    definition, _ = read_definition(
        {"workflow_id": "flow", "nodes": {"a": {"handler": "container", "params": NODE}}}
    )
    harness = JobHarness(compile_plan(definition, 1))
    harness.begin()

    harness.fail("a", type=type_)

    assert harness.state("a") == state
