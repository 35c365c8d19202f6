"""Server-sent events: an answer that goes on until its source ends, its reader is gone, or the server stops."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, aclosing, suppress
from typing import Annotated

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.api.operations import EVENT_STREAM, Operation, declare, request_id_of
from windlass.api.policy import Policy
from windlass.api.problems import Refusal, invalid, logger, problem_of, problem_response
from windlass.api.requests import Flag, Number, id_of, query_of, shown
from windlass.api.state import ApiState
from windlass.core.events import Event as StoredEvent
from windlass.core.jobs import JobRecord
from windlass.views.event_view import EventView
from windlass.views.jobs import has_ended
from windlass.wire import Event

# Proxies and readers take a connection that says nothing for longer to be dead.
HEARTBEAT_SECONDS = 15.0
HEARTBEAT = b": still here\n\n"
# A reader that takes nothing for so long is gone: its place is given to another.
SEND_SECONDS_MAX = 60.0
EVENTS_PAGE = 500
# Of a stream without the events of single iterations: how many are looked at at once, and how long it waits before it
# looks again while there is nothing else. A large loop says something about each of its items.
LOOKED_AT_MAX = 5_000
ITEMS_SECONDS = 0.25
_DIGITS_MAX = 15

_encoder = msgspec.json.Encoder()


class StreamQuery(Struct, forbid_unknown_fields=True):
    """Where a stream begins: after the event of this number. The context, and the events of single iterations, may be
    left out."""

    after: Number | UnsetType = UNSET
    context: Flag = "true"
    items: Flag = "true"


class StreamHeaders(Struct):
    """A browser that reconnects says by itself what it saw last. It counts before `after`."""

    last_event_id: Annotated[str, Meta(pattern="^[0-9]{0,15}$")] | UnsetType = field(
        default=UNSET, name="Last-Event-ID"
    )


class EventStream:
    """The answer. It goes at its reader's pace; nothing else waits for that."""

    def __init__(self, state: ApiState, source: AsyncGenerator[bytes]) -> None:
        self._state = state
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with ExitStack() as held:
            try:
                held.enter_context(self._state.streams.held())
            except Refusal as refusal:
                await problem_response(problem_of(refusal, request_id_of(scope)))(scope, receive, send)
                return
            await self._stream(receive, send)

    async def _stream(self, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        told = asyncio.create_task(self._tell(send))
        ends = (told, asyncio.create_task(_gone(receive)), asyncio.create_task(self._state.closing.wait()))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)
        if not told.cancelled() and (error := told.exception()) is not None:
            # The status is out already. A reader that sees the end comes again and goes on where it was.
            logger.warning("a stream ended early", exc_info=error)
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, send: Send) -> None:
        async with aclosing(self._source) as source:
            async for chunk in source:
                async with asyncio.timeout(SEND_SECONDS_MAX):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _gone(receive: Receive) -> None:
    """Return once the reader has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def message(number: int, name: str, shape: object) -> bytes:
    """One server-sent event."""
    # Line ends within JSON are white space only, and would end the field.
    data = _encoder.encode(shape).replace(b"\r", b" ").replace(b"\n", b" ")
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, name.encode(), data)


def begin_after(request: Request, after: int | UnsetType) -> int:
    """The number of the last event that the reader has seen; Refusal for one that is no number."""
    given = request.headers.get("last-event-id", "")
    if not given:
        return after or 0
    if not (given.isascii() and given.isdigit() and len(given) <= _DIGITS_MAX):
        raise invalid("Last-Event-ID", f"{shown(given)} is no number of an event", "send back an id that was received")
    return int(given)


async def within(news: asyncio.Event, seconds: float) -> bool:
    """Wait for news so long at most; whether there are any."""
    # Not asyncio.wait_for: in Python 3.11 it can lose a cancel that comes as its future is done.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await news.wait()
    return news.is_set()


def router(state: ApiState) -> APIRouter:
    """`/jobs/{job_id}/events/stream`."""
    routes = APIRouter()

    async def stream(request: Request) -> ASGIApp:
        job_id = id_of(request, "job_id")
        query = query_of(request, StreamQuery)
        after = begin_after(request, query.after)
        job = await state.store.job(job_id)
        if has_ended(job) and not await state.store.events(job_id, after, 1):
            # Browsers come again and again after an end; this answer tells them not to.
            return Response(status_code=204)
        source = job_events if query.items == "true" else node_events
        return EventStream(state, source(state, job, after, with_context=query.context == "true"))

    declare(
        routes,
        "GET",
        "/jobs/{job_id}/events/stream",
        stream,
        Operation(
            policy=Policy.READ,
            tag="events",
            summary="Follow the events of a job until it ends",
            query=StreamQuery,
            headers=StreamHeaders,
            answers={200: Event, 204: None},
            answer_type=EVENT_STREAM,
            refusals=(404, 422, 503),
        ),
    )
    return routes


async def job_events(
    state: ApiState, job: JobRecord, after: int, *, with_context: bool = True
) -> AsyncGenerator[bytes]:
    """Every event of a job after a number, each once and in order; ends with the job's last."""
    plan = await state.control.plan(job.spec.workflow_id, job.spec.version)
    teller = EventView(state.store, plan, job, with_context=with_context)
    with state.control.news(job.spec.job_id) as news:
        while True:
            news.clear()
            # In this order: what is stored after the look at the job's state is not missed.
            ended = has_ended(await state.store.job(job.spec.job_id))
            while events := await state.store.events(job.spec.job_id, after, EVENTS_PAGE):
                after = events[-1].seq
                yield await _told(teller, events)
            if ended:
                return
            if not await within(news, HEARTBEAT_SECONDS):
                yield HEARTBEAT


async def node_events(
    state: ApiState, job: JobRecord, after: int, *, with_context: bool = True
) -> AsyncGenerator[bytes]:
    """As `job_events`, without the events of single iterations; their numbers are told, so that a reader that comes
    again goes on behind them."""
    plan = await state.control.plan(job.spec.workflow_id, job.spec.version)
    teller = EventView(state.store, plan, job, with_context=with_context)
    with state.control.news(job.spec.job_id) as news:
        while True:
            news.clear()
            ended = has_ended(await state.store.job(job.spec.job_id))
            begun, told = after, after
            while True:
                page = await state.store.overview.node_events(job.spec.job_id, after, EVENTS_PAGE, LOOKED_AT_MAX)
                if page.last_seq == after:
                    break
                after = page.last_seq
                if page.events:
                    told = page.events[-1].seq
                    yield await _told(teller, page.events)
            if after > told:
                # A number without data is no event, and is remembered by readers all the same.
                yield b"id: %d\n\n" % after
            if ended:
                return
            if after > begun == told:
                await asyncio.sleep(ITEMS_SECONDS)
            elif not await within(news, HEARTBEAT_SECONDS):
                yield HEARTBEAT


async def _told(teller: EventView, events: Sequence[StoredEvent]) -> bytes:
    return b"".join([message(one.seq, one.event_type, one) for one in await teller.told(events)])
