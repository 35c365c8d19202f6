"""The core's verdict on a worker's report, for each state that its attempt can be in."""

import pytest
from msgspec import Raw

from simulation.plans import plan_of
from tests.core.job_harness import JobHarness
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
    TimerDue,
    TimerKind,
)
from windlass.core.plan import LoopPlan, NodePlan
from windlass.core.report_verdict import ReportVerdict
from windlass.core.templates.template import compile_template

ACCEPTED, REPEATED, LATE, UNKNOWN = ReportVerdict


def submitted(**node: object) -> JobHarness:
    started = JobHarness(plan_of({"a": []}, {"a": NodePlan("a", **node)}))  # type: ignore[arg-type]
    started.begin()
    return started


def submitted_loop() -> LoopHarness:
    loop = LoopPlan(compile_template("{{ input.items }}"), window=2, mode="async")
    started = LoopHarness(
        plan_of({"each": []}, {"each": NodePlan("each", loop=loop)}), b'{"items":[1,2,3]}'
    )
    started.begin()
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
    timed_out.now = timed_out.start("a").timers[0].due_at
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
    assert running.state("a") == "dispatched"


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
