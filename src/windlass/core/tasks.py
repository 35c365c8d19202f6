"""Tasks: what a worker gets for an attempt. Building a task again gives the same: recorded outputs never change."""

import msgspec
from msgspec import Raw

from windlass.core.artifacts import TaskArtifact, patch_artifacts
from windlass.core.changes import SinkSpec, Task
from windlass.core.ids import task_id_from_key, work_key
from windlass.core.job import Job
from windlass.core.loop_state import Attempt
from windlass.core.plan import NodePlan, SinkPlan
from windlass.core.scopes import attempt_scope
from windlass.core.templates.json_values import is_mapping, merged
from windlass.core.webhooks import HANDLER as WEBHOOK
from windlass.core.webhooks import TIMESTAMP, timestamp_text


def build_task(job: Job, attempt: Attempt) -> Task:
    """Return the task of an attempt. TemplateFailed."""
    plan = job.plan.nodes[attempt.node]
    template = plan.params
    artifacts: tuple[TaskArtifact, ...] = ()
    if template is None:
        params = job.spec.input
    elif template.static is not None:
        params = template.static
    else:
        scope = attempt_scope(job, template, attempt, passing=plan.passing)
        params, artifacts = template.render_params(scope)
    if attempt.calls:
        params, artifacts = _patched(params, artifacts, attempt.patch)
    if plan.handler == WEBHOOK:
        params = _with_timestamp(job, attempt, params)
    index = attempt.index if attempt.is_iteration else None
    key = work_key(job.id, plan.id, index)
    task_id = task_id_from_key(key, attempt.number)
    if attempt.calls or job.generations:
        key = _idempotency_key(job, attempt, key)
    sink = None
    if plan.sink is not None:
        sink = _render_sink(job, attempt, plan, plan.sink)
    return Task(
        task_id=task_id,
        job_id=job.id,
        node_id=plan.id,
        attempt=attempt.number,
        handler=plan.handler,
        params=bytes(params),
        queue=plan.queue,
        timeout_seconds=plan.timeout_seconds,
        priority=plan.priority + job.spec.priority,
        shard=job.spec.shard,
        index=index or 0,
        retry_count=attempt.number - attempt.attempts_before - 1,
        idempotency_key=key,
        sink=sink,
        artifacts=artifacts,
        workflow_id=job.spec.workflow_id,
    )


def _with_timestamp(job: Job, attempt: Attempt, params: Raw) -> Raw:
    """Return the params of a webhook with the time that its body names; a redelivery has that of the first delivery."""
    values = msgspec.json.decode(params)
    if not is_mapping(values) or TIMESTAMP in values:
        return params
    at = job.webhook_times.get((attempt.node, attempt.index), attempt.dispatched_at)
    if at is None:
        return params
    return Raw(msgspec.json.encode({**values, TIMESTAMP: timestamp_text(at)}))


def _patched(
    params: Raw, artifacts: tuple[TaskArtifact, ...], encoded_patch: Raw
) -> tuple[Raw, tuple[TaskArtifact, ...]]:
    """Return params and their large values with the changes that earlier pages made to them."""
    patch: object = msgspec.json.decode(encoded_patch) or {}
    patched = Raw(msgspec.json.encode(merged(msgspec.json.decode(params), patch)))
    return patched, patch_artifacts(artifacts, patch)


def _idempotency_key(job: Job, attempt: Attempt, key: str) -> str:
    """Return a key that all attempts of the same work share: of a node, an iteration, or one page."""
    if attempt.calls:
        key += f"#{attempt.calls + 1}"
    if attempt.node in job.generations:
        key += f"~{job.generations[attempt.node]}"
    return key


def _render_sink(job: Job, attempt: Attempt, plan: NodePlan, sink: SinkPlan) -> SinkSpec:
    options = sink.options.static
    if options is None:
        options = sink.options.render(attempt_scope(job, sink.options, attempt))
    path: tuple[str, ...] = ()
    if plan.on_success is not None:
        path = plan.on_success.merge_path
    run_key = f"{work_key(job.id, plan.id)}~{job.generations.get(attempt.node, 0)}"
    return SinkSpec(sink.tool, bytes(options), path, run_key)
