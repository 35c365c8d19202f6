"""Retries of attempts, redeliveries after lost workers, and retries of whole jobs."""

import pytest
from msgspec import Raw

from simulation.plans import plan_of
from tests.core.job_harness import SECOND, T0, JobHarness
from windlass.core.advance import advance
from windlass.core.changes import Timer
from windlass.core.messages import CancelRequested, RetryRequested, TaskLost, TimerDue, TimerKind
from windlass.core.plan import Backoff, NodePlan, RetryOnError
from windlass.core.templates.template import compile_template


def task(node_id: str, **settings: object) -> NodePlan:
    return NodePlan(id=node_id, handler="echo", **settings)  # type: ignore[arg-type]


def retrying(node_id: str = "a", **rule: object) -> NodePlan:
    return task(node_id, on_error=RetryOnError(**{"attempts_max": 3, "jitter": 0.0, **rule}))  # type: ignore[arg-type]


def test_a_failed_attempt_is_retried_after_a_delay() -> None:
    harness = JobHarness(plan_of({"a": []}, {"a": retrying(initial_delay_seconds=2.0)}))
    harness.begin()

    changes = harness.fail("a")
    timer = changes.timers[0]
    assert (timer.due_at, harness.state("a")) == (T0 + 2 * SECOND, "waiting")
    harness.now = timer.due_at
    changes = harness.apply(TimerDue("job", TimerKind.RETRY, "a", 1))

    assert [(t.task_id, t.retry_count) for t in changes.tasks] == [("job_a_2", 1)]
    assert harness.events[-3:] == ["node_retrying a", "node_ready a", "node_dispatched a"]


def test_the_number_of_attempts_is_limited() -> None:
    harness = JobHarness(plan_of({"a": []}, {"a": retrying()}))
    harness.begin()

    for attempt in (1, 2):
        harness.fail("a")
        harness.apply(TimerDue("job", TimerKind.RETRY, "a", attempt))
    harness.fail("a")

    assert harness.status == "failed"
    assert harness.rows["a"].attempt == 3


def test_a_timer_of_an_earlier_attempt_changes_nothing() -> None:
    harness = JobHarness(plan_of({"a": []}, {"a": retrying()}))
    harness.begin()
    harness.fail("a")
    harness.apply(TimerDue("job", TimerKind.RETRY, "a", 1))

    assert not harness.apply(TimerDue("job", TimerKind.RETRY, "a", 1))


def waiting() -> JobHarness:
    """Return a job whose node waits for its second attempt."""
    harness = JobHarness(plan_of({"a": []}, {"a": retrying(initial_delay_seconds=10.0)}))
    harness.begin()
    harness.fail("a")
    return harness


def test_a_retry_timer_that_fires_too_early_is_set_again() -> None:
    harness = waiting()
    due_at = harness.rows["a"].due_at

    changes = advance(harness.job, TimerDue("job", TimerKind.RETRY, "a", 1), harness.now)

    assert (changes.tasks, changes.events) == ([], {})
    assert [(timer.kind, timer.attempt, timer.due_at) for timer in changes.timers] == [
        ("retry", 1, due_at)
    ]


def test_a_retry_is_dispatched_when_its_timer_is_due() -> None:
    changes = waiting().apply(TimerDue("job", TimerKind.RETRY, "a", 1))

    assert [task.attempt for task in changes.tasks] == [2]


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff.FIXED, [2, 2, 2, 2]),
        (Backoff.LINEAR, [2, 4, 6, 8]),
        (Backoff.EXPONENTIAL, [2, 6, 18, 20]),
    ],
)
def test_backoff_grows_up_to_its_limit(backoff: Backoff, delays: list[float]) -> None:
    rule = {"attempts_max": 9, "backoff": backoff, "initial_delay_seconds": 2.0, "multiplier": 3.0}
    harness = JobHarness(plan_of({"a": []}, {"a": retrying(max_delay_seconds=20.0, **rule)}))
    harness.begin()
    waits = []

    for attempt in range(1, 5):
        waits.append((harness.fail("a").timers[0].due_at - harness.now) / SECOND)
        harness.apply(TimerDue("job", TimerKind.RETRY, "a", attempt))

    assert waits == delays


def test_retry_after_is_respected_up_to_the_maximum_delay() -> None:
    harness = JobHarness(
        plan_of({"a": []}, {"a": retrying(initial_delay_seconds=1.0, max_delay_seconds=60.0)})
    )
    harness.begin()

    first = harness.fail("a", retry_after_seconds=30.0).timers[0].due_at - harness.now
    harness.apply(TimerDue("job", TimerKind.RETRY, "a", 1))
    second = harness.fail("a", retry_after_seconds=3600.0).timers[0].due_at - harness.now

    assert (first, second) == (30 * SECOND, 60 * SECOND)


def test_jitter_depends_only_on_the_seed_of_the_message() -> None:
    def wait(seed: int) -> int:
        harness = JobHarness(
            plan_of({"a": []}, {"a": retrying(initial_delay_seconds=10.0, jitter=0.5)})
        )
        harness.begin()
        return harness.fail("a", seed=seed).timers[0].due_at - T0

    assert wait(0) == 10 * SECOND
    assert wait(1 << 31) == round(12.5 * SECOND)
    assert wait(1 << 31) == wait(1 << 31)


def test_a_permanent_error_is_not_retried() -> None:
    harness = JobHarness(plan_of({"a": []}, {"a": retrying()}))
    harness.begin()

    harness.fail("a", retryable=False)

    assert harness.status == "failed"


def test_the_when_condition_overrides_whether_an_error_is_retryable() -> None:
    when = compile_template("{{ error.status == 404 and attempt < 2 }}")
    harness = JobHarness(plan_of({"a": []}, {"a": retrying(attempts_max=9, when=when)}))
    harness.begin()

    harness.fail("a", retryable=False, status=404)
    harness.apply(TimerDue("job", TimerKind.RETRY, "a", 1))
    harness.fail("a", retryable=True, status=404)

    assert (harness.status, harness.rows["a"].attempt) == ("failed", 2)


def test_a_lost_worker_does_not_use_up_an_attempt() -> None:
    harness = JobHarness(plan_of({"a": []}, {"a": task("a")}))
    harness.begin()

    harness.fail("a", type="worker_lost")

    assert (harness.state("a"), harness.job.task_id(harness.job.attempts[0])) == (
        "dispatched",
        "job_a_2",
    )
    assert "worker_lost a" in harness.events


def test_a_task_that_is_lost_too_often_fails() -> None:
    harness = JobHarness(plan_of({"a": []}))
    harness.begin()

    for losses in range(1, harness.job.plan.nodes[0].redeliveries_max + 2):
        harness.apply(TaskLost("job", "a", 1, "w", losses))

    assert harness.status == "failed"
    assert harness.events.count("worker_lost a") == 5 + 1


def test_the_same_loss_reported_twice_counts_once() -> None:
    harness = JobHarness(plan_of({"a": []}))
    harness.begin()

    harness.apply(TaskLost("job", "a", 1, "w", 1), TaskLost("job", "a", 1, "w", 1))

    assert harness.events.count("worker_lost a") == 1


def redelivered() -> tuple[JobHarness, Timer]:
    """Return a job whose first worker was lost after 290 s of 300, and the timer of that run."""
    harness = JobHarness(plan_of({"a": []}, {"a": task("a", timeout_seconds=300.0)}))
    harness.begin()
    (timer,) = harness.start("a").timers
    harness.now += 290 * SECOND
    harness.apply(TaskLost("job", "a", 1, "w1", 1))
    return harness, timer


def test_a_lost_worker_returns_its_node_to_the_queue() -> None:
    harness, _ = redelivered()

    row = harness.rows["a"]

    assert (harness.state("a"), row.status, row.started_at, row.worker_id) == (
        "dispatched",
        "dispatched",
        None,
        None,
    )
    assert (row.attempt, row.losses, harness.restored().attempts) == (1, 1, harness.job.attempts)


def test_the_second_worker_of_an_attempt_is_recorded() -> None:
    harness, _ = redelivered()

    changes = harness.start("a", worker_id="w2")

    (event,) = changes.events["job"]
    assert (event.type, event.data) == (
        "node_started",
        Raw(b'{"attempt_number":1,"worker_id":"w2"}'),
    )
    assert (harness.rows["a"].worker_id, harness.rows["a"].started_at) == ("w2", harness.now)


def test_an_attempt_has_its_whole_timeout_after_a_redelivery() -> None:
    harness, first = redelivered()
    harness.now += SECOND
    (second,) = harness.start("a", worker_id="w2").timers

    early = advance(harness.job, first.message(), first.due_at)

    assert (early.events, [timer.due_at for timer in early.timers]) == ({}, [second.due_at])
    assert second.due_at == T0 + (291 + 330) * SECOND
    harness.apply(second.message())
    assert harness.status == "failed"


def test_the_timeout_of_a_lost_worker_does_not_end_an_attempt_in_the_queue() -> None:
    harness, timer = redelivered()
    harness.now = timer.due_at

    assert not harness.apply(timer.message())


def test_a_job_retry_runs_failed_nodes_and_keeps_completed_ones() -> None:
    harness = JobHarness(plan_of({"a": [], "b": ["a"], "c": ["b"]}))
    harness.begin()
    harness.finish("a", b'"kept"')
    harness.fail("b")

    changes = harness.apply(RetryRequested("job", "r1"))
    harness.finish("b")
    harness.finish("c")

    assert [t.task_id for t in changes.tasks] == ["job_b_2"]
    assert harness.dispatched == ["a", "b", "b", "c"]
    assert harness.status == "completed"
    assert bytes(harness.job.outputs[0] or b"") == b'"kept"'


def test_a_job_retry_from_a_node_runs_it_and_all_downstream_nodes() -> None:
    harness = JobHarness(plan_of({"a": [], "b": ["a"], "c": ["a"], "d": ["b"]}))
    harness.begin()
    for node in ("a", "b", "c", "d"):
        harness.finish(node)

    harness.apply(RetryRequested("job", "r1", from_node="b"))

    assert harness.states() == {
        "a": "completed",
        "b": "dispatched",
        "c": "completed",
        "d": "pending",
    }


def test_a_job_retry_resets_the_number_of_attempts() -> None:
    harness = JobHarness(plan_of({"a": []}, {"a": retrying(attempts_max=2)}))
    harness.begin()
    harness.fail("a")
    harness.apply(TimerDue("job", TimerKind.RETRY, "a", 1))
    harness.fail("a")
    harness.apply(RetryRequested("job", "r1"))

    harness.fail("a")

    assert (harness.state("a"), harness.job.last_attempt_number(0)) == ("waiting", 3)


def test_a_job_cancelled_before_its_start_can_be_retried() -> None:
    harness = JobHarness(plan_of({"a": []}))
    harness.apply(CancelRequested("job", "r1"))

    harness.apply(RetryRequested("job", "r2"))
    harness.finish("a")

    assert harness.status == "completed"


def test_a_retry_of_a_running_job_is_a_no_op() -> None:
    harness = JobHarness(plan_of({"a": []}))
    harness.begin()

    changes = harness.apply(RetryRequested("job", "r1"))

    assert changes.requests == ["r1"]
    assert not changes.tasks


def test_a_row_keeps_the_start_of_the_first_attempt() -> None:
    harness = JobHarness(plan_of({"a": []}, {"a": NodePlan("a", on_error=RetryOnError(3))}))
    harness.begin()
    harness.start("a")
    first_started_at = harness.now
    for attempt in (1, 2):
        harness.now += SECOND
        harness.fail("a")
        harness.job = harness.restored()
        harness.apply(TimerDue("job", TimerKind.RETRY, "a", attempt))
    harness.finish("a")

    row = harness.rows["a"]
    assert row.first_started_at == first_started_at
    assert row.started_at is not None
    assert row.started_at > first_started_at


def test_the_attempts_after_losses_of_pods_follow_with_growing_delays_and_cost_none() -> None:
    harness = JobHarness(plan_of({"a": []}))
    harness.begin()

    delays: list[int] = []
    for attempt in range(1, 4):
        harness.fail("a", type="pod_evicted")
        assert harness.state("a") == "waiting"
        due_at = harness.rows["a"].due_at
        assert due_at is not None
        delays.append((due_at - harness.now) // SECOND)
        harness.now = due_at
        harness.apply(TimerDue("job", TimerKind.RETRY, "a", attempt))

    assert delays == [1, 2, 4]
    assert harness.state("a") == "dispatched"


def test_a_node_fails_after_too_many_losses_of_its_pod() -> None:
    harness = JobHarness(plan_of({"a": []}))
    harness.begin()

    for attempt in range(1, 6):
        harness.fail("a", type="pod_lost")
        harness.now = harness.rows["a"].due_at or 0
        harness.apply(TimerDue("job", TimerKind.RETRY, "a", attempt))
    harness.fail("a", type="pod_lost")

    assert harness.state("a") == "failed"
