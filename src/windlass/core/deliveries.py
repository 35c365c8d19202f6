"""The record of each attempt to deliver a webhook, written with the attempt's end."""

from typing import Any

import msgspec
from msgspec import Raw

from windlass.core.changes import Task
from windlass.core.errors import TemplateFailed
from windlass.core.instants import MICROSECONDS
from windlass.core.json_text import NULL
from windlass.core.loop_state import Attempt
from windlass.core.messages import Failed, TaskFinished
from windlass.core.runs.rows import DeliveryRow
from windlass.core.runs.webhooks import WEBHOOK_WORKFLOW
from windlass.core.tasks import build_task
from windlass.core.templates.json_values import is_mapping
from windlass.core.turn import Turn
from windlass.core.webhooks import Delivery, delivery_of

DELIVERED, FAILED = "delivered", "failed"
# Params that were too large to travel with their task are not kept: such a delivery cannot be repeated.
NOT_KEPT = NULL
ERROR_CHARS_MAX = 1_000


def record_delivery(turn: Turn, attempt: Attempt, message: TaskFinished) -> None:
    """Record an attempt as its handler reported it, or as far as is known without a report."""
    try:
        task = build_task(turn.job, attempt)
    except TemplateFailed:
        return
    params = _params_of(task)
    workflow_id = turn.job.plan.workflow_id
    if workflow_id == WEBHOOK_WORKFLOW:
        # The call was made for a run, or is a redelivery.
        workflow_id = str(params.get("workflow_id") or workflow_id)
    params["workflow_id"] = workflow_id
    report = delivery_of(message.outcome.meta)
    if report is None:
        report = _unreported(message)
    else:
        params["id"] = report.webhook_id
    turn.changes.of_runs().deliveries.append(_row(task, message, report, params))


def _params_of(task: Task) -> dict[str, Any]:
    """Return the params of a task, as far as they are in it; nothing if they are not an object."""
    params: object = msgspec.json.decode(task.params)
    return dict(params) if is_mapping(params) else {}


def _unreported(message: TaskFinished) -> Delivery:
    """Return what is known of an attempt whose handler reported nothing."""
    status = None
    if isinstance(message.outcome, Failed):
        status = message.outcome.error.status
    microseconds = message.microseconds or 0
    return Delivery(
        webhook_id="",
        url="",
        sent_at=message.finished_at - microseconds,
        duration_seconds=microseconds / MICROSECONDS,
        status=status,
    )


def _row(
    task: Task, message: TaskFinished, report: Delivery, params: dict[str, Any]
) -> DeliveryRow:
    outcome, error = DELIVERED, None
    if isinstance(message.outcome, Failed):
        outcome, error = FAILED, message.outcome.error.message[:ERROR_CHARS_MAX]
    kept = NOT_KEPT
    if not task.artifacts:
        kept = Raw(msgspec.json.encode(params))
    return DeliveryRow(
        delivery_id=task.task_id,
        job_id=task.job_id,
        workflow_id=params["workflow_id"],
        node_id=task.node_id,
        attempt=task.attempt,
        url=report.url,
        outcome=outcome,
        status=report.status,
        error=error,
        response=report.response,
        duration_microseconds=round(report.duration_seconds * MICROSECONDS),
        sent_at=report.sent_at,
        params=kept,
    )
