"""Every attempt to deliver a webhook is recorded once."""

import msgspec
import pytest
from msgspec import Raw

from tests.core.job_harness import SECOND, JobHarness
from tests.core.loop_harness import LoopHarness
from windlass.core.changes import Changes
from windlass.core.messages import Failed, RetryRequested, TaskError, TimerDue, TimerKind
from windlass.core.runs.rows import DeliveryRow
from windlass.core.runs.webhooks import WEBHOOK_WORKFLOW, webhook_plan
from windlass.spec import compile_plan, read_definition

NOTIFYING = """
workflow_id: notifying
nodes:
  notify: {handler: webhook, params: {url: "https://x.test/in", data: "{{ input.n }}", secret: key}, retry: 2}
  plain: {handler: echo}
"""
NOTIFYING_MANY = """
workflow_id: notifying
nodes:
  notify:
    handler: webhook
    loop: {collection: [1, 2, 3], element: n, mode: async, concurrency: 2}
    params: {url: "https://x.test/in", data: "{{ n }}"}
    retry: 2
"""
META = msgspec.json.encode(
    {
        "delivery": {
            "webhook_id": "msg_1", "url": "https://x.test/in", "sent_at": 5, "duration_seconds": 0.25, "status": 503,
            "error": "not now", "response": "later",
        }
    }
)  # fmt: skip


def submitted() -> JobHarness:
    harness = JobHarness(compile_plan(read_definition(NOTIFYING)[0], 1), b'{"n": 7}')
    harness.begin()
    return harness


def recorded(changes: Changes) -> list[DeliveryRow]:
    return [] if changes.runs is None else changes.runs.deliveries


def test_a_failed_attempt_is_recorded_with_its_report() -> None:
    harness = submitted()
    outcome = Failed(TaskError("http_status", "it answered 503", True, 503), Raw(META))

    [row] = recorded(harness.apply(harness.finished("notify", outcome, 1)))

    assert (row.outcome, row.status, row.error, row.response) == (
        "failed",
        503,
        "it answered 503",
        "later",
    )
    assert (row.job_id, row.workflow_id, row.node_id, row.attempt) == (
        "job",
        "notifying",
        "notify",
        1,
    )
    assert (row.url, row.sent_at, row.duration_seconds) == ("https://x.test/in", 5, 0.25)


def test_an_attempt_with_params_that_are_not_an_object_is_recorded() -> None:
    document = """
workflow_id: notifying
nodes: {notify: {handler: webhook, params: "{{ input.list }}", retry: 1}}
"""
    harness = JobHarness(compile_plan(read_definition(document)[0], 1), b'{"list": [7]}')
    harness.begin()

    [row] = recorded(harness.fail("notify", type="params_invalid", retryable=False))

    assert (row.outcome, row.url, row.error) == ("failed", "", "no")


def test_the_params_kept_for_a_redelivery_have_the_id_and_the_name_of_the_secret() -> None:
    [row] = recorded(submitted().finish("notify", meta=META))

    assert msgspec.json.decode(row.params) == {
        "url": "https://x.test/in", "data": 7, "secret": "key", "workflow_id": "notifying", "id": "msg_1",
        "timestamp": "2023-11-14T22:13:20Z",
    }  # fmt: skip


def test_an_attempt_without_a_report_is_recorded() -> None:
    [row] = recorded(
        submitted().fail(
            "notify", message="the handler did not finish within 300 s", type="timeout"
        )
    )

    assert (row.outcome, row.status, row.response) == ("failed", None, None)
    assert row.error == "the handler did not finish within 300 s"


def test_a_repeated_result_is_recorded_once() -> None:
    harness = submitted()
    harness.finish("notify", meta=META)

    assert recorded(harness.finish("notify", attempt=1, meta=META)) == []


def test_other_handlers_leave_no_record() -> None:
    assert submitted().finish("plain", meta=META).runs is None


def test_a_call_for_a_run_is_recorded_under_the_runs_workflow() -> None:
    call = JobHarness(
        webhook_plan(4), b'{"url": "https://x.test", "data": {}, "workflow_id": "nightly"}'
    )
    call.begin()

    [row] = recorded(call.finish("deliver", meta=META))

    assert row.workflow_id == "nightly"
    assert WEBHOOK_WORKFLOW not in bytes(row.params).decode()


def params_of(changes: Changes) -> dict[str, object]:
    [params] = [
        msgspec.json.decode(task.params) for task in changes.tasks if task.node_id == "notify"
    ]
    return params


def test_the_body_of_a_webhook_names_the_time_of_its_first_dispatch_in_every_attempt() -> None:
    harness = JobHarness(compile_plan(read_definition(NOTIFYING)[0], 1), b'{"n": 7}')
    first = params_of(harness.begin())
    harness.now += 5 * SECOND
    harness.fail("notify")
    harness.job = harness.restored()
    second = params_of(harness.apply(TimerDue("job", TimerKind.RETRY, "notify", 1)))
    harness.fail("notify")
    harness.now += 60 * SECOND
    harness.job = harness.restored()
    third = params_of(harness.apply(RetryRequested("job", "request")))

    assert first["timestamp"] == "2023-11-14T22:13:20Z"
    assert first == second == third


def test_a_job_restored_before_the_end_of_the_first_attempt_keeps_the_time_of_the_dispatch() -> (
    None
):
    harness = JobHarness(compile_plan(read_definition(NOTIFYING)[0], 1), b'{"n": 7}')
    first = params_of(harness.begin())
    harness.job = harness.restored()
    harness.now += 5 * SECOND
    harness.fail("notify")
    harness.job = harness.restored()

    second = params_of(harness.apply(TimerDue("job", TimerKind.RETRY, "notify", 1)))

    assert first == second


@pytest.mark.parametrize("reports_start", [False, True])
def test_a_restored_loop_of_webhooks_keeps_the_times_of_their_dispatch(reports_start: bool) -> None:
    harness = LoopHarness(compile_plan(read_definition(NOTIFYING_MANY)[0], 1))
    harness.begin()
    harness.now += 5 * SECOND
    harness.finish("notify", 0)
    harness.reload()
    if reports_start:
        harness.start("notify", 2)
        harness.reload()
    harness.fail("notify", 2)
    harness.reload()

    harness.fire_retry("notify", 2)

    *_, first, second = harness.params()
    assert first == second


def test_a_redelivery_has_the_timestamp_of_the_first_delivery() -> None:
    harness = submitted()
    outcome = Failed(TaskError("http_status", "it answered 503", True, 503), Raw(META))
    [row] = recorded(harness.apply(harness.finished("notify", outcome, 1)))
    again = JobHarness(webhook_plan(1), bytes(row.params))
    again.now += 3600 * SECOND

    [task] = again.begin().tasks

    assert msgspec.json.decode(task.params)["timestamp"] == "2023-11-14T22:13:20Z"
