"""Checks of runs: by their rows and events at the end, and in the memory of the engines on the way."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from windlass.core.events import Event, EventType
from windlass.core.instants import MICROSECONDS
from windlass.core.plan import Plan
from windlass.core.runs.constraints import BrokenConstraint, refusal_in
from windlass.core.runs.cron import fire_time
from windlass.core.runs.registry import OF_SLOTS, RETRY, Run, RunRegistry, WorkflowRuns
from windlass.core.runs.rows import RunRow
from windlass.core.runs.rules import ActionKind, RunRules
from windlass.core.runs.states import RUN_FINAL, RUN_MOVES, RunState
from windlass.stores.memory.store import MemoryStore

# A slot that is late by at most this was not missed.
LATE_SECONDS = 60.0
FAILURES = (RunState.FAILED, RunState.ORPHANED)
ACTION_ENDS = (EventType.ACTION_COMPLETED, EventType.ACTION_FAILED)


class ToldCall(Struct, frozen=True):
    """What a call said about its run."""

    type: str
    outcome: str | None
    reason: str | None


class Observations(Struct):
    """What the handlers of a simulation saw."""

    # Executions by job.
    executions: Counter[str] = msgspec.field(default_factory=Counter)
    # The answers of the hooks before runs, by run.
    answers: dict[str, list[bool]] = {}
    # What calls told, by run.
    told: dict[str, list[ToldCall]] = {}


class RunChecks:
    """Checks of all runs of a simulation."""

    def __init__(
        self,
        store: MemoryStore,
        plans: Mapping[tuple[str, int], Plan],
        observed: Observations,
    ) -> None:
        self._store = store
        self._plans = plans
        self._observed = observed

    def violations(self) -> list[str]:
        """Return everything that is wrong with the rows and events of the runs."""
        rows = list(self._store.runs.all_runs())
        found: list[str] = []
        for row in rows:
            found += self._of_row(row)
        found += _repeated_slots(rows)
        for workflow_id in sorted({row.workflow_id for row in rows}):
            of_workflow = [row for row in rows if row.workflow_id == workflow_id]
            found += self._of_order(of_workflow)
            found += self._of_missed_slots(workflow_id, of_workflow)
        return found

    def _rules(self, row: RunRow) -> RunRules:
        rules = self._plans[row.workflow_id, row.version].runs
        assert rules is not None
        return rules

    def _log(self, row: RunRow) -> Sequence[Event]:
        return self._store.runs.log(row.workflow_id, row.run_id)

    def _of_row(self, row: RunRow) -> Iterable[str]:
        """Check the transitions, the events and the job of a run."""
        log = self._log(row)
        if [event.seq for event in log] != list(range(1, len(log) + 1)):
            yield f"{row.run_id}: the sequence numbers of its events have gaps"
        state = RunState.PRE_RUN
        for one in row.detail.transitions:
            if one.state not in RUN_MOVES[state]:
                yield f"{row.run_id}: {state} became {one.state}"
            state = one.state
        if state is not row.state:
            yield f"{row.run_id}: the row says {row.state}, its transitions {state}"
        if row.job_id is not None and row.state is RunState.COMPLETED and not row.detail.is_skipped:
            job = self._store.rows(row.job_id).job
            if job.state.status != "completed":
                yield f"{row.run_id} completed, but its job is {job.state.status}"
        is_given_up = row.detail.is_skipped and row.detail.is_catch_up
        if is_given_up and refusal_in(_broken(row)) is None:
            yield f"{row.run_id}: a made-up slot was given up for lack of room"
        yield from self._of_veto(row)
        yield from self._of_actions(row)
        yield from self._of_last_calls(row)
        yield from self._of_outcome(row)

    def _of_veto(self, row: RunRow) -> Iterable[str]:
        """Check that no job of a run executed unless its hook allowed it."""
        if self._rules(row).constraints.pre_run_hook is None:
            return
        if any(self._observed.answers.get(row.run_id, ())):
            return
        runs = [one for one in self._store.runs.all_runs() if one.job_id == row.job_id]
        if len(runs) > 1:
            # The job was retried: another run may have executed it.
            return
        jobs = [*row.detail.earlier_jobs, row.job_id]
        if any(self._observed.executions[job_id or ""] for job_id in jobs):
            yield f"{row.run_id}: its hook did not allow it, and its job executed"

    def _of_actions(self, row: RunRow) -> Iterable[str]:
        """Check that every action that started has ended, unless the run was ended from outside."""
        if row.state not in RUN_FINAL or row.state in (RunState.CANCELLED, RunState.ORPHANED):
            return
        types = Counter(EventType(event.type) for event in self._log(row))
        started = types[EventType.ACTION_STARTED]
        ended = sum(types[one] for one in ACTION_ENDS)
        if started != ended:
            yield f"{row.run_id}: {started} actions started, and {ended} ended"

    def _of_last_calls(self, row: RunRow) -> Iterable[str]:
        """Check that a run that failed or was orphaned made its last calls once, and no other made those."""
        rules = self._rules(row)
        purposes = [
            _data(event)["for"]
            for event in self._log(row)
            if EventType(event.type) is EventType.CALL_STARTED
        ]
        made = {
            "on_failure": sum(one.on == "on_failure" for one in row.detail.actions),
            "post_run_hook": purposes.count("post_run_hook"),
        }
        declared = {
            "on_failure": rules.on_failure,
            "post_run_hook": rules.constraints.post_run_hook,
        }
        for name, call in declared.items():
            is_due = row.state in FAILURES and call is not None
            if is_due and made[name] != 1:
                yield f"{row.run_id} is {row.state}, and made {made[name]} calls for {name}"
            if row.detail.is_skipped and made[name]:
                yield f"{row.run_id} was skipped, and made calls for {name}"
        if row.state is RunState.COMPLETED and made["on_failure"]:
            yield f"{row.run_id} completed, and made calls for on_failure"

    def _of_outcome(self, row: RunRow) -> Iterable[str]:
        """Check that the last calls told the outcome of the run and why, the first reason first."""
        if row.state not in (RunState.COMPLETED, *FAILURES):
            return
        for call in self._observed.told.get(row.run_id, ()):
            if call.type not in ("run.ended", "run.failed"):
                continue
            if call.outcome != row.state:
                yield f"{row.run_id} is {row.state}, and {call.type} said {call.outcome}"
            reason = row.detail.reason or ""
            if row.state in FAILURES and not (call.reason and reason.startswith(call.reason)):
                yield f"{row.run_id}: {call.type} said {call.reason!r}, its row says {reason!r}"

    def _of_order(self, rows: Iterable[RunRow]) -> Iterable[str]:
        """Check that made-up slots of a workflow with room for one run start in their order."""
        one_by_one = [
            row
            for row in rows
            if row.detail.is_catch_up and self._rules(row).constraints.max_concurrent_runs == 1
        ]
        in_order = sorted(one_by_one, key=lambda row: (row.scheduled_at, row.created_at))
        for position, later in enumerate(in_order):
            started_at = _entered(later, RunState.CONTAINER_CREATING)
            if started_at is None:
                continue
            for earlier in in_order[:position]:
                if _was_overtaken(earlier, started_at):
                    yield f"{later.run_id} started before {earlier.run_id}"

    def _of_missed_slots(self, workflow_id: str, rows: Iterable[RunRow]) -> Iterable[str]:
        """Check that missed slots were late by more than a minute, and that the planned one is among them."""
        recorded: list[tuple[int, int]] = []
        for event in self._store.runs.log(workflow_id):
            if EventType(event.type) is not EventType.SLOTS_MISSED:
                continue
            data = _data(event)
            recorded.append((data["first"], data["last"]))
            yield from self._of_late_slots(workflow_id, event.at, data)
        for row in rows:
            is_missed = row.state is RunState.CANCELLED and "was missed" in str(row.detail.reason)
            if is_missed and not any(first <= row.scheduled_at <= last for first, last in recorded):
                yield f"{row.run_id}: its slot is not among the missed ones"

    def _of_late_slots(self, workflow_id: str, at: int, data: dict[str, Any]) -> Iterable[str]:
        rules = self._plans[workflow_id, 1].runs
        assert rules is not None
        assert rules.schedule is not None
        if data["first"] not in data["slots"]:
            yield f"{workflow_id}: the first missed slot is not listed: {data['first']}"
        for slot in data["slots"]:
            due = fire_time(rules.schedule, slot / MICROSECONDS, workflow_id)
            if at / MICROSECONDS - due <= LATE_SECONDS:
                yield f"{workflow_id}: the slot {slot} was not late, and was missed"


def _was_overtaken(earlier: RunRow, started_at: int) -> bool:
    """Return whether a run was ready when one of a later slot started, and started after it or not at all.

    A run that was vetoed, or whose predecessor failed, lost its place.
    """
    ready_at = _entered(earlier, RunState.PENDING)
    if ready_at is None or ready_at >= started_at or earlier.detail.violations:
        return False
    if earlier.completed_at is not None and earlier.completed_at <= started_at:
        return False
    own_start = _entered(earlier, RunState.CONTAINER_CREATING)
    return own_start is None or own_start > started_at


def _entered(row: RunRow, state: RunState) -> int | None:
    """Return when a run first entered a state."""
    return next((one.at for one in row.detail.transitions if one.state is state), None)


def _data(event: Event) -> dict[str, Any]:
    return msgspec.json.decode(event.data or b"{}", type=dict[str, Any])


def _broken(row: RunRow) -> list[BrokenConstraint]:
    return [BrokenConstraint(one.constraint, one.message) for one in row.detail.violations]


def _repeated_slots(rows: Iterable[RunRow]) -> Iterable[str]:
    """Check that no slot was run twice: another run of a slot follows only one that was cancelled or never launched."""
    ran: Counter[tuple[str, int]] = Counter()
    for row in rows:
        was_launched = _entered(row, RunState.CONTAINER_CREATING) is not None
        is_without_result = not was_launched or row.state is RunState.CANCELLED
        if row.detail.origin in OF_SLOTS and not is_without_result:
            ran[row.workflow_id, row.scheduled_at] += 1
    for (workflow_id, slot_at), count in ran.items():
        if count > 1:
            yield f"{workflow_id}: the slot {slot_at} was run {count} times"


# In memory


def room_violations(registry: RunRegistry) -> Iterable[str]:
    """Check that runs hold no more room than there is, and that none waits while there is some."""
    for workflow in registry.workflows.values():
        # The simulations deploy one version of each workflow.
        some = next(iter(workflow.runs.values()), None)
        if some is None:
            continue
        rules = registry.rules_of(some)
        limit, action = rules.constraints.max_concurrent_runs, rules.on_constraint_violation
        stops_others = action is not None and action.kind is ActionKind.KILL_OLD
        if limit is not None and not stops_others:
            yield from _of_room(workflow, limit, registry)


def _of_room(workflow: WorkflowRuns, limit: int, registry: RunRegistry) -> Iterable[str]:
    holding = [run for run in workflow.runs.values() if run.is_busy or _is_asked(run)]
    if len(holding) > limit:
        yield f"{workflow.workflow_id}: {len(holding)} runs hold room, at most {limit} may"
    if len(holding) >= limit:
        return
    queue = sorted(
        (run for run in workflow.runs.values() if run.is_waiting and not _is_asked(run)),
        key=lambda run: (run.scheduled_at, run.created_at, run.id),
    )
    for position, run in enumerate(queue):
        ahead = queue[:position]
        if run.detail.origin == RETRY:
            # It may be what they wait for.
            ahead = [one for one in ahead if not _lacks_more(one, workflow, registry)]
        if not ahead and not _lacks_more(run, workflow, registry):
            yield f"{run.id} waits for room, and there is some"


def _lacks_more(run: Run, workflow: WorkflowRuns, registry: RunRegistry) -> bool:
    """Return whether a waiting run lacks more than room: the answer of its hook, or a success."""
    requires_success = registry.rules_of(run).constraints.require_previous_success
    lacks_success = requires_success and run.detail.origin != RETRY
    return run.detail.is_vetoed or (lacks_success and workflow.last_succeeded is False)


def _is_asked(run: Run) -> bool:
    return "pre_run_hook" in run.detail.calls.values()
