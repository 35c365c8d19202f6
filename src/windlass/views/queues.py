"""Views of queues: their lengths, and waiting tasks that no worker can run."""

from collections.abc import Sequence

from windlass.ports.broker import ALL_QUEUES, QueueInfo, WorkerInfo
from windlass.wire import QueueView, UnservedView


def queue_views(
    queues: Sequence[QueueInfo], workers: Sequence[WorkerInfo], worker_timeout_seconds: float
) -> list[QueueView]:
    """Return the views of queues, given all workers. A worker without a recent heartbeat serves none."""
    alive = [worker for worker in workers if worker.silent_seconds < worker_timeout_seconds]
    return [
        QueueView(
            queue=queue.queue,
            depth=queue.depth,
            running=queue.running,
            oldest_seconds=queue.oldest_seconds,
            unserved=[
                UnservedView(handler, count)
                for handler, count in queue.waiting
                if not any(_serves(worker, queue.queue, handler) for worker in alive)
            ],
        )
        for queue in queues
    ]


def _serves(worker: WorkerInfo, queue: str, handler: str) -> bool:
    if queue not in worker.queues and ALL_QUEUES not in worker.queues:
        return False
    return worker.handlers is None or handler in worker.handlers
