"""Requests to cancel and to retry a job: a repeated one changes nothing."""

from simulation.plans import plan_of
from tests.core.job_harness import JobHarness
from windlass.core.messages import CancelRequested, RetryRequested


def failed_job() -> JobHarness:
    harness = JobHarness(plan_of({"a": []}))
    harness.begin()
    harness.fail("a")
    return harness


def test_a_retry_that_is_delivered_again_after_the_job_failed_again_changes_nothing() -> None:
    harness = failed_job()
    retry = RetryRequested("job", "r1", round=0)
    harness.apply(retry)
    harness.fail("a")
    changes = harness.apply(retry)
    assert (harness.status, harness.job.state.round) == ("failed", 1)
    assert changes.requests == ["r1"]
    assert not changes.tasks
    assert harness.events.count("job_retried") == 1


def test_two_retries_of_one_failure_retry_it_once() -> None:
    harness = failed_job()
    harness.apply(RetryRequested("job", "r1", round=0), RetryRequested("job", "r2", round=0))
    harness.fail("a")
    harness.apply(RetryRequested("job", "r3", round=1))
    assert (harness.status, harness.job.state.round) == ("running", 2)


def test_a_cancellation_that_is_delivered_again_after_a_retry_does_not_cancel_it() -> None:
    harness = JobHarness(plan_of({"a": []}))
    harness.begin()
    cancel = CancelRequested("job", "c1", round=0)
    harness.apply(cancel, RetryRequested("job", "r1", round=0))
    changes = harness.apply(cancel)
    assert harness.status == "running"
    assert changes.requests == ["c1"]


def test_a_cancellation_of_a_job_whose_retry_is_not_applied_yet_cancels_the_retry() -> None:
    harness = failed_job()
    harness.apply(RetryRequested("job", "r1", round=0), CancelRequested("job", "c1", round=1))
    assert harness.status == "cancelled"
