"""Every call to a port in the run of a workflow of thirty nodes, with every way in which it can go wrong."""

from functools import cache

import pytest

from windlass.testing.faults import Fault, FaultAt, can_happen
from windlass.testing.scenarios import run_reference
from windlass.testing.simulator import Setting

FAULTS = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.KILL_BEFORE, Fault.KILL_AFTER)
SETTINGS = {
    "the broker dies with the engine": Setting(embedded=True),
    "the broker survives the engine": Setting(embedded=False, workers=2, concurrency=4),
}


@cache
def calls(setting: str) -> list[str]:
    counter = FaultAt()
    run_reference(counter, SETTINGS[setting])
    return counter.calls


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_reference_run_is_undisturbed_without_faults(setting: str) -> None:
    report = run_reference(FaultAt(), SETTINGS[setting])

    assert report.violations == []
    assert len(calls(setting)) > 100


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_fault_at_any_call_breaks_nothing(setting: str, fault: Fault) -> None:
    broken: list[str] = []
    for number, call in enumerate(calls(setting)):
        if can_happen(fault, call.partition(".")[2]):
            violations = run_reference(FaultAt(number, fault), SETTINGS[setting]).violations
            broken += [f"call {number} ({call}): {violation}" for violation in violations[:1]]

    assert broken == []
