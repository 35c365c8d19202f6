"""Rate-limited answers: they wait as long as the server says, use up no attempts, and slow their loop down."""

from typing import Any

import pytest

from simulation.plans import plan_of
from tests.core.job_harness import SECOND, JobHarness
from tests.core.loop_harness import LoopHarness
from tests.core.test_loops import harness_of, looping
from windlass.core.messages import RetryRequested, TimerDue, TimerKind
from windlass.core.plan import NodePlan, RetryOnError
from windlass.core.templates.template import compile_template

LIMITED: dict[str, Any] = {"type": "http_error", "message": "slow down", "status": 429}


def submitted(rule: RetryOnError | None = None) -> JobHarness:
    node = NodePlan("a") if rule is None else NodePlan("a", on_error=rule)
    harness = JobHarness(plan_of({"a": []}, {"a": node}))
    harness.begin()
    return harness


def due(harness: JobHarness) -> None:
    harness.apply(TimerDue("job", TimerKind.RETRY, "a", harness.job.attempts[0].number))


def test_a_rate_limited_attempt_of_a_node_without_a_retry_rule_is_repeated() -> None:
    harness = submitted()
    harness.fail("a", **LIMITED)
    assert harness.state("a") == "waiting"

    due(harness)
    harness.finish("a")

    assert harness.status == "completed"


@pytest.mark.parametrize("error", [{"type": "rate_limited"}, {"type": "x", "status": 429}])
def test_rate_limited_attempts_do_not_count(error: dict[str, Any]) -> None:
    harness = submitted(RetryOnError(attempts_max=2, jitter=0.0))
    for _ in range(5):
        harness.fail("a", **error)
        due(harness)

    harness.fail("a")
    assert harness.state("a") == "waiting"
    due(harness)
    harness.fail("a")

    assert harness.status == "failed"


def test_the_server_says_how_long_to_wait() -> None:
    harness = submitted(RetryOnError(attempts_max=1, max_delay_seconds=2.0, jitter=0.0))

    harness.fail("a", **LIMITED, retry_after_seconds=120.0)

    assert harness.job.attempts[0].due_at == harness.now + 120 * SECOND


def test_the_delay_grows_up_to_max_delay_without_retry_after() -> None:
    rule = RetryOnError(initial_delay_seconds=1.0, max_delay_seconds=3.0, jitter=0.0)
    harness = submitted(rule)
    waits: list[int] = []
    for _ in range(4):
        harness.fail("a", **LIMITED)
        waits.append((harness.job.attempts[0].due_at or 0) - harness.now)
        harness.job = harness.restored()
        due(harness)

    assert waits == [SECOND, 2 * SECOND, 3 * SECOND, 3 * SECOND]


def test_rate_limited_attempts_wait_even_if_the_initial_delay_is_zero() -> None:
    harness = submitted(RetryOnError(initial_delay_seconds=0.0, max_delay_seconds=0.0, jitter=0.0))

    harness.fail("a", **LIMITED)

    assert harness.job.attempts[0].due_at == harness.now + SECOND


def test_the_waits_are_bounded() -> None:
    harness = submitted(RetryOnError(rate_limited_max_seconds=10.0, jitter=0.0))
    harness.fail("a", **LIMITED, retry_after_seconds=6.0)
    harness.job = harness.restored()
    due(harness)

    harness.fail("a", **LIMITED, retry_after_seconds=6.0)

    assert harness.status == "failed"


def test_a_bound_of_zero_treats_rate_limits_like_other_errors() -> None:
    harness = submitted(RetryOnError(attempts_max=2, rate_limited_max_seconds=0.0))
    harness.fail("a", **LIMITED)
    due(harness)

    harness.fail("a", **LIMITED)

    assert harness.status == "failed"


def test_a_condition_of_the_author_that_refuses_wins() -> None:
    when = compile_template("{{ error.failure_class != 'rate_limited' }}")
    harness = submitted(RetryOnError(attempts_max=5, when=when))

    harness.fail("a", **LIMITED)

    assert harness.status == "failed"


def test_a_repeated_attempt_links_to_the_first() -> None:
    harness = submitted()
    harness.fail("a", **LIMITED)
    due(harness)

    changes = harness.finish("a")

    assert {event.parent_seq for event in changes.events["job"] if event.node_id} == {
        harness.rows["a"].first_seq
    }


def limited_loop(window: int = 4) -> LoopHarness:
    items = b'{"items": [0,1,2,3,4,5,6,7,8,9]}'
    harness = harness_of(looping(window), items)
    harness.begin()
    harness.tasks.clear()
    return harness


def test_a_loop_dispatches_nothing_before_the_server_allows_it() -> None:
    harness = limited_loop()
    harness.fail("each", 0, **LIMITED, retry_after_seconds=10.0)

    harness.finish("each", 1)
    harness.finish("each", 2)
    harness.finish("each", 3)
    assert harness.dispatched == []
    harness.fire_retry("each", 0)

    assert "job_each[0]_2" in harness.dispatched
    assert len(harness.dispatched) == 4


def test_the_window_of_a_loop_is_halved_and_grows_with_each_success() -> None:
    harness = limited_loop()
    harness.fail("each", 0, **LIMITED, retry_after_seconds=10.0)
    harness.fail("each", 1, **LIMITED, retry_after_seconds=5.0)
    harness.fail("each", 2, **LIMITED, retry_after_seconds=5.0)
    harness.fail("each", 3, **LIMITED, retry_after_seconds=5.0)
    assert harness.loop("each").window == 2
    harness.reload()
    assert harness.loop("each").window == 2

    harness.fire_retry("each", 1)
    assert harness.dispatched == []
    for index in (2, 3, 0):
        harness.fire_retry("each", index)
    assert len(harness.dispatched) == 2

    harness.finish("each", int(harness.dispatched[0].split("[")[1][0]))
    assert harness.loop("each").window == 3
    assert len(harness.dispatched) == 4


def test_a_loop_does_not_stand_still_after_the_wall_clock_was_set_back() -> None:
    harness = limited_loop(1)
    harness.fail("each", 0, **LIMITED, retry_after_seconds=10.0)
    harness.fire_retry("each", 0)
    harness.now -= 3_600 * SECOND
    harness.reload()

    harness.fail("each", 0, **LIMITED, retry_after_seconds=10.0)
    harness.fire_retry("each", 0)
    in_between = harness.dispatched[-1]
    harness.finish("each", 1)

    assert (in_between, harness.dispatched[-1]) == ("job_each[1]_1", "job_each[0]_3")


def test_no_iteration_of_a_rate_limited_loop_fails() -> None:
    harness = limited_loop(2)
    for _ in range(3):
        harness.fail("each", 0, **LIMITED, retry_after_seconds=1.0)
        harness.fire_retry("each", 0)
    for _ in range(20):
        for index in list(harness.loop("each").attempts) if harness.job.loops else ():
            harness.finish("each", index)
        harness.merge_outputs()

    assert harness.status == "completed"
    assert harness.meta("each")["failed"] == 0


def test_a_retry_of_the_job_starts_with_the_whole_window() -> None:
    harness = limited_loop(4)
    harness.fail("each", 0, **LIMITED)
    harness.fail("each", 1)
    assert harness.status == "failed"

    harness.apply(RetryRequested("job", "request"))

    assert harness.loop("each").window == 4
    assert len(harness.tasks) == 4
