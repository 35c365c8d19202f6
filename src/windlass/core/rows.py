"""Rows of nodes and iterations, built from the job in memory."""

from msgspec import Raw

from windlass.core.changes import IterationRow, NodeRow
from windlass.core.job import Job
from windlass.core.loop_state import Attempt, Loop
from windlass.core.plan import NodePlan
from windlass.core.states import NODE_LABELS

# CPython passes more than about 15 keyword arguments through a dictionary, which takes 1.0 us instead of 0.4: the
# constructors below therefore take their keys by position (benchmark: `windlass bench fan loop`).


def iteration_row(job: Job, loop: Loop, attempt: Attempt, completed_at: int | None = None, error: Raw | None = None,
                  output: Raw | None = None, meta: Raw | None = None) -> IterationRow:  # fmt: skip
    """Return the row of an iteration as it is now."""
    index = attempt.index
    progress = None
    if attempt.has_progress or job.late or job.webhook_times:
        progress = job.attempt_progress(attempt.node, index, attempt)
    return IterationRow(
        job.id, attempt.node, loop.generation, index, NODE_LABELS[loop.states[index]], attempt.number,
        attempts_before=attempt.attempts_before,
        losses=attempt.losses,
        first_seq=attempt.first_seq,
        dispatched_at=attempt.dispatched_at,
        started_at=attempt.started_at,
        completed_at=completed_at,
        due_at=attempt.due_at,
        worker_id=attempt.worker_id,
        output=output,
        error=error,
        meta=meta,
        progress=progress,
        first_started_at=attempt.first_start_if_earlier,
    )  # fmt: skip


def node_row(job: Job, node: int, plan: NodePlan, attempt: Attempt | None, completed_at: int | None = None,
             error: Raw | None = None) -> NodeRow:  # fmt: skip
    """Return the row of a node as it is now; `attempt` is its last one, if there was one."""
    status = NODE_LABELS[job.states[node]]
    if attempt is None:
        return NodeRow(
            job_id=job.id,
            node_id=plan.id,
            status=status,
            attempt=job.last_attempt_number(node),
            attempts_before=job.attempts_before.get(node, 0),
            first_seq=job.first_seqs[node] or None,
            completed_at=completed_at,
            output=job.outputs[node],
            error=error,
            meta=job.metas.get(node),
            number=node,
            progress=job.progress_of(node, None),
        )
    progress = None
    if not plan.is_plain or job.generations or job.late or attempt.has_progress:
        progress = job.progress_of(node, attempt)
    return NodeRow(
        job.id, plan.id, status, attempt.number,
        attempts_before=attempt.attempts_before,
        losses=attempt.losses,
        first_seq=attempt.first_seq,
        dispatched_at=attempt.dispatched_at,
        started_at=attempt.started_at,
        completed_at=completed_at,
        due_at=attempt.due_at,
        worker_id=attempt.worker_id,
        output=job.outputs[node],
        error=error,
        meta=job.metas.get(node),
        number=node,
        progress=progress,
        first_started_at=attempt.first_start_if_earlier,
    )  # fmt: skip
