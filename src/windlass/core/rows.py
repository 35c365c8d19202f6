"""The rows of nodes and iterations, as the memory of their job has them."""

from msgspec import Raw

from windlass.core.changes import IterationRow, NodeRow
from windlass.core.job import Job, encoded_progress
from windlass.core.loop_state import Attempt, Loop, LoopProgress
from windlass.core.plan import NodePlan
from windlass.core.states import NODE_LABELS


def iteration_row(job: Job, loop: Loop, attempt: Attempt, completed_at: int | None = None, error: Raw | None = None,
                  output: Raw | None = None, meta: Raw | None = None) -> IterationRow:  # fmt: skip
    """An iteration's row as it is now."""
    progress = None
    if attempt.calls or attempt.is_merging:
        progress = encoded_progress(
            LoopProgress(calls=attempt.calls, is_merging=attempt.is_merging, patch=attempt.patch)
        )
    return IterationRow(
        job_id=job.id,
        number=attempt.node,
        generation=loop.generation,
        index=attempt.index,
        status=NODE_LABELS[loop.states[attempt.index]],
        attempt=attempt.number,
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
    )


def node_row(job: Job, node: int, plan: NodePlan, attempt: Attempt | None, completed_at: int | None = None,
             error: Raw | None = None) -> NodeRow:  # fmt: skip
    """The node's row as it is now; `attempt` tells of the attempt that brought it here."""
    status = NODE_LABELS[job.states[node]]
    if attempt is None:
        return NodeRow(
            job_id=job.id,
            node_id=plan.id,
            status=status,
            attempt=job.attempt_of(node),
            attempts_before=job.attempts_before.get(node, 0),
            losses=0,
            first_seq=None,
            dispatched_at=None,
            started_at=None,
            completed_at=completed_at,
            due_at=None,
            worker_id=None,
            output=job.outputs[node],
            error=error,
            meta=job.metas.get(node),
            number=node,
            progress=job.progress_of(node, None),
        )
    # Most nodes have neither a loop nor calls, and this is asked for each of them.
    has_progress = plan.loop is not None or plan.on_success is not None or bool(job.generations)
    return NodeRow(
        job_id=job.id,
        node_id=plan.id,
        status=status,
        attempt=attempt.number,
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
        progress=job.progress_of(node, attempt) if has_progress else None,
    )
