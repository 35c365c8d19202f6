"""A job in memory that tests send messages to."""

from msgspec import Raw

from windlass.core.advance import advance
from windlass.core.changes import Changes, InFlightEntry, NodeRow
from windlass.core.job import Job
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.messages import (
    Failed,
    JobMessage,
    Submitted,
    Succeeded,
    TaskError,
    TaskFinished,
    TaskStarted,
    TimerDue,
    TimerKind,
)
from windlass.core.plan import Plan
from windlass.core.restoration import restore_job
from windlass.core.states import NodeStatus
from windlass.core.timers import timer_of

T0 = 1_700_000_000_000_000
SECOND = 1_000_000


class JobHarness:
    """A job with all changes that were applied to it, and its rows as a store would have them."""

    def __init__(self, plan: Plan, input: bytes = b"{}") -> None:
        self.plan = plan
        self.now = T0
        self.job = Job(
            plan, JobRecord(JobSpec("job", plan.workflow_id, plan.version, Raw(input), T0))
        )
        self.rows: dict[str, NodeRow] = {}
        self.in_flight: tuple[InFlightEntry, ...] = ()
        self.events: list[str] = ["job_created"]
        self.applied: list[Changes] = []

    def apply(self, *messages: JobMessage) -> Changes:
        """Apply each message in its own batch; return the changes of the last one."""
        changes = Changes()
        for message in messages:
            if isinstance(message, TimerDue):
                self.now = max(self.now, self._due_at(message))
            changes = advance(self.job, message, self.now)
            self.applied.append(changes)
            self.rows.update({node_id: row for (_, node_id), row in changes.nodes.items()})
            if "job" in changes.events:
                self.in_flight = changes.in_flight.get("job", ())
            for event in changes.events.get("job", []):
                self.events.append(
                    event.type if event.node_id is None else f"{event.type} {event.node_id}"
                )
        return changes

    def _due_at(self, message: TimerDue) -> int:
        """Return when a timer is due; the clock of the test is set to it."""
        if message.kind is TimerKind.JOB_TIMEOUT:
            return self.job.state.deadline_at or 0
        attempt = self.job.attempts.get(self.plan.index.get(message.node_id or "", -1))
        timer = None if attempt is None else timer_of(self.job, attempt)
        return 0 if timer is None else timer.due_at

    def begin(self) -> Changes:
        return self.apply(Submitted("job"))

    def finish(
        self,
        node: str,
        output: bytes = b"1",
        *,
        attempt: int | None = None,
        meta: bytes | None = None,
    ) -> Changes:
        outcome = Succeeded(Raw(output), None if meta is None else Raw(meta))
        return self.apply(self.finished(node, outcome, attempt))

    def fail(
        self, node: str, *, attempt: int | None = None, seed: int = 0, **error: object
    ) -> Changes:
        described = {"type": "ValueError", "message": "no", **error}
        return self.apply(self.finished(node, Failed(TaskError(**described)), attempt, seed))  # type: ignore[arg-type]

    def finished(
        self, node: str, outcome: Succeeded | Failed, attempt: int | None = None, seed: int = 0
    ) -> TaskFinished:
        number = self.job.last_attempt_number(self.plan.index[node]) if attempt is None else attempt
        return TaskFinished("job", node, number, "w1", self.now, self.now, outcome, seed=seed)

    def start(self, node: str, worker_id: str = "w1") -> Changes:
        attempt = self.job.last_attempt_number(self.plan.index[node])
        return self.apply(TaskStarted("job", node, attempt, worker_id, self.now))

    @property
    def dispatched(self) -> list[str]:
        """Return the node ids of all dispatched tasks."""
        return [task.node_id for changes in self.applied for task in changes.tasks]

    @property
    def cancels(self) -> list[str]:
        return [task_id for changes in self.applied for task_id in changes.cancels]

    def states(self) -> dict[str, str]:
        return {
            node.id: NodeStatus(self.job.states[n]).label for n, node in enumerate(self.plan.nodes)
        }

    def state(self, node: str) -> str:
        return self.states()[node]

    @property
    def status(self) -> str:
        return self.job.state.status

    def restored(self) -> Job:
        """Return the job as it is restored from its rows."""
        record = JobRecord(self.job.spec, self.job.state, self.job.seq)
        return restore_job(self.plan, record, list(self.rows.values()), (), self.in_flight)
