"""The runs of a shard, with simulated jobs that end when a test ends them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from windlass.core.changes import Changes
from windlass.core.events import Event, EventType, Subject
from windlass.core.instants import MICROSECONDS
from windlass.core.runs.changes import RunTimer
from windlass.core.runs.commands import (
    AdmitJob,
    CancelJob,
    Command,
    MakeCall,
    MakeJob,
    RetryJob,
    TriggerJob,
)
from windlass.core.runs.cron import Schedule
from windlass.core.runs.decide import NO_CONTEXT, ScheduleContext, decide
from windlass.core.runs.messages import (
    JobArrived,
    JobFinished,
    JobStarted,
    JobTriggered,
    RunMessage,
    RunRequested,
    RunSignal,
    ScheduleChanged,
)
from windlass.core.runs.registry import NO_RULES, Run, RunRegistry
from windlass.core.runs.rows import RunRow, ScheduleRow
from windlass.core.runs.rules import (
    NO_RUN_RETRY,
    Action,
    ActionKind,
    Constraints,
    Hook,
    RunRetry,
    RunRules,
)
from windlass.core.runs.scheduling import newest_runs

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
    retry: RunRetry = NO_RUN_RETRY,
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


class RunHarness:
    """The runs of one shard, with all commands, timers, rows and events that were decided."""

    def __init__(self, flow_rules: RunRules) -> None:
        self.registry = RunRegistry(0)
        self.registry.rules["flow", 1] = flow_rules
        self.now = T0
        # How far the wall clock is ahead of `now`.
        self.ahead = 0
        self.commands: list[Command] = []
        self.timers: list[RunTimer] = []
        self.rows: dict[str, RunRow] = {}
        # The run, empty for the schedule, and the type of each event.
        self.events: list[tuple[str, str]] = []
        # The same with their data.
        self.data: list[tuple[str, str, dict[str, Any]]] = []
        # Why the jobs that actions start are refused, if they are.
        self.refused: str | None = None
        self._jobs = 0

    def decide(
        self, message: RunMessage | RunSignal, context: ScheduleContext = NO_CONTEXT
    ) -> list[Command]:
        """Decide on a message, and confirm or refuse triggered jobs at once."""
        changes = Changes()
        made = decide(
            self.registry, message, self.now, changes, context, wall=self.now + self.ahead
        )
        self._record(changes)
        self.commands += made
        for command in made:
            if isinstance(command, TriggerJob):
                self.decide(
                    JobTriggered(command.run_id, command.purpose, command.job_id, self.refused)
                )
        return made

    def _record(self, changes: Changes) -> None:
        if changes.runs is not None:
            self.timers += changes.runs.timers
            for (_, run_id), events in changes.runs.events.items():
                for event in events:
                    self._record_event(run_id, event)
            for run_id in changes.runs.inserted:
                assert run_id not in self.rows
            self.rows.update(changes.runs.runs)
            for run_id in changes.runs.withdrawn:
                del self.rows[run_id]

    def _record_event(self, run_id: str, event: Event) -> None:
        declared = EventType(event.type)
        data: dict[str, Any] = {} if event.data is None else msgspec.json.decode(event.data)
        assert declared.subject is (Subject.RUN if run_id else Subject.SCHEDULE)
        assert set(data) <= set(declared.data), f"{event.type}: {sorted(data)}"
        self.events.append((run_id, event.type))
        self.data.append((run_id, event.type, data))

    def submit(self, scheduled_at: int | None = None, origin: str = "submit") -> str:
        """Submit a job; return the id of its run."""
        self._jobs += 1
        job_id = f"job{self._jobs:03}"
        self.decide(JobArrived(job_id, "flow", 1, self.now, scheduled_at, origin=origin))
        return f"flow:{job_id}"

    def start(self, run_id: str) -> None:
        """Start the first task of a run's job."""
        job_id = self.rows[run_id].job_id
        assert job_id is not None
        self.decide(JobStarted(job_id, self.now))

    def end(self, run_id: str, status: str = "completed") -> None:
        """End a run's job."""
        job_id = self.rows[run_id].job_id
        assert job_id is not None
        self.decide(JobFinished(job_id, status, "it broke" if status == "failed" else None))

    def answer(self, status: str = "completed", refusal: str | None = None) -> None:
        """End the last call."""
        call = [command for command in self.commands if isinstance(command, MakeCall)][-1]
        self.decide(
            JobFinished(
                call.job_id, status, "no answer" if status == "failed" else None, refusal=refusal
            )
        )

    def answer_hook(
        self, run_id: str, status: str = "completed", refusal: str | None = None
    ) -> None:
        """End the last call that was made for a run."""
        call = self.calls(run_id)[-1]
        error = "no answer" if status == "failed" else None
        self.decide(JobFinished(call.job_id, status, error, refusal=refusal))

    def calls(self, run_id: str, type: str | None = None) -> list[MakeCall]:
        """Return the calls that were made for a run, of one type or all."""
        return [
            command
            for command in self.commands
            if isinstance(command, MakeCall)
            and command.run_id == run_id
            and type in (None, command.type)
        ]

    def events_of(self, run_id: str, type: str) -> list[dict[str, Any]]:
        """Return the data of the events of one type of a run, or of the schedule with an empty id."""
        return [data for key, kind, data in self.data if (key, kind) == (run_id, type)]

    def pass_time(self, seconds: float) -> None:
        """Advance the time and fire due timers."""
        until = self.now + round(seconds * MICROSECONDS)
        while due := [timer for timer in self.timers if timer.due_at <= until]:
            first = min(due, key=lambda timer: timer.due_at)
            self.timers.remove(first)
            self.now = max(self.now, first.due_at)
            self.decide(first.message())
        self.now = until

    def cancel(self, run_id: str) -> None:
        """Cancel a run."""
        self.decide(RunRequested("flow", f"request-{run_id}", "cancel", run_id, "not needed"))

    def deploy(self, version: int = 1, *, paused: bool = False, gone: bool = False, slot_at: int = T0,
               changed_at: int | None = None) -> None:  # fmt: skip
        """Write the schedule's row."""
        row = ScheduleRow("flow", version, paused, slot_at, T0, changed_at or self.now, gone)
        self.decide(
            ScheduleChanged("flow"),
            ScheduleContext(row, self.registry.rules.get(("flow", version), NO_RULES)),
        )

    def backfill(self, since: int, until: int, request_id: str = "r1") -> None:
        """Ask for the slots after an instant and up to another."""
        workflow = self.registry.workflow("flow")
        context = ScheduleContext(
            workflow.schedule, self.registry.rules["flow", 1], newest_runs(self.rows.values())
        )
        message = RunRequested("flow", request_id, "backfill", since=since, until=until)
        self.decide(message, context)

    def reload(self) -> None:
        """Rebuild the memory from the rows, as after a crash."""
        known, schedule = self.registry.rules, self.registry.workflow("flow").schedule
        self.registry = RunRegistry(0)
        self.registry.rules = known
        self.registry.workflow("flow").schedule = schedule
        self.registry.restore(row for row in self.rows.values() if row.completed_at is None)
        self.timers = self.registry.timers()

    def run(self, run_id: str) -> Run:
        """Return a run that has not ended."""
        found = self.registry.find(run_id)
        assert found is not None
        return found

    def path(self, run_id: str) -> list[str]:
        """Return the states that a run entered, after the first."""
        return [one.state.value for one in self.rows[run_id].detail.transitions]

    def state(self, run_id: str) -> str:
        """Return the state of a run."""
        return self.rows[run_id].state.value

    def states(self) -> list[str]:
        """Return the states of all runs by their slots."""
        rows = sorted(self.rows.values(), key=lambda row: (row.scheduled_at, row.run_id))
        return [row.state.value for row in rows]

    def count(
        self, *kinds: type[MakeJob | AdmitJob | RetryJob | CancelJob | MakeCall | TriggerJob]
    ) -> int:
        """Count the commands of these kinds."""
        return sum(isinstance(command, kinds) for command in self.commands)

    def cancelled(self) -> list[str]:
        """Return the jobs that were cancelled."""
        return [command.job_id for command in self.commands if isinstance(command, CancelJob)]

    def memory(self) -> Iterable[RunRow]:
        """Return the rows of the runs in memory."""
        return [run.row() for run in self.registry.runs()]
