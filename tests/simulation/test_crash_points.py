"""Faults at every call to a port during the run of a reference workflow. `make test` checks one in several calls."""

from collections.abc import Callable, Iterable

import pytest

from simulation.faults import Fault, FaultAtCall
from simulation.processes import SystemConfig
from simulation.reference_workflows import (
    REFERENCE_CONFIGS,
    SHARED_CONFIG,
    ReferenceWorkflow,
    a_bounded_job,
    a_task_that_kills,
    crash_points,
    flush_points,
    loops_of_all_kinds,
    lost_commit_points,
    pages_in_a_loop,
    run_reference,
    thirty_nodes,
)
from simulation.simulator import SimulationReport
from windlass.core.plan import NodeKind

FAULTS = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.KILL_BEFORE, Fault.KILL_AFTER)
REFERENCES = {"thirty nodes": thirty_nodes, "pages in a loop": pages_in_a_loop}
SEPARATE_BROKER = REFERENCE_CONFIGS["the broker survives the engine"]
# With fewer points the workflow would not cover what the enumeration is about.
POINTS_MIN = 70
COMMITS_MIN = 10
# `make test` uses one in so many points.
SMOKE_EVERY = 15

every_point = pytest.mark.parametrize(
    "every", [pytest.param(1, marks=pytest.mark.prove), SMOKE_EVERY]
)


def assert_no_violations(points: Iterable[tuple[str, SimulationReport]], points_min: float) -> None:
    reports = list(points)
    assert [
        f"{call}: {report.violations[0]}" for call, report in reports if report.violations
    ] == []
    assert len(reports) > points_min


def test_reference_workflow_has_thirty_nodes() -> None:
    plan = thirty_nodes().plan

    assert len(plan.nodes) == 30
    assert {node.kind for node in plan.nodes} == set(NodeKind)


@pytest.mark.parametrize(
    "make",
    [*REFERENCES.values(), loops_of_all_kinds, a_bounded_job, a_task_that_kills],
    ids=lambda make: make.__name__,
)
@pytest.mark.parametrize("config", REFERENCE_CONFIGS)
def test_reference_workflow_has_no_violations_without_faults(
    config: str, make: Callable[[], ReferenceWorkflow]
) -> None:
    assert run_reference(make(), FaultAtCall(), REFERENCE_CONFIGS[config]).violations == []


@every_point
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("config", REFERENCE_CONFIGS)
@pytest.mark.parametrize("reference", REFERENCES)
def test_fault_at_any_call_causes_no_violation(
    reference: str, config: str, fault: Fault, every: int
) -> None:
    points = crash_points(REFERENCES[reference](), REFERENCE_CONFIGS[config], fault, every)

    assert_no_violations(points, POINTS_MIN / every)


@every_point
@pytest.mark.parametrize("reference", REFERENCES)
def test_broker_may_lose_its_contents_at_any_call(reference: str, every: int) -> None:
    points = flush_points(REFERENCES[reference](), SEPARATE_BROKER, every)

    assert_no_violations(points, POINTS_MIN / every)


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.prove), 4])
@pytest.mark.parametrize(
    "config", [SEPARATE_BROKER, SHARED_CONFIG], ids=["one engine", "two engines"]
)
def test_results_that_only_the_inbox_has_are_not_lost(config: SystemConfig, every: int) -> None:
    points = lost_commit_points(thirty_nodes(), config, every)

    assert_no_violations(points, COMMITS_MIN / every)


@every_point
@pytest.mark.parametrize("fault", [*FAULTS, Fault.STOP], ids=lambda fault: fault.name)
@pytest.mark.parametrize("reference", REFERENCES)
def test_fault_at_any_call_of_engines_that_share_causes_no_violation(
    reference: str, fault: Fault, every: int
) -> None:
    points = crash_points(REFERENCES[reference](), SHARED_CONFIG, fault, every)

    assert_no_violations(points, POINTS_MIN / every)


def test_calls_about_leases_are_among_those_with_faults() -> None:
    counter = FaultAtCall()

    run_reference(thirty_nodes(), counter, SHARED_CONFIG)

    assert {"store.leases.renew", "store.leases.claim", "store.leases.release"} <= set(
        counter.calls
    )


def test_calls_to_sinks_and_artifacts_are_among_those_with_faults() -> None:
    counter = FaultAtCall()

    run_reference(pages_in_a_loop(), counter, SEPARATE_BROKER)

    assert {"sink.write", "artifacts.put", "artifacts.get"} <= set(counter.calls)
