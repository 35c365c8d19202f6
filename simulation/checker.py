"""The invariants: what must hold for any history, with any faults.

Each violation names its invariant and the evidence. The source of the history does not matter.
"""

from simulation.checked_job import CheckedJob, text_of
from simulation.checks.effects import check_effects
from simulation.checks.loops import check_loops, check_overlap, check_timeouts
from simulation.checks.rows import check_row, decoded_json
from simulation.checks.templates import check_templates
from simulation.history import History, JobHistory, Violation
from simulation.replay.job import ReplayedJob
from simulation.replay.state import UNFINISHED, ReplayedUnit
from windlass.core.changes import NodeRow
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import JobRecord
from windlass.core.json_text import NULL
from windlass.core.plan import NodeKind

# How soon the end of a job takes effect everywhere if there are no faults.
PROMPT_MICROSECONDS = MICROSECONDS

_JOB_ENDED = frozenset({"completed", "failed", "cancelled"})


def check(history: History) -> list[Violation]:
    """Return every violation in a history."""
    found: list[Violation] = []
    for job in history.jobs:
        found += check_job(
            job,
            settled=history.settled,
            clocks_steady=history.clocks_steady,
            undisturbed=history.undisturbed,
        )
    found += _check_keys(history)
    found += _check_submits(history)
    return found


def check_job(
    history: JobHistory,
    *,
    settled: bool = False,
    clocks_steady: bool = True,
    undisturbed: bool = False,
) -> list[Violation]:
    """Return every violation in the history of one job."""
    record = CheckedJob(history, clocks_steady=clocks_steady)
    replay = record.replay
    _check_job_row(replay, history.job)
    for node in replay.nodes.values():
        _check_node_row(replay, node.own, record.rows.get(node.plan.id))
    check_loops(record)
    check_effects(record)
    check_templates(record)
    _check_requests(replay, history, settled=settled)
    if undisturbed:
        _check_promptness(replay, history)
        check_overlap(record)
        check_timeouts(record, PROMPT_MICROSECONDS)
    if settled and replay.status not in _JOB_ENDED:
        states = {
            name: node.own.state
            for name, node in replay.nodes.items()
            if node.own.state in UNFINISHED
        }
        replay.report("I14", f"the job stays {replay.status}; unfinished: {states}")
    return replay.violations


def _check_job_row(replay: ReplayedJob, job: JobRecord) -> None:
    state = job.state
    if job.seq != replay.seq:
        replay.report("I2", f"the row says seq {job.seq}, the events say {replay.seq}")
    for name in ("status", "round", "started_at", "completed_at", "failures"):
        stored, expected = getattr(state, name), getattr(replay, name)
        if stored != expected:
            replay.report("I2", f"the row says {name} {stored}, the events say {expected}")
    error = decoded_json(state.error)
    if replay.status == "failed":
        if error != replay.error:
            replay.report("I2", f"the row says error {error}, the events say {replay.error}")
        _check_timeout(replay, job)
    if replay.status == "completed" and state.error is not None:
        replay.report("I13", f"the job completed with the error {error}")


def _check_timeout(replay: ReplayedJob, job: JobRecord) -> None:
    """Check that a job did not time out before its deadline."""
    is_timeout = replay.error.get("type") == "timeout" and "node_id" not in replay.error
    if not is_timeout or not replay.findings.clocks_steady:
        return
    state = job.state
    if (state.completed_at or 0) < (state.deadline_at or 0):
        replay.report(
            "I22", f"the job timed out at {state.completed_at}, its deadline is {state.deadline_at}"
        )


def _check_node_row(replay: ReplayedJob, node: ReplayedUnit, row: NodeRow | None) -> None:
    name = node.plan.id
    if row is None:
        if node.state != "pending":
            replay.report("I2", f"{name} has no row, the events say {node.state}")
        return
    if row.status != node.state:
        replay.report("I2", f"the row of {name} says {row.status}, the events say {node.state}")
        return
    if node.plan.kind is not NodeKind.TASK:
        return
    check_row(replay, name, node, row)
    # An allowed failure counts as met, with null as its output.
    has_output = row.output is not None and (node.state != "failed" or row.output != NULL)
    if has_output != (node.state == "completed"):
        replay.report(
            "I27", f"{name} is {node.state} and the output of its row is {text_of(row.output)}"
        )


def _check_promptness(replay: ReplayedJob, history: JobHistory) -> None:
    """Check that, without faults, a timeout is kept and nothing runs long after the end of the job."""
    state = history.job.state
    if state.completed_at is None or state.round:
        return
    if (
        state.deadline_at is not None
        and state.completed_at > state.deadline_at + PROMPT_MICROSECONDS
    ):
        late = (state.completed_at - state.deadline_at) / MICROSECONDS
        replay.report("I23", f"the job ended {late:.1f} s after its timeout")
    allowed_until = state.completed_at + PROMPT_MICROSECONDS
    for execution in history.executions:
        ended_late = (
            execution.outcome == "succeeded" and (execution.finished_at or 0) > allowed_until
        )
        if execution.started_at > allowed_until or ended_late:
            replay.report(
                "I31",
                f"{execution.node_id} attempt {execution.attempt} ran after the end of the job",
            )


# Requests


def _check_requests(replay: ReplayedJob, history: JobHistory, *, settled: bool) -> None:
    has_retry = False
    retries = sum(request.kind == "retry" for request, _ in history.requests)
    if replay.plan.runs is None and replay.round > retries:
        replay.report("I1", f"{retries} requests to retry the job, but {replay.round} were applied")
    for request, applied in history.requests:
        if not applied:
            if settled:
                replay.report(
                    "I14", f"the request {request.request_id} ({request.kind}) was never applied"
                )
        elif request.kind == "retry":
            has_retry = True
        elif replay.status not in _JOB_ENDED and not replay.round:
            replay.report(
                "I31",
                f"the cancel {request.request_id} was applied, but the job is {replay.status}",
            )
    if has_retry and not replay.round:
        left = [name for name, node in replay.nodes.items() if _needs_retry(node.own)]
        if left:
            replay.report("I14", f"a retry was applied, but {left} were not reset")


def _needs_retry(node: ReplayedUnit) -> bool:
    if node.state == "failed":
        return not node.plan.allow_failure
    return node.state == "cancelled"


def _check_keys(history: History) -> list[Violation]:
    """Check that no two jobs have the same idempotency key."""
    found: list[Violation] = []
    first_with: dict[tuple[str, str], str] = {}
    for job_history in history.jobs:
        spec = job_history.job.spec
        if spec.idempotency_key is None:
            continue
        first = first_with.setdefault((spec.workflow_id, spec.idempotency_key), spec.job_id)
        if first != spec.job_id:
            found.append(Violation("I25", spec.job_id, f"has the idempotency key of {first}"))
    return found


def _check_submits(history: History) -> list[Violation]:
    """Check that every acknowledged job exists and belongs to the key it was acknowledged for."""
    found: list[Violation] = []
    specs = {job.job.spec.job_id: job.job.spec for job in history.jobs}
    for submit in history.acknowledged:
        spec = specs.get(submit.job_id)
        if spec is None:
            found.append(Violation("I24", submit.job_id, "was acknowledged but does not exist"))
            continue
        if submit.idempotency_key is None:
            continue
        if (spec.workflow_id, spec.idempotency_key) != (submit.workflow_id, submit.idempotency_key):
            evidence = f"was acknowledged for the key {submit.idempotency_key!r}, but has {spec.idempotency_key!r}"
            found.append(Violation("I25", submit.job_id, evidence))
        if spec.request_digest != submit.request_digest:
            evidence = f"was acknowledged for another body under the key {submit.idempotency_key!r}"
            found.append(Violation("I25", submit.job_id, evidence))
    return found
