"""A short chaos run: real processes and servers that are killed, paused and flushed at random under load."""

import pytest

from benchmarks.chaos.faults import BRIEF
from benchmarks.chaos.run import chaos

SECONDS = 45.0
# Low enough for a machine that runs other tests too.
JOBS_A_SECOND = 25.0
SEED = 20
FAULTS_MIN = 6


@pytest.mark.prove
@pytest.mark.timeout(420)
async def test_nothing_is_lost_or_repeated_under_random_kills() -> None:
    report = await chaos(BRIEF, SECONDS, JOBS_A_SECOND, SEED)

    assert report.violations == [], report.text()
    assert report.faults.total() >= FAULTS_MIN
    assert report.findings.jobs.total() >= report.acknowledged > 0
