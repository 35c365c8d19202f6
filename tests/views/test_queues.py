"""Views of queues: tasks that no worker can run."""

from windlass.ports.broker import ALL_QUEUES, QueueInfo, WorkerInfo
from windlass.views.queues import queue_views
from windlass.wire import UnservedView

QUEUE = QueueInfo("gpu", 7, 0, 1.0, (("render", 5), ("resize", 2)))


def worker(
    queues: tuple[str, ...] = ("gpu",),
    handlers: tuple[str, ...] | None = None,
    silent_seconds: float = 0.0,
) -> WorkerInfo:
    return WorkerInfo("w1", queues, 0, 0, silent_seconds, handlers=handlers)


def unserved(*workers: WorkerInfo) -> list[str]:
    [view] = queue_views([QUEUE], workers, worker_timeout_seconds=15.0)
    return [one.handler for one in view.unserved]


def test_tasks_without_any_worker_are_unserved() -> None:
    [view] = queue_views([QUEUE], [], worker_timeout_seconds=15.0)

    assert view.unserved == [UnservedView("render", 5), UnservedView("resize", 2)]


def test_a_worker_of_the_queue_serves_its_handlers() -> None:
    assert unserved(worker(handlers=("resize", "echo"))) == ["render"]
    assert unserved(worker(handlers=("resize",)), worker(handlers=("render",))) == []
    assert unserved(worker(handlers=None)) == []
    assert unserved(worker(queues=(ALL_QUEUES,))) == []


def test_workers_of_other_queues_and_stale_ones_serve_nothing() -> None:
    assert unserved(worker(queues=("default",))) == ["render", "resize"]
    assert unserved(worker(silent_seconds=16.0)) == ["render", "resize"]
