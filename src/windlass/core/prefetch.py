"""Large values that must be decoded before a message can be applied. Most messages need none."""

from windlass.core.artifacts import is_reference, read_reference
from windlass.core.job import Job
from windlass.core.messages import Message, Succeeded, TaskFinished
from windlass.core.plan import NodePlan


def request_for(job: Job, message: Message) -> None:
    """Request the values that a message needs: its own output, and those that the templates of its node read."""
    node = job.plan.index.get(getattr(message, "node_id", ""))
    if node is None:
        return
    plan = job.plan.nodes[node]
    if (
        isinstance(message, TaskFinished)
        and plan.on_success is not None
        and isinstance(message.outcome, Succeeded)
    ):
        _request_output(job, message.outcome)
    if job.large:
        request_for_attempt(job, plan)


def request_for_attempt(job: Job, plan: NodePlan) -> None:
    """Request the values that an attempt of a node needs, from its task to its result."""
    request_for_task(job, plan)
    for template in plan.result_templates:
        job.request_missing(template)


def request_for_dispatch(job: Job, plan: NodePlan) -> bool:
    """Request the values that the dispatch of a node needs; return whether some are missing."""
    is_missing = request_for_task(job, plan)
    if plan.loop is not None:
        is_missing |= job.request_missing(plan.loop.collection)
    return is_missing


def request_for_task(job: Job, plan: NodePlan) -> bool:
    """Request the values that building a task of a node needs; return whether some are missing."""
    is_missing = False
    for template in plan.task_templates:
        is_missing |= job.request_missing(template)
    if plan.params is not None:
        is_missing |= job.request_missing(plan.params, allow_references=True)
    return is_missing


def _request_output(job: Job, outcome: Succeeded) -> None:
    if is_reference(outcome.output):
        key = read_reference(outcome.output).key
        if key not in job.values:
            job.wanted[key] = None
