"""The vocabulary of one turn: how the rules move a job, its nodes and their iterations, and record it.

Nothing else writes a job's state. Every move is checked against the tables.
"""

from copy import copy
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from windlass.core.changes import Changes, InFlightEntry, Timer
from windlass.core.events import Event, EventType
from windlass.core.instants import MICROSECONDS
from windlass.core.job import Job
from windlass.core.loop_state import IS_OUT, Attempt, Loop
from windlass.core.rows import iteration_row, node_row
from windlass.core.states import JobMove, NodeMove, NodeStatus, job_after, node_after

_encoder = msgspec.json.Encoder()
# Nodes of a job that are out without a row at one time: each page of its events names them all.
DEPARTED_MAX = 32

_COMPLETED = int(NodeStatus.COMPLETED)

# What an event about an attempt is called: of a node, and of an iteration.
DISPATCHED = (EventType.NODE_DISPATCHED, EventType.ITERATION_DISPATCHED)
STARTED = (EventType.NODE_STARTED, EventType.ITERATION_STARTED)
COMPLETED = (EventType.NODE_COMPLETED, EventType.ITERATION_COMPLETED)
RETRYING = (EventType.NODE_RETRYING, EventType.ITERATION_RETRYING)
SEQUENCE_COMPLETED = (EventType.CALLS_COMPLETED, EventType.CALLS_COMPLETED)
LOST = (EventType.WORKER_LOST, EventType.WORKER_LOST)


def json_raw(value: Any) -> Raw:
    """A JSON value, encoded."""
    return Raw(_encoder.encode(value))


# Most events of most jobs say one of these few things; encoding each once is a third of a turn's time.


@lru_cache(maxsize=1_024)
def attempt_data(attempt: int) -> Raw:
    """The data of an event that says only which attempt it is about."""
    return json_raw({"attempt_number": attempt})


@lru_cache(maxsize=1_024)
def dispatch_data(attempt: int, queue: str) -> Raw:
    """The data of a dispatch."""
    return json_raw({"attempt_number": attempt, "queue": queue})


@lru_cache(maxsize=4_096)
def execution_meta(microseconds: int) -> Raw:
    """What an attempt's end says of how long it took."""
    return Raw(b'{"execution":{"duration_seconds":%.6f}}' % (microseconds / MICROSECONDS))


@lru_cache(maxsize=1_024)
def start_data(attempt: int, worker_id: str) -> Raw:
    """The data of an attempt's start."""
    return json_raw({"attempt_number": attempt, "worker_id": worker_id})


class Turn:
    """One message's worth of moves on one job, written into the batch's changes."""

    __slots__ = ("changes", "context", "job", "now", "page")

    def __init__(self, job: Job, changes: Changes, now: int) -> None:
        self.job = job
        self.changes = changes
        self.now = now
        # Goes with the next event.
        self.context: Raw | None = None
        page = changes.events.get(job.id)
        if page is None:
            page = changes.events[job.id] = []
        self.page: list[Event] = page

    def emit(self, kind: str, node_id: str | None = None, data: Raw | None = None, at: int | None = None,
             meta: Raw | None = None, parent_seq: int | None = None, index: int | None = None) -> int:  # fmt: skip
        """Record an event under the job's next sequence number, which it returns."""
        seq = self.job.seq = self.job.seq + 1
        when = self.now if at is None else at
        self.page.append(Event(seq, kind, node_id, index, when, data, meta, self.context, parent_seq))
        self.context = None
        return seq

    def emit_attempt(self, attempt: Attempt, kinds: tuple[str, str], data: Raw | None, at: int | None = None,
             meta: Raw | None = None, parent_seq: int | None = None) -> int:  # fmt: skip
        """Record an event about an attempt, by the name that fits what it is an attempt of."""
        node_id = self.job.plan.nodes[attempt.node].id
        if not attempt.is_iteration:
            return self.emit(kinds[0], node_id, data, at, meta, parent_seq)
        return self.emit(kinds[1], node_id, data, at, meta, parent_seq, attempt.index)

    def move(self, node: int, move: NodeMove) -> None:
        """Change a node's state, as far as the table allows."""
        states = self.job.states
        target = move.after[states[node]]
        states[node] = target if target >= 0 else node_after(states[node], move)

    def transition(self, attempt: Attempt, move: NodeMove) -> None:
        """Change the state of what is in flight, a node or an iteration, as far as the table allows."""
        if not attempt.is_iteration:
            self.move(attempt.node, move)
            return
        loop = self.job.loops[attempt.node]
        states, index = loop.states, attempt.index
        before = states[index]
        after = states[index] = move.after[before] if move.after[before] >= 0 else node_after(before, move)
        if IS_OUT[after] != IS_OUT[before]:
            loop.busy += IS_OUT[after] - IS_OUT[before]
            if IS_OUT[before]:
                self.job.filling[attempt.node] = None

    def move_job(self, move: JobMove) -> None:
        """Change the job's state, as far as the table allows, and have its row written."""
        state = self.job.state
        state.status = job_after(state.status, move)
        self.save_job()

    def save_job(self) -> None:
        """Have the state of the job stored as it is now."""
        self.changes.jobs[self.job.id] = copy(self.job.state)

    def save_node(
        self, node: int, attempt: Attempt | None, completed_at: int | None = None, error: Raw | None = None
    ) -> None:
        """Have the node's row written as it is now."""
        job = self.job
        plan = job.plan.nodes[node]
        self.changes.nodes[job.id, plan.id] = node_row(job, node, plan, attempt, completed_at, error)
        if job.in_flight:
            job.in_flight.pop(node, None)

    def mark_dispatched(self, node: int, attempt: Attempt) -> None:
        """Have it recorded that a node is out with a worker: without a row where it is for the first time."""
        job = self.job
        first_seq, at = attempt.first_seq, attempt.dispatched_at
        # In later rounds it may have a row, which tells of an earlier one.
        if (
            first_seq is None
            or at is None
            or attempt.number > 1
            or job.state.round
            or len(job.in_flight) >= DEPARTED_MAX
        ):
            self.save_node(node, attempt)
        else:
            job.in_flight[node] = InFlightEntry(node, job.plan.nodes[node].id, first_seq, at)

    def save(self, attempt: Attempt, completed_at: int | None = None, error: Raw | None = None,
             output: Raw | None = None, meta: Raw | None = None) -> None:  # fmt: skip
        """Have the row of what is in flight written as it is now; a node's output is already with its job."""
        if not attempt.is_iteration:
            self.save_node(attempt.node, attempt, completed_at, error)
            return
        job = self.job
        row = iteration_row(job, job.loops[attempt.node], attempt, completed_at, error, output, meta)
        self.changes.iterations[job.id, attempt.node, attempt.index] = row

    def save_parked(self, loop: Loop, attempt: Attempt) -> None:
        """Have the row of an iteration written whose loop is not under way."""
        self.changes.iterations[self.job.id, attempt.node, attempt.index] = iteration_row(self.job, loop, attempt)

    def finish(self, node: int) -> Attempt | None:
        """Take a node that ends out of the air; what was known of its attempt, if there was one."""
        job = self.job
        attempt = job.attempts.pop(node, None)
        if job.loops and node in job.loops:
            attempt = self._park(node)
        job.unfinished -= 1
        if attempt is not None:
            attempt.due_at = None
            # The first attempt of a node that completes is what its state tells anyway.
            if attempt.number != 1 or job.last_attempts or job.states[node] != _COMPLETED:
                job.remember_attempt(node, attempt.number)
        return attempt

    def _park(self, node: int) -> Attempt:
        """End a loop; one that did not complete is kept, for a retry that runs only what is missing."""
        job = self.job
        loop = job.loops.pop(node)
        job.filling.pop(node, None)
        if job.states[node] != NodeStatus.COMPLETED:
            job.parked[node] = loop
        elif loop.attempts_made:
            job.attempts_start[node] = loop.attempts_made
        return loop.node_attempt

    def set_timer(self, due_at: int, kind: str, node_id: str | None = None, attempt: int = 0, index: int = 0) -> None:
        """Have the job woken later."""
        job = self.job
        self.changes.timers.append(Timer(due_at, job.id, kind, node_id, attempt, index, job.state.round))

    def start_job(self) -> None:
        """The job's first dispatch, or its end when nothing had to be dispatched."""
        self.job.state.started_at = self.now
        self.move_job(JobMove.START)
        self.emit(EventType.JOB_STARTED)

    def set_deadline(self) -> None:
        """Start the clock that bounds the whole job."""
        job = self.job
        if job.plan.timeout_seconds is not None:
            deadline_at = self.now + round(job.plan.timeout_seconds * MICROSECONDS)
            job.state.deadline_at = deadline_at
            self.save_job()
            self.set_timer(deadline_at, "job_timeout")

    def meet_dependents(self, node: int, *, skipped: bool) -> None:
        """Count a met dependency down for those that wait for it."""
        job = self.job
        remaining, live = job.remaining, job.live
        for child in job.plan.children[node]:
            remaining[child] -= 1
            if not skipped:
                live[child] = 1
            if not remaining[child]:
                job.ready.append(child)
