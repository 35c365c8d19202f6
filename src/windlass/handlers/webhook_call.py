"""One attempt to deliver a webhook: signed, bounded in time, and recorded whatever its outcome."""

import asyncio
from time import perf_counter, time_ns
from typing import Any

import httpx2
import msgspec

from windlass.connections.secrets import Secrets
from windlass.core.errors import (
    FatalError,
    ParamsInvalid,
    RetryableError,
    SignatureInvalid,
    WindlassError,
)
from windlass.core.instants import MICROSECONDS
from windlass.core.redaction import public_url
from windlass.core.webhooks import (
    ID_CHARS_MAX,
    ID_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP,
    TIMESTAMP_HEADER,
    Answer,
    Delivery,
    key_of,
    signature,
    timestamp_text,
)
from windlass.handlers.config import HandlerConfig
from windlass.handlers.http_exchange import (
    body_text,
    send_once,
    shared_client,
    status_error,
)
from windlass.handlers.requests import HttpParams, WebhookMessage
from windlass.ports.handler import Context

RESPONSE_CHARS_MAX = 1_000
ERROR_CHARS_MAX = 1_000
# A larger response is not parsed.
RESPONSE_BYTES_MAX = 64 << 10


class ResponseTimeout(RetryableError):
    """The receiver did not respond in time."""

    type = "timeout"


async def deliver_webhook(ctx: Context, message: WebhookMessage, config: HandlerConfig) -> Answer:
    """Deliver a message and record the attempt in `ctx.meta`; raise RetryableError if another may succeed."""
    sent_at = time_ns() // 1000
    began = perf_counter()
    status: int | None = None
    text: str | None = None
    error: str | None = None
    try:
        params = _signed(message, config.secrets, sent_at // MICROSECONDS)
        response, body = await _send(shared_client(ctx, config.allow_private), params)
        status, text = response.status_code, body_text(response, body)
        # A redirect is not a delivery: following it could lose the body or send it to an unknown server.
        if not response.is_success:
            raise status_error(params, response, text)
        return Answer(status, message.id, _response_value(body, text))
    except WindlassError as failure:
        error = str(failure)[:ERROR_CHARS_MAX]
        raise
    finally:
        delivery = Delivery(
            webhook_id=message.id,
            url=public_url(message.url),
            sent_at=sent_at,
            duration_seconds=round(perf_counter() - began, 6),
            status=status,
            error=error,
            response=text[:RESPONSE_CHARS_MAX] if text else None,
        )
        ctx.meta["delivery"] = msgspec.to_builtins(delivery)


def _signed(message: WebhookMessage, secrets: Secrets, timestamp: int) -> HttpParams:
    if not message.id.isascii() or not 0 < len(message.id) <= ID_CHARS_MAX:
        raise ParamsInvalid(
            f"invalid id: {message.id[:50]!r}; use 1 to {ID_CHARS_MAX} ASCII characters"
        )
    payload = message.payload
    if payload is None:
        at = message.timestamp or timestamp_text(timestamp * MICROSECONDS)
        payload = {"type": message.type, TIMESTAMP: at, "data": message.data}
    body = msgspec.json.encode(payload)
    headers = {name.lower(): value for name, value in message.headers.items()}
    headers["content-type"] = "application/json"
    headers[ID_HEADER] = message.id
    headers[TIMESTAMP_HEADER] = str(timestamp)
    if message.secret is not None:
        headers[SIGNATURE_HEADER] = signature(
            _key(message.secret, secrets), message.id, timestamp, body
        )
    return HttpParams(
        url=message.url,
        method="POST",
        headers=headers,
        body=body.decode(),
        timeout_seconds=message.timeout_seconds,
    )


def _key(name: str, secrets: Secrets) -> bytes:
    try:
        return key_of(secrets.get(name))
    except SignatureInvalid as error:
        raise FatalError(f"invalid secret {name!r}: {error}") from None


async def _send(client: httpx2.AsyncClient, params: HttpParams) -> tuple[httpx2.Response, bytes]:
    try:
        # The client's own timeout applies to each read: a receiver that responds slowly could exceed it many times.
        async with asyncio.timeout(params.timeout_seconds):
            return await send_once(client, params)
    except TimeoutError:
        url = public_url(params.url)
        raise ResponseTimeout(
            f"POST {url}: no response within {params.timeout_seconds:g} s"
        ) from None


def _response_value(body: bytes, text: str) -> Any:
    """Return a small JSON response as a value, since conditions may use it; otherwise the beginning of the text."""
    if len(body) > RESPONSE_BYTES_MAX:
        return text[:RESPONSE_CHARS_MAX]
    if not body.strip():
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return text[:RESPONSE_CHARS_MAX]
