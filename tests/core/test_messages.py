"""Messages about jobs and about runs."""

from typing import get_args

from windlass.core.messages import (
    Continue,
    JobMessage,
    Message,
    RetryRequested,
    Submitted,
    split_batch,
)
from windlass.core.runs.messages import RunDue, RunMessage, RunWait, ScheduleChanged


def test_a_batch_about_jobs_only_is_not_copied() -> None:
    batch = [Submitted("j1"), Continue("j2")]

    about_jobs, about_runs = split_batch(batch)

    assert about_jobs is batch
    assert about_runs == ()


def test_a_batch_is_split_by_type_and_keeps_its_order() -> None:
    due, changed = RunDue("flow", "flow:1", RunWait.START), ScheduleChanged("flow")
    batch: list[Message] = [due, Submitted("j1"), changed, Continue("flow:1")]

    about_jobs, about_runs = split_batch(batch)

    assert about_jobs == [Submitted("j1"), Continue("flow:1")]
    assert about_runs == [due, changed]


def test_every_message_is_about_a_job_or_about_the_runs_of_a_workflow() -> None:
    assert all("job_id" in message.__struct_fields__ for message in get_args(JobMessage))
    assert all("workflow_id" in message.__struct_fields__ for message in get_args(RunMessage))
    assert not any("job_id" in message.__struct_fields__ for message in get_args(RunMessage))


def test_a_retry_without_a_stored_request_was_decided_by_a_run() -> None:
    assert RetryRequested("j1", None).is_by_run
    assert not RetryRequested("j1", "r1").is_by_run
