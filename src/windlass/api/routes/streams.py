"""The event stream of a job."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from windlass.api.event_stream import (
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    EventStream,
    StreamHeaders,
    format_event,
    last_event_id,
    wait_for,
)
from windlass.api.operations import EVENT_STREAM, Operation, route
from windlass.api.policy import Policy
from windlass.api.requests import Flag, Number, path_id, read_query
from windlass.api.state import ApiState
from windlass.core.events import Event
from windlass.core.jobs import JobRecord
from windlass.views.events import EventRenderer
from windlass.wire import EventView

EVENTS_PAGE = 500
# Without events of iterations: how many events one query scans, and the pause between queries while a loop writes
# nothing but events of its iterations.
SCANNED_MAX = 5_000
ITERATIONS_SECONDS = 0.25


class StreamQuery(Struct, forbid_unknown_fields=True):
    """The start of a stream, and whether it includes the context and the events of iterations."""

    after: Number | UnsetType = UNSET
    context: Flag = "true"
    iterations: Flag = "true"


def routes(state: ApiState) -> list[Route]:
    """Return the route of the event stream."""

    async def stream(request: Request) -> ASGIApp:
        job_id = path_id(request, "job_id")
        query = read_query(request, StreamQuery)
        after = last_event_id(request, query.after)
        job = await state.store.jobs.get(job_id)
        if job.state.is_final and not await state.store.jobs.events(job_id, after, 1):
            # Browsers reconnect after the end of a stream; this status stops them.
            return Response(status_code=204)
        source = job_events if query.iterations == "true" else node_events
        return EventStream(state, source(state, job, after, with_context=query.context == "true"))

    return [route("GET", "/api/v1/jobs/{job_id}/events/stream", stream, STREAM)]


async def job_events(
    state: ApiState, job: JobRecord, after: int, *, with_context: bool = True
) -> AsyncGenerator[bytes]:
    """Yield all events of a job after a number, each once and in order, until the job has finished."""
    plan = await state.control.plan(job.spec.workflow_id, job.spec.version)
    renderer = EventRenderer(state.store, plan, job, with_context=with_context)
    with state.control.jobs.subscribe(job.spec.job_id) as changed:
        while True:
            changed.clear()
            # Read the state before the events: events stored after this read are not missed.
            finished = (await state.store.jobs.get(job.spec.job_id)).state.is_final
            while events := await state.store.jobs.events(job.spec.job_id, after, EVENTS_PAGE):
                after = events[-1].seq
                yield await _format(renderer, events)
            if finished:
                return
            if not await wait_for(changed, HEARTBEAT_SECONDS):
                yield HEARTBEAT


async def node_events(
    state: ApiState, job: JobRecord, after: int, *, with_context: bool = True
) -> AsyncGenerator[bytes]:
    """Yield events as `job_events`, without those of iterations. Their numbers are sent, so that a client that
    reconnects resumes after them."""
    plan = await state.control.plan(job.spec.workflow_id, job.spec.version)
    renderer = EventRenderer(state.store, plan, job, with_context=with_context)
    with state.control.jobs.subscribe(job.spec.job_id) as changed:
        while True:
            changed.clear()
            finished = (await state.store.jobs.get(job.spec.job_id)).state.is_final
            scanned_from, sent = after, after
            while True:
                page = await state.store.overview.node_events(
                    job.spec.job_id, after, EVENTS_PAGE, SCANNED_MAX
                )
                if page.last_seq == after:
                    break
                after = page.last_seq
                if page.events:
                    sent = page.events[-1].seq
                    yield await _format(renderer, page.events)
            if after > sent:
                # An id without data is not an event, but clients remember it.
                yield b"id: %d\n\n" % after
            if finished:
                return
            only_iterations = after > scanned_from and sent == scanned_from
            if only_iterations:
                await asyncio.sleep(ITERATIONS_SECONDS)
            elif not await wait_for(changed, HEARTBEAT_SECONDS):
                yield HEARTBEAT


async def _format(renderer: EventRenderer, events: Sequence[Event]) -> bytes:
    views = await renderer.render(events)
    return b"".join([format_event(view.seq, view.event_type, view) for view in views])


STREAM = Operation(
    policy=Policy.READ,
    tag="events",
    summary="Stream the events of a job until it has finished",
    query=StreamQuery,
    headers=StreamHeaders,
    responses={200: EventView, 204: None},
    response_type=EVENT_STREAM,
    errors=(404, 422, 503),
)
