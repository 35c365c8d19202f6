"""Restore a job from its rows. The result equals the job in memory that wrote them."""

from collections.abc import Iterable, Mapping, Sequence

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
    LoopProgress,
    LoopRows,
    attempt_of_row,
    read_progress,
)
from windlass.core.plan import Plan
from windlass.core.states import NODE_FINAL, NODE_STATES, JobStatus, NodeStatus
from windlass.core.webhooks import HANDLER as WEBHOOK


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
    _restore_webhook_times(job)
    job.recount(dependents)
    if record.state.status is JobStatus.RUNNING:
        job.enqueue_unblocked()
    return job


def _restore_entry(job: Job, node: int, entry: InFlightEntry) -> None:
    job.in_flight[node] = entry
    job.states[node] = NodeStatus.DISPATCHED
    job.attempts[node] = Attempt(node, 1, dispatched_at=entry.dispatched_at)


def _restore_webhook_times(job: Job) -> None:
    """Restore when webhooks were first dispatched whose first attempt has no row yet."""
    for attempt in job.current_attempts():
        is_webhook = job.plan.nodes[attempt.node].handler == WEBHOOK
        if is_webhook and attempt.dispatched_at is not None:
            job.webhook_times.setdefault((attempt.node, attempt.index), attempt.dispatched_at)


def _restore_node(
    job: Job, node: int, row: NodeRow, loop_rows: Mapping[tuple[int, int], LoopRows]
) -> None:
    state = NODE_STATES[row.status]
    progress = read_progress(row.progress)
    job.states[node] = state
    job.first_seqs[node] = row.first_seq or 0
    if row.attempts_before:
        job.attempts_before[node] = row.attempts_before
    if progress.generation:
        job.generations[node] = progress.generation
    if progress.attempts:
        job.attempts_start[node] = progress.attempts
    _restore_attempts(job, (node, -1), progress)
    _restore_holder(job, (node, -1), row)
    if progress.total >= 0:
        _restore_loop(job, node, row, loop_rows[node, progress.generation])
    elif state in HAS_ATTEMPT:
        job.attempts[node] = attempt_of_row(node, row, progress)
    if state in NODE_FINAL:
        _restore_end(job, node, row)
    elif state is NodeStatus.PENDING:
        job.remember_attempt(node, row.attempt)


def _restore_holder(job: Job, key: tuple[int, int], row: NodeRow | IterationRow) -> None:
    """Restore which worker reported an attempt that several workers held."""
    if row.losses and row.worker_id is not None and NODE_STATES[row.status] not in IN_FLIGHT:
        job.reporters[key] = (row.attempt, row.worker_id)


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
    loop.first_failure = progress.first_failure
    loop.exhausted = progress.exhausted
    loop.paused_until = progress.paused_until
    if progress.window is not None:
        loop.window = progress.window
    loop.restore(rows, progress.begun)
    if job.states[node] in IN_FLIGHT:
        job.loops[node] = loop
        if loop.wants_more:
            job.filling[node] = None
    else:
        job.parked[node] = loop
    for iteration in rows.others:
        _restore_attempts(job, (node, iteration.index), read_progress(iteration.progress))
        _restore_holder(job, (node, iteration.index), iteration)


def _restore_attempts(job: Job, key: tuple[int, int], progress: LoopProgress) -> None:
    """Restore which attempts were closed without a result, and when a webhook was first dispatched."""
    if progress.late:
        job.late[key] = list(progress.late)
    if progress.webhook_at is not None:
        job.webhook_times[key] = progress.webhook_at
