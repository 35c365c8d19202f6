"""The handler for webhooks: what it takes. The call itself is made in `webhook_call`."""

from typing import Any

from msgspec import Struct

from windlass.connections.secrets import Secrets
from windlass.core.errors import ParamsInvalid
from windlass.core.runs.rules import HOOK_TIMEOUT_SECONDS
from windlass.core.webhooks import HANDLER, Answer
from windlass.ports.handler import Context, Handler
from windlass.ports.handler_declaration import declared, handler

TYPE = "windlass.webhook"


class Message(Struct, frozen=True):
    """A message as the author described it."""

    url: str
    # The whole body; or, where that is None, what goes into one of the usual form.
    payload: Any
    type: str
    data: Any
    # The name of the key that signs it.
    secret: str | None
    headers: dict[str, str]
    timeout_seconds: float
    # The same for every attempt to deliver it.
    id: str


def webhook_handler(allow_private: bool, secrets: Secrets) -> Handler:
    """The `webhook` handler; it reaches what the `http` handler reaches, and only it knows the keys."""

    @handler(HANDLER)
    async def webhook(
        ctx: Context,
        url: str,
        data: Any = None,
        type: str = TYPE,
        payload: Any = None,
        secret: str | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = HOOK_TIMEOUT_SECONDS,
        id: str | None = None,
        workflow_id: str | None = None,
    ) -> Answer:
        """Post {type, timestamp, data}, or a payload as it is, signed if a secret is named; return what came back.

        `workflow_id` is not sent: the record of the delivery says whom it was made for.
        """
        if payload is not None and data is not None:
            raise ParamsInvalid("give only one of 'data' and 'payload': a payload is the whole body")
        message = Message(
            url=url,
            payload=payload,
            type=type,
            data=data,
            secret=secret,
            headers=headers or {},
            timeout_seconds=min(timeout, ctx.timeout_seconds),
            id=id or f"msg_{ctx.idempotency_key}",
        )
        # The client takes 100 ms to import; a worker that sends no requests does not pay for it.
        from windlass.handlers.webhook_call import call

        return await call(ctx, message, allow_private, secrets)

    return declared(webhook)
