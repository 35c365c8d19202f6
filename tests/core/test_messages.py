"""Messages about jobs and about runs."""

from typing import get_args

import pytest
from msgspec import Raw

from windlass.core.changes import Task
from windlass.core.ids import TaskId
from windlass.core.messages import (
    Continue,
    JobMessage,
    Message,
    RetryRequested,
    Submitted,
    Succeeded,
    TaskFinished,
    TaskLost,
    TaskStarted,
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


@pytest.mark.parametrize(
    "task",
    [Task("j1_each[3]_2", "j1", "each", 2, "echo", b"{}", index=3), TaskId("j1", "each", 3, 2)],
    ids=["task", "task_id"],
)
def test_messages_about_a_task_identify_its_attempt(task: Task | TaskId) -> None:
    outcome = Succeeded(Raw(b"1"))
    finished = TaskFinished("j1", "each", 2, "w1", 5, 9, outcome, index=3, seed=7)

    assert TaskStarted.of(task, "w1", 5) == TaskStarted("j1", "each", 2, "w1", 5, index=3)
    assert TaskLost.of(task, "w1", 4) == TaskLost("j1", "each", 2, "w1", 4, index=3)
    assert TaskFinished.of(task, "w1", outcome, started_at=5, finished_at=9, seed=7) == finished


def test_messages_about_a_node_without_a_loop_have_the_index_zero() -> None:
    assert TaskLost.of(TaskId("j1", "a", None, 1), "w1", 1).index == 0


def test_a_retry_without_a_stored_request_was_decided_by_a_run() -> None:
    assert RetryRequested("j1", None).is_by_run
    assert not RetryRequested("j1", "r1").is_by_run
