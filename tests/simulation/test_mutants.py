"""The simulator detects every mutant: an invariant that no error can violate proves nothing."""

import asyncio
import sys
from pathlib import Path

import pytest

from simulation.mutants.detect import MUTANTS
from simulation.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
# One of the core, of the engine, of loops, of leases, of the store and of the broker. `make prove` runs all others.
SMOKE = {
    "a fan-in runs after its first dependency",
    "commits are not awaited",
    "a loop has one iteration too many in flight",
    "engines keep more than their share of shards",
    "the store does not check the epoch",
    "the broker does not deduplicate tasks",
}


def _parameter(mutant: Mutant) -> object:
    marks = [] if mutant.name in SMOKE else [pytest.mark.prove]
    return pytest.param(mutant, id=mutant.name.replace(" ", "_"), marks=marks)


@pytest.mark.parametrize("mutant", [_parameter(mutant) for mutant in MUTANTS])
async def test_mutant_is_detected(mutant: Mutant) -> None:
    # In its own process, because no module of the package may be imported before the mutant is loaded.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "simulation.mutants.detect",
        mutant.name,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()

    assert process.returncode == 0, printed.decode()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "_"))
def test_snippet_of_mutant_occurs_once(mutant: Mutant) -> None:
    mutant.source()


def test_mutant_names_are_unique() -> None:
    names = {mutant.name for mutant in MUTANTS}

    assert len(names) == len(MUTANTS) >= 24
    assert names >= SMOKE
