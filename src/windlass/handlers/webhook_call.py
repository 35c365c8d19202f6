"""One attempt to deliver a webhook: signed, bounded in time, and reported whatever becomes of it."""

import asyncio
from datetime import UTC, datetime
from time import perf_counter, time_ns
from typing import Any

import httpx2
import msgspec

from windlass.connections.secrets import Secrets
from windlass.core.errors import FatalError, ParamsInvalid, RetryableError, SignatureInvalid, WindlassError
from windlass.core.instants import MICROSECONDS
from windlass.core.webhooks import (
    ID_CHARS_MAX,
    ID_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    Answer,
    Delivery,
    key_of,
    signature,
)
from windlass.handlers.http import HttpParams
from windlass.handlers.http_exchange import (
    BODY_BYTES_MAX,
    body_of,
    request_of,
    shared_client,
    shown,
    status_error,
    text_of,
    translated,
)
from windlass.handlers.webhook import Message
from windlass.ports.handler import Context

RESPONSE_CHARS_MAX = 1_000
ERROR_CHARS_MAX = 1_000
ANSWER_BYTES_MAX = 64 << 10


class ResponseTimeout(RetryableError):
    """The receiver did not answer in time."""

    type = "timeout"


async def call(ctx: Context, message: Message, allow_private: bool, secrets: Secrets) -> Answer:
    """Deliver a message; RetryableError when another attempt may succeed. `ctx.meta` tells of the attempt."""
    sent_at = time_ns() // 1000
    began = perf_counter()
    status: int | None = None
    text: str | None = None
    error: str | None = None
    try:
        wanted = _signed(message, secrets, sent_at // MICROSECONDS)
        response, body = await _sent(shared_client(ctx, allow_private), wanted)
        status, text = response.status_code, text_of(response, body)
        # A redirect is no delivery: it would lose the body on its way, or carry it to who knows where.
        if not response.is_success:
            raise status_error(wanted, response, text)
        return Answer(status, message.id, _said(response, body, text))
    except WindlassError as failure:
        error = str(failure)[:ERROR_CHARS_MAX]
        raise
    finally:
        delivery = Delivery(
            webhook_id=message.id,
            url=shown(message.url),
            sent_at=sent_at,
            duration_seconds=round(perf_counter() - began, 6),
            status=status,
            error=error,
            response=text[:RESPONSE_CHARS_MAX] if text else None,
        )
        ctx.meta["delivery"] = msgspec.to_builtins(delivery)


def _signed(message: Message, secrets: Secrets, timestamp: int) -> HttpParams:
    if not message.id.isascii() or not 0 < len(message.id) <= ID_CHARS_MAX:
        raise ParamsInvalid(f"id {message.id[:50]!r}: use 1 to {ID_CHARS_MAX} ASCII characters")
    moment = datetime.fromtimestamp(timestamp, UTC).isoformat().replace("+00:00", "Z")
    usual = {"type": message.type, "timestamp": moment, "data": message.data}
    body = msgspec.json.encode(usual if message.payload is None else message.payload)
    headers = {
        **{name.lower(): value for name, value in message.headers.items()},
        "content-type": "application/json",
        ID_HEADER: message.id,
        TIMESTAMP_HEADER: str(timestamp),
    }
    if message.secret is not None:
        headers[SIGNATURE_HEADER] = signature(_key(message.secret, secrets), message.id, timestamp, body)
    return HttpParams(
        url=message.url,
        method="POST",
        params={},
        headers=headers,
        json=None,
        body=body.decode(),
        timeout_seconds=message.timeout_seconds,
        auth=None,
        expected=(),
    )


def _key(name: str, secrets: Secrets) -> bytes:
    try:
        return key_of(secrets.get(name))
    except SignatureInvalid as error:
        raise FatalError(f"the secret {name!r} cannot be used: {error}") from None


async def _sent(client: httpx2.AsyncClient, wanted: HttpParams) -> tuple[httpx2.Response, bytes]:
    try:
        # The client's own bound is for each step: a receiver that drips its answer could hold on for ever.
        async with asyncio.timeout(wanted.timeout_seconds):
            with translated(wanted):
                response = await client.send(request_of(client, wanted), stream=True)
                try:
                    return response, await body_of(response)
                finally:
                    await response.aclose()
    except TimeoutError:
        raise ResponseTimeout(f"POST {shown(wanted.url)} got no answer within {wanted.timeout_seconds:g} s") from None


def _said(response: httpx2.Response, body: bytes, text: str) -> Any:
    """What a receiver says may decide about a run; nobody waits for more than a little."""
    if len(body) > min(ANSWER_BYTES_MAX, BODY_BYTES_MAX):
        return text[:RESPONSE_CHARS_MAX]
    try:
        return msgspec.json.decode(body) if body.strip() else None
    except (msgspec.DecodeError, RecursionError):
        return text[:RESPONSE_CHARS_MAX]
