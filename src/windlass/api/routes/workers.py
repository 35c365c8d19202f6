"""The workers and the queues, as the broker sees them."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.policy import Policy
from windlass.api.requests import no_query
from windlass.api.state import ApiState
from windlass.ports.broker import HeldTask
from windlass.wire import Page, Queues, QueueSeen, WorkerSeen, WorkerTask, instant

TAG = "workers"
# As long as the engine waits before it gives a worker's tasks to another.
SILENT_MICROSECONDS = 15_000_000

_WORKERS = {
    "items": [
        {
            "worker_id": "host:4711:64f", "queues": ["default"], "running": 1,
            "seen_at": "2026-01-31T08:00:01.370000Z", "alive": True,
            "tasks": [
                {"job_id": "1m7gjrzmd8447yh6bp63mp70", "node_id": "each", "index": 17, "attempt": 1,
                 "since": "2026-01-31T08:00:00.120000Z"},
            ],
        },
    ],
    "next_cursor": None,
}  # fmt: skip
_QUEUES = {"items": [{"queue": "default", "depth": 120, "running": 8, "oldest_seconds": 4.2}]}


async def workers_seen(state: ApiState) -> list[WorkerSeen]:
    """Every worker, whether it was heard of lately, and what it has."""
    now = state.clock.now()
    return [
        WorkerSeen(
            worker_id=one.worker_id,
            queues=list(one.queues),
            running=one.held,
            seen_at=instant(one.seen_at) or "",
            alive=now - one.seen_at < SILENT_MICROSECONDS,
            tasks=[task_of(held) for held in one.tasks],
        )
        for one in await state.broker.workers()
    ]


def task_of(held: HeldTask) -> WorkerTask:
    """What the id of a task tells: job, node, the iteration in brackets, attempt. Ids of jobs have no `_`."""
    job_id, _, rest = held.task_id.partition("_")
    place, _, attempt = rest.rpartition("_")
    node_id, _, index = place.partition("[")
    iteration = int(index.removesuffix("]")) if index else None
    return WorkerTask(job_id, node_id, iteration, int(attempt), instant(held.claimed_at) or "")


def router(state: ApiState) -> APIRouter:
    """`/workers` and `/queues`."""
    routes = APIRouter()

    async def workers(request: Request) -> Response:
        no_query(request)
        return answer(Page(await workers_seen(state)))

    async def queues(request: Request) -> Response:
        no_query(request)
        found = await state.broker.queues()
        return answer(Queues([QueueSeen(one.queue, one.depth, one.running, one.oldest_seconds) for one in found]))

    declare(routes, "GET", "/workers", workers, Operation(
        policy=Policy.READ, tag=TAG, summary="List the workers and what they run",
        answers={200: Page[WorkerSeen]}, refusals=(422,), answer_example=_WORKERS,
    ))  # fmt: skip
    declare(routes, "GET", "/queues", queues, Operation(
        policy=Policy.READ, tag=TAG, summary="List the queues that have tasks: how much waits, how long, how much runs",
        answers={200: Queues}, refusals=(422,), answer_example=_QUEUES,
    ))  # fmt: skip
    return routes
