"""The broker port: queues of tasks for workers and one inbox of messages for each shard.

A broker may lose its contents at any time: the database records which tasks are in flight, and the engine publishes
the lost ones again.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from windlass.core.changes import Task
from windlass.core.messages import Message, TaskFinished

# The queue name of a worker that serves every queue.
ALL_QUEUES = "*"
# Workers that `workers` lists, and the held tasks of each.
WORKERS_SHOWN_MAX = 10_000
HELD_SHOWN_MAX = 100


class TaskClaim(Struct, frozen=True, gc=False):
    """A task claimed by a worker. `delivery_count` counts the claims of this attempt, starting at 1."""

    task: Task
    delivery_count: int = 1


class TaskReport(Struct, frozen=True, gc=False):
    """The result of a claimed task, addressed to the shard of its job."""

    task_id: str
    shard: int
    message: TaskFinished


class HeldTask(Struct, frozen=True, order=True):
    """A task that a worker holds."""

    claimed_at: int
    task_id: str


class WorkerInfo(Struct, frozen=True):
    """A worker as the broker knows it: what it serves, its last sign of life and the tasks it holds."""

    worker_id: str
    queues: tuple[str, ...]
    held: int
    seen_at: int
    # The time since then, by the broker's clock.
    silent_seconds: float
    # The tasks held for the longest time, at most HELD_SHOWN_MAX.
    tasks: Sequence[HeldTask] = ()
    # The handlers that it has; None for a worker that claims tasks of every handler.
    handlers: tuple[str, ...] | None = None


class QueueInfo(Struct, frozen=True):
    """A queue that is not empty: its waiting tasks, its held tasks and the age of the oldest waiting task."""

    queue: str
    depth: int
    running: int
    # None when no task is waiting.
    oldest_seconds: float | None = None
    # The waiting tasks by handler, sorted by its name.
    waiting: tuple[tuple[str, int], ...] = ()


class Broker(Protocol):
    """Queues of tasks, and one inbox per shard.

    One contract, because results leave a queue and enter an inbox in one step. The owner of a shard publishes under the
    epoch of its lease: what an earlier owner publishes is ignored.
    """

    async def close(self) -> None:
        """Close the connections. Queued and held tasks stay in the broker."""
        ...

    async def incarnation(self) -> str:
        """Return an identity of the contents. It changes when contents were lost or replaced by older ones."""
        ...

    async def register_owner(self, shard: int, epoch: int) -> None:
        """Ignore from now on what is published for the shard under an earlier epoch."""
        ...

    async def publish(self, tasks: Sequence[Task], epoch: int = 0) -> None:
        """Queue tasks of one shard. A task id that is already queued or held is ignored."""
        ...

    async def claim(
        self,
        worker_id: str,
        queues: Sequence[str],
        limit: int,
        wait_seconds: float,
        *,
        handlers: Sequence[str] | None = None,
    ) -> Sequence[TaskClaim]:
        """Claim up to `limit` tasks of these handlers (None: all); wait for the first one if there is none.

        Queues in the given order, in each the highest priority first. Workflows with waiting tasks of one priority take
        turns; the tasks of one workflow are claimed in the order of their age."""
        ...

    async def extend(self, worker_id: str, task_ids: Sequence[str]) -> Sequence[str]:
        """Record a heartbeat of the worker for the tasks it holds.

        Returns the tasks it must stop because they were cancelled or are held by another worker."""
        ...

    async def finish(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        """Send each result to its shard and remove the task, atomically. A repeated report is ignored by the core."""
        ...

    async def return_tasks(self, worker_id: str, task_ids: Sequence[str]) -> None:
        """Put held tasks back at the head of their queues without counting a delivery."""
        ...

    async def reclaim(self, timeout_seconds: float) -> int:
        """Queue again the tasks whose holders sent no heartbeat for `timeout_seconds`; return their number.

        Each one sends TaskLost to its shard."""
        ...

    async def forget_workers(self, silent_seconds: float) -> None:
        """Remove the workers that sent no heartbeat for `silent_seconds` and hold no tasks."""
        ...

    async def deregister(self, worker_id: str) -> None:
        """Remove a worker that stops. It stays while it holds tasks."""
        ...

    async def cancel(self, task_ids: Sequence[str]) -> None:
        """Remove tasks. The holders of claimed ones learn it from `receive_cancellations` and `extend`."""
        ...

    async def receive_cancellations(self, worker_id: str, wait_seconds: float) -> Sequence[str]:
        """Return the held tasks that were cancelled since the last call; wait for the first one if there is none."""
        ...

    async def workers(self) -> Sequence[WorkerInfo]:
        """Return the workers that neither stopped nor were forgotten, sorted by id."""
        ...

    async def queues(self) -> Sequence[QueueInfo]:
        """Return the queues with waiting or held tasks, sorted by name. The time taken does not depend on the depth."""
        ...

    async def missing(self, task_ids: Sequence[str]) -> Sequence[str]:
        """Return those of the tasks that are neither queued nor held."""
        ...

    async def tasks_of(self, shard: int) -> Sequence[str]:
        """Return the ids of all queued and held tasks of a shard. It reads all tasks, so it is called rarely."""
        ...

    async def send(self, shard: int, messages: Sequence[Message]) -> None:
        """Append messages to the inbox of a shard. Without messages, end a wait of this process for the inbox."""
        ...

    async def receive(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        """Return the next messages of a shard, in order; wait for the first one. They stay until acknowledged.

        A process waits for many shards at a time, so waiting must not occupy a connection each."""
        ...

    async def acknowledge(self, shard: int, count: int) -> None:
        """Remove the `count` oldest messages that were received."""
        ...

    async def rewind(self, shard: int) -> None:
        """Receive again from the oldest unacknowledged message: for a new owner, or after discarding state."""
        ...

    def notify_done(self, ids: Sequence[str]) -> None:
        """Notify every process that jobs finished or requests were applied. Sent soon; may be lost."""
        ...

    def subscribe_done(self, callback: Callable[[Sequence[str]], None]) -> None:
        """Call `callback` with the ids of every such notification. Some are missed, some are repeated."""
        ...
