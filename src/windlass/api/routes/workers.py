"""Routes of workers and queues."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, json_response, route
from windlass.api.policy import Policy
from windlass.api.requests import WORKER_ID, path_text, reject_query
from windlass.api.state import ApiState
from windlass.core.ids import TaskId
from windlass.ports.broker import HeldTask
from windlass.ports.prompt_calls import promptly
from windlass.views.queues import queue_views
from windlass.wire import Page, QueuesView, WorkerTaskView, WorkerView, instant

TAG = "workers"


async def worker_views(state: ApiState) -> list[WorkerView]:
    """Return all workers with their tasks. BrokerUnavailable."""
    timeout_seconds = state.control.worker_timeout_seconds
    return [
        WorkerView(
            worker_id=worker.worker_id,
            queues=list(worker.queues),
            running=worker.held,
            seen_at=instant(worker.seen_at),
            alive=worker.silent_seconds < timeout_seconds,
            tasks=[worker_task_view(task) for task in worker.tasks],
            handlers=None if worker.handlers is None else sorted(worker.handlers),
        )
        for worker in await promptly(state.broker.workers())
    ]


def worker_task_view(task: HeldTask) -> WorkerTaskView:
    """Return the view of a task that a worker holds."""
    task_id = TaskId.parse(task.task_id)
    return WorkerTaskView(
        job_id=task_id.job_id,
        node_id=task_id.node_id,
        index=task_id.index,
        attempt=task_id.attempt,
        since=instant(task.claimed_at),
    )


def routes(state: ApiState) -> list[Route]:
    """Return the routes of workers and queues."""

    async def list_workers(request: Request) -> Response:
        reject_query(request)
        return json_response(Page(await worker_views(state)))

    async def deregister(request: Request) -> Response:
        reject_query(request)
        worker_id = path_text(request, "worker_id", WORKER_ID)
        await promptly(state.broker.deregister(worker_id))
        return Response(status_code=204)

    async def list_queues(request: Request) -> Response:
        reject_query(request)
        queues, workers = await promptly(
            asyncio.gather(state.broker.queues(), state.broker.workers())
        )
        views = queue_views(queues, workers, state.control.worker_timeout_seconds)
        return json_response(QueuesView(views))

    return [
        route("GET", "/api/v1/workers", list_workers, Operation(
            policy=Policy.READ, tag=TAG, summary="List workers and their tasks",
            responses={200: Page[WorkerView]}, errors=(422,), response_example=_WORKERS,
        )),
        route("DELETE", "/api/v1/workers/{worker_id}", deregister, Operation(
            policy=Policy.OPERATE, tag=TAG, summary="Remove a worker that stops; it stays listed while it holds tasks",
            responses={204: None}, errors=(422,),
        )),
        route("GET", "/api/v1/queues", list_queues, Operation(
            policy=Policy.READ, tag=TAG, summary="List queues with waiting or running tasks",
            responses={200: QueuesView}, errors=(422,), response_example=_QUEUES,
        )),
    ]  # fmt: skip


_WORKERS = {
    "items": [
        {
            "worker_id": "host:4711:64f",
            "queues": ["default"],
            "running": 1,
            "seen_at": "2026-01-31T08:00:01.370000Z",
            "alive": True,
            "tasks": [
                {
                    "job_id": "1m7gjrzmd8447yh6bp63mp70",
                    "node_id": "each",
                    "index": 17,
                    "attempt": 1,
                    "since": "2026-01-31T08:00:00.120000Z",
                },
            ],
            "handlers": ["echo", "http"],
        },
    ],
    "next_cursor": None,
}
_QUEUES = {
    "items": [
        {
            "queue": "default",
            "depth": 120,
            "running": 8,
            "oldest_seconds": 4.2,
            "unserved": [{"handler": "resize", "tasks": 20}],
        },
    ],
}
