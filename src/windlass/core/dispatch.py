"""Which nodes are ready, and what becomes of them: skipped, completed without a worker, or dispatched."""

from windlass.core import completion, loops
from windlass.core.errors import TemplateFailed
from windlass.core.events import EventType
from windlass.core.loop_state import Attempt
from windlass.core.plan import NodeKind, NodePlan
from windlass.core.prefetch import request_for_dispatch
from windlass.core.retries import template_error
from windlass.core.scopes import JobScope
from windlass.core.states import NodeMove, NodeStatus
from windlass.core.templates.template import is_true
from windlass.core.timers import set_attempt_timer
from windlass.core.turn import Turn, json_raw

# Bounds on the rows and tasks of one turn and of one batch, and so on the memory of a wide fan-out; the rest follows
# in the next batch.
TURN_READY_MAX = 1_000
BATCH_TASKS_MAX = 4_000

_PENDING = int(NodeStatus.PENDING)
_READY, _NODE_READY = NodeMove.READY, EventType.NODE_READY.value


def dispatch_ready(turn: Turn) -> None:
    """Process ready nodes and fill the windows of loops, within the bounds; end the job if nothing is left."""
    job = turn.job
    budget = TURN_READY_MAX
    tasks = turn.changes.tasks
    while job.ready and budget and len(tasks) < BATCH_TASKS_MAX:
        budget -= 1
        node = job.ready.popleft()
        if job.states[node] == _PENDING:
            _enter(turn, node)
    if job.filling:
        _fill_loops(turn, budget)
    if job.stalled:
        job.ready.extendleft(reversed(job.stalled))
        job.stalled.clear()
    if job.ready or job.filling:
        turn.changes.unfinished_turns.append(job.id)
    elif not job.unfinished and not job.is_final:
        completion.end_job(turn)


def _fill_loops(turn: Turn, budget: int) -> None:
    job = turn.job
    for node in list(job.filling):
        if not budget or len(turn.changes.tasks) >= BATCH_TASKS_MAX:
            return
        if node in job.filling:
            budget = loops.fill(turn, node, budget, BATCH_TASKS_MAX)


def _enter(turn: Turn, node: int) -> None:
    """Process a node whose dependencies are all met."""
    job = turn.job
    plan = job.plan.nodes[node]
    # No rule applies to a plain node after a dependency that completed: the guards are skipped.
    is_unconditional = plan.is_plain and job.live[node] and not job.large
    if not is_unconditional and _is_blocked(turn, node, plan):
        return
    turn.move(node, _READY)
    attempt = Attempt(node, 1)
    if job.state.round:
        # The job was retried: attempts are counted on.
        attempt.number += job.last_attempts.pop(node, 0)
        attempt.attempts_before = job.attempts_before.get(node, 0)
        attempt.first_seq = job.first_seqs[node] or None
    turn.emit(_NODE_READY, plan.id, parent_seq=attempt.parent_seq)
    if plan.loop is not None:
        loops.begin(turn, node, attempt)
        return
    job.attempts[node] = attempt
    try:
        turn.dispatch(attempt, plan)
    except TemplateFailed as failure:
        completion.fail_node(turn, node, template_error("params", failure))
        return
    if plan.start_timeout_seconds is not None:
        set_attempt_timer(turn, attempt)


def _is_blocked(turn: Turn, node: int, plan: NodePlan) -> bool:
    """Whether the node is not dispatched now: it ends without a worker, or waits for large outputs to be read."""
    job = turn.job
    if job.large and request_for_dispatch(job, node):
        job.stalled.append(node)
        return True
    if plan.kind is NodeKind.TASK:
        return _is_skipped(turn, node, plan)
    turn.move(node, NodeMove.READY)
    if plan.kind is NodeKind.END:
        turn.emit(EventType.NODE_READY, plan.id)
    _complete_without_worker(turn, node)
    return True


def _is_skipped(turn: Turn, node: int, plan: NodePlan) -> bool:
    """Whether the node ends here: all its dependencies were skipped, or its condition is false or fails."""
    job = turn.job
    if job.plan.parents[node] and not job.live[node] and not plan.run_if_skipped:
        _skip(turn, node, plan, "every dependency was skipped")
        return True
    condition = plan.node_condition
    if condition is None:
        return False
    try:
        holds = is_true(condition.value(JobScope(job, condition, node)))
    except TemplateFailed as failure:
        completion.fail_node(turn, node, template_error("when", failure))
        return True
    if not holds:
        _skip(turn, node, plan, "its condition is false")
    return not holds


def _skip(turn: Turn, node: int, plan: NodePlan, reason: str) -> None:
    turn.move(node, NodeMove.SKIP)
    turn.finish(node)
    turn.emit(EventType.NODE_SKIPPED, plan.id, json_raw({"reason": reason}))
    turn.save_node(node, None, turn.now)
    turn.meet_dependents(node, skipped=True)


def _complete_without_worker(turn: Turn, node: int) -> None:
    """Complete a START or END node. The first and last events of the job stand for its own."""
    turn.move(node, NodeMove.COMPLETE)
    turn.finish(node)
    turn.job.remember_attempt(node, 0)
    turn.save_node(node, None, turn.now)
    turn.meet_dependents(node, skipped=False)


def dispatch_again(turn: Turn, attempt: Attempt) -> None:
    """Dispatch the next attempt of a node or an iteration that waits."""
    plan = turn.job.plan.nodes[attempt.node]
    if attempt.is_iteration:
        loops.dispatch_again(turn, attempt, plan)
        return
    turn.transition(attempt, NodeMove.READY)
    attempt.begin_next()
    turn.emit(_NODE_READY, plan.id, parent_seq=attempt.parent_seq)
    try:
        turn.dispatch(attempt, plan)
    except TemplateFailed as failure:
        completion.fail_node(turn, attempt.node, template_error("params", failure))
        return
    if plan.start_timeout_seconds is not None:
        set_attempt_timer(turn, attempt)
