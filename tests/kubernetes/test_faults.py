"""Containers on an API server that fails, loses history and closes connections; logs of containers."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.handlers.handler_harness import Runner, running
from tests.kubernetes.api_server import ApiServer
from tests.kubernetes.conftest import Place
from windlass.core.messages import Succeeded
from windlass.handlers.container import connection, job_creation, job_removal, patience, pod_log
from windlass.handlers.container.config import ContainerConfig

NODE = {"image": "busybox:1", "command": ["sh", "-c", "true"]}
PATIENCE_SECONDS = 20.0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110  the server gives no event for each of these
            await asyncio.sleep(0.005)


def messages(runner: Runner) -> list[str]:
    return [line.message for line in runner.lines if line.level == "info"]


@pytest.fixture(autouse=True)
def quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PAUSE_SECONDS_MIN", 0.01)
    monkeypatch.setattr(pod_log, "PAUSE_SECONDS_MIN", 0.01)
    monkeypatch.setattr(patience, "PAUSE_SECONDS_MIN", 0.01)
    monkeypatch.setattr(patience, "PAUSE_SECONDS_MAX", 0.2)


async def test_a_dropped_watch_is_reopened(place: Place, server: ApiServer) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await place.cluster.started()
        await runner.started(task)
        for _ in range(3):
            await until(lambda: server.drop_streams() == 1)
        await place.cluster.end(pod, message="[1]")
        output = await runner.output_of(task)

    assert output["result"] == [1]
    assert server.count("GET", "/pods", watch=True) >= 3
    assert len(place.cluster.created) == 1


async def test_events_missed_by_the_watch_are_recovered(place: Place, server: ApiServer) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await place.cluster.started()
        await runner.started(task)
        await until(lambda: "watch" in server.streams)
        server.open.clear()
        server.drop_streams()
        server.open.set()
        await place.cluster.end(pod, 7)
        error = await runner.error_of(task)

    assert "code 7" in error.message


async def test_an_expired_resource_version_causes_a_new_list(
    place: Place, server: ApiServer
) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await place.cluster.started()
        await runner.started(task)
        lists = server.count("GET", "/pods", watch=False)
        server.objects.compact()
        server.drop_streams()
        await place.cluster.end(pod)
        output = await runner.output_of(task)

    assert output["exit_code"] == 0
    assert server.count("GET", "/pods", watch=False) > lists


async def test_a_watch_that_ends_with_410_is_reopened(place: Place, server: ApiServer) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await place.cluster.started()
        await runner.started(task)
        await until(lambda: "watch" in server.streams)
        # The open watch is older than the history.
        server.objects.compact()
        await until(lambda: server.count("GET", "/pods", watch=True) >= 2)
        await place.cluster.end(pod)
        output = await runner.output_of(task)

    assert output["exit_code"] == 0


async def test_an_unavailable_api_server_does_not_end_the_attempt(
    place: Place, server: ApiServer
) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await place.cluster.started()
        await runner.started(task)
        server.fail("PATCH", "/jobs/", 503, times=10)
        await until(lambda: server.drop_streams() == 1)
        await until(lambda: server.faults_left == 0)
        await place.cluster.end(pod)
        output = await runner.output_of(task)

    assert output["exit_code"] == 0
    # Every request counts, those that failed too.
    assert output["api_calls"] >= 14


async def test_a_restart_of_the_api_server_does_not_end_the_attempt(
    place: Place, server: ApiServer
) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await place.cluster.started()
        await runner.started(task)
        await until(lambda: {"watch", "log"} <= set(server.streams))
        server.log(pod["metadata"]["name"]).write("before")
        await runner.logged("before")
        server.restart()
        await runner.logged("403")
        server.log(pod["metadata"]["name"]).write("meanwhile")
        await place.cluster.end(pod, message="[1]")
        server.ready()
        output = await runner.output_of(task)

    assert output["result"] == [1]
    assert messages(runner) == ["before", "meanwhile"]
    assert len(place.cluster.created) == 1


async def test_a_job_is_created_once_a_restarted_api_server_has_loaded_its_rules(
    place: Place, server: ApiServer
) -> None:
    server.denies_all = True
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await until(lambda: server.count("POST", "/jobs") >= 2)
        server.ready()
        await place.cluster.end(await place.cluster.started())
        output = await runner.output_of(task)

    assert output["exit_code"] == 0


async def test_a_worker_without_permissions_fails_and_names_them(
    place: Place, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_creation, "DENIED_SECONDS_MAX", 0.2)
    server.denies_all = True
    async with running(container=place.defaults) as runner:
        error = await runner.error("container", NODE)

    assert (error.type, error.retryable, error.status) == ("kubernetes_refused", False, 403)
    assert "grant the worker's account the permissions" in error.message
    # Nothing was created, so there is nothing to delete.
    assert server.count("DELETE", "/jobs/") == 0


async def test_an_api_server_that_denies_access_until_the_start_timeout_is_retryable(
    place: Place, server: ApiServer
) -> None:
    server.denies_all = True
    async with running(container=place.defaults) as runner:
        error = await runner.error("container", {**NODE, "start_timeout": "300ms"})

    assert (error.type, error.retryable) == ("kubernetes_unavailable", True)
    assert "403" in error.message


async def test_a_missing_permission_to_watch_is_in_the_message_of_the_start_timeout(
    place: Place, server: ApiServer
) -> None:
    server.rules = tuple(rule for rule in server.rules if "pods" not in rule.resources)
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", {**NODE, "start_timeout": "300ms"})
        await place.cluster.collected()
        error = await runner.error_of(task)

    assert error.type == "kubernetes_unavailable"
    assert 'cannot list resource "pods"' in error.message


async def test_an_api_server_that_stays_unavailable_is_retryable(
    place: Place, server: ApiServer
) -> None:
    server.fail("POST", "/jobs", 503, times=1000)
    async with running(container=place.defaults) as runner:
        error = await runner.error("container", {**NODE, "start_timeout": "1s"})

    assert (error.type, error.retryable) == ("kubernetes_unavailable", True)
    assert "503" in error.message
    assert server.count("POST", "/jobs") > connection.TRIES_MAX


async def test_retry_after_of_a_busy_api_server_is_respected(
    place: Place, server: ApiServer
) -> None:
    server.fail("POST", "/jobs", 429, retry_after="1")
    loop = asyncio.get_running_loop()
    async with running(container=place.defaults) as runner:
        began = loop.time()
        task = await runner.publish("container", NODE)
        await place.cluster.job()
        waited = loop.time() - began
        await place.cluster.end(await place.cluster.started())
        await runner.output_of(task)

    assert waited >= 1.0
    assert server.count("POST", "/jobs") == 2


async def test_a_create_whose_response_is_lost_is_not_repeated(
    place: Place, server: ApiServer
) -> None:
    server.fail("POST", "/jobs", None)
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await place.cluster.end(await place.cluster.started())
        output = await runner.output_of(task)

    assert output["exit_code"] == 0
    assert server.count("POST", "/jobs") == 2
    assert [len(names) for names in place.cluster.created.values()] == [1]


async def test_a_cancel_while_the_job_is_created_leaves_nothing(
    place: Place, server: ApiServer
) -> None:
    async with running(container=place.defaults) as runner:
        server.open.clear()
        task = await runner.publish("container", NODE)
        await until(lambda: server.count("POST", "/jobs") == 1)
        await runner.broker.cancel([task.task_id])
        server.open.set()
        await until(lambda: server.count("DELETE", "/jobs/") == 1)
        await place.cluster.collected()
        error = await runner.error_of(task)

    assert error.type == "cancelled"
    assert server.count("POST", "/jobs") == 1


async def test_a_deletion_that_fails_at_first_is_retried(place: Place, server: ApiServer) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await place.cluster.started()
        await runner.started(task)
        server.fail("DELETE", "/jobs/", 500, times=3)
        await runner.broker.cancel([task.task_id])
        await place.cluster.collected()
        await runner.error_of(task)

    assert server.count("DELETE", "/jobs/") == 4


async def test_a_stop_of_the_worker_waits_for_a_deletion_under_way(
    place: Place, server: ApiServer
) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await place.cluster.started()
        await runner.started(task)
        server.open.clear()
        server.fail("DELETE", "/jobs/", 500)
        await runner.broker.cancel([task.task_id])
        await until(lambda: server.count("DELETE", "/jobs/") == 1)
        asyncio.get_running_loop().call_later(0.7, server.open.set)
        collecting = asyncio.create_task(place.cluster.collected())

    await collecting


async def test_the_log_is_copied_while_the_container_runs(place: Place, server: ApiServer) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await place.cluster.started()
        log = server.log(pod["metadata"]["name"])
        log.write("loading")
        await runner.logged("loading")
        log.write("done", '{"rows": 4}')
        await place.cluster.end(pod)
        output = await runner.output_of(task)

    assert messages(runner) == ["loading", "done", '{"rows": 4}']
    assert output["result"] == {"rows": 4}


async def test_an_interrupted_log_continues_where_it_stopped(
    place: Place, server: ApiServer
) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await place.cluster.started()
        log = server.log(pod["metadata"]["name"])
        for at in range(5):
            log.write(f"line {at}")
            await runner.logged(f"line {at}")
            server.drop_streams("log")
        log.write("the last")
        await place.cluster.end(pod)
        await runner.output_of(task)

    assert messages(runner) == [*(f"line {at}" for at in range(5)), "the last"]


async def test_an_unreadable_log_is_reported_and_does_not_fail_the_attempt(
    place: Place, server: ApiServer
) -> None:
    server.fail("GET", "/log", 403, times=10)
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await place.cluster.started()
        await runner.logged("the log cannot be read")
        await place.cluster.end(pod, message='"kept"')
        output = await runner.output_of(task)

    assert output["result"] == "kept"


async def test_a_long_log_is_truncated_and_its_end_is_still_read(
    place: Place, server: ApiServer
) -> None:
    rules = replace(place.rules, log_bytes_max=2000)
    async with running(container=ContainerConfig("kubernetes", rules)) as runner:
        task = await runner.publish("container", NODE)
        pod = await place.cluster.started()
        log = server.log(pod["metadata"]["name"])
        log.write(*(f"line {at}" for at in range(500)), '{"rows": 500}')
        await runner.logged("log truncated")
        await place.cluster.end(pod)
        output = await runner.output_of(task)

    assert len(messages(runner)) < 100
    assert output["truncated"] is True
    assert output["result"] == {"rows": 500}


async def test_an_error_has_the_end_of_the_log(place: Place, server: ApiServer) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await place.cluster.started()
        server.log(pod["metadata"]["name"]).write("Traceback", "ValueError: no")
        await place.cluster.end(pod, 1)
        error = await runner.error_of(task)

    assert error.message.endswith("exited with code 1: Traceback\nValueError: no")


async def test_requests_are_rate_limited(place: Place, server: ApiServer) -> None:
    rules = replace(place.rules, requests_per_second=10.0, requests_burst=1)
    loop = asyncio.get_running_loop()
    async with running(container=ContainerConfig("kubernetes", rules)) as runner:
        began = loop.time()
        tasks = [await runner.publish("container", NODE) for _ in range(6)]
        await place.cluster.jobs_of(len(tasks))
        waited = loop.time() - began
        await runner.broker.cancel([task.task_id for task in tasks])
        await place.cluster.collected()
        await runner.finished_all(tasks)

    assert waited >= 0.45


async def test_no_request_is_made_while_a_container_just_runs(
    place: Place, server: ApiServer
) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        pod = await place.cluster.started()
        await runner.started(task)
        await until(lambda: {"watch", "log"} <= set(server.streams))
        before = len(server.calls)
        # Longer than any polling interval would be.
        assert await runner.messages_for(1.5) == []
        after = len(server.calls)
        await place.cluster.end(pod)
        await runner.output_of(task)

    assert after == before


async def test_creating_a_job_waits_for_the_api_server(place: Place, server: ApiServer) -> None:
    server.fail("POST", "/jobs", 503, times=3 * connection.TRIES_MAX)
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await place.cluster.end(await place.cluster.started())
        output = await runner.output_of(task)

    assert output["exit_code"] == 0


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_worker_that_restarts_during_an_outage_adopts_the_pod(
    place: Place, server: ApiServer, method: str
) -> None:
    async with running(container=place.defaults) as first:
        task = await first.publish("container", NODE)
        pod = await place.cluster.started()
        await first.started(task)
    server.fail(method, "/jobs", 503, times=3 * connection.TRIES_MAX)
    async with running(container=place.defaults) as second:
        await second.broker.publish([task])
        await second.logged("adopted Job")
        await place.cluster.end(pod, message="[1]")
        output = await second.output_of(task)

    assert output["result"] == [1]
    assert [len(names) for names in place.cluster.created.values()] == [1]


async def test_the_next_attempt_first_removes_what_the_one_before_left(place: Place) -> None:
    cluster = place.cluster
    async with running(container=place.defaults) as first:
        task = await first.publish("container", NODE)
        pod = await cluster.started()
        await first.started(task)
    async with running(container=place.defaults) as second:
        # Longer than its start timeout, which only counts the time after the end of the other pod.
        task = await second.publish("container", {**NODE, "start_timeout": "500ms"}, attempt=2)
        await cluster.deleting(pod["metadata"]["labels"]["windlass/name"])
        assert await second.messages_for(1.0) == []
        assert len(await cluster.jobs()) == 1
        await cluster.collected()
        await cluster.end(await cluster.started())
        output = await second.output_of(task)

    assert output["exit_code"] == 0
    assert [len(names) for names in cluster.created.values()] == [1, 1]


async def test_the_next_attempt_keeps_finished_jobs_of_the_one_before(place: Place) -> None:
    cluster = place.cluster
    async with running(container=place.defaults) as runner:
        await runner.publish("container", NODE)
        first = await cluster.job()
        await cluster.end(await cluster.started(), 1)
        runner.count = 0
        await runner.publish("container", NODE, attempt=2)
        jobs = await cluster.jobs_of(2)
        (second,) = [one for one in jobs if one["metadata"]["name"] != first["metadata"]["name"]]
        pod = await cluster.make_pod(second)
        await cluster.end(pod, job=second)

    assert all("deletionTimestamp" not in job["metadata"] for job in await cluster.jobs())


async def test_a_deletion_is_repeated_until_the_api_server_is_back(
    place: Place, server: ApiServer
) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", {**NODE}, timeout_seconds=300.0)
        await place.cluster.started()
        await runner.started(task)
        server.fail("DELETE", "/jobs/", 503, times=4 * connection.TRIES_MAX)
        await runner.broker.cancel([task.task_id])
        await until(lambda: server.faults_left == 0)
        await place.cluster.collected()
        error = await runner.error_of(task)

    assert error.type == "cancelled"


async def test_a_deletion_survives_a_restart_of_the_api_server(
    place: Place, server: ApiServer
) -> None:
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await place.cluster.started()
        await runner.started(task)
        server.restart()
        await runner.broker.cancel([task.task_id])
        await until(lambda: server.count("DELETE", "/jobs/") >= 3)
        server.ready()
        await place.cluster.collected()
        await runner.error_of(task)


async def test_a_deletion_is_repeated_after_the_attempt_was_reported(
    place: Place, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_removal, "GONE_MARGIN_SECONDS", -29.8)
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        await place.cluster.started()
        await runner.started(task)
        server.denies_all = True
        await runner.broker.cancel([task.task_id])
        error = await runner.error_of(task)
        server.ready()
        await place.cluster.collected()

    assert error.type == "cancelled"
    assert any(
        "is not gone after 0.2 s: the cluster rejected" in one.message for one in runner.lines
    )


@pytest.mark.parametrize("ends", ["cancel", "timeout"])
async def test_a_stopped_attempt_is_reported_when_its_pod_has_stopped(
    place: Place, ends: str
) -> None:
    async with running(container=place.defaults) as runner:
        seconds = 0.3 if ends == "timeout" else 60.0
        task = await runner.publish("container", NODE, timeout_seconds=seconds)
        pod = await place.cluster.started()
        await runner.started(task)
        if ends == "cancel":
            await runner.broker.cancel([task.task_id])
        await place.cluster.deleting(pod["metadata"]["labels"]["windlass/name"])
        # Longer than the grace period of this worker.
        assert await runner.messages_for(1.0) == []
        await place.cluster.collected()
        error = await runner.error_of(task)

    assert error.type == {"cancel": "cancelled", "timeout": "timeout"}[ends]


async def test_requests_that_wait_for_others_do_not_use_up_the_start_timeout(
    place: Place, server: ApiServer
) -> None:
    rules = replace(place.rules, requests_per_second=10.0, requests_burst=1)
    async with running(container=ContainerConfig("kubernetes", rules)) as runner:
        tasks = [
            await runner.publish("container", {**NODE, "start_timeout": 0.8}) for _ in range(8)
        ]
        for job in await place.cluster.jobs_of(len(tasks)):
            pod = await place.cluster.make_pod(job)
            await place.cluster.start(pod)
            await place.cluster.end(pod, job=job)
        outputs = await runner.finished_all(tasks)

    assert all(isinstance(one.outcome, Succeeded) for one in outputs)


@pytest.mark.parametrize(("hangs", "said"), [(True, "timed out"), (False, "injected fault")])
async def test_a_failing_log_endpoint_hardly_delays_the_end(
    place: Place, server: ApiServer, monkeypatch: pytest.MonkeyPatch, hangs: bool, said: str
) -> None:
    monkeypatch.setattr(pod_log, "REST_SILENCE_SECONDS_MAX", 0.1)
    loop = asyncio.get_running_loop()
    async with running(container=place.defaults) as runner:
        task = await runner.publish("container", NODE)
        server.hangs_logs = hangs
        server.fail("GET", "/log", 503, times=0 if hangs else 1000)
        pod = await place.cluster.started()
        await runner.started(task)
        await until(lambda: server.count("GET", "/log") >= (1 if hangs else 6))
        began = loop.time()
        await place.cluster.end(pod)
        output = await runner.output_of(task)
        elapsed = loop.time() - began

    assert output["exit_code"] == 0
    assert elapsed < 2.0
    assert any(said in line.message for line in runner.lines if line.level == "warning")
