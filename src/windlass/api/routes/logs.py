"""The log lines of a job: a list and a stream."""

import asyncio
from collections.abc import AsyncGenerator

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
from windlass.api.operations import EVENT_STREAM, Operation, json_response, route
from windlass.api.optional_values import given
from windlass.api.policy import Policy
from windlass.api.requests import Limit, Number, path_id, read_query
from windlass.api.state import ApiState
from windlass.core.fields import Id
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import JobRecord
from windlass.ports.store.logs import LogFilter, StoredLog
from windlass.views.jobs import log_view
from windlass.views.pagination import paginate
from windlass.wire import LogView, Page

TAG = "logs"
PAGE = 500
# New lines are not notified, so a stream polls: often while lines arrive, rarely while none do.
LOG_POLL_SECONDS_MIN = 0.1
LOG_POLL_SECONDS_MAX = 1.0
# The last lines of a job may be stored shortly after it has finished.
LAST_LINES_SECONDS = 0.5


class LogsQuery(Struct, forbid_unknown_fields=True):
    """The filter and page of a list of log lines."""

    node: Id | UnsetType = UNSET
    index: Number | UnsetType = UNSET
    attempt: Number | UnsetType = UNSET
    after: Number = 0
    limit: Limit = PAGE


class LogStreamQuery(Struct, forbid_unknown_fields=True):
    """The filter and start of a stream of log lines."""

    node: Id | UnsetType = UNSET
    index: Number | UnsetType = UNSET
    attempt: Number | UnsetType = UNSET
    after: Number | UnsetType = UNSET


class JobLogLines(Struct, frozen=True):
    """The log lines of a job, a node, an iteration or an attempt."""

    job_id: str
    node_id: str | None
    attempt: int | None
    index: int | None

    async def read(self, state: ApiState, after: int, limit: int) -> list[StoredLog]:
        """Read lines after a number."""
        wanted = LogFilter(
            job_id=self.job_id,
            node_id=self.node_id,
            attempt=self.attempt,
            index=self.index,
            after=after,
            limit=limit,
        )
        return list(await state.store.logs.list(wanted))


def routes(state: ApiState) -> list[Route]:
    """Return the routes of logs."""

    async def list_lines(request: Request) -> Response:
        query = read_query(request, LogsQuery)
        selection = _selection(request, query)
        await state.store.jobs.get(selection.job_id)
        lines = await selection.read(state, query.after, query.limit + 1)
        page, next_cursor = paginate(lines, query.limit, lambda line: str(line.log_id))
        return json_response(Page([log_view(line) for line in page], next_cursor))

    async def stream_lines(request: Request) -> ASGIApp:
        query = read_query(request, LogStreamQuery)
        selection = _selection(request, query)
        after = last_event_id(request, query.after)
        job = await state.store.jobs.get(selection.job_id)
        if _seconds_until_complete(state, job) == 0.0 and not await selection.read(state, after, 1):
            # Browsers reconnect after the end of a stream; this status stops them.
            return Response(status_code=204)
        return EventStream(state, log_events(state, selection, after))

    return [
        route("GET", "/api/v1/jobs/{job_id}/logs", list_lines, Operation(
            policy=Policy.READ, tag=TAG, summary="List the log lines of a job in order",
            query=LogsQuery, responses={200: Page[LogView]}, errors=(404, 422),
        )),
        route("GET", "/api/v1/jobs/{job_id}/logs/stream", stream_lines, Operation(
            policy=Policy.READ, tag=TAG, summary="Stream the log lines of a job until it has finished",
            query=LogStreamQuery, headers=StreamHeaders, responses={200: LogView, 204: None},
            response_type=EVENT_STREAM, errors=(404, 422, 503),
        )),
    ]  # fmt: skip


async def log_events(state: ApiState, selection: JobLogLines, after: int) -> AsyncGenerator[bytes]:
    """Yield all lines after a number, each once and in order, until the job has finished and its lines are stored."""
    poll_seconds, idle_seconds = LOG_POLL_SECONDS_MIN, 0.0
    with state.control.jobs.subscribe(selection.job_id) as changed:
        while True:
            changed.clear()
            # Read the state before the lines: lines stored after this read are not missed.
            remaining = _seconds_until_complete(state, await state.store.jobs.get(selection.job_id))
            while lines := await selection.read(state, after, PAGE):
                after = lines[-1].log_id
                poll_seconds, idle_seconds = LOG_POLL_SECONDS_MIN, 0.0
                yield b"".join([format_event(line.log_id, "log", log_view(line)) for line in lines])
            if remaining == 0.0:
                return
            if remaining is not None:
                await asyncio.sleep(remaining)
                continue
            if await wait_for(changed, poll_seconds):
                poll_seconds = LOG_POLL_SECONDS_MIN
            idle_seconds += poll_seconds
            poll_seconds = min(poll_seconds * 2, LOG_POLL_SECONDS_MAX)
            if idle_seconds >= HEARTBEAT_SECONDS:
                idle_seconds = 0.0
                yield HEARTBEAT


def _selection(request: Request, query: LogsQuery | LogStreamQuery) -> JobLogLines:
    return JobLogLines(
        job_id=path_id(request, "job_id"),
        node_id=given(query.node),
        attempt=given(query.attempt),
        index=given(query.index),
    )


def _seconds_until_complete(state: ApiState, job: JobRecord) -> float | None:
    """Return in how many seconds the last lines of a finished job are stored; None while it runs."""
    if not job.state.is_final:
        return None
    elapsed = (state.clock.now() - (job.state.completed_at or 0)) / MICROSECONDS
    # A clock that was set back must not extend the wait.
    return min(max(0.0, LAST_LINES_SECONDS - elapsed), LAST_LINES_SECONDS)
