"""Nodes that are out for the first time have no row: the newest page of events says which they are."""

import pytest
from msgspec import structs

from simulation.plans import plan_of
from tests.core.story import Story
from windlass.core import turn
from windlass.core.changes import Changes
from windlass.core.messages import CancelRequested, RetryRequested, TaskLost
from windlass.core.plan import NodePlan, RetryOnError


def out(changes: Changes) -> list[str]:
    """Those that the page of a batch names."""
    return [one.node_id for one in changes.in_flight.get("job", ())]


def rows(changes: Changes) -> dict[str, str]:
    """The rows of a batch, with what they say."""
    return {row.node_id: row.status for row in changes.nodes.values()}


def test_a_first_dispatch_writes_no_row_and_the_result_writes_one() -> None:
    story = Story(plan_of({"a": [], "b": ["a"]}))

    begun = story.begin()
    assert (rows(begun), out(begun)) == ({}, ["a"])

    done = story.finish("a")
    assert (rows(done), out(done)) == ({"a": "completed"}, ["b"])

    ended = story.finish("b")
    assert (rows(ended), out(ended)) == ({"b": "completed"}, [])


def test_every_page_names_all_that_are_out_not_only_those_of_its_batch() -> None:
    story = Story(plan_of({"a": [], "b": [], "c": ["b"]}))
    story.begin()

    assert out(story.finish("b")) == ["a", "c"]


def test_a_job_is_rebuilt_with_those_that_are_out() -> None:
    story = Story(plan_of({"a": [], "b": [], "c": ["b"]}))
    story.begin()
    story.finish("b")

    rebuilt = story.rebuilt()

    assert rebuilt.in_flight == story.job.in_flight
    assert rebuilt.attempts == story.job.attempts
    assert rebuilt.states == story.job.states
    assert not rebuilt.ready
    story.job = rebuilt
    story.finish("a")
    story.finish("c")
    assert story.status == "completed"


def test_whatever_happens_to_one_that_is_out_gives_it_a_row() -> None:
    story = Story(plan_of({"a": [], "b": [], "c": []}))
    story.begin()

    started = story.start("a")
    assert (rows(started), out(started)) == ({"a": "running"}, ["b", "c"])

    lost = story.tell(TaskLost("job", "b", 1, "w1", 1))
    assert (rows(lost), out(lost)) == ({"b": "dispatched"}, ["c"])

    cancelled = story.tell(CancelRequested("job", "r1", "enough"))
    assert rows(cancelled)["c"] == "cancelled"
    assert out(cancelled) == []


def test_a_further_attempt_has_a_row() -> None:
    again = NodePlan("a", on_error=RetryOnError(attempts_max=2))
    story = Story(plan_of({"a": []}, {"a": again}))
    assert out(story.begin()) == ["a"]

    changes = story.fail("a")

    assert (rows(changes), out(changes)) == ({"a": "waiting"}, [])


def test_rounds_after_the_first_write_rows() -> None:
    story = Story(plan_of({"a": [], "b": ["a"]}))
    story.begin()
    story.fail("a")

    retried = story.tell(RetryRequested("job", "r1"))

    assert (rows(retried)["a"], out(retried)) == ("dispatched", [])
    assert rows(story.finish("a"))["b"] == "dispatched"


@pytest.mark.parametrize("is_plain", [True, False])
def test_beyond_a_bound_nodes_have_rows_so_that_pages_stay_small(*, is_plain: bool) -> None:
    rule = RetryOnError(attempts_max=1 if is_plain else 2)
    names = [f"n{number}" for number in range(turn.IN_FLIGHT_ENTRIES_MAX + 3)]
    story = Story(plan_of({name: [] for name in names}, {name: NodePlan(name, on_error=rule) for name in names}))

    begun = story.begin()

    assert out(begun) == names[: turn.IN_FLIGHT_ENTRIES_MAX]
    assert list(rows(begun)) == names[turn.IN_FLIGHT_ENTRIES_MAX :]


def test_the_row_that_a_departure_stands_for_is_the_one_that_others_get() -> None:
    story = Story(plan_of({f"n{number}": [] for number in range(turn.IN_FLIGHT_ENTRIES_MAX + 1)}))
    begun = story.begin()
    [written] = begun.nodes.values()
    [first, *_] = begun.in_flight["job"]

    assert first.row("job") == structs.replace(written, node_id="n0", first_seq=first.first_seq, number=0)
