"""A wait that somebody calls over too early goes on: an engine may tell of one that was never stored."""

import pytest

from simulation.plans import plan_of
from tests.core.story import Story
from windlass.core.advance import advance
from windlass.core.messages import TimerDue
from windlass.core.plan import NodePlan, RetryOnError


@pytest.fixture
def waiting() -> Story:
    """A job whose node waits before its second attempt."""
    rule = RetryOnError(attempts_max=3, initial_delay_seconds=10.0, jitter=0.0)
    story = Story(plan_of({"a": []}, {"a": NodePlan(id="a", handler="echo", on_error=rule)}))
    story.begin()
    story.fail("a")
    return story


def test_a_retry_that_is_told_of_too_early_is_waited_for(waiting: Story) -> None:
    due_at = waiting.rows["a"].due_at

    changes = advance(waiting.job, TimerDue("job", "retry", "a", 1), waiting.now)

    assert (changes.tasks, changes.events) == ([], {})
    assert [(timer.kind, timer.attempt, timer.due_at) for timer in changes.timers] == [("retry", 1, due_at)]


def test_a_retry_is_dispatched_when_its_wait_is_over(waiting: Story) -> None:
    changes = waiting.tell(TimerDue("job", "retry", "a", 1))

    assert [task.attempt for task in changes.tasks] == [2]
