"""Large values that must be decoded before a message can be applied. Most messages need none."""

from collections.abc import Sequence

from windlass.core.artifacts import is_reference, read_reference
from windlass.core.job import Job
from windlass.core.messages import Message, Succeeded, TaskFinished
from windlass.core.node_references import NODES, PARENTS, node_and_keys, reads_output
from windlass.core.templates.template import Passing, Template

# What one template reads of large outputs at most, as JSON; a single output may be larger.
READ_BYTES_MAX = 256 * 1024 * 1024


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
        request_for_attempt(job, node)


def request_for_attempt(job: Job, node: int) -> None:
    """Request the values that an attempt of a node needs, from its task to its result."""
    request_for_task(job, node)
    for template in job.plan.nodes[node].result_templates:
        request_for_template(job, template, node)


def request_for_dispatch(job: Job, node: int) -> bool:
    """Request the values that the dispatch of a node needs; return whether some are missing."""
    is_missing = request_for_task(job, node)
    loop = job.plan.nodes[node].loop
    if loop is not None:
        is_missing |= request_for_template(job, loop.collection, node)
    return is_missing


def request_for_task(job: Job, node: int) -> bool:
    """Request the values that building a task of a node needs; return whether some are missing."""
    is_missing = False
    plan = job.plan.nodes[node]
    for template in plan.task_templates:
        is_missing |= request_for_template(job, template, node)
    if plan.params is not None:
        is_missing |= request_for_template(job, plan.params, node, plan.passing)
    return is_missing


def request_for_template(
    job: Job, template: Template, node: int | None, passing: Passing = Passing.NOTHING
) -> bool:
    """Request the large outputs that a template of a node reads and that are not decoded; return whether any are.

    Those of an action have no node. What exceeds READ_BYTES_MAX is not requested: the template fails if it reads it.
    """
    read = large_outputs_read(job, template, node, passing)
    # Sorted, so that equal decisions have equal effects.
    outputs = sorted(
        (read_reference(job.large[node_id]) for node_id in read), key=lambda output: output.key
    )
    left = READ_BYTES_MAX
    missing: list[str] = []
    for place, output in enumerate(outputs):
        left -= output.size
        if left < 0 and place:
            break
        if output.key not in job.values:
            missing.append(output.key)
    job.wanted.update(dict.fromkeys(missing))
    return bool(missing)


def large_outputs_read(
    job: Job, template: Template, node: int | None, passing: Passing
) -> set[str]:
    """Return the ids of the nodes whose large outputs a rendering reads."""
    found: set[str] = set()
    for reference in template.references_read(passing):
        target = node_and_keys(reference.name, reference.path)
        if target is None:
            found.update(_nodes_of_aggregate(job, reference.name, node))
        elif reads_output(target[1]):
            found.add(target[0])
    return found & job.large.keys()


def nodes_named(job: Job, template: Template, node: int) -> list[str]:
    """Return the ids of the nodes that a template of a node refers to."""
    found: dict[str, None] = {}
    for reference in template.references:
        target = node_and_keys(reference.name, reference.path)
        if target is None:
            found.update(dict.fromkeys(_nodes_of_aggregate(job, reference.name, node)))
        else:
            found[target[0]] = None
    return [node_id for node_id in found if node_id in job.plan.index]


def _nodes_of_aggregate(job: Job, name: str, node: int | None) -> list[str]:
    """Return the ids of the nodes that `nodes` or `parents` stands for; none for other names."""
    numbers: Sequence[int] = ()
    if name == NODES:
        numbers = job.upstream_of(node)
    elif name == PARENTS and node is not None:
        numbers = job.plan.parents[node]
    return [job.plan.nodes[number].id for number in numbers]


def _request_output(job: Job, outcome: Succeeded) -> None:
    if is_reference(outcome.output):
        key = read_reference(outcome.output).key
        if key not in job.values:
            job.wanted[key] = None
