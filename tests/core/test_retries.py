"""The rules of another attempt: the author's retries, lost workers, and an operator's retry of a whole job."""

import pytest

from simulation.plans import plan_of
from tests.core.story import SECOND, T0, Story
from windlass.core.messages import CancelRequested, RetryRequested, TaskLost, TimerDue
from windlass.core.plan import Backoff, NodePlan, RetryOnError
from windlass.core.templates.template import compile_template


def task(node_id: str, **settings: object) -> NodePlan:
    return NodePlan(id=node_id, handler="echo", **settings)  # type: ignore[arg-type]


def retrying(node_id: str = "a", **rule: object) -> NodePlan:
    return task(node_id, on_error=RetryOnError(**{"attempts_max": 3, "jitter": 0.0, **rule}))  # type: ignore[arg-type]


def test_a_failed_attempt_waits_and_is_made_again() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying(initial_delay_seconds=2.0)}))
    story.begin()

    changes = story.fail("a")
    timer = changes.timers[0]
    assert (timer.due_at, story.state("a")) == (T0 + 2 * SECOND, "waiting")
    story.now = timer.due_at
    changes = story.tell(TimerDue("job", "retry", "a", 1))

    assert [(t.task_id, t.retry_count) for t in changes.tasks] == [("job_a_2", 1)]
    assert story.events[-3:] == ["node_retrying a", "node_ready a", "node_dispatched a"]


def test_attempts_end_at_the_authors_bound() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying()}))
    story.begin()

    for attempt in (1, 2):
        story.fail("a")
        story.tell(TimerDue("job", "retry", "a", attempt))
    story.fail("a")

    assert story.status == "failed"
    assert story.rows["a"].attempt == 3


def test_a_timer_of_an_earlier_attempt_does_nothing() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying()}))
    story.begin()
    story.fail("a")
    story.tell(TimerDue("job", "retry", "a", 1))

    assert not story.tell(TimerDue("job", "retry", "a", 1))


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff.FIXED, [2, 2, 2, 2]),
        (Backoff.LINEAR, [2, 4, 6, 8]),
        (Backoff.EXPONENTIAL, [2, 6, 18, 20]),
    ],
)
def test_backoff_grows_as_declared_up_to_its_bound(backoff: Backoff, delays: list[float]) -> None:
    rule = {"attempts_max": 9, "backoff": backoff, "initial_delay_seconds": 2.0, "multiplier": 3.0}
    story = Story(plan_of({"a": []}, {"a": retrying(max_delay_seconds=20.0, **rule)}))
    story.begin()
    waits = []

    for attempt in range(1, 5):
        waits.append((story.fail("a").timers[0].due_at - story.now) / SECOND)
        story.tell(TimerDue("job", "retry", "a", attempt))

    assert waits == delays


def test_a_server_that_says_when_is_heard_within_the_bound() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying(initial_delay_seconds=1.0, max_delay_seconds=60.0)}))
    story.begin()

    first = story.fail("a", retry_after_seconds=30.0).timers[0].due_at - story.now
    story.tell(TimerDue("job", "retry", "a", 1))
    second = story.fail("a", retry_after_seconds=3600.0).timers[0].due_at - story.now

    assert (first, second) == (30 * SECOND, 60 * SECOND)


def test_jitter_comes_from_the_messages_seed_alone() -> None:
    def wait(seed: int) -> int:
        story = Story(plan_of({"a": []}, {"a": retrying(initial_delay_seconds=10.0, jitter=0.5)}))
        story.begin()
        return story.fail("a", seed=seed).timers[0].due_at - T0

    assert wait(0) == 10 * SECOND
    assert wait(1 << 31) == round(12.5 * SECOND)
    assert wait(1 << 31) == wait(1 << 31)


def test_an_error_that_can_not_get_better_is_not_retried() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying()}))
    story.begin()

    story.fail("a", retryable=False)

    assert story.status == "failed"


def test_when_decides_about_a_retry_alone() -> None:
    when = compile_template("{{ error.status == 404 and attempt < 2 }}")
    story = Story(plan_of({"a": []}, {"a": retrying(attempts_max=9, when=when)}))
    story.begin()

    story.fail("a", retryable=False, status=404)
    story.tell(TimerDue("job", "retry", "a", 1))
    story.fail("a", retryable=True, status=404)

    assert (story.status, story.rows["a"].attempt) == ("failed", 2)


def test_later_attempts_point_to_the_first() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying()}))
    first = story.begin().events["job"][1]
    story.fail("a")
    story.tell(TimerDue("job", "retry", "a", 1))

    done = story.finish("a").events["job"]

    assert first.type == "node_dispatched"
    assert [event.parent_seq for event in done if event.node_id == "a"] == [first.seq, first.seq]


def test_a_lost_worker_costs_the_author_no_attempt() -> None:
    story = Story(plan_of({"a": []}, {"a": task("a")}))
    story.begin()

    story.fail("a", type="worker_lost")

    assert (story.state("a"), story.job.task_id(story.job.attempts[0])) == ("dispatched", "job_a_2")
    assert "worker_lost a" in story.events


def test_a_task_that_kills_its_workers_fails_in_the_end() -> None:
    story = Story(plan_of({"a": []}))
    story.begin()

    for losses in range(1, story.job.plan.nodes[0].redeliveries_max + 2):
        story.tell(TaskLost("job", "a", 1, "w", losses))

    assert story.status == "failed"
    assert story.events.count("worker_lost a") == 5 + 1


def test_the_same_loss_reported_twice_counts_once() -> None:
    story = Story(plan_of({"a": []}))
    story.begin()

    story.tell(TaskLost("job", "a", 1, "w", 1), TaskLost("job", "a", 1, "w", 1))

    assert story.events.count("worker_lost a") == 1


def test_retry_runs_again_what_failed_and_keeps_what_completed() -> None:
    story = Story(plan_of({"a": [], "b": ["a"], "c": ["b"]}))
    story.begin()
    story.finish("a", b'"kept"')
    story.fail("b")

    changes = story.tell(RetryRequested("job", "r1"))
    story.finish("b")
    story.finish("c")

    assert [t.task_id for t in changes.tasks] == ["job_b_2"]
    assert story.dispatched == ["a", "b", "b", "c"]
    assert story.status == "completed"
    assert bytes(story.job.outputs[0] or b"") == b'"kept"'


def test_retry_from_a_node_runs_it_and_all_after_it_again() -> None:
    story = Story(plan_of({"a": [], "b": ["a"], "c": ["a"], "d": ["b"]}))
    story.begin()
    for node in ("a", "b", "c", "d"):
        story.finish(node)

    story.tell(RetryRequested("job", "r1", from_node="b"))

    assert story.states() == {"a": "completed", "b": "dispatched", "c": "completed", "d": "pending"}


def test_a_retry_gives_the_author_all_attempts_again() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying(attempts_max=2)}))
    story.begin()
    story.fail("a")
    story.tell(TimerDue("job", "retry", "a", 1))
    story.fail("a")
    story.tell(RetryRequested("job", "r1"))

    story.fail("a")

    assert (story.state("a"), story.job.attempt_of(0)) == ("waiting", 3)


def test_a_job_cancelled_before_it_began_can_be_retried() -> None:
    story = Story(plan_of({"a": []}))
    story.tell(CancelRequested("job", "r1"))

    story.tell(RetryRequested("job", "r2"))
    story.finish("a")

    assert story.status == "completed"


def test_a_retry_of_a_running_job_is_a_no_op() -> None:
    story = Story(plan_of({"a": []}))
    story.begin()

    changes = story.tell(RetryRequested("job", "r1"))

    assert changes.requests == ["r1"]
    assert not changes.tasks
