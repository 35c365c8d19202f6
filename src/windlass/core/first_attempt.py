"""The short way of plain nodes, which most nodes are: dispatched once, completed at the first attempt.

What the rules in `progress`, `attempts` and `outcomes` make of them is written out here, which takes half the time.
Whatever is not plain is left to those rules, untouched. A test holds the two ways equal.
"""

from windlass.core.artifacts import is_reference
from windlass.core.changes import InFlightEntry, NodeRow
from windlass.core.errors import TemplateFailed
from windlass.core.events import Event, EventType
from windlass.core.loop_state import Attempt
from windlass.core.messages import Succeeded, TaskFinished
from windlass.core.plan import NodePlan
from windlass.core.states import NODE_LABELS, JobStatus, NodeMove, NodeStatus, node_after
from windlass.core.turn import DEPARTED_MAX, Turn, attempt_data, dispatch_data, execution_meta, start_data

_DISPATCHED = node_after(node_after(NodeStatus.PENDING, NodeMove.READY), NodeMove.DISPATCH)
_COMPLETED = node_after(node_after(_DISPATCHED, NodeMove.START), NodeMove.COMPLETE)
_IS_DISPATCHED, _IS_COMPLETED = NODE_LABELS[_DISPATCHED], NODE_LABELS[_COMPLETED]


def dispatch(turn: Turn, node: int, plan: NodePlan) -> bool:
    """Send a node out whose dependencies are all met; false, and nothing has happened, where that is not plain."""
    job, now = turn.job, turn.now
    # After a retry attempts go on, and work done anew is other work; a large output may have to be fetched first.
    if not plan.is_plain or job.attempts_before or job.has_large:
        return False
    if not job.live[node] and job.plan.parents[node]:
        return False
    seq = job.seq + 2
    attempt = Attempt(node, 1, 0, 0, seq, now)
    try:
        task = job.task(attempt)
    except TemplateFailed:
        return False
    node_id = plan.id
    job.seq = seq
    turn.page += (
        Event(seq - 1, EventType.NODE_READY, node_id, None, now),
        Event(seq, EventType.NODE_DISPATCHED, node_id, None, now, dispatch_data(1, plan.queue)),
    )
    job.states[node] = _DISPATCHED
    job.attempts[node] = attempt
    if job.state.round or len(job.in_flight) >= DEPARTED_MAX:
        turn.changes.nodes[job.id, node_id] = NodeRow(
            job.id, node_id, _IS_DISPATCHED, 1, 0, 0, seq, now, None, None, None, None, None, None, None, node
        )  # fmt: skip
    else:
        job.in_flight[node] = InFlightEntry(node, node_id, seq, now)
    turn.changes.tasks.append(task)
    if job.state.status is JobStatus.PENDING:
        turn.start_job()
    return True


def complete(turn: Turn, node: int, plan: NodePlan, message: TaskFinished) -> bool:
    """Take the result of a first attempt; false, and nothing has happened, where that is not plain."""
    job, now = turn.job, turn.now
    outcome, attempt = message.outcome, job.attempts.get(node)
    if not plan.is_plain or type(outcome) is not Succeeded or job.states[node] != _DISPATCHED:
        return False
    if attempt is None or attempt.number != 1 or message.attempt != 1:
        return False
    # The worker's clock may be off: its instant is kept within what is known here.
    started_at, dispatched_at = message.started_at, attempt.dispatched_at
    microseconds = message.finished_at - started_at
    if dispatched_at is not None and started_at < dispatched_at:
        started_at = dispatched_at
    if started_at > now:
        started_at = now
    node_id, worker_id, output, meta = plan.id, message.worker_id, outcome.output, outcome.meta
    execution = execution_meta(microseconds if microseconds > 0 else 0)
    job.seq = seq = job.seq + 2
    turn.page += (
        Event(seq - 1, EventType.NODE_STARTED, node_id, None, started_at, start_data(1, worker_id)),
        Event(seq, EventType.NODE_COMPLETED, node_id, None, now, attempt_data(1), execution, message.context),
    )
    job.states[node] = _COMPLETED
    del job.attempts[node]
    job.in_flight.pop(node, None)
    job.unfinished -= 1
    job.outputs[node] = output
    if is_reference(output):
        job.has_large = True
    if meta is not None:
        job.metas[node] = meta
    turn.changes.nodes[job.id, node_id] = NodeRow(
        job.id, node_id, _IS_COMPLETED, 1, 0, attempt.losses, attempt.first_seq, dispatched_at, started_at, now, None,
        worker_id, output, None, meta, node,
    )  # fmt: skip
    remaining, live = job.remaining, job.live
    for child in job.plan.children[node]:
        live[child] = 1
        left = remaining[child] = remaining[child] - 1
        if not left:
            job.ready.append(child)
    return True
