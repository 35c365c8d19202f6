"""The workers, as the broker sees them."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.policy import Policy
from windlass.api.requests import no_query
from windlass.api.state import ApiState
from windlass.wire import Page, WorkerSeen, instant

TAG = "workers"
# As long as the engine waits before it gives a worker's tasks to another.
SILENT_MICROSECONDS = 15_000_000


async def workers_seen(state: ApiState) -> list[WorkerSeen]:
    """Every worker and whether it was heard of lately."""
    now = state.clock.now()
    return [
        WorkerSeen(
            worker_id=one.worker_id,
            queues=list(one.queues),
            running=one.held,
            seen_at=instant(one.seen_at) or "",
            alive=now - one.seen_at < SILENT_MICROSECONDS,
        )
        for one in await state.broker.workers()
    ]


def router(state: ApiState) -> APIRouter:
    """`/workers`."""
    routes = APIRouter()

    async def listed(request: Request) -> Response:
        no_query(request)
        return answer(Page(await workers_seen(state)))

    declare(routes, "GET", "/workers", listed, Operation(
        policy=Policy.READ, tag=TAG, summary="List the workers", answers={200: Page[WorkerSeen]}, refusals=(422,),
    ))  # fmt: skip
    return routes
