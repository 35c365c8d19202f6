"""The broker's contract: tasks to workers, messages to shards.

A broker carries work in flight and hints; rows carry the truth. It may lose everything at any moment:
the engine publishes again what its rows say is in flight.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from windlass.core.changes import Task
from windlass.core.messages import Message, TaskFinished

# A worker that serves every queue there is, as the embedded one does.
ALL_QUEUES = "*"
# Tasks of each worker that `workers` names.
HELD_SHOWN_MAX = 100


class TaskClaim(Struct, frozen=True, gc=False):
    """A task in a worker's hands. `delivery_count` counts how often this attempt was handed out, from 1."""

    task: Task
    delivery_count: int = 1


class TaskReport(Struct, frozen=True, gc=False):
    """What a worker says at the end of a delivery."""

    task_id: str
    shard: int
    message: TaskFinished


class HeldTask(Struct, frozen=True, order=True):
    """A task in a worker's hands, and since when."""

    claimed_at: int
    task_id: str


class WorkerInfo(Struct, frozen=True):
    """A worker as the broker knows it: when it last said anything, and how much it holds."""

    worker_id: str
    queues: tuple[str, ...]
    held: int
    seen_at: int
    # What it has held for longest, no more than are shown.
    tasks: Sequence[HeldTask] = ()


class QueueInfo(Struct, frozen=True):
    """A queue with something in it: how much waits, for how long at most, and how much workers have of it."""

    queue: str
    depth: int
    running: int
    # None when nothing waits.
    oldest_seconds: float | None = None


class Broker(Protocol):
    """Queues of tasks and one inbox a shard."""

    async def close(self) -> None:
        """Let go of connections; what is queued and held stays where it is."""
        ...

    async def publish(self, tasks: Sequence[Task]) -> None:
        """Queue tasks. One that is already queued or held, by its task id, is dropped."""
        ...

    async def claim(
        self, worker_id: str, queues: Sequence[str], limit: int, wait_seconds: float
    ) -> Sequence[TaskClaim]:
        """Take up to `limit` tasks, higher priority first, then oldest; wait at most so long for the first one."""
        ...

    async def extend(self, worker_id: str, task_ids: Sequence[str]) -> Sequence[str]:
        """Say that the worker lives and holds these. Returns those it should stop: cancelled, or no longer its own."""
        ...

    async def finish(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        """Deliver results to their shards and let go of the tasks, in one step each. The core drops a second report."""
        ...

    async def return_tasks(self, worker_id: str, task_ids: Sequence[str]) -> None:
        """Return held tasks to the head of their queues, as if never taken: a worker that stops does this."""
        ...

    async def reclaim(self, silent_seconds: float) -> int:
        """Queue again what was not extended by its holder for so long, telling the shards (TaskLost). How many."""
        ...

    async def cancel(self, task_ids: Sequence[str]) -> None:
        """Drop queued tasks; ask the holders of the others to stop, through `cancelled` and `extend`."""
        ...

    async def receive_cancellations(self, worker_id: str, wait_seconds: float) -> Sequence[str]:
        """Tasks held by the worker that it was asked to stop since the last call; waits for the first."""
        ...

    async def workers(self) -> Sequence[WorkerInfo]:
        """Every worker that was not found dead, by id."""
        ...

    async def queues(self) -> Sequence[QueueInfo]:
        """Every queue that has tasks waiting or held, by name. It takes no time that grows with what waits."""
        ...

    async def missing(self, task_ids: Sequence[str]) -> Sequence[str]:
        """Those of the tasks that are neither queued nor held here."""
        ...

    async def send(self, shard: int, messages: Sequence[Message]) -> None:
        """Put messages into a shard's inbox."""
        ...

    async def receive(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        """Messages of a shard in order, up to `limit`, waiting for the first. They stay until acknowledged.

        One process gathers for tens of shards at a time: they share one connection that waits."""
        ...

    async def acknowledge(self, shard: int, count: int) -> None:
        """Forget the `count` oldest messages that were gathered."""
        ...

    async def rewind(self, shard: int) -> None:
        """Receive again from the oldest message not acknowledged: a new owner, or one that lost its memory."""
        ...

    def notify_done(self, ids: Sequence[str]) -> None:
        """Tell every process that jobs have ended or requests were applied: a hint, sent soon, which may get lost."""
        ...

    def subscribe_done(self, hear: Callable[[Sequence[str]], None]) -> None:
        """From now on call `hear` with the ids that any process tells of; some are missed, some come twice."""
        ...
