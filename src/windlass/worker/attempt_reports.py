"""The messages that a worker sends about attempts."""

from collections.abc import Iterable

from windlass.core.changes import Task
from windlass.core.messages import TaskFinished, TaskStarted
from windlass.ports.broker import TaskReport
from windlass.worker.running_attempt import ExecutorContext, Outcome, RunningAttempt


class AttemptReports:
    """Builds messages and passes them to the worker."""

    def __init__(self, context: ExecutorContext) -> None:
        self._context = context

    def finished(self, task: Task, started_at: int, outcome: Outcome) -> TaskReport:
        """Report the end of an attempt; return the report."""
        context = self._context
        message = TaskFinished(
            job_id=task.job_id,
            node_id=task.node_id,
            attempt=task.attempt,
            worker_id=context.worker_id,
            started_at=started_at,
            finished_at=context.clock.now(),
            outcome=outcome,
            index=task.index,
            seed=context.random.getrandbits(32),
        )
        report = TaskReport(task.task_id, task.shard, message)
        context.on_finished(report)
        return report

    def started(self, attempts: Iterable[RunningAttempt]) -> None:
        """Report that attempts have been running for a while, or that their work begins."""
        messages: list[tuple[int, TaskStarted]] = []
        for attempt in attempts:
            task = attempt.task
            message = TaskStarted(
                job_id=task.job_id,
                node_id=task.node_id,
                attempt=task.attempt,
                worker_id=self._context.worker_id,
                started_at=attempt.started_at,
                index=task.index,
            )
            messages.append((task.shard, message))
        self._context.on_started(messages)
