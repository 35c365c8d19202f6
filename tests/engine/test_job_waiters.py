"""The waiters of jobs: what an engine knows about jobs that have finished."""

import pytest

from windlass.core.changes import Changes
from windlass.engine.job_waiters import JobWaiters


def finished(job_id: str) -> Changes:
    changes = Changes()
    changes.finished.append(job_id)
    return changes


@pytest.mark.parametrize("is_shared", [False, True], ids=["alone", "shared"])
async def test_waiters_are_notified_of_the_end_of_their_job(is_shared: bool) -> None:
    waiters = JobWaiters(is_shared=is_shared)

    with waiters.wait_finished("j1") as end:
        waiters.notify_all(finished("j1"))
        assert end.done()


def test_an_engine_that_is_alone_remembers_which_jobs_have_finished() -> None:
    waiters = JobWaiters(is_shared=False)

    waiters.notify_all(finished("j1"))

    assert waiters.has_finished("j1")


def test_an_engine_among_others_does_not_because_they_may_retry_the_job() -> None:
    waiters = JobWaiters(is_shared=True)

    waiters.notify_all(finished("j1"))

    assert not waiters.has_finished("j1")
