"""Seeds of the simulator: random workflows under random faults violate no invariant."""

import pytest

from simulation.__main__ import replay_command
from simulation.scenarios import run_seed

GROUPS = 10
GROUP_SEEDS = 30
# `make test` runs these groups, `make prove` the others.
SMOKE_GROUPS = 3


@pytest.mark.parametrize(
    "group",
    [
        *range(SMOKE_GROUPS),
        *(pytest.param(n, marks=pytest.mark.prove) for n in range(SMOKE_GROUPS, GROUPS)),
    ],
)
def test_seeds_have_no_violations(group: int) -> None:
    for seed in range(group * GROUP_SEEDS, (group + 1) * GROUP_SEEDS):
        violations = run_seed(seed).violations

        assert not violations, f"{replay_command(seed)}: {violations[0]}"


def test_the_same_seed_has_the_same_run() -> None:
    assert run_seed(7) == run_seed(7)
