"""Start timeouts: tasks that no worker starts in time."""

import pytest

from tests.core.job_harness import SECOND, JobHarness
from tests.core.loop_harness import LoopHarness
from windlass.core.messages import TaskLost, TimerDue, TimerKind
from windlass.core.plan import Plan
from windlass.spec import compile_plan, read_definition


def plan(**keys: object) -> Plan:
    node = {"handler": "echo", "queue": "nobody", "start_timeout": "5s", **keys}
    definition, _ = read_definition({"workflow_id": "flow", "nodes": {"a": node}})
    return compile_plan(definition, 1)


def due(attempt: int = 1, index: int = 0) -> TimerDue:
    return TimerDue("job", TimerKind.START_TIMEOUT, "a", attempt, index)


def error_of(harness: JobHarness) -> bytes:
    return bytes(harness.rows["a"].error or b"")


def test_a_task_that_no_worker_starts_is_withdrawn_and_fails() -> None:
    harness = JobHarness(plan())
    begun = harness.begin()

    harness.apply(due())

    [timer] = begun.timers
    assert (timer.kind, timer.due_at) == (TimerKind.START_TIMEOUT, harness.now)
    assert harness.cancels == ["job_a_1"]
    assert (harness.state("a"), harness.status) == ("failed", "failed")
    assert b'"type":"start_timeout"' in error_of(harness)
    assert b'"failure_class":"infra"' in error_of(harness)


def test_the_timer_survives_a_restart() -> None:
    harness = JobHarness(plan())
    harness.begin()
    harness.job = harness.restored()

    harness.apply(due())

    assert harness.state("a") == "failed"


def test_a_task_that_started_in_time_is_not_affected() -> None:
    harness = JobHarness(plan())
    harness.begin()
    harness.start("a")
    harness.now += 60 * SECOND

    harness.apply(due())

    assert harness.state("a") == "running"


def test_the_retry_rule_of_the_author_applies() -> None:
    harness = JobHarness(plan(retry={"on_error": {"max_attempts": 2, "initial_delay": "1s"}}))
    harness.begin()
    harness.apply(due())
    waiting = harness.state("a")
    again = harness.apply(TimerDue("job", TimerKind.RETRY, "a", 1))
    harness.apply(due(attempt=2))

    assert (waiting, harness.state("a")) == ("waiting", "failed")
    assert [timer.kind for timer in again.timers] == [TimerKind.START_TIMEOUT]


def test_the_next_worker_has_as_much_time_after_a_loss() -> None:
    harness = JobHarness(plan())
    harness.begin()
    harness.start("a")
    harness.now += 60 * SECOND

    lost = harness.apply(TaskLost("job", "a", 1, "w1", 1))

    [timer] = lost.timers
    assert timer.due_at == harness.now + 5 * SECOND


def test_each_iteration_has_its_own_start_timeout() -> None:
    harness = LoopHarness(plan(loop={"collection": [1, 2]}))
    harness.begin()
    harness.now += 3 * SECOND
    harness.finish("a", 0)
    harness.reload()
    [timer] = [one for one in harness.timers if one.index == 1]
    assert timer.due_at == harness.now + 5 * SECOND

    harness.now += 5 * SECOND
    harness.apply(due(index=1))

    assert harness.states("a") == ["completed", "failed"]


@pytest.mark.parametrize("text", ["0.5s", "0s", "soon"])
def test_a_start_timeout_is_a_duration_of_a_second_or_more(text: str) -> None:
    with pytest.raises(Exception, match="start_timeout"):
        plan(start_timeout=text)


def test_defaults_may_have_a_start_timeout() -> None:
    document = {
        "workflow_id": "flow",
        "defaults": {"start_timeout": "1m"},
        "nodes": {"a": {"handler": "echo"}},
    }
    definition, _ = read_definition(document)

    assert compile_plan(definition, 1).nodes[0].start_timeout_seconds == 60.0
