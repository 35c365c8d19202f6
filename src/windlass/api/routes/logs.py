"""The lines that the attempts of a job wrote: page by page, or as they come."""

import asyncio
from collections.abc import AsyncGenerator

from fastapi import APIRouter
from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from windlass.api.operations import EVENT_STREAM, Operation, answer, declare
from windlass.api.policy import Policy
from windlass.api.requests import Id, Limit, Number, id_of, query_of
from windlass.api.state import ApiState
from windlass.api.stream import HEARTBEAT, HEARTBEAT_SECONDS, EventStream, StreamHeaders, begin_after, message, within
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import JobRecord
from windlass.ports.store import StoredLog
from windlass.views.jobs import has_ended, log_shape
from windlass.wire import Log, Page

TAG = "logs"
PAGE = 500
# Nobody says when lines are stored, so a tail looks for them: often while they come, seldom while they do not.
LOOK_SECONDS_MIN = 0.1
LOOK_SECONDS_MAX = 1.0
# The last lines of a job may be stored a moment after its end.
LAST_LINES_SECONDS = 0.5


class LogsQuery(Struct, forbid_unknown_fields=True):
    """Lines after this number, of one node, iteration or attempt if wanted: `next_cursor` is the next page's."""

    node: Id | UnsetType = UNSET
    index: Number | UnsetType = UNSET
    attempt: Number | UnsetType = UNSET
    after: Number = 0
    limit: Limit = PAGE


class TailQuery(Struct, forbid_unknown_fields=True):
    """Where a tail begins, and of which node, iteration or attempt it tells."""

    node: Id | UnsetType = UNSET
    index: Number | UnsetType = UNSET
    attempt: Number | UnsetType = UNSET
    after: Number | UnsetType = UNSET


class Wanted(Struct, frozen=True):
    """Which lines of a job."""

    job_id: str
    node_id: str | None
    attempt: int | None
    index: int | None

    async def after(self, state: ApiState, log_id: int, limit: int) -> list[StoredLog]:
        """Those after a number."""
        return list(await state.store.logs(self.job_id, self.node_id, self.attempt, log_id, limit, self.index))


def router(state: ApiState) -> APIRouter:
    """`/jobs/{job_id}/logs` and its tail."""
    routes = APIRouter()

    async def listed(request: Request) -> Response:
        query = query_of(request, LogsQuery)
        wanted = _wanted(request, query)
        await state.store.job(wanted.job_id)
        found = await wanted.after(state, query.after, query.limit + 1)
        page = found[: query.limit]
        following = str(page[-1].log_id) if len(found) > len(page) else None
        return answer(Page([log_shape(one) for one in page], following))

    async def tailed(request: Request) -> ASGIApp:
        query = query_of(request, TailQuery)
        wanted = _wanted(request, query)
        after = begin_after(request, query.after)
        job = await state.store.job(wanted.job_id)
        if _settles_in(state, job) == 0.0 and not await wanted.after(state, after, 1):
            # Browsers come again and again after an end; this answer tells them not to.
            return Response(status_code=204)
        return EventStream(state, tail(state, wanted, after))

    declare(routes, "GET", "/jobs/{job_id}/logs", listed, _LIST)
    declare(routes, "GET", "/jobs/{job_id}/logs/stream", tailed, _TAIL)
    return routes


async def tail(state: ApiState, wanted: Wanted, after: int) -> AsyncGenerator[bytes]:
    """Every line after a number, each once and in order, until the job has ended and its last lines are out."""
    look, quiet = LOOK_SECONDS_MIN, 0.0
    with state.control.news(wanted.job_id) as news:
        while True:
            news.clear()
            # In this order: what is stored after the look at the job's state is not missed.
            left = _settles_in(state, await state.store.job(wanted.job_id))
            while lines := await wanted.after(state, after, PAGE):
                after = lines[-1].log_id
                look, quiet = LOOK_SECONDS_MIN, 0.0
                yield b"".join([message(one.log_id, "log", log_shape(one)) for one in lines])
            if left == 0.0:
                return
            if left is not None:
                await asyncio.sleep(left)
                continue
            if await within(news, look):
                look = LOOK_SECONDS_MIN
            quiet += look
            look = min(look * 2, LOOK_SECONDS_MAX)
            if quiet >= HEARTBEAT_SECONDS:
                quiet = 0.0
                yield HEARTBEAT


def _wanted(request: Request, query: LogsQuery | TailQuery) -> Wanted:
    return Wanted(
        id_of(request, "job_id"),
        None if query.node is UNSET else query.node,
        None if query.attempt is UNSET else query.attempt,
        None if query.index is UNSET else query.index,
    )


def _settles_in(state: ApiState, job: JobRecord) -> float | None:
    """In how many seconds the job's last lines are stored; None while it has not ended."""
    if not has_ended(job):
        return None
    since = (state.clock.now() - (job.state.completed_at or 0)) / MICROSECONDS
    # A clock that was set back must not make anybody wait for longer.
    return min(max(0.0, LAST_LINES_SECONDS - since), LAST_LINES_SECONDS)


_LIST = Operation(
    policy=Policy.READ,
    tag=TAG,
    summary="List the lines that a job's attempts wrote, in their order",
    query=LogsQuery,
    answers={200: Page[Log]},
    refusals=(404, 422),
)
_TAIL = Operation(
    policy=Policy.READ,
    tag=TAG,
    summary="Follow the lines of a job until it has ended",
    query=TailQuery,
    headers=StreamHeaders,
    answers={200: Log, 204: None},
    answer_type=EVENT_STREAM,
    refusals=(404, 422, 503),
)
