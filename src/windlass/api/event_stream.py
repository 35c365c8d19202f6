"""Responses of server-sent events: they last until the source ends, the client disconnects or the server stops."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing, suppress
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from windlass.api.operations import request_id_of
from windlass.api.problems import HttpProblem, invalid, logger, problem_details, problem_response
from windlass.api.requests import quoted
from windlass.api.state import ApiState
from windlass.core.fields import whole

# Proxies and clients close connections that are idle for longer.
HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": heartbeat\n\n"
# A client that reads nothing for this long is disconnected.
SEND_SECONDS_MAX = 60.0
HEADERS = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"))
_DIGITS_MAX = 15

_encoder = msgspec.json.Encoder()


class StreamHeaders(Struct):
    """The header with which browsers resume a stream. It takes precedence over `after`."""

    last_event_id: Annotated[str, Meta(pattern=whole("[0-9]{0,15}"))] | UnsetType = field(
        default=UNSET, name="Last-Event-ID"
    )


class EventStream:
    """A streaming response that sends the chunks of a source at the pace of its client."""

    def __init__(self, state: ApiState, source: AsyncGenerator[bytes]) -> None:
        self._state = state
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with ExitStack() as stack:
            try:
                stack.enter_context(self._state.streams.acquire())
            except HttpProblem as problem:
                response = problem_response(problem_details(problem, request_id_of(scope)))
                await response(scope, receive, send)
                return
            await self._stream(receive, send)

    async def _stream(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        sending = asyncio.create_task(self._send_chunks(send))
        tasks = (
            sending,
            asyncio.create_task(_disconnected(receive)),
            asyncio.create_task(self._state.closing.wait()),
        )
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not sending.cancelled() and (error := sending.exception()) is not None:
            # The status is sent already. The client sees the end, reconnects and resumes.
            logger.warning("stream aborted", exc_info=error)
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_chunks(self, send: Send) -> None:
        async with aclosing(self._source) as source:
            async for chunk in source:
                async with asyncio.timeout(SEND_SECONDS_MAX):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def format_event(number: int, name: str, view: object) -> bytes:
    """Return a view as one server-sent event."""
    # Line breaks in JSON are insignificant white space, but would end the field.
    data = _encoder.encode(view).replace(b"\r", b" ").replace(b"\n", b" ")
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, name.encode(), data)


def last_event_id(request: Request, after: int | UnsetType) -> int:
    """Return the number of the last event that the client has received; HttpProblem if it is not a number."""
    given = request.headers.get("last-event-id", "")
    if not given:
        return after or 0
    if not (given.isascii() and given.isdigit() and len(given) <= _DIGITS_MAX):
        raise invalid(
            "Last-Event-ID", f"invalid event id: {quoted(given)}", "send the id of a received event"
        )
    return int(given)


async def wait_for(changed: asyncio.Event, seconds: float) -> bool:
    """Wait for an event until the timeout; return whether it is set."""
    # Not asyncio.wait_for: in Python 3.11 it can lose a cancellation that arrives as its future completes.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await changed.wait()
    return changed.is_set()
