"""The record of each attempt to deliver a webhook, written with the attempt's end."""

from typing import Any

import msgspec
from msgspec import Raw

from windlass.core.errors import TemplateFailed
from windlass.core.instants import MICROSECONDS
from windlass.core.loop_state import Attempt
from windlass.core.messages import Failed, TaskFinished
from windlass.core.runs.rows import DeliveryRow
from windlass.core.runs.webhooks import WEBHOOK_WORKFLOW
from windlass.core.tasks import build_task
from windlass.core.turn import Turn
from windlass.core.webhooks import delivery_of

DELIVERED, FAILED = "delivered", "failed"
# Params that were too large to travel with their task are not kept: such a delivery cannot be made again.
NOT_KEPT = Raw(b"null")
ERROR_CHARS_MAX = 1_000


def record_delivery(turn: Turn, attempt: Attempt, message: TaskFinished) -> None:
    """Note how an attempt went, as the handler reported it, or as far as is known when it could not."""
    try:
        task = build_task(turn.job, attempt)
    except TemplateFailed:
        return
    outcome = message.outcome
    reported = delivery_of(outcome.meta)
    error = outcome.error if isinstance(outcome, Failed) else None
    given = msgspec.json.decode(task.params, type=dict[str, Any])
    workflow_id = turn.job.plan.workflow_id
    if workflow_id == WEBHOOK_WORKFLOW:
        # Made for another: a run, or a delivery that somebody wanted once more.
        workflow_id = str(given.get("workflow_id") or workflow_id)
    known = (
        {"workflow_id": workflow_id} if reported is None else {"workflow_id": workflow_id, "id": reported.webhook_id}
    )
    turn.changes.of_runs().deliveries.append(
        DeliveryRow(
            delivery_id=task.task_id,
            job_id=turn.job.id,
            workflow_id=workflow_id,
            node_id=task.node_id,
            attempt=task.attempt,
            url="" if reported is None else reported.url,
            outcome=DELIVERED if error is None else FAILED,
            status=error.status if reported is None and error is not None else reported and reported.status,
            error=None if error is None else error.message[:ERROR_CHARS_MAX],
            response=reported and reported.response,
            duration_microseconds=_took(message)
            if reported is None
            else round(reported.duration_seconds * MICROSECONDS),
            sent_at=message.started_at if reported is None else reported.sent_at,
            params=NOT_KEPT if task.artifacts else Raw(msgspec.json.encode(given | known)),
        )
    )


def _took(message: TaskFinished) -> int:
    return max(0, message.finished_at - message.started_at)
