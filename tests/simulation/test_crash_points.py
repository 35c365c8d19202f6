"""Every call to a port in the run of a reference workflow, with every way in which it can go wrong."""

from collections.abc import Callable

import pytest

from simulation.faults import Fault, FaultAt
from simulation.processes import Setting
from simulation.reference_workflows import (
    REFERENCE_SETTINGS,
    SHARED_SETTING,
    Reference,
    a_bounded_job,
    a_task_that_kills,
    crash_points,
    flush_points,
    forgotten_points,
    loops_of_all_kinds,
    pages_in_a_loop,
    run_reference,
    thirty_nodes,
)
from windlass.core.plan import NodeKind

FAULTS = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.KILL_BEFORE, Fault.KILL_AFTER)
REFERENCES = {"thirty nodes": thirty_nodes, "pages in a loop": pages_in_a_loop}
# Fewer than this, and the run would no longer be what the enumeration is about.
POINTS_MIN = 70
COMMITS_MIN = 10


def test_the_reference_workflow_has_thirty_nodes() -> None:
    plan = thirty_nodes().plan

    assert len(plan.nodes) == 30
    assert {node.kind for node in plan.nodes} == set(NodeKind)


@pytest.mark.parametrize(
    "make", [*REFERENCES.values(), loops_of_all_kinds, a_bounded_job, a_task_that_kills], ids=lambda make: make.__name__
)
@pytest.mark.parametrize("setting", REFERENCE_SETTINGS)
def test_the_reference_run_breaks_nothing_without_faults(setting: str, make: Callable[[], Reference]) -> None:
    assert run_reference(make(), FaultAt(), REFERENCE_SETTINGS[setting]).violations == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("setting", REFERENCE_SETTINGS)
@pytest.mark.parametrize("reference", REFERENCES)
def test_a_fault_at_any_call_breaks_nothing(reference: str, setting: str, fault: Fault) -> None:
    points = list(crash_points(REFERENCES[reference](), REFERENCE_SETTINGS[setting], fault))

    assert [f"{call}: {report.violations[0]}" for call, report in points if report.violations] == []
    assert len(points) > POINTS_MIN


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_broker_may_lose_everything_at_any_call(reference: str) -> None:
    points = list(flush_points(REFERENCES[reference](), REFERENCE_SETTINGS["the broker survives the engine"]))

    assert [f"{call}: {report.violations[0]}" for call, report in points if report.violations] == []
    assert len(points) > POINTS_MIN


@pytest.mark.parametrize("setting", [REFERENCE_SETTINGS["the broker survives the engine"], SHARED_SETTING])
def test_results_that_only_the_inbox_knows_are_not_lost(setting: Setting) -> None:
    points = list(forgotten_points(thirty_nodes(), setting))

    assert [f"{call}: {report.violations[0]}" for call, report in points if report.violations] == []
    assert len(points) > COMMITS_MIN


@pytest.mark.parametrize("fault", [*FAULTS, Fault.STOP], ids=lambda fault: fault.name)
@pytest.mark.parametrize("reference", REFERENCES)
def test_a_fault_at_any_call_of_engines_that_share_breaks_nothing(reference: str, fault: Fault) -> None:
    points = list(crash_points(REFERENCES[reference](), SHARED_SETTING, fault))

    assert [f"{call}: {report.violations[0]}" for call, report in points if report.violations] == []
    assert len(points) > POINTS_MIN


def test_leases_are_among_what_can_go_wrong() -> None:
    counter = FaultAt()

    run_reference(thirty_nodes(), counter, SHARED_SETTING)

    assert {"store.leases.renew", "store.leases.claim", "store.leases.release"} <= set(counter.calls)


def test_a_sink_is_among_what_can_go_wrong() -> None:
    counter = FaultAt()

    run_reference(pages_in_a_loop(), counter, REFERENCE_SETTINGS["the broker survives the engine"])

    assert {"sink.write", "artifacts.put", "artifacts.get"} <= set(counter.calls)
