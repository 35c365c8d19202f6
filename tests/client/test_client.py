"""`windlass.Client` against a real server: routes, errors and streams across disconnects."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
import pytest

import windlass
from tests.client.conftest import ECHO, BreakingProxy, RunningServer
from windlass.client import Client, JobSelection
from windlass.core.errors import (
    ApiError,
    DefinitionInvalid,
    IdempotencyConflict,
    InputInvalid,
    JobNotFound,
    NotFound,
    RequestRefused,
    ResponseLost,
    ServerUnreachable,
    WorkflowNotFound,
)
from windlass.core.states import JobStatus
from windlass.wire import SubmitRequest, WeightedVersion

CHANGED = ECHO.replace("say:", "tell:")


async def ended(client: Client, workflow_id: str) -> str:
    job_id = (await client.jobs.submit(workflow_id)).job_id
    await client.jobs.wait(job_id)
    return job_id


def _refuses_unknown_fields(kind: object) -> bool:
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        return False
    return kind.__struct_config__.forbid_unknown_fields


def test_the_package_exports_the_client() -> None:
    assert windlass.Client is Client


async def test_a_submit_sends_every_argument(client: Client) -> None:
    scheduled_at = "2100-01-01T00:00:00.000000Z"
    sent: dict[str, Any] = {
        "version": 1,
        "idempotency_key": "key",
        "scheduled_at": scheduled_at,
        "priority": 3,
    }

    submitted = await client.jobs.submit("echo", {"n": 1}, **sent)

    job = await client.jobs.get(submitted.job_id)
    assert {name: getattr(job, name) for name in sent} == sent
    assert {*sent, "workflow_id", "input_data"} == {*SubmitRequest.__struct_fields__}


@pytest.mark.parametrize(
    "request_type", [kind for kind in vars(windlass.wire).values() if _refuses_unknown_fields(kind)]
)
def test_a_request_leaves_out_the_fields_that_an_older_server_may_not_know(
    request_type: type[msgspec.Struct],
) -> None:
    assert request_type.__struct_config__.omit_defaults


async def test_a_list_has_the_jobs_of_the_selection_only(client: Client) -> None:
    failed, completed = await ended(client, "failing"), await ended(client, "echo")

    pages = [
        await client.jobs.page(JobSelection(status=JobStatus.FAILED)),
        await client.jobs.page(JobSelection(workflow_id="echo")),
        await client.jobs.page(JobSelection(workflow_id="echo", status=JobStatus.FAILED)),
        await client.jobs.page(),
    ]

    assert [[job.job_id for job in page.items] for page in pages] == [
        [failed],
        [completed],
        [],
        [completed, failed],
    ]


async def test_a_changed_document_becomes_a_new_version(client: Client) -> None:
    deployed = await client.workflows.deploy(CHANGED)

    assert (deployed.is_new, deployed.workflow.workflow_id, deployed.workflow.version) == (
        True,
        "echo",
        2,
    )


async def test_an_unchanged_document_creates_no_version(client: Client) -> None:
    deployed = await client.workflows.deploy(ECHO)

    assert (deployed.is_new, deployed.workflow.version) == (False, 1)


async def test_an_invalid_document_raises_all_problems_with_positions(client: Client) -> None:
    with pytest.raises(DefinitionInvalid) as refused:
        await client.workflows.deploy(
            "workflow_id: x\nnodes:\n  a: {handler: echo, dependencies: [b]}\n  c: {handlr: echo}\n"
        )

    assert {problem.line for problem in refused.value.problems} >= {3, 4}


async def test_a_document_can_be_checked_without_storing_it(client: Client) -> None:
    checked = await client.workflows.validate(
        msgspec.json.encode({"workflow_id": "other", "nodes": {}}), format="json"
    )

    assert not checked.valid
    with pytest.raises(WorkflowNotFound, match="other"):
        await client.workflows.get("other")


async def test_workflows_and_their_versions_are_listed(client: Client) -> None:
    await client.workflows.deploy(CHANGED)

    assert [one.workflow_id async for one in client.workflows.list()] == [
        "echo",
        "failing",
        "gated",
    ]
    assert [one.version async for one in client.workflows.versions("echo")] == [2, 1]
    assert b'"say"' in bytes((await client.workflows.get("echo", 1)).definition)


async def test_a_submit_follows_an_alias(client: Client) -> None:
    await client.workflows.deploy(CHANGED)
    await client.workflows.set_alias("echo", "stable", 1)

    job = await client.jobs.wait((await client.jobs.submit("echo", version="stable")).job_id)

    assert job.version == 1


async def test_an_alias_may_be_split_and_removed(client: Client) -> None:
    await client.workflows.deploy(CHANGED)
    await client.workflows.set_alias(
        "echo", "canary", [WeightedVersion(1, 90), WeightedVersion(2, 10)]
    )
    split = (await client.workflows.get("echo")).aliases["canary"]

    await client.workflows.delete_alias("echo", "canary")

    assert [(target.version, target.weight) for target in split] == [(1, 90), (2, 10)]
    assert "canary" not in (await client.workflows.get("echo")).aliases


async def test_a_workflow_with_unfinished_jobs_is_deleted_by_force_only(client: Client) -> None:
    await client.jobs.submit("gated")
    with pytest.raises(RequestRefused):
        await client.workflows.delete("gated")

    await client.workflows.delete("gated", force=True)

    with pytest.raises(WorkflowNotFound):
        await client.jobs.submit("gated")


async def test_a_job_completes(client: Client) -> None:
    job = await client.jobs.wait((await client.jobs.submit("echo", {"n": 7})).job_id)

    assert job.status == "completed"
    assert msgspec.json.decode(job.result_data) == {"say": {"echoed_params": {"n": 7}}}
    assert [node.status for node in job.nodes or []] == ["completed"]


async def test_an_invalid_input_raises_its_path(client: Client) -> None:
    with pytest.raises(InputInvalid) as refused:
        await client.jobs.submit("echo", {"n": "seven"})

    assert "n" in refused.value.problems[0].path


async def test_the_same_key_returns_the_same_job_and_another_body_is_a_conflict(
    client: Client,
) -> None:
    first = await client.jobs.submit("echo", {"n": 1}, idempotency_key="k")
    second = await client.jobs.submit("echo", {"n": 1}, idempotency_key="k")

    assert first.job_id == second.job_id
    with pytest.raises(IdempotencyConflict, match="k"):
        await client.jobs.submit("echo", {"n": 2}, idempotency_key="k")


async def test_a_batch_returns_results_in_order(client: Client) -> None:
    answer = await client.jobs.submit_batch(
        [SubmitRequest("echo"), SubmitRequest("nothing"), SubmitRequest("gated")]
    )

    assert [item.error.status if item.error else item.status for item in answer.jobs] == [
        "pending",
        404,
        "pending",
    ]


async def test_jobs_are_listed_over_all_pages(client: Client) -> None:
    answer = await client.jobs.submit_batch([SubmitRequest("echo") for _ in range(230)])

    listed = [job.job_id async for job in client.jobs.list(JobSelection(workflow_id="echo"))]

    assert listed == [item.job_id for item in answer.jobs][::-1]


async def test_a_long_poll_returns_as_soon_as_the_job_has_finished(
    client: Client, server: RunningServer
) -> None:
    job_id = (await client.jobs.submit("gated")).job_id
    asking = asyncio.create_task(client.jobs.get(job_id, wait_seconds=30))
    await server.reached.wait()

    server.gate.set()

    assert (await asking).status == "completed"


async def test_nodes_are_shown_before_they_start(client: Client, server: RunningServer) -> None:
    job_id = (await client.jobs.submit("gated")).job_id
    await server.reached.wait()

    assert {node.node_id: node.status for node in await client.jobs.nodes(job_id)}[
        "last"
    ] == "pending"
    assert (await client.jobs.node(job_id, "first")).status == "completed"
    with pytest.raises(NotFound, match="nobody"):
        await client.jobs.node(job_id, "nobody")


async def test_a_cancelled_job_has_its_reason(client: Client, server: RunningServer) -> None:
    job_id = (await client.jobs.submit("gated")).job_id
    await server.reached.wait()

    job = await client.jobs.cancel(job_id, "not needed")

    assert job.status == "cancelled"
    assert "not needed" in "".join(
        [bytes(event.data).decode() async for event in client.jobs.events(job_id)]
    )


async def test_a_failed_job_is_retried_where_it_failed(client: Client) -> None:
    job_id = await ended(client, "failing")

    await client.jobs.retry(job_id)
    job = await client.jobs.wait(job_id)

    attempts = {node.node_id: node.attempt for node in job.nodes or []}
    assert attempts == {"fine": 1, "boom": 2}


async def test_a_retry_from_an_unknown_node_is_refused(client: Client) -> None:
    job_id = await ended(client, "failing")

    with pytest.raises(NotFound, match="nobody"):
        await client.jobs.retry(job_id, from_node="nobody")


async def test_a_completed_job_is_not_retried_as_a_whole(client: Client) -> None:
    job_id = await ended(client, "echo")

    with pytest.raises(RequestRefused, match="completed"):
        await client.jobs.retry(job_id)


async def test_a_job_is_run_again_with_the_same_input(client: Client) -> None:
    first = (await client.jobs.submit("echo", {"n": 3})).job_id

    second = await client.jobs.wait((await client.jobs.rerun(first)).job_id)

    assert second.job_id != first
    assert msgspec.json.decode(second.input_data) == {"n": 3}


async def test_an_unknown_job_is_named(client: Client) -> None:
    for call in (
        client.jobs.get("nobody"),
        client.jobs.cancel("nobody"),
        client.jobs.retry("nobody"),
        client.jobs.rerun("nobody"),
    ):
        with pytest.raises(JobNotFound, match="nobody"):
            await call


async def test_watching_an_unknown_job_raises_at_once(client: Client) -> None:
    with pytest.raises(JobNotFound, match="nobody"):
        await anext(client.jobs.watch("nobody"))


async def test_watch_yields_every_event_and_ends(client: Client, server: RunningServer) -> None:
    job_id = (await client.jobs.submit("gated")).job_id
    await server.reached.wait()
    server.gate.set()

    seen = [event.seq async for event in client.jobs.watch(job_id)]

    assert seen == [event.seq async for event in client.jobs.events(job_id)]
    assert seen == list(range(1, len(seen) + 1))


async def test_watch_resumes_after_an_event(client: Client) -> None:
    job_id = await ended(client, "echo")

    assert (await anext(client.jobs.watch(job_id, after=5))).seq == 6
    assert [event.seq async for event in client.jobs.watch(job_id, after=999)] == []


async def test_watch_yields_each_event_once_across_disconnects(
    client: Client, proxy: BreakingProxy
) -> None:
    job_id = await ended(client, "failing")
    whole = [event.seq async for event in client.jobs.watch(job_id)]
    # Disconnects in the headers, between events and inside events: a little later each time.
    proxy.breaks_after = [450 + 61 * number for number in range(40)]

    async with Client(proxy.url) as broken:
        seen = [event.seq async for event in broken.jobs.watch(job_id)]

    assert seen == whole
    assert proxy.connections > 4


async def test_watch_resumes_after_a_server_restart(client: Client, server: RunningServer) -> None:
    job_id = (await client.jobs.submit("gated")).job_id
    seen: list[int] = []
    started = asyncio.Event()

    async def watch() -> None:
        async for event in client.jobs.watch(job_id):
            seen.append(event.seq)
            started.set()

    watching = asyncio.create_task(watch())
    await started.wait()
    server.gate.set()
    await server.restart()

    await watching

    assert (await client.jobs.get(job_id)).status == "completed"
    assert seen == [event.seq async for event in client.jobs.events(job_id)]


async def test_logs_are_read_and_followed(client: Client, server: RunningServer) -> None:
    job_id = (await client.jobs.submit("gated")).job_id
    following = client.jobs.follow_logs(job_id, node="gate")
    first = (await anext(following)).message
    server.gate.set()

    rest = [line.message async for line in following]

    assert [first, *rest] == ["the gate is reached", "the gate is open"]
    assert [line.message async for line in client.jobs.logs(job_id)] == [first, *rest]


async def test_workers_and_health_are_read(client: Client, server: RunningServer) -> None:
    await client.jobs.submit("gated")
    await server.reached.wait()

    (worker,) = await client.workers.list()
    health = await client.health()

    assert (worker.alive, worker.running) == (True, 1)
    assert (health.status, health.version) == ("ok", windlass.__version__)


async def test_an_unreachable_server_raises_an_error_with_a_hint(server: RunningServer) -> None:
    await server.stop()

    async with Client(server.url) as client:
        with pytest.raises(ServerUnreachable, match=f"{server.url}.*windlass dev") as raised:
            await client.jobs.submit("echo")

    assert not isinstance(raised.value, ResponseLost)


async def test_a_lost_response_raises_response_lost(client: Client, proxy: BreakingProxy) -> None:
    proxy.breaks_after = [10]

    async with Client(proxy.url) as broken:
        with pytest.raises(ResponseLost, match="may have taken effect"):
            await broken.jobs.submit("echo")

    assert len([job async for job in client.jobs.list()]) == 1


def test_an_invalid_url_is_refused() -> None:
    with pytest.raises(ServerUnreachable, match=r"localhost:8470.*http://"):
        Client("localhost:8470")


@pytest.fixture
async def other_server() -> AsyncIterator[Client]:
    """A client of a server that is not Windlass."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(502 if request.method == "POST" else 200, text="<html>")

    async with Client("http://127.0.0.1:1", transport=httpx2.MockTransport(answer)) as client:
        yield client


async def test_an_unexpected_response_raises_api_error(other_server: Client) -> None:
    with pytest.raises(ApiError, match="unexpected response"):
        await other_server.jobs.get("x")


async def test_an_unexpected_error_response_raises_its_status(other_server: Client) -> None:
    with pytest.raises(ApiError, match="502") as refused:
        await other_server.jobs.submit("echo")

    assert refused.value.status == 502


async def test_a_node_without_a_loop_has_one_iteration_and_an_output(client: Client) -> None:
    job_id = await ended(client, "echo")

    tasks = [task async for task in client.jobs.iterations(job_id, "say")]

    assert [(task.index, task.status) for task in tasks] == [(0, "completed")]
    assert msgspec.json.decode(await client.jobs.output(job_id, "say")) == {
        "echoed_params": {"n": 0}
    }


async def test_a_missing_output_is_not_found(client: Client) -> None:
    job_id = await ended(client, "failing")

    with pytest.raises(NotFound, match="boom has no output"):
        await client.jobs.output(job_id, "boom")


async def test_events_have_their_context_unless_omitted(client: Client) -> None:
    job_id = await ended(client, "echo")

    whole = [event async for event in client.jobs.events(job_id)]
    bare = [event async for event in client.jobs.watch(job_id, context=False)]

    assert [event.event_type for event in whole] == [event.event_type for event in bare]
    assert b'"workload"' in bytes(whole[-2].context)
    assert {bytes(event.context) for event in bare} == {b"null"}
