"""Large values that must be decoded before a message can be applied. Most messages need none."""

from windlass.core.artifacts import is_reference, read_reference
from windlass.core.job import Job
from windlass.core.messages import Message, Succeeded, TaskFinished
from windlass.core.plan import NodePlan


def want_for(job: Job, message: Message) -> None:
    """Request the values that a message needs: its own output, and those that the templates of its node read."""
    node = job.plan.index.get(getattr(message, "node_id", ""))
    if node is None:
        return
    plan = job.plan.nodes[node]
    if isinstance(message, TaskFinished) and plan.on_success is not None and isinstance(message.outcome, Succeeded):
        _want_output(job, message.outcome)
    if job.large:
        want_node(job, plan)


def want_node(job: Job, plan: NodePlan) -> None:
    """Request the values that an attempt of a node needs."""
    job.lacks(plan.when)
    job.lacks(plan.on_error.when)
    if plan.on_success is not None:
        job.lacks(plan.on_success.condition)
        job.lacks(plan.on_success.next_call)
    job.lacks(plan.sink_options)
    job.lacks(plan.params, spares=True)


def _want_output(job: Job, outcome: Succeeded) -> None:
    if is_reference(outcome.output):
        key = read_reference(outcome.output).key
        if key not in job.values:
            job.wanted[key] = None
