"""Restore a job from its rows. The result equals the job in memory that wrote them."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from windlass.core.changes import InFlightEntry, IterationRow, NodeRow
from windlass.core.job import Job
from windlass.core.jobs import JobRecord
from windlass.core.loop_state import (
    HAS_ATTEMPT,
    IN_FLIGHT,
    NO_PROGRESS,
    Attempt,
    Collection,
    Loop,
    LoopRows,
    attempt_of_row,
    read_progress,
)
from windlass.core.plan import Plan
from windlass.core.states import NODE_FINAL, NODE_STATES, JobStatus, NodeStatus


def restore_job(
    plan: Plan,
    record: JobRecord,
    rows: Sequence[NodeRow],
    loops: Iterable[LoopRows] = (),
    in_flight: Iterable[InFlightEntry] = (),
) -> Job:
    """Build a job from the rows of its nodes and loops, and from the entries of nodes in flight without a row."""
    job = Job(plan, record)
    if record.state.status is JobStatus.PENDING and not rows:
        return job
    loop_rows = {(loop.number, loop.generation): loop for loop in loops}
    dependents: set[int] = set()
    for row in rows:
        node = plan.index[row.node_id]
        _restore_node(job, node, row, loop_rows)
        dependents.update(plan.children[node])
    for entry in in_flight:
        _restore_entry(job, plan.index[entry.node_id], entry)
    job.recount(dependents)
    if record.state.status is JobStatus.RUNNING:
        job.enqueue_unblocked()
    return job


def _restore_entry(job: Job, node: int, entry: InFlightEntry) -> None:
    job.in_flight[node] = entry
    job.states[node] = NodeStatus.DISPATCHED
    job.attempts[node] = Attempt(
        node, 1, first_seq=entry.first_seq, dispatched_at=entry.dispatched_at
    )


def _restore_node(
    job: Job, node: int, row: NodeRow, loop_rows: Mapping[tuple[int, int], LoopRows]
) -> None:
    state = NODE_STATES[row.status]
    progress = read_progress(row.progress)
    job.states[node] = state
    if row.attempts_before:
        job.attempts_before[node] = row.attempts_before
    if progress.generation:
        job.generations[node] = progress.generation
    if progress.attempts:
        job.attempts_start[node] = progress.attempts
    if progress.total < 0 and _is_late(row):
        job.late.add((node, -1, row.attempt))
    if progress.total >= 0 and state is not NodeStatus.COMPLETED:
        _restore_loop(job, node, row, loop_rows[node, progress.generation])
    elif state in HAS_ATTEMPT:
        job.attempts[node] = attempt_of_row(node, row, progress)
    if state in NODE_FINAL:
        _restore_end(job, node, row)
    elif state is NodeStatus.PENDING:
        job.remember_attempt(node, row.attempt)


def _restore_end(job: Job, node: int, row: NodeRow) -> None:
    """Restore the outcome of a node that has ended."""
    job.unfinished -= 1
    job.remember_attempt(node, row.attempt)
    if row.output is not None:
        job.put_output(node, row.output)
    if row.meta is not None:
        job.metas[node] = row.meta


def _restore_loop(job: Job, node: int, row: NodeRow, rows: LoopRows) -> None:
    plan = job.plan.nodes[node].loop
    if plan is None:
        raise ValueError(f"rows of a loop at a node without one: {row.node_id}")
    progress = read_progress(row.progress)
    attempt = attempt_of_row(node, row, NO_PROGRESS)
    loop = Loop(plan, Collection(rows.chunks), progress.generation, attempt, progress.attempts)
    loop.deadline_at = progress.deadline_at
    loop.restore(rows, progress.begun)
    if job.states[node] in IN_FLIGHT:
        job.loops[node] = loop
        if loop.wants_more:
            job.filling[node] = None
    else:
        job.parked[node] = loop
    for iteration in rows.others:
        if _is_late(iteration):
            job.late.add((node, iteration.index, iteration.attempt))


class _StoredError(Struct, frozen=True):
    without_result: bool = False


_decode_error = msgspec.json.Decoder(_StoredError).decode


def _is_late(row: NodeRow | IterationRow) -> bool:
    """Whether the last attempt was closed without a result: cancelled, timed out or lost."""
    if row.dispatched_at is None:
        return False
    if row.status in ("failed", "waiting"):
        return row.error is not None and _decode_error(row.error).without_result
    return row.status == "cancelled"
