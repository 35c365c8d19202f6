"""Every call to a port in the run of a workflow of thirty nodes, with every way in which it can go wrong."""

import pytest

from windlass.core.plan import NodeKind
from windlass.testing.faults import Fault, FaultAt
from windlass.testing.scenarios import REFERENCE_SETTINGS, crash_points, flush_points, reference_plan, run_reference

FAULTS = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.KILL_BEFORE, Fault.KILL_AFTER)
# Fewer than this, and the run would no longer be what the enumeration is about.
POINTS_MIN = 100


def test_the_reference_workflow_has_thirty_nodes() -> None:
    plan = reference_plan()

    assert len(plan.nodes) == 30
    assert {node.kind for node in plan.nodes} == set(NodeKind)


@pytest.mark.parametrize("setting", REFERENCE_SETTINGS)
def test_the_reference_run_breaks_nothing_without_faults(setting: str) -> None:
    assert run_reference(FaultAt(), REFERENCE_SETTINGS[setting]).violations == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("setting", REFERENCE_SETTINGS)
def test_a_fault_at_any_call_breaks_nothing(setting: str, fault: Fault) -> None:
    points = list(crash_points(REFERENCE_SETTINGS[setting], fault))

    assert [f"{call}: {report.violations[0]}" for call, report in points if report.violations] == []
    assert len(points) > POINTS_MIN


def test_a_broker_may_lose_everything_at_any_call() -> None:
    points = list(flush_points(REFERENCE_SETTINGS["the broker survives the engine"]))

    assert [f"{call}: {report.violations[0]}" for call, report in points if report.violations] == []
    assert len(points) > POINTS_MIN
