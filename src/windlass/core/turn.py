"""One turn: how the rules change a job, its nodes and iterations, and record each change.

Nothing else writes the state of a job. Every move is checked against the tables in `states`.
"""

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw, structs

from windlass.core.changes import Changes, InFlightEntry, Timer
from windlass.core.events import Event, EventType
from windlass.core.instants import MICROSECONDS
from windlass.core.job import Job
from windlass.core.loop_state import IS_IN_FLIGHT, Attempt, Loop
from windlass.core.messages import WALL_TIMERS, TaskError, TimerKind
from windlass.core.plan import NodePlan
from windlass.core.rows import iteration_row, node_row
from windlass.core.states import (
    JobMove,
    JobStatus,
    NodeMove,
    NodeStatus,
    illegal_move,
    job_after,
    node_after,
)
from windlass.core.tasks import build_task
from windlass.core.webhooks import HANDLER as WEBHOOK

# Each page of a job's events lists all its nodes that are in flight without a row, up to this number (ADR 19).
IN_FLIGHT_ENTRIES_MAX = 1_000
# A longer list than this is repeated only by pages with at least as many events: the cost of a list is then a part of
# the cost of its page, however many nodes are in flight.
SHORT_LIST_ENTRIES = 32
# Late results that are stored with their job. Further ones are recorded again if they are repeated after a reload.
IGNORED_STORED_MAX = 1_000

_encoder = msgspec.json.Encoder()

# Members used for every node are bound once: Python 3.11 resolves a member of an enum in 100 ns, a global in 10.
_RUNNING, _COMPLETED = int(NodeStatus.RUNNING), int(NodeStatus.COMPLETED)
_PENDING_JOB = JobStatus.PENDING
_DISPATCH, _START, _COMPLETE = NodeMove.DISPATCH, NodeMove.START, NodeMove.COMPLETE
_NODE_DISPATCHED, _ITERATION_DISPATCHED = (
    EventType.NODE_DISPATCHED.value,
    EventType.ITERATION_DISPATCHED.value,
)
_NODE_STARTED, _ITERATION_STARTED = EventType.NODE_STARTED.value, EventType.ITERATION_STARTED.value
_NODE_COMPLETED, _ITERATION_COMPLETED = (
    EventType.NODE_COMPLETED.value,
    EventType.ITERATION_COMPLETED.value,
)

# The types of the events about an attempt: of a node, and of an iteration.
DISPATCHED = (_NODE_DISPATCHED, _ITERATION_DISPATCHED)
STARTED = (_NODE_STARTED, _ITERATION_STARTED)
COMPLETED = (_NODE_COMPLETED, _ITERATION_COMPLETED)
FAILED = (EventType.NODE_FAILED, EventType.ITERATION_FAILED)
SKIPPED = (EventType.NODE_SKIPPED, EventType.ITERATION_SKIPPED)
CANCELLED = (EventType.NODE_CANCELLED, EventType.ITERATION_CANCELLED)
RETRYING = (EventType.NODE_RETRYING, EventType.ITERATION_RETRYING)
SEQUENCE_COMPLETED = (EventType.CALLS_COMPLETED, EventType.CALLS_COMPLETED)
LOST = (EventType.WORKER_LOST, EventType.WORKER_LOST)
REDELIVERED = (EventType.TASK_REDELIVERED, EventType.TASK_REDELIVERED)


def json_raw(value: Any) -> Raw:
    """Encode a value as JSON."""
    return Raw(_encoder.encode(value))


# The data of most events is one of few values, which are encoded once.


@lru_cache(maxsize=1_024)
def attempt_data(attempt: int) -> Raw:
    """Return the data of an event that names only its attempt."""
    return json_raw({"attempt_number": attempt})


@lru_cache(maxsize=1_024)
def dispatch_data(attempt: int, queue: str) -> Raw:
    """Return the data of a dispatch."""
    return json_raw({"attempt_number": attempt, "queue": queue})


@lru_cache(maxsize=1_024)
def worker_data(attempt: int, worker_id: str) -> Raw:
    """Return the data of an event that names an attempt and its worker."""
    return json_raw({"attempt_number": attempt, "worker_id": worker_id})


def failure_data(attempt: int, error: TaskError, worker_id: str | None) -> Raw:
    """Return the data of a failure; it names the worker of the attempt, if there was one."""
    data: dict[str, Any] = {"attempt_number": attempt, "error": error}
    if worker_id is not None:
        data["worker_id"] = worker_id
    return json_raw(data)


def end_data(attempt: Attempt) -> Raw:
    """Return the data of the end of an attempt: its worker is not known if the node is a loop."""
    if attempt.worker_id is None:
        return attempt_data(attempt.number)
    return worker_data(attempt.number, attempt.worker_id)


class Turn:
    """The changes that one message makes to one job, written into the changes of the batch.

    One class, because all of them must keep the job, its rows, its events and its counters in step.
    """

    __slots__ = ("changes", "context", "job", "now", "page", "wall")

    def __init__(self, job: Job, changes: Changes, now: int, wall: int | None = None) -> None:
        self.job = job
        self.changes = changes
        self.now = now
        # The wall clock, for instants that a caller named; `now` never steps.
        self.wall = now if wall is None else wall
        # Belongs to the next event.
        self.context: Raw | None = None
        page = changes.events.get(job.id)
        if page is None:
            page = changes.events[job.id] = []
        self.page: list[Event] = page

    def close(self) -> None:
        """Name the nodes in flight without a row beside the events of the job, if there are any."""
        job, changes = self.job, self.changes
        if not self.page:
            del changes.events[job.id]
            return
        in_flight = job.in_flight
        if len(in_flight) > SHORT_LIST_ENTRIES and len(in_flight) > len(self.page):
            self._save_in_flight()
        if in_flight:
            changes.in_flight[job.id] = tuple(in_flight.values())
        else:
            changes.in_flight.pop(job.id, None)

    def _save_in_flight(self) -> None:
        """Give every node in flight a row, so that the following pages need not list it."""
        job = self.job
        for entry in job.in_flight.values():
            self.changes.nodes[job.id, entry.node_id] = entry.row(job.id)
        job.in_flight.clear()

    # Events

    def emit(self, kind: str, node_id: str | None = None, data: Raw | None = None, at: int | None = None,
             meta: Raw | None = None, parent_seq: int | None = None, index: int | None = None) -> int:  # fmt: skip
        """Record an event and return its sequence number, the job's next one."""
        job = self.job
        seq = job.seq = job.seq + 1
        self.page.append(
            Event(seq, kind, node_id, index, at or self.now, data, meta, self.context, parent_seq)
        )
        self.context = None
        return seq

    def emit_attempt(
        self,
        attempt: Attempt,
        kinds: tuple[str, str],
        data: Raw | None,
        at: int | None = None,
        meta: Raw | None = None,
    ) -> int:
        """Record an event about an attempt of a node or of an iteration; a later one links to the first start."""
        node_id = self.job.plan.nodes[attempt.node].id
        if not attempt.is_iteration:
            return self.emit(kinds[0], node_id, data, at, meta, attempt.parent_seq)
        return self.emit(kinds[1], node_id, data, at, meta, attempt.parent_seq, attempt.index)

    # States

    def move(self, node: int, move: NodeMove) -> None:
        """Change the state of a node. IllegalMove."""
        states = self.job.states
        target = move.after[states[node]]
        if target < 0:
            raise illegal_move(states[node], move)
        states[node] = target

    def transition(self, attempt: Attempt, move: NodeMove) -> None:
        """Change the state of the node or the iteration that an attempt belongs to. IllegalMove."""
        if not attempt.is_iteration:
            self.move(attempt.node, move)
            return
        loop = self.job.loops[attempt.node]
        states, index = loop.states, attempt.index
        before = states[index]
        after = states[index] = node_after(before, move)
        if IS_IN_FLIGHT[after] != IS_IN_FLIGHT[before]:
            loop.in_flight_count += IS_IN_FLIGHT[after] - IS_IN_FLIGHT[before]
            if IS_IN_FLIGHT[before]:
                self.job.filling[attempt.node] = None

    def move_job(self, move: JobMove) -> None:
        """Change the state of the job and store it. IllegalMove."""
        state = self.job.state
        state.status = job_after(state.status, move)
        self.save_job()

    def start_job(self) -> None:
        """Record the first dispatch of the job, or its end if nothing had to be dispatched."""
        self.job.state.started_at = self.now
        self.move_job(JobMove.START)
        self.emit(EventType.JOB_STARTED)

    # The life of an attempt

    def dispatch(self, attempt: Attempt, plan: NodePlan) -> None:
        """Hand an attempt of a ready node or iteration to a worker. TemplateFailed, without any change."""
        job = self.job
        if plan.handler == WEBHOOK:
            self._fix_webhook_time(attempt)
        task = build_task(job, attempt)
        data = dispatch_data(attempt.number, plan.queue)
        if attempt.is_iteration:
            self._dispatch_iteration(attempt, plan, data)
        else:
            node = attempt.node
            self.move(node, _DISPATCH)
            attempt.dispatched_at = self.now
            self.emit(_NODE_DISPATCHED, plan.id, data, None, None, attempt.parent_seq)
            # The first dispatch of a node needs no row if the page of events has room for it (ADR 19). In a retried job
            # the node may have a row of an earlier round, which is then outdated.
            if (
                attempt.number == 1
                and not job.state.round
                and len(job.in_flight) < IN_FLIGHT_ENTRIES_MAX
            ):
                job.in_flight[node] = InFlightEntry(node, plan.id, self.now)
            else:
                self.save_node(node, attempt)
        self.changes.tasks.append(task)
        if job.state.status is _PENDING_JOB:
            self.start_job()

    def _fix_webhook_time(self, attempt: Attempt) -> None:
        """Record when a webhook is first dispatched, which its body names."""
        at = self.now
        if attempt.is_iteration:
            loop = self.job.loops[attempt.node]
            if attempt.number == loop.attempts_start + 1:
                # As for its dispatch, which needs no row.
                at = loop.node_attempt.dispatched_at or at
        self.job.webhook_times.setdefault((attempt.node, attempt.index), at)

    def _dispatch_iteration(self, attempt: Attempt, plan: NodePlan, data: Raw) -> None:
        loop = self.job.loops[attempt.node]
        self.transition(attempt, _DISPATCH)
        self.emit(
            _ITERATION_DISPATCHED, plan.id, data, None, None, attempt.parent_seq, attempt.index
        )
        if attempt.number == loop.attempts_start + 1 and plan.start_timeout_seconds is None:
            # The first dispatch of an iteration needs no row: the row of the loop implies it. With a start timeout it
            # needs its own instant.
            attempt.dispatched_at = loop.node_attempt.dispatched_at
        else:
            attempt.dispatched_at = self.now
            self.save(attempt)

    def start(self, attempt: Attempt, started_at: int, worker_id: str) -> None:
        """Record that a worker started an attempt. The instant is put between the dispatch and now: clocks differ."""
        if attempt.dispatched_at is not None and started_at < attempt.dispatched_at:
            started_at = attempt.dispatched_at
        if started_at > self.now:
            started_at = self.now
        attempt.started_at = started_at
        if attempt.first_started_at is None:
            attempt.first_started_at = started_at
        attempt.worker_id = worker_id
        data = worker_data(attempt.number, worker_id)
        if attempt.is_iteration:
            self._start_loop(attempt.node, started_at)
        self.transition(attempt, _START)
        self._emit_start(attempt, data, started_at)

    def _emit_start(self, attempt: Attempt, data: Raw, started_at: int) -> None:
        """Record the start of an attempt. All later attempts of the work link to the first one."""
        seq = self.emit_attempt(attempt, STARTED, data, started_at)
        if attempt.first_seq is None:
            attempt.first_seq = seq
            if not attempt.is_iteration:
                self.job.first_seqs[attempt.node] = seq

    def _start_loop(self, node: int, started_at: int) -> None:
        """Record the start of a looping node, which is the first start of one of its iterations."""
        job = self.job
        if job.states[node] == _RUNNING:
            return
        attempt = job.loops[node].node_attempt
        attempt.started_at = attempt.first_started_at = started_at
        self.move(node, _START)
        self._emit_start(attempt, attempt_data(attempt.number), started_at)
        self.save_node(node, attempt)

    def complete_node(
        self, attempt: Attempt, output: Raw, meta: Raw | None, end_meta: Raw | None
    ) -> None:
        """Record the output of a node and count it for the nodes after it."""
        job, node = self.job, attempt.node
        self.move(node, _COMPLETE)
        self.finish(node)
        job.put_output(node, output)
        if meta is not None:
            job.metas[node] = meta
        node_id = job.plan.nodes[node].id
        self.emit(
            _NODE_COMPLETED,
            node_id,
            end_data(attempt),
            None,
            end_meta,
            attempt.parent_seq,
        )
        self.save_node(node, attempt, self.now)
        self.meet_dependents(node, skipped=False)

    def withdraw(self, attempt: Attempt) -> None:
        """Cancel the task of an attempt. A result that arrives afterwards is ignored."""
        self.changes.cancels.append(self.job.task_id(attempt))
        late = self.job.late.setdefault((attempt.node, attempt.index), [])
        late.append(attempt.number)

    def finish(self, node: int) -> Attempt | None:
        """Remove a node that ends from those in flight; return its attempt, if there was one."""
        job = self.job
        attempt = job.attempts.pop(node, None)
        if job.loops and node in job.loops:
            attempt = self._park(node)
        job.unfinished -= 1
        if attempt is not None:
            attempt.due_at = None
            # The state of a node that completed implies its first attempt.
            if attempt.number != 1 or job.last_attempts or job.states[node] != _COMPLETED:
                job.remember_attempt(node, attempt.number)
        return attempt

    def _park(self, node: int) -> Attempt:
        """End a loop. One with failures is kept for a retry, which runs only what is missing."""
        job = self.job
        loop = job.loops.pop(node)
        job.filling.pop(node, None)
        if job.states[node] != _COMPLETED or loop.failed or job.has_late_attempts(node):
            job.parked[node] = loop
        elif loop.attempts_made:
            job.attempts_start[node] = loop.attempts_made
        return loop.node_attempt

    def meet_dependents(self, node: int, *, skipped: bool) -> None:
        """Count down the unmet dependencies of the nodes after this one."""
        job = self.job
        remaining, live = job.remaining, job.live
        for child in job.plan.children[node]:
            remaining[child] -= 1
            if not skipped:
                live[child] = 1
            if not remaining[child]:
                job.ready.append(child)

    # Rows

    def save_job(self) -> None:
        """Store the state of the job."""
        self.changes.jobs[self.job.id] = structs.replace(self.job.state)

    def save_ignored(self, result: tuple[int, int, int]) -> None:
        """Store that an event records a result (node, index or -1, attempt) as ignored."""
        job = self.job
        job.ignored.add(result)
        if len(job.ignored) <= IGNORED_STORED_MAX:
            job.state.ignored = json_raw(sorted(job.ignored))
            self.save_job()

    def save_node(
        self,
        node: int,
        attempt: Attempt | None,
        completed_at: int | None = None,
        error: Raw | None = None,
    ) -> None:
        """Store the row of a node."""
        job = self.job
        plan = job.plan.nodes[node]
        self.changes.nodes[job.id, plan.id] = node_row(
            job, node, plan, attempt, completed_at, error
        )
        if job.in_flight:
            job.in_flight.pop(node, None)

    def save(self, attempt: Attempt, completed_at: int | None = None, error: Raw | None = None,
             output: Raw | None = None, meta: Raw | None = None) -> None:  # fmt: skip
        """Store the row of the node or the iteration of an attempt. The output of a node is in its job already."""
        if not attempt.is_iteration:
            self.save_node(attempt.node, attempt, completed_at, error)
            return
        job = self.job
        row = iteration_row(
            job, job.loops[attempt.node], attempt, completed_at, error, output, meta
        )
        self.changes.iterations[job.id, attempt.node, attempt.index] = row

    def save_parked(self, loop: Loop, attempt: Attempt) -> None:
        """Store the row of an iteration of a parked loop."""
        self.changes.iterations[self.job.id, attempt.node, attempt.index] = iteration_row(
            self.job, loop, attempt
        )

    # Timers

    def set_timer(
        self, due_at: int, kind: TimerKind, node_id: str | None = None, attempt: int = 0
    ) -> None:
        """Send the job a TimerDue at an instant."""
        job = self.job
        self.changes.timers.append(
            Timer(due_at, job.id, kind, node_id, attempt, round=job.state.round)
        )

    def postpone(
        self, due_at: int | None, kind: TimerKind, node_id: str | None = None, attempt: int = 0
    ) -> bool:
        """Set a timer again if its instant is still to come; return whether it is."""
        at = self.wall if kind in WALL_TIMERS else self.now
        if due_at is None or due_at <= at:
            return False
        self.set_timer(due_at, kind, node_id, attempt)
        return True

    def set_deadline(self) -> None:
        """Start the timeout of the whole job."""
        job = self.job
        if job.plan.timeout_seconds is not None:
            deadline_at = self.now + round(job.plan.timeout_seconds * MICROSECONDS)
            job.state.deadline_at = deadline_at
            self.save_job()
            self.set_timer(deadline_at, TimerKind.JOB_TIMEOUT)
