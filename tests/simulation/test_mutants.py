"""The simulator notices every mistake of the list: an invariant that no mistake can break proves nothing."""

import asyncio
import sys
from pathlib import Path

import pytest

from simulation.mutants.jobs import MUTANTS, Mutant, mutated

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "_"))
async def test_every_mutant_is_caught(mutant: Mutant) -> None:
    mutated(mutant)

    # A process of its own, so that nothing of the package was imported before the mistake is in.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "simulation.mutants.jobs", mutant.name, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    describe, _ = await process.communicate()

    assert process.returncode == 0, describe.decode()


def test_mutants_have_names_of_their_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 24
