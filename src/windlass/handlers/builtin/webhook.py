"""The handler for webhooks. `webhook_call` makes the request."""

from typing import Annotated, Any

from msgspec import Meta

from windlass.core.errors import ParamsInvalid
from windlass.core.runs.rules import HOOK_TIMEOUT_SECONDS
from windlass.core.webhooks import HANDLER, Answer
from windlass.handlers.config import HandlerConfig
from windlass.handlers.requests import WebhookMessage
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler

TYPE = "windlass.webhook"


@handler(HANDLER)
async def webhook(
    ctx: Context,
    config: HandlerConfig,
    url: Annotated[str, Meta(description="where the message is sent")],
    data: Annotated[Any, Meta(description="field `data` of the body")] = None,
    type: Annotated[str, Meta(description="field `type` of the body")] = TYPE,
    payload: Annotated[
        Any, Meta(description="the whole body, in place of `data` and `type`")
    ] = None,
    secret: Annotated[
        str | None, Meta(description="name of the secret that signs the message")
    ] = None,
    headers: Annotated[dict[str, str] | None, Meta(description="request headers")] = None,
    timeout: Annotated[
        float, Meta(description="seconds for the whole request, at most the node's own timeout")
    ] = HOOK_TIMEOUT_SECONDS,
    id: Annotated[
        str | None, Meta(description="message id; default: the same for every attempt of the task")
    ] = None,
    timestamp: Annotated[
        str | None,
        Meta(
            description="field `timestamp` of the body; default: when the task was first dispatched"
        ),
    ] = None,
    workflow_id: Annotated[
        str | None,
        Meta(description="not sent; recorded as the workflow that the delivery belongs to"),
    ] = None,
) -> Answer:
    """Send a webhook, signed if a secret is named; return the receiver's response."""
    if payload is not None and data is not None:
        raise ParamsInvalid(
            "both 'data' and 'payload' given; 'payload' is the whole body, remove one of them"
        )
    message = WebhookMessage(
        url=url,
        payload=payload,
        type=type,
        data=data,
        secret=secret,
        headers=headers or {},
        timeout_seconds=min(timeout, ctx.timeout_seconds),
        id=id or f"msg_{ctx.idempotency_key}",
        timestamp=timestamp,
    )
    # The client takes 100 ms to import; workers that send no requests do not load it.
    from windlass.handlers.webhook_call import deliver_webhook

    return await deliver_webhook(ctx, message, config)
