"""The rows of nodes and iterations, as the memory of their job has them."""

from msgspec import Raw

from windlass.core.changes import IterationRow, NodeRow
from windlass.core.job import Job, encoded_progress
from windlass.core.loop_state import Attempt, Loop, Progress
from windlass.core.plan import NodePlan
from windlass.core.states import NODE_LABELS


def iteration_row(job: Job, loop: Loop, flight: Attempt, completed_at: int | None = None, error: Raw | None = None,
                  output: Raw | None = None, meta: Raw | None = None) -> IterationRow:  # fmt: skip
    """An iteration's row as it is now."""
    progress = None
    if flight.calls or flight.is_gathering:
        progress = encoded_progress(Progress(calls=flight.calls, is_gathering=flight.is_gathering, patch=flight.patch))
    return IterationRow(
        job.id, flight.node, loop.generation, flight.index, NODE_LABELS[loop.states[flight.index]], flight.attempt,
        flight.attempts_before, flight.losses, flight.first_seq, flight.dispatched_at, flight.started_at, completed_at,
        flight.due_at, flight.worker_id, output, error, meta, progress,
    )  # fmt: skip


def node_row(job: Job, node: int, plan: NodePlan, flight: Attempt | None, completed_at: int | None = None,
             error: Raw | None = None) -> NodeRow:  # fmt: skip
    """The node's row as it is now; `flight` tells of the attempt that brought it here."""
    status = NODE_LABELS[job.states[node]]
    if flight is None:
        before = job.attempts_before.get(node, 0)
        return NodeRow(
            job.id, plan.id, status, job.attempt_of(node), before, 0, None, None, None, completed_at, None, None,
            job.outputs[node], error, job.metas.get(node), node, job.progress_of(node, None),
        )  # fmt: skip
    # Most nodes have nothing of the kind, and this is asked for each of them.
    is_plain = plan.loop is None and plan.on_success is None and not job.generations
    return NodeRow(
        job.id, plan.id, status, flight.attempt, flight.attempts_before, flight.losses, flight.first_seq,
        flight.dispatched_at, flight.started_at, completed_at, flight.due_at, flight.worker_id,
        job.outputs[node], error, job.metas.get(node), node, None if is_plain else job.progress_of(node, flight),
    )  # fmt: skip
