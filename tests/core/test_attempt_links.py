"""The events of later attempts link to the first start of their node or iteration; those of the first link to none."""

from collections.abc import Callable

import pytest

from simulation.plans import plan_of
from tests.core.loop_harness import SECOND, LoopHarness
from tests.core.test_pagination import page, paginating
from windlass.core.changes import Changes
from windlass.core.events import Event
from windlass.core.messages import (
    CancelRequested,
    JobMessage,
    RetryRequested,
    TaskLost,
    TimerDue,
    TimerKind,
)
from windlass.core.plan import LoopPlan, NodePlan, RetryOnError
from windlass.core.templates.template import compile_template

ONE = LoopPlan(compile_template([1]), mode="async")
# Of the loop itself: its own attempts are another series.
OF_LOOP = ("iterator_started", "iterator_completed")


def harness_of(node: NodePlan, *, is_reloaded: bool = False) -> LoopHarness:
    plan = plan_of({node.id: []}, {node.id: node})
    kind = ReloadingHarness if is_reloaded else LoopHarness
    harness = kind(plan, b'{"url": "u"}')
    harness.begin()
    return harness


class ReloadingHarness(LoopHarness):
    """Rebuilds the job from its rows before each message."""

    def apply(self, *messages: JobMessage) -> Changes:
        self.reload()
        return super().apply(*messages)


def events_of(harness: LoopHarness, *, is_loop: bool = False) -> list[Event]:
    """Return the events of the node, or of its only iteration."""
    index = 0 if is_loop else None
    return [
        event
        for event in harness.store.log("job")
        if event.node_id is not None and event.index == index and event.type not in OF_LOOP
    ]


def first_start(events: list[Event]) -> int:
    return next(event.seq for event in events if event.type.endswith("_started"))


def start_of_second(events: list[Event]) -> int:
    """Return the place of the first event of the second attempt."""
    later = range(3, len(events))
    return next(at for at in later if events[at].type.endswith(("_ready", "_dispatched")))


def retry_after_an_error(harness: LoopHarness, node: str) -> None:
    harness.fail(node)
    harness.fire_retry(node)


def retry_after_a_rate_limit(harness: LoopHarness, node: str) -> None:
    harness.fail(node, type="rate_limited", status=429)
    harness.fire_retry(node)


def lose_the_process(harness: LoopHarness, node: str) -> None:
    harness.fail(node, type="worker_lost")


def retry_the_failed_job(harness: LoopHarness, node: str) -> None:
    harness.fail(node, retryable=False)
    harness.apply(RetryRequested("job", "request"))


def retry_the_cancelled_job(harness: LoopHarness, node: str) -> None:
    harness.start(node)
    harness.apply(CancelRequested("job", "cancel"))
    harness.apply(RetryRequested("job", "request"))


def retry_the_failed_job_twice(harness: LoopHarness, node: str) -> None:
    retry_the_failed_job(harness, node)
    retry_the_failed_job(harness, node)


@pytest.mark.parametrize("is_reloaded", [False, True], ids=["in memory", "reloaded"])
@pytest.mark.parametrize("is_loop", [False, True], ids=["node", "iteration"])
@pytest.mark.parametrize(
    "repeat",
    [
        retry_after_an_error,
        retry_after_a_rate_limit,
        lose_the_process,
        retry_the_failed_job,
        retry_the_cancelled_job,
        retry_the_failed_job_twice,
    ],
)
def test_all_events_of_later_attempts_link_to_the_first_start(
    repeat: Callable[[LoopHarness, str], None], is_loop: bool, is_reloaded: bool
) -> None:
    node = NodePlan("a", on_error=RetryOnError(attempts_max=2), loop=ONE if is_loop else None)
    harness = harness_of(node, is_reloaded=is_reloaded)

    repeat(harness, "a")
    harness.start("a")
    harness.apply(TaskLost("job", "a", harness.attempt("a"), "w1", 9 if is_loop else 1))
    if harness.state("a") == "dispatched":
        harness.finish("a")

    events = events_of(harness, is_loop=is_loop)
    second = start_of_second(events)
    assert {event.parent_seq for event in events[:second]} == {None}
    assert {event.parent_seq for event in events[second:]} == {first_start(events)}


@pytest.mark.parametrize("is_loop", [False, True], ids=["node", "iteration"])
def test_the_events_of_later_pages_link_to_the_start_of_the_first_page(is_loop: bool) -> None:
    harness = harness_of(paginating(loop=ONE if is_loop else None))
    harness.finish("fetch", output=page(1))
    harness.finish("fetch", output=page(2, more=False))
    harness.merge_outputs()

    events = events_of(harness, is_loop=is_loop)

    second = start_of_second(events)
    assert {event.parent_seq for event in events[:second]} == {None}
    assert {event.parent_seq for event in events[second:]} == {first_start(events)}


@pytest.mark.parametrize("is_reloaded", [False, True], ids=["in memory", "reloaded"])
def test_a_completed_node_that_runs_again_links_to_its_first_start(is_reloaded: bool) -> None:
    harness = harness_of(NodePlan("a"), is_reloaded=is_reloaded)
    harness.finish("a")

    changes = harness.apply(RetryRequested("job", "request", "a"))
    harness.finish("a")

    events = events_of(harness)
    again = [event for event in events if event.seq >= changes.events["job"][0].seq]
    assert [event.type for event in again] == [
        "node_ready",
        "node_dispatched",
        "node_started",
        "node_completed",
    ]
    assert {event.parent_seq for event in again} == {first_start(events)}


def test_a_loop_that_runs_again_links_to_its_first_start_and_begins_new_iterations() -> None:
    harness = harness_of(NodePlan("a", loop=ONE))
    harness.finish("a")
    harness.merge_outputs()

    changes = harness.apply(RetryRequested("job", "request", "a"))
    harness.finish("a")
    harness.merge_outputs()

    retried = changes.events["job"][0].seq
    again = [event for event in harness.store.log("job") if event.seq > retried and event.node_id]
    assert {event.parent_seq for event in again if event.index is None} == {
        first_start(events_of(harness))
    }
    assert {event.parent_seq for event in again if event.index is not None} == {None}


def test_attempts_link_to_the_first_that_started() -> None:
    node = NodePlan("a", on_error=RetryOnError(attempts_max=3), start_timeout_seconds=5.0)
    harness = harness_of(node)
    harness.now += 5 * SECOND
    harness.apply(TimerDue("job", TimerKind.START_TIMEOUT, "a", 1))
    harness.fire_retry("a")
    harness.fail("a")
    harness.fire_retry("a")
    harness.finish("a")

    events = events_of(harness)
    start = first_start(events)
    assert {event.parent_seq for event in events if event.seq <= start} == {None}
    assert {event.parent_seq for event in events if event.seq > start} == {start}
