"""How a job goes on: nodes become ready, are skipped, complete by themselves or are dispatched."""

from windlass.core import completion, first_attempt, loops
from windlass.core.errors import TemplateFailed
from windlass.core.events import EventType
from windlass.core.loop_state import Attempt
from windlass.core.plan import NodeKind, NodePlan
from windlass.core.retries import template_error
from windlass.core.states import JobStatus, NodeMove, NodeStatus
from windlass.core.templates.template import is_true
from windlass.core.turn import Turn, dispatch_data, json_raw

# Bound the rows and tasks of one turn and of one batch, and so the memory of a wide fan; the rest follows in the next.
TURN_READY_MAX = 1_000
BATCH_TASKS_MAX = 4_000

# Looking a member up in its enum takes longer than using it.
_PENDING = int(NodeStatus.PENDING)
_READY, _DISPATCH = NodeMove.READY, NodeMove.DISPATCH
_TASK, _START, _END = NodeKind.TASK, NodeKind.START, NodeKind.END


def dispatch_ready(turn: Turn) -> None:
    """Let ready nodes enter and loops fill their windows, within a turn's bound; end the job when nothing is left."""
    job = turn.job
    budget = TURN_READY_MAX
    tasks = turn.changes.tasks
    while job.ready and budget and len(tasks) < BATCH_TASKS_MAX:
        budget -= 1
        node = job.ready.popleft()
        if job.states[node] == _PENDING and not first_attempt.dispatch(turn, node, job.plan.nodes[node]):
            _enter(turn, node)
    if job.filling:
        for node in list(job.filling):
            if node in job.filling and len(tasks) < BATCH_TASKS_MAX and budget:
                budget = loops.fill(turn, node, budget, BATCH_TASKS_MAX)
    if job.stalled:
        job.ready.extendleft(reversed(job.stalled))
        job.stalled.clear()
    if job.ready or job.filling:
        turn.changes.unfinished_turns.append(job.id)
    elif not job.unfinished and not job.ended:
        completion.end_job(turn)


def dispatch_again(turn: Turn, attempt: Attempt) -> None:
    """The next attempt of a node or an iteration that waits, at once."""
    job = turn.job
    turn.transition(attempt, NodeMove.READY)
    attempt.number += 1
    attempt.started_at = attempt.due_at = attempt.worker_id = None
    if attempt.is_iteration:
        loops.dispatch(turn, attempt, is_first=False)
        return
    turn.emit(EventType.NODE_READY, job.plan.nodes[attempt.node].id, parent_seq=attempt.first_seq)
    _dispatch(turn, attempt.node, attempt)


def _enter(turn: Turn, node: int) -> None:
    """A node whose dependencies are all met."""
    job = turn.job
    plan = job.plan.nodes[node]
    if job.has_large and _lacks(turn, plan):
        job.stalled.append(node)
        return
    kind = plan.kind
    if kind is _START:
        turn.move(node, _READY)
        _complete_here(turn, node)
        return
    if kind is _TASK:
        reason = _skip_reason(turn, node, plan)
        if reason is not None:
            _skip(turn, node, plan, reason)
            return
        if job.is_final(node):  # its condition could not be evaluated
            return
    turn.move(node, _READY)
    turn.emit(EventType.NODE_READY, plan.id)
    if kind is _END:
        _complete_here(turn, node)
        return
    attempt = Attempt(node, 1)
    if job.last_attempts or job.attempts_before:
        attempt.number += job.last_attempts.pop(node, 0)
        attempt.attempts_before = job.attempts_before.get(node, 0)
    if plan.loop is not None:
        loops.begin(turn, node, attempt)
        return
    job.attempts[node] = attempt
    _dispatch(turn, node, attempt)


def _lacks(turn: Turn, plan: NodePlan) -> bool:
    """Whether large outputs must be read before the node can enter."""
    job = turn.job
    templates = (plan.when, None if plan.loop is None else plan.loop.collection)
    lacking = [job.lacks(template) for template in templates if template is not None]
    return any(lacking) or loops.lacks(turn, plan)


def _skip_reason(turn: Turn, node: int, plan: NodePlan) -> str | None:
    job = turn.job
    if job.plan.parents[node] and not job.live[node] and not plan.run_if_skipped:
        return "every dependency was skipped"
    if plan.when is None or loops.condition_of(plan) is not None:
        return None
    try:
        return None if is_true(plan.when.value(job.scope(plan.when))) else "its condition is false"
    except TemplateFailed as failure:
        completion.fail_node(turn, node, template_error("when", failure))
        return None


def _skip(turn: Turn, node: int, plan: NodePlan, reason: str) -> None:
    turn.move(node, NodeMove.SKIP)
    turn.finish(node)
    turn.emit(EventType.NODE_SKIPPED, plan.id, json_raw({"reason": reason}))
    turn.save_node(node, None, turn.now)
    turn.meet_dependents(node, skipped=True)


def _complete_here(turn: Turn, node: int) -> None:
    """START and END never reach a worker; a job's first and last events tell of them."""
    turn.move(node, NodeMove.COMPLETE)
    turn.finish(node)
    turn.job.remember_attempt(node, 0)
    turn.save_node(node, None, turn.now)
    turn.meet_dependents(node, skipped=False)


def _dispatch(turn: Turn, node: int, attempt: Attempt) -> None:
    job = turn.job
    plan = job.plan.nodes[node]
    try:
        task = job.task(attempt)
    except TemplateFailed as failure:
        completion.fail_node(turn, node, template_error("params", failure))
        return
    turn.move(node, _DISPATCH)
    attempt.dispatched_at = turn.now
    data = dispatch_data(attempt.number, plan.queue)
    seq = turn.emit(EventType.NODE_DISPATCHED, plan.id, data, None, None, attempt.first_seq)
    if attempt.first_seq is None:
        attempt.first_seq = seq
    turn.mark_dispatched(node, attempt)
    turn.changes.tasks.append(task)
    if job.state.status is JobStatus.PENDING:
        turn.start_job()
