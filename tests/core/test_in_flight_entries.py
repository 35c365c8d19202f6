"""Nodes that were dispatched for the first time have no row: the newest page of events lists them."""

import pytest
from msgspec import structs

from simulation.plans import plan_of
from tests.core.job_harness import JobHarness
from windlass.core import turn
from windlass.core.changes import Changes
from windlass.core.messages import CancelRequested, RetryRequested, TaskLost
from windlass.core.plan import NodePlan, RetryOnError


def in_flight(changes: Changes) -> list[str]:
    """Return the nodes that the page of a batch lists."""
    return [entry.node_id for entry in changes.in_flight.get("job", ())]


def rows(changes: Changes) -> dict[str, str]:
    """Return the status of each row of a batch."""
    return {row.node_id: row.status for row in changes.nodes.values()}


def test_a_first_dispatch_writes_no_row_and_the_result_writes_one() -> None:
    harness = JobHarness(plan_of({"a": [], "b": ["a"]}))

    begun = harness.begin()
    assert (rows(begun), in_flight(begun)) == ({}, ["a"])

    done = harness.finish("a")
    assert (rows(done), in_flight(done)) == ({"a": "completed"}, ["b"])

    ended = harness.finish("b")
    assert (rows(ended), in_flight(ended)) == ({"b": "completed"}, [])


def test_every_page_lists_all_nodes_in_flight() -> None:
    harness = JobHarness(plan_of({"a": [], "b": [], "c": ["b"]}))
    harness.begin()

    assert in_flight(harness.finish("b")) == ["a", "c"]


def test_a_job_is_restored_with_its_nodes_in_flight() -> None:
    harness = JobHarness(plan_of({"a": [], "b": [], "c": ["b"]}))
    harness.begin()
    harness.finish("b")

    restored = harness.restored()

    assert restored.in_flight == harness.job.in_flight
    assert restored.attempts == harness.job.attempts
    assert restored.states == harness.job.states
    assert not restored.ready
    harness.job = restored
    harness.finish("a")
    harness.finish("c")
    assert harness.status == "completed"


def test_a_node_in_flight_gets_a_row_with_its_next_change() -> None:
    harness = JobHarness(plan_of({"a": [], "b": [], "c": []}))
    harness.begin()

    started = harness.start("a")
    assert (rows(started), in_flight(started)) == ({"a": "running"}, ["b", "c"])

    lost = harness.apply(TaskLost("job", "b", 1, "w1", 1))
    assert (rows(lost), in_flight(lost)) == ({"b": "dispatched"}, ["c"])

    cancelled = harness.apply(CancelRequested("job", "r1", "enough"))
    assert rows(cancelled)["c"] == "cancelled"
    assert in_flight(cancelled) == []


def test_a_second_attempt_has_a_row() -> None:
    again = NodePlan("a", on_error=RetryOnError(attempts_max=2))
    harness = JobHarness(plan_of({"a": []}, {"a": again}))
    assert in_flight(harness.begin()) == ["a"]

    changes = harness.fail("a")

    assert (rows(changes), in_flight(changes)) == ({"a": "waiting"}, [])


def test_nodes_dispatched_after_a_job_retry_have_rows() -> None:
    harness = JobHarness(plan_of({"a": [], "b": ["a"]}))
    harness.begin()
    harness.fail("a")

    retried = harness.apply(RetryRequested("job", "r1"))

    assert (rows(retried)["a"], in_flight(retried)) == ("dispatched", [])
    assert rows(harness.finish("a"))["b"] == "dispatched"


@pytest.mark.parametrize("is_plain", [True, False])
def test_nodes_in_flight_beyond_the_limit_have_rows(
    monkeypatch: pytest.MonkeyPatch, *, is_plain: bool
) -> None:
    monkeypatch.setattr(turn, "IN_FLIGHT_ENTRIES_MAX", 4)
    rule = RetryOnError(attempts_max=1 if is_plain else 2)
    names = [f"n{number}" for number in range(7)]
    harness = JobHarness(
        plan_of(
            {name: [] for name in names}, {name: NodePlan(name, on_error=rule) for name in names}
        )
    )

    begun = harness.begin()

    assert (in_flight(begun), list(rows(begun))) == (names[:4], names[4:])


def test_the_row_of_an_in_flight_entry_equals_a_written_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn, "IN_FLIGHT_ENTRIES_MAX", 4)
    harness = JobHarness(plan_of({f"n{number}": [] for number in range(5)}))
    begun = harness.begin()
    [written] = begun.nodes.values()
    [first, *_] = begun.in_flight["job"]

    assert first.row("job") == structs.replace(written, node_id="n0", number=0)


def test_a_page_with_fewer_events_than_nodes_in_flight_writes_their_rows() -> None:
    names = [f"n{number}" for number in range(turn.SHORT_LIST_ENTRIES + 2)]
    harness = JobHarness(plan_of({name: [] for name in names}))
    begun = harness.begin()
    assert (rows(begun), in_flight(begun)) == ({}, names)

    finished = harness.finish("n0")

    assert in_flight(finished) == []
    assert rows(finished) == {"n0": "completed", **dict.fromkeys(names[1:], "dispatched")}


def test_pages_repeat_a_short_list_of_nodes_in_flight() -> None:
    names = [f"n{number}" for number in range(turn.SHORT_LIST_ENTRIES + 1)]
    harness = JobHarness(plan_of({name: [] for name in names}))
    harness.begin()

    finished = harness.finish("n0")

    assert (in_flight(finished), rows(finished)) == (names[1:], {"n0": "completed"})
