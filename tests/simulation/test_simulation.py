"""Seeds of the simulator: random workflows under random faults break no invariant."""

import pytest

from simulation.__main__ import replay_command
from simulation.scenarios import run_seed

GROUPS = 10
GROUP_SEEDS = 30


@pytest.mark.parametrize("group", range(GROUPS))
def test_no_seed_breaks_an_invariant(group: int) -> None:
    for seed in range(group * GROUP_SEEDS, (group + 1) * GROUP_SEEDS):
        violations = run_seed(seed).violations

        assert not violations, f"{replay_command(seed)}: {violations[0]}"


def test_a_seed_runs_the_same_each_time() -> None:
    assert run_seed(7) == run_seed(7)
