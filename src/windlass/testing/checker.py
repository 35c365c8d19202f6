"""The invariants: what must be true of any history, whatever crashed.

Each violation names its invariant and the evidence. Nothing here knows where the history came from.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from windlass.core.changes import NodeRow
from windlass.core.errors import TemplateFailed
from windlass.core.job import Job
from windlass.core.plan import NodeKind, NodePlan
from windlass.core.templates import is_true
from windlass.engine.recovery import rebuild
from windlass.ports.store import StoredJob
from windlass.testing.folding import UNFINISHED, Fold, FoldedNode
from windlass.testing.history import Execution, History, JobHistory, Violation

# How soon the end of a job reaches everybody when nothing is in the way.
PROMPT_MICROSECONDS = 1_000_000

_NULL = Raw(b"null")
_JOB_ENDED = frozenset({"completed", "failed", "cancelled"})
# What a node's row and the replay of its events must agree on.
_COMPARED = (
    "attempt", "attempts_before", "losses", "first_seq", "dispatched_at", "started_at", "completed_at", "due_at",
    "worker_id",
)  # fmt: skip
# What a job in memory and one rebuilt from its rows must agree on. `values` is a cache; `late` forgets on purpose
# which results were already recorded as ignored.
_JOB_STATE = (
    "id", "shard", "status", "input", "seq", "round", "priority", "created_at", "started_at", "completed_at",
    "deadline_at", "error", "states", "outputs", "metas", "flights", "attempts", "ready", "unfinished",
)  # fmt: skip


def check(history: History) -> list[Violation]:
    """Every violation in a history."""
    found: list[Violation] = []
    for job in history.jobs:
        found += check_job(job, settled=history.settled, clocks_steady=history.clocks_steady)
        if history.undisturbed:
            found += _check_promptness(job)
    found += _check_submits(history)
    return found


def check_job(history: JobHistory, *, settled: bool = False, clocks_steady: bool = True) -> list[Violation]:
    """Every violation in the history of one job."""
    fold = Fold(history, clocks_steady=clocks_steady)
    rows = {row.node_id: row for row in history.nodes}
    _check_job_row(fold, history.job)
    for node in fold.nodes.values():
        _check_row(fold, node, rows.get(node.plan.id))
    _check_executions(fold, rows, history.executions)
    _check_conditions(fold, history)
    _check_requests(fold, history, settled=settled)
    if settled and fold.status not in _JOB_ENDED:
        states = {name: node.state for name, node in fold.nodes.items() if node.state in UNFINISHED}
        fold.blame("I14", f"the job is {fold.status} and nothing happens any more; unfinished: {states}")
    return fold.violations


def _check_job_row(fold: Fold, job: StoredJob) -> None:
    for name, folded in (
        ("status", fold.status),
        ("round", fold.round),
        ("seq", fold.seq),
        ("started_at", fold.started_at),
        ("completed_at", fold.completed_at),
    ):
        if getattr(job, name) != folded:
            fold.blame("I2", f"the row says {name} {getattr(job, name)}, the events say {folded}")
    if fold.status == "failed" and _decoded(job.error) != fold.error:
        fold.blame("I2", f"the row says error {_decoded(job.error)}, the events say {fold.error}")
    if fold.status == "completed" and job.error is not None:
        fold.blame("I13", f"the job completed with the error {_decoded(job.error)}")


def _check_row(fold: Fold, node: FoldedNode, row: NodeRow | None) -> None:
    name = node.plan.id
    if row is None:
        if node.state != "pending":
            fold.blame("I2", f"{name} has no row, the events say {node.state}")
        return
    if row.status != node.state:
        fold.blame("I2", f"the row of {name} says {row.status}, the events say {node.state}")
        return
    if node.plan.kind is not NodeKind.TASK:
        return
    for field in _COMPARED:
        if getattr(row, field) != getattr(node, field):
            told = f"{field} {getattr(row, field)}, the events say {getattr(node, field)}"
            fold.blame("I2", f"the row of {name} ({row.status}) says {told}")
    if _decoded(row.error) != node.error:
        fold.blame("I2", f"the row of {name} says error {_decoded(row.error)}, the events say {node.error}")
    # A failure that is allowed counts as done, with null as its output.
    has_output = row.output is not None and (node.state != "failed" or row.output != _NULL)
    if has_output != (node.state == "completed"):
        fold.blame("I27", f"{name} is {node.state} and the output of its row is {_text(row.output)}")


# Effects


def _check_executions(fold: Fold, rows: dict[str, NodeRow], executions: Sequence[Execution]) -> None:
    by_node: dict[str, list[Execution]] = {}
    for execution in executions:
        by_node.setdefault(execution.node_id, []).append(execution)
    for name, found in by_node.items():
        _check_effects(fold, fold.nodes.get(name), found)
    if not executions:
        return
    for name, node in fold.nodes.items():
        row = rows.get(name)
        if node.state == "completed" and node.plan.kind is NodeKind.TASK and row is not None:
            _check_result(fold, node, row, by_node.get(name, []), rows)


def _check_effects(fold: Fold, node: FoldedNode | None, executions: Sequence[Execution]) -> None:
    for execution in executions:
        what = f"{execution.node_id} attempt {execution.attempt} on {execution.worker_id}"
        if node is None or execution.attempt not in node.dispatched:
            fold.blame("I7", f"{what} ran, but no event tells of its dispatch")
        if execution.dispatch_was_durable is False:
            fold.blame("I7", f"{what} began before its dispatch was stored")
    for attempt in sorted(node.failed if node is not None else ()):
        if all(run.outcome == "succeeded" for run in executions if run.attempt == attempt):
            fold.blame("I6", f"{executions[0].node_id} attempt {attempt} failed by the events, but no handler says so")
    keys = {execution.idempotency_key for execution in executions}
    if len(keys) > 1:
        fold.blame("I7", f"{executions[0].node_id} ran under several idempotency keys: {sorted(keys)}")


def _check_result(
    fold: Fold, node: FoldedNode, row: NodeRow, executions: Sequence[Execution], rows: dict[str, NodeRow]
) -> None:
    name = node.plan.id
    accepted = [e for e in executions if e.attempt == row.attempt and e.outcome == "succeeded"]
    if not accepted:
        fold.blame("I7", f"{name} completed by attempt {row.attempt}, which no handler ran to its end")
        return
    if row.output not in [execution.output for execution in accepted]:
        made = [_text(execution.output) for execution in accepted]
        fold.blame("I6", f"the output of {name} is {_text(row.output)}, attempt {row.attempt} made {made}")
    for execution in accepted:
        for read, given in (execution.reads or {}).items():
            recorded = rows[read].output if read in rows else None
            if _decoded(given) != _decoded(recorded):
                told = f"was given {_text(given)} as the output of {read}, recorded is {_text(recorded)}"
                fold.blame("I8", f"{name} attempt {row.attempt} {told}")


def _check_promptness(history: JobHistory) -> list[Violation]:
    """Where nothing went wrong, nothing of a job runs on after its end, and a timeout is kept."""
    job = history.job
    if job.completed_at is None or job.round:
        return []
    found: list[Violation] = []
    if job.deadline_at is not None and job.completed_at > job.deadline_at + PROMPT_MICROSECONDS:
        late = (job.completed_at - job.deadline_at) / 1_000_000
        found.append(Violation("I23", job.job_id, f"the job ended {late:.1f} s after its timeout"))
    allowed_until = job.completed_at + PROMPT_MICROSECONDS
    for run in history.executions:
        if run.started_at > allowed_until or (run.outcome == "succeeded" and (run.finished_at or 0) > allowed_until):
            evidence = f"{run.node_id} attempt {run.attempt} ran on after the job had ended"
            found.append(Violation("I31", job.job_id, evidence))
    return found


def _check_conditions(fold: Fold, history: JobHistory) -> None:
    """A condition holds for what ran and does not for what was skipped by it, by the outputs recorded."""
    conditional = [n for n in history.plan.nodes if n.when is not None and fold.nodes[n.id].state not in UNFINISHED]
    if not conditional:
        return
    job = rebuild(history.plan, history.job, history.nodes)
    for plan in conditional:
        node = fold.nodes[plan.id]
        entered = node.state == "completed" or node.first_seq is not None
        by_condition = node.state == "skipped" and "condition" in (node.skip_reason or "")
        if entered or by_condition:
            holds = _holds(job, plan)
            if holds is not None and holds is by_condition:
                fold.blame("I11", f"{plan.id} is {node.state}, though its condition is {holds}")


def _holds(job: Job, plan: NodePlan) -> bool | None:
    assert plan.when is not None
    try:
        return is_true(plan.when.value(job.scope(plan.when)))
    except TemplateFailed:
        return None


# What people asked for


def _check_requests(fold: Fold, history: JobHistory, *, settled: bool) -> None:
    retries = 0
    for request, applied in history.requests:
        if settled and not applied:
            fold.blame("I14", f"the request {request.request_id} ({request.kind}) was never applied")
        if not applied:
            continue
        if request.kind == "retry":
            retries += 1
        elif fold.status not in _JOB_ENDED and not fold.round:
            fold.blame("I31", f"the cancel {request.request_id} was applied, and the job is {fold.status}")
    if retries and not fold.round:
        left = [n for n, node in fold.nodes.items() if node.state == "cancelled" or _failed_hard(node)]
        if left:
            fold.blame("I14", f"a retry was applied, and {left} were not reset")


def _failed_hard(node: FoldedNode) -> bool:
    return node.state == "failed" and not node.plan.allow_failure


def _check_submits(history: History) -> list[Violation]:
    found: list[Violation] = []
    jobs = {job.job.job_id: job.job for job in history.jobs}
    by_key: dict[tuple[str, str], str] = {}
    for job in jobs.values():
        if job.idempotency_key is not None:
            first = by_key.setdefault((job.workflow_id, job.idempotency_key), job.job_id)
            if first != job.job_id:
                found.append(Violation("I25", job.job_id, f"has the idempotency key of {first}"))
    for told in history.acknowledged:
        job = jobs.get(told.job_id)
        if job is None:
            found.append(Violation("I24", told.job_id, "was acknowledged and does not exist"))
            continue
        if told.idempotency_key is not None:
            known = by_key.get((told.workflow_id, told.idempotency_key))
            if known != told.job_id:
                evidence = f"was acknowledged for the key {told.idempotency_key!r}, which belongs to {known}"
                found.append(Violation("I25", told.job_id, evidence))
            if job.body_digest != told.body_digest:
                evidence = f"was given back for another body under the key {told.idempotency_key!r}"
                found.append(Violation("I25", told.job_id, evidence))
    return found


# Memory


def check_memory(memory: Job, stored: StoredJob, rows: Iterable[NodeRow]) -> list[Violation]:
    """At a quiet moment a job in memory is what its rows make of it."""
    rebuilt = rebuild(memory.plan, stored, rows)
    differing = [name for name in _JOB_STATE if getattr(memory, name) != getattr(rebuilt, name)]
    # The counters of a node that has ended are never looked at again.
    for node in memory.unfinished_nodes():
        if (memory.remaining[node], memory.live[node]) != (rebuilt.remaining[node], rebuilt.live[node]):
            differing += ["remaining", "live"]
    return [
        Violation("I2", memory.id, f"{name} is {_shown(memory, name)} in memory, {_shown(rebuilt, name)} by the rows")
        for name in dict.fromkeys(differing)
    ]


def _shown(job: Job, name: str) -> str:
    value = getattr(job, name)
    match value:
        case Raw():
            return _text(value)
        case bytearray():
            return repr(list(value))
        case _:
            return repr(value)[:500]


def _decoded(raw: Raw | None) -> Any:
    return None if raw is None else msgspec.json.decode(raw)


def _text(raw: Raw | None) -> str:
    return "nothing" if raw is None else bytes(raw).decode()[:200]
