"""A book of runs and what happens to it, told step by step: jobs are made up, and end when a test says so."""

from collections.abc import Iterable

from windlass.core.changes import Changes, Timer
from windlass.core.instants import MICROSECONDS
from windlass.core.runs.commands import CancelJob, MakeCall, MakeJob, Order, ReleaseJob, RetryJob, TriggerJob
from windlass.core.runs.cron import Schedule
from windlass.core.runs.decide import NOTHING, ScheduleContext, decide
from windlass.core.runs.messages import (
    JobArrived,
    JobEnded,
    JobStarted,
    JobTriggered,
    RunAsked,
    RunDue,
    RunNews,
    ScheduleChanged,
)
from windlass.core.runs.registry import Run, RunRegistry
from windlass.core.runs.rows import RunRow, ScheduleRow
from windlass.core.runs.rules import Action, ActionKind, Constraints, Hook, RunRetry, RunRules

T0 = 1_700_000_040_000_000
MINUTE = 60 * MICROSECONDS
HOOK = Hook(url="https://example.test/hook")
EVERY_MINUTE = Schedule(cron="* * * * *", input_data={"x": 1})


def rules(
    *,
    schedule: Schedule | None = None,
    violation: Action | None = None,
    failure: Action | None = None,
    success: Action | None = None,
    slow: Action | None = None,
    retry: RunRetry | None = None,
    **constraints: object,
) -> RunRules:
    return RunRules(
        schedule=schedule,
        constraints=Constraints(**constraints),  # pyright: ignore[reportArgumentType]
        on_constraint_violation=violation,
        on_failure=failure,
        on_success=success,
        on_slow=slow,
        retry=retry,
    )


def action(kind: str, **fields: object) -> Action:
    return Action(kind=ActionKind(kind), **fields)  # pyright: ignore[reportArgumentType]


class Story:
    """The runs of one shard. Everything that was decided is kept: orders, timers, rows, events."""

    def __init__(self, of_flow: RunRules) -> None:
        self.book = RunRegistry(0)
        self.book.rules["flow", 1] = of_flow
        self.now = T0
        self.orders: list[Order] = []
        self.timers: list[Timer] = []
        self.rows: dict[str, RunRow] = {}
        self.told: list[tuple[str, str]] = []
        self._jobs = 0

    def hear(
        self, message: RunDue | RunAsked | ScheduleChanged | RunNews, given: ScheduleContext = NOTHING
    ) -> list[Order]:
        """Decide on a message, and answer the orders that want an answer at once."""
        changes = Changes()
        made = decide(self.book, message, self.now, changes, given)
        self._keep(changes)
        self.orders += made
        for order in made:
            if isinstance(order, TriggerJob):
                self.hear(JobTriggered(order.run_id, order.purpose, order.job_id))
        return made

    def _keep(self, changes: Changes) -> None:
        self.timers += changes.timers
        self.told += [(key, event.type) for key, events in changes.events.items() for event in events]
        if changes.runs is not None:
            for run_id in changes.runs.fresh:
                assert run_id not in self.rows
            self.rows.update(changes.runs.runs)
            for run_id in changes.runs.withdrawn:
                del self.rows[run_id]

    def submit(self, scheduled_at: int | None = None) -> str:
        """A job is submitted; the id of its run."""
        self._jobs += 1
        job_id = f"job{self._jobs:03}"
        self.hear(JobArrived(job_id, "flow", 1, self.now, scheduled_at))
        return f"flow:{job_id}"

    def start(self, run_id: str) -> None:
        """The first task of a run's job starts."""
        job_id = self.rows[run_id].job_id
        assert job_id is not None
        self.hear(JobStarted(job_id, self.now))

    def end(self, run_id: str, status: str = "completed") -> None:
        """A run's job ends."""
        job_id = self.rows[run_id].job_id
        assert job_id is not None
        self.hear(JobEnded(job_id, status, "it broke" if status == "failed" else None))

    def answer(self, status: str = "completed", refusal: str | None = None) -> None:
        """The last call ends."""
        call = [order for order in self.orders if isinstance(order, MakeCall)][-1]
        self.hear(JobEnded(call.job_id, status, "no answer" if status == "failed" else None, refusal=refusal))

    def pass_time(self, seconds: float) -> None:
        """Let time go by; timers fire when they are due."""
        until = self.now + round(seconds * MICROSECONDS)
        while due := [timer for timer in self.timers if timer.due_at <= until]:
            first = min(due, key=lambda timer: timer.due_at)
            self.timers.remove(first)
            self.now = max(self.now, first.due_at)
            self.hear(RunDue(first.job_id, first.kind))
        self.now = until

    def cancel(self, run_id: str) -> None:
        """Somebody cancels a run."""
        self.hear(RunAsked(run_id, f"request-{run_id}", "cancel", "not needed"))

    def deploy(self, version: int = 1, *, paused: bool = False, gone: bool = False, slot_at: int = T0,
               changed_at: int | None = None) -> None:  # fmt: skip
        """The schedule's row is written."""
        row = ScheduleRow("flow", version, paused, slot_at, T0, changed_at or self.now, gone)
        self.hear(ScheduleChanged("flow:"), ScheduleContext(row, self.book.rules.get(("flow", version))))

    def run(self, run_id: str) -> Run:
        """A run that has not ended, as it is in memory."""
        found = self.book.find(run_id)
        assert found is not None
        return found

    def path(self, run_id: str) -> list[str]:
        """The states that a run entered, after the first."""
        return [one.state.value for one in self.rows[run_id].detail.transitions]

    def state(self, run_id: str) -> str:
        """Where a run stands."""
        return self.rows[run_id].state.value

    def states(self) -> list[str]:
        """Where all runs stand, by their slots."""
        rows = sorted(self.rows.values(), key=lambda row: (row.scheduled_at, row.run_id))
        return [row.state.value for row in rows]

    def ordered(self, *kinds: type[MakeJob | ReleaseJob | RetryJob | CancelJob | MakeCall | TriggerJob]) -> int:
        """How many orders of these kinds there were."""
        return sum(isinstance(order, kinds) for order in self.orders)

    def cancelled(self) -> list[str]:
        """The jobs that were to stop."""
        return [order.job_id for order in self.orders if isinstance(order, CancelJob)]

    def memory(self) -> Iterable[RunRow]:
        """The rows of what is in memory."""
        return [run.row() for shelf in self.book.shelves.values() for run in shelf.runs.values()]
