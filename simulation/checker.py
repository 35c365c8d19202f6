"""The invariants: what must be true of any history, whatever crashed.

Each violation names its invariant and the evidence. Nothing here knows where the history came from.
"""

import msgspec
from msgspec import Raw

from simulation.case import Case, text_of
from simulation.checks.effects import check_effects
from simulation.checks.loops import COMPARED, check_bounds, check_loops, check_overlap
from simulation.checks.templates import check_templates
from simulation.history import History, JobHistory, Violation
from simulation.replay.job import Fold
from simulation.replay.state import UNFINISHED, Folded
from windlass.core.changes import NodeRow
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import JobRecord
from windlass.core.plan import NodeKind

# How soon the end of a job reaches everybody when nothing is in the way.
PROMPT_MICROSECONDS = MICROSECONDS

_NULL = Raw(b"null")
_JOB_ENDED = frozenset({"completed", "failed", "cancelled"})


def check(history: History) -> list[Violation]:
    """Every violation in a history."""
    found: list[Violation] = []
    for job in history.jobs:
        found += check_job(
            job, settled=history.settled, clocks_steady=history.clocks_steady, undisturbed=history.undisturbed
        )
    found += _check_submits(history)
    return found


def check_job(
    history: JobHistory, *, settled: bool = False, clocks_steady: bool = True, undisturbed: bool = False
) -> list[Violation]:
    """Every violation in the history of one job."""
    case = Case(history, clocks_steady=clocks_steady)
    fold = case.fold
    _check_job_row(fold, history.job)
    for node in fold.nodes.values():
        _check_row(fold, node.own, case.rows.get(node.plan.id))
    check_loops(case)
    check_effects(case)
    check_templates(case)
    _check_requests(fold, history, settled=settled)
    if undisturbed:
        _check_promptness(fold, history)
        check_overlap(case)
        check_bounds(case, PROMPT_MICROSECONDS)
    if settled and fold.status not in _JOB_ENDED:
        states = {name: node.own.state for name, node in fold.nodes.items() if node.own.state in UNFINISHED}
        fold.blame("I14", f"the job is {fold.status} and nothing happens any more; unfinished: {states}")
    return fold.violations


def _check_job_row(fold: Fold, job: JobRecord) -> None:
    for name, folded in (
        ("status", fold.status),
        ("round", fold.round),
        ("seq", fold.seq),
        ("started_at", fold.started_at),
        ("completed_at", fold.completed_at),
    ):
        if getattr(job, name) != folded:
            fold.blame("I2", f"the row says {name} {getattr(job, name)}, the events say {folded}")
    if fold.status == "failed" and _decoded(job.state.error) != fold.error:
        fold.blame("I2", f"the row says error {_decoded(job.state.error)}, the events say {fold.error}")
    timed_out = fold.status == "failed" and fold.error.get("type") == "timeout" and "node_id" not in fold.error
    if timed_out and fold.notes.clocks_steady and (job.state.completed_at or 0) < (job.state.deadline_at or 0):
        fold.blame("I22", f"the job timed out at {job.state.completed_at}, its deadline is {job.state.deadline_at}")
    if fold.status == "completed" and job.state.error is not None:
        fold.blame("I13", f"the job completed with the error {_decoded(job.state.error)}")


def _check_row(fold: Fold, node: Folded, row: NodeRow | None) -> None:
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
    for field in COMPARED:
        if getattr(row, field) != getattr(node, field):
            told = f"{field} {getattr(row, field)}, the events say {getattr(node, field)}"
            fold.blame("I2", f"the row of {name} ({row.status}) says {told}")
    if _decoded(row.error) != node.error:
        fold.blame("I2", f"the row of {name} says error {_decoded(row.error)}, the events say {node.error}")
    # A failure that is allowed counts as done, with null as its output.
    has_output = row.output is not None and (node.state != "failed" or row.output != _NULL)
    if has_output != (node.state == "completed"):
        fold.blame("I27", f"{name} is {node.state} and the output of its row is {text_of(row.output)}")


def _check_promptness(fold: Fold, history: JobHistory) -> None:
    """Where nothing went wrong, nothing of a job runs on after its end, and a timeout is kept."""
    job = history.job
    if job.state.completed_at is None or job.state.round:
        return
    if job.state.deadline_at is not None and job.state.completed_at > job.state.deadline_at + PROMPT_MICROSECONDS:
        late = (job.state.completed_at - job.state.deadline_at) / MICROSECONDS
        fold.blame("I23", f"the job ended {late:.1f} s after its timeout")
    allowed_until = job.state.completed_at + PROMPT_MICROSECONDS
    for run in history.executions:
        if run.started_at > allowed_until or (run.outcome == "succeeded" and (run.finished_at or 0) > allowed_until):
            fold.blame("I31", f"{run.node_id} attempt {run.attempt} ran on after the job had ended")


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
        left = [n for n, node in fold.nodes.items() if node.own.state == "cancelled" or _failed_hard(node.own)]
        if left:
            fold.blame("I14", f"a retry was applied, and {left} were not reset")


def _failed_hard(node: Folded) -> bool:
    return node.state == "failed" and not node.plan.allow_failure


def _check_submits(history: History) -> list[Violation]:
    found: list[Violation] = []
    jobs = {job.job.spec.job_id: job.job for job in history.jobs}
    by_key: dict[tuple[str, str], str] = {}
    for job in jobs.values():
        if job.spec.idempotency_key is not None:
            first = by_key.setdefault((job.spec.workflow_id, job.spec.idempotency_key), job.spec.job_id)
            if first != job.spec.job_id:
                found.append(Violation("I25", job.spec.job_id, f"has the idempotency key of {first}"))
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
            if job.spec.request_digest != told.request_digest:
                evidence = f"was given back for another body under the key {told.idempotency_key!r}"
                found.append(Violation("I25", told.job_id, evidence))
    return found


def _decoded(raw: Raw | None) -> object:
    return None if raw is None else msgspec.json.decode(raw)
