"""The core's verdict on a worker's report, for each state that its attempt can be in."""

import pytest
from msgspec import Raw, structs

from simulation.plans import plan_of
from tests.core.job_harness import T0, JobHarness
from tests.core.loop_harness import LoopHarness
from windlass.core.advance import advance
from windlass.core.changes import Changes
from windlass.core.messages import (
    CancelRequested,
    JobMessage,
    RetryRequested,
    Succeeded,
    TaskFinished,
    TaskLost,
    TaskStarted,
    TimerDue,
    TimerKind,
)
from windlass.core.plan import LoopPlan, NodePlan, RetryOnError
from windlass.core.report_verdict import ReportVerdict, judge_start
from windlass.core.templates.template import compile_template

ACCEPTED, REPEATED, LATE, UNKNOWN = ReportVerdict


def submitted(**node: object) -> JobHarness:
    started = JobHarness(plan_of({"a": []}, {"a": NodePlan("a", **node)}))  # type: ignore[arg-type]
    started.begin()
    started.start("a")
    return started


def submitted_loop() -> LoopHarness:
    loop = LoopPlan(compile_template("{{ input.items }}"), window=2, mode="async")
    started = LoopHarness(
        plan_of({"each": []}, {"each": NodePlan("each", loop=loop)}), b'{"items":[1,2,3]}'
    )
    started.begin()
    started.start("each", 0)
    started.start("each", 1)
    return started


def report(attempt: int, node: str = "a", index: int = 0, result_id: str = "r") -> TaskFinished:
    outcome = Succeeded(Raw(b"1"))
    return TaskFinished("job", node, attempt, "w1", 0, 0, outcome, index, result_id=result_id)


def verdict(of: JobHarness | LoopHarness, message: JobMessage) -> ReportVerdict:
    [found] = of.apply(message).results.values()
    return found


def test_the_result_of_the_awaited_attempt_is_accepted() -> None:
    assert verdict(submitted(), report(1)) is ACCEPTED


def test_a_second_report_of_a_failed_attempt_is_repeated_after_a_reload() -> None:
    failed = submitted()
    failed.fail("a", type="timeout")
    failed.job = failed.restored()

    assert verdict(failed, report(1)) is REPEATED


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_a_second_report_of_a_finished_attempt_is_repeated(is_reloaded: bool) -> None:
    finished = submitted()
    finished.apply(report(1))
    if is_reloaded:
        finished.job = finished.restored()

    assert verdict(finished, report(1, result_id="second")) is REPEATED
    assert finished.events.count("node_completed a") == 1


def test_a_report_without_a_row_gets_no_verdict() -> None:
    assert submitted().finish("a").results == {}


def test_the_first_verdict_on_a_message_delivered_twice_in_a_batch_stays() -> None:
    running = submitted()
    changes = Changes()

    for _ in range(2):
        advance(running.job, report(1), running.now, changes)

    assert changes.results == {"r": ACCEPTED}


def test_reports_of_a_cancelled_attempt_are_late_and_recorded_once() -> None:
    cancelled = submitted()
    cancelled.apply(CancelRequested("job", "request"))

    assert verdict(cancelled, report(1)) is LATE
    assert verdict(cancelled, report(1)) is LATE
    assert cancelled.events.count("result_ignored a") == 1


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_the_report_of_an_attempt_that_timed_out_is_late(is_reloaded: bool) -> None:
    timed_out = submitted(timeout_seconds=10.0)
    timed_out.apply(TimerDue("job", TimerKind.NODE_TIMEOUT, "a", 1))
    if is_reloaded:
        timed_out.job = timed_out.restored()

    assert verdict(timed_out, report(1)) is LATE
    assert timed_out.events[-1] == "result_ignored a"


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_the_report_of_an_attempt_that_was_lost_too_often_is_late(is_reloaded: bool) -> None:
    lost = submitted(redeliveries_max=0)
    lost.start("a")
    lost.apply(TaskLost("job", "a", 1, "w1", 1))
    if is_reloaded:
        lost.job = lost.restored()

    assert verdict(lost, report(1)) is LATE
    assert lost.events[-1] == "result_ignored a"


def test_the_report_of_a_cancelled_attempt_is_late_after_a_reload() -> None:
    cancelled = submitted()
    cancelled.apply(CancelRequested("job", "request"))
    cancelled.job = cancelled.restored()

    assert verdict(cancelled, report(1)) is LATE


@pytest.mark.parametrize("attempt", [0, 2])
def test_the_report_of_an_attempt_that_was_never_made_is_unknown(attempt: int) -> None:
    running = submitted()

    assert verdict(running, report(attempt)) is UNKNOWN
    assert running.state("a") == "running"


def test_the_report_of_a_node_that_did_not_start_is_unknown() -> None:
    waiting = JobHarness(plan_of({"a": [], "b": ["a"]}))
    waiting.begin()

    assert verdict(waiting, report(1, "b")) is UNKNOWN


def test_the_report_of_a_missing_node_is_unknown() -> None:
    assert verdict(submitted(), report(1, "missing")) is UNKNOWN


def test_the_report_of_an_attempt_before_a_retry_is_repeated() -> None:
    retried = submitted()
    retried.fail("a")
    retried.apply(RetryRequested("job", "request", None))

    assert verdict(retried, report(1)) is REPEATED
    retried.start("a")
    assert verdict(retried, report(2)) is ACCEPTED


def test_reports_of_iterations_are_judged_by_their_own_attempts() -> None:
    loop = submitted_loop()

    assert verdict(loop, report(1, "each", 0)) is ACCEPTED
    assert verdict(loop, report(1, "each", 0)) is REPEATED
    assert verdict(loop, report(2, "each", 1)) is UNKNOWN
    assert verdict(loop, report(1, "each", 9)) is UNKNOWN


def test_a_repeated_report_of_an_iteration_is_repeated_after_its_loop_completed() -> None:
    loop = submitted_loop()
    for index in range(3):
        loop.finish("each", index)
    loop.merge_outputs()

    assert loop.job.is_final
    assert verdict(loop, report(1, "each", 2)) is REPEATED
    assert verdict(loop, report(2, "each", 2)) is UNKNOWN


def test_the_report_of_a_cancelled_iteration_is_late() -> None:
    loop = submitted_loop()
    loop.apply(CancelRequested("job", "request"))

    assert verdict(loop, report(1, "each", 1)) is LATE
    assert verdict(loop, report(1, "each", 2)) is UNKNOWN


def test_a_late_result_that_is_repeated_after_a_reload_is_recorded_once() -> None:
    harness = submitted_loop()
    harness.apply(CancelRequested("job", None, "enough"))
    assert verdict(harness, report(1, "each", 0)) is LATE
    harness.reload()

    assert verdict(harness, report(1, "each", 0, result_id="second")) is LATE
    assert harness.events.count("result_ignored each[0]") == 1


def timed_out(harness: JobHarness) -> None:
    harness.start("a")
    harness.apply(TimerDue("job", TimerKind.NODE_TIMEOUT, "a", 1))


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_the_result_of_a_timed_out_attempt_is_late_while_the_next_one_runs(
    is_reloaded: bool,
) -> None:
    harness = submitted(on_error=RetryOnError(attempts_max=2))
    timed_out(harness)
    harness.apply(TimerDue("job", TimerKind.RETRY, "a", 1))
    if is_reloaded:
        harness.job = harness.restored()

    assert verdict(harness, report(1)) is LATE


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_the_result_of_a_timed_out_attempt_is_late_after_the_node_completed(
    is_reloaded: bool,
) -> None:
    harness = submitted(on_error=RetryOnError(attempts_max=2))
    timed_out(harness)
    harness.apply(TimerDue("job", TimerKind.RETRY, "a", 1))
    harness.finish("a")
    if is_reloaded:
        harness.job = harness.restored()

    assert verdict(harness, report(1)) is LATE


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_the_result_of_a_lost_worker_is_late_if_another_worker_finished_the_attempt(
    is_reloaded: bool,
) -> None:
    harness = submitted()
    harness.start("a", "w1")
    harness.apply(TaskLost("job", "a", 1, "w1", 1))
    harness.start("a", "w2")
    harness.apply(structs.replace(report(1), worker_id="w2"))
    if is_reloaded:
        harness.job = harness.restored()

    assert verdict(harness, report(1, result_id="late")) is LATE
    repeated = structs.replace(report(1, result_id="again"), worker_id="w2")
    assert verdict(harness, repeated) is REPEATED
    assert harness.events.count("result_ignored a") == 1


def test_the_result_of_a_lost_worker_counts_if_it_is_the_first() -> None:
    harness = submitted()
    harness.start("a", "w1")
    harness.apply(TaskLost("job", "a", 1, "w1", 1))
    harness.start("a", "w2")

    assert verdict(harness, report(1)) is ACCEPTED
    assert harness.rows["a"].worker_id == "w1"
    late = structs.replace(report(1, result_id="late"), worker_id="w2")
    assert verdict(harness, late) is LATE


def test_the_result_of_a_task_that_nobody_claimed_is_unknown() -> None:
    unclaimed = JobHarness(plan_of({"a": []}))
    unclaimed.begin()

    assert verdict(unclaimed, report(1)) is UNKNOWN
    assert unclaimed.state("a") == "dispatched"

    assert unclaimed.cancels == []


def test_the_result_of_the_worker_that_holds_the_task_is_accepted_before_its_start_is_recorded() -> (
    None
):
    claimed = JobHarness(plan_of({"a": []}))
    claimed.begin()

    assert verdict(claimed, structs.replace(report(1), is_held=True)) is ACCEPTED
    assert claimed.cancels == []


def test_a_result_after_the_loss_of_its_worker_counts_before_the_next_claim() -> None:
    lost = submitted()
    lost.apply(TaskLost("job", "a", 1, "w1", 1))

    assert verdict(lost, report(1)) is ACCEPTED
    assert lost.cancels == ["job_a_1"]


def test_the_task_of_an_iteration_is_cancelled_if_a_lost_worker_still_reports_it() -> None:
    loop = submitted_loop()
    loop.apply(TaskLost("job", "each", 1, "w1", 1, 1))

    assert verdict(loop, report(1, "each", 1)) is ACCEPTED
    assert loop.cancels == ["job_each[1]_1"]


@pytest.mark.parametrize("started_at", [None, T0 + 15])
def test_the_report_of_a_lost_worker_does_not_take_the_attempt_from_the_next_one(
    started_at: int | None,
) -> None:
    lost = submitted()
    lost.apply(TaskLost("job", "a", 1, "w1", 1))
    lost.now += 10
    lost.apply(TaskStarted("job", "a", 1, "w2", lost.now))
    lost.now += 10
    late = structs.replace(report(1), started_at=started_at, finished_at=lost.now)

    assert verdict(lost, late) is ACCEPTED
    assert "task_redelivered a" not in lost.events
    assert lost.rows["a"].worker_id == "w1"


@pytest.mark.parametrize(
    ("attempt", "status", "expected"),
    [
        (0, "pending", UNKNOWN),
        (2, "running", UNKNOWN),
        (1, "dispatched", None),
        (1, "running", ACCEPTED),
        (1, "waiting", LATE),
        (1, "completed", LATE),
    ],
)
def test_the_start_of_an_attempt_is_judged_by_its_recorded_claim(
    attempt: int, status: str, expected: ReportVerdict | None
) -> None:
    assert judge_start(attempt, 1, status) is expected


def test_the_start_of_an_earlier_attempt_is_late() -> None:
    assert judge_start(1, 2, "dispatched") is LATE
