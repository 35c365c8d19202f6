"""The chaos run in a minute: real processes and servers, killed, paused and emptied at random under load."""

import pytest

from benchmarks.chaos.faults import BRIEF
from benchmarks.chaos.run import chaos

SECONDS = 45.0
# Little enough for a machine that runs other tests beside it: what ends late is no finding here.
JOBS_A_SECOND = 25.0
SEED = 20
FAULTS_MIN = 6


@pytest.mark.timeout(420)
async def test_nothing_is_lost_or_doubled_while_everything_is_killed() -> None:
    report = await chaos(BRIEF, SECONDS, JOBS_A_SECOND, SEED)

    assert report.violations == [], report.text()
    assert report.faults.total() >= FAULTS_MIN
    assert report.findings.jobs.total() >= report.acknowledged > 0
