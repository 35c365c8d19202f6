"""Calls for runs are jobs of a built-in workflow with one node that delivers a webhook.

Its version is the maximum number of attempts, which each call can choose.
"""

from array import array
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from windlass.core.artifacts import decode_or
from windlass.core.instants import MICROSECONDS
from windlass.core.plan import Backoff, NodePlan, Plan, RetryOnError
from windlass.core.runs.commands import MakeCall
from windlass.core.webhooks import HANDLER

# Ids of deployed workflows contain no dot.
WEBHOOK_WORKFLOW = "windlass.webhook"
WEBHOOK_NODE = "deliver"
# The handler has a timeout of its own; this bounds a handler that does not stop.
ATTEMPT_SECONDS_MAX = 600.0
# Includes the delays between attempts. Without workers, a call must not block its run forever.
CALL_SECONDS_MAX = 6 * 3600.0
REFUSAL_LENGTH_MAX = 500


def webhook_plan(attempts_max: int) -> Plan:
    """Return the plan of a call with a maximum number of attempts."""
    rule = RetryOnError(attempts_max=max(1, attempts_max), backoff=Backoff.EXPONENTIAL, initial_delay_seconds=1.0,
                        multiplier=4.0, max_delay_seconds=900.0)  # fmt: skip
    node = NodePlan(
        WEBHOOK_NODE, handler=HANDLER, timeout_seconds=ATTEMPT_SECONDS_MAX, on_error=rule
    )
    return Plan(
        workflow_id=WEBHOOK_WORKFLOW,
        version=attempts_max,
        nodes=[node],
        index={WEBHOOK_NODE: 0},
        parents=[()],
        children=[()],
        dependency_counts=array("l", [0]),
        timeout_seconds=CALL_SECONDS_MAX,
    )


def instant_text(microseconds: int) -> str:
    """Return an instant in ISO 8601, in UTC."""
    return (
        datetime.fromtimestamp(microseconds / MICROSECONDS, UTC).isoformat().replace("+00:00", "Z")
    )


def call_input(command: MakeCall) -> Raw:
    """Return the params of a call."""
    hook = command.hook
    params: dict[str, Any] = {
        "url": hook.url,
        "type": command.type,
        "data": command.data,
        "timeout": hook.timeout_seconds,
        # Deliveries are listed by the workflow that they are about.
        "workflow_id": command.workflow_id,
    }
    if hook.secret is not None:
        params["secret"] = hook.secret
    return Raw(msgspec.json.encode(params))


class _HookResponse(Struct, frozen=True):
    allow: bool = True
    reason: str | None = None


class _Delivered(Struct, frozen=True):
    response: _HookResponse = _HookResponse()


def refusal_of(output: Raw | None) -> str | None:
    """Return why the response to a call forbids the run: a JSON object with `"allow": false`, and maybe a reason."""
    # Any other response allows it.
    response = decode_or(_Delivered(), output).response
    if response.allow:
        return None
    return (response.reason or "the hook does not allow the run")[:REFUSAL_LENGTH_MAX]
