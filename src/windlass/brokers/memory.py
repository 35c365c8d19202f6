"""The broker of a single process: queues in memory on one event loop. Its contents are lost with the process."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import heappop, heappush, nsmallest
from itertools import count, islice

from msgspec import Struct

from windlass.brokers.signal import Signal
from windlass.core.changes import Task
from windlass.core.instants import MICROSECONDS
from windlass.core.messages import Message, TaskLost
from windlass.ports.broker import (
    ALL_QUEUES,
    HELD_SHOWN_MAX,
    HeldTask,
    QueueInfo,
    TaskClaim,
    TaskReport,
    WorkerInfo,
)
from windlass.ports.clock import Clock

# A batch is complete after this many turns of the event loop without a new message. A worker needs two turns from one
# report to the next.
QUIET_TURNS = 3
# Tasks of each handler and priority among which the oldest one is looked for. With turns it is among the next ones.
NEXT_MAX = 10


class _Entry(Struct, gc=False):
    """A task that is queued, or held by a worker."""

    task: Task
    # False once it was claimed or removed; a queue skips such an entry when it meets it.
    is_waiting: bool = True
    # The position in its queue: see _Priority.
    turn: int = 0
    worker_id: str | None = None
    # The last heartbeat of the holder for this task. A holder that never received its claim sends none.
    extended_at: int = 0
    deliveries: int = 0
    losses: int = 0
    published_at: int = 0
    claimed_at: int = 0


class _Priority:
    """The waiting tasks of one priority in a queue.

    Each workflow's tasks have increasing turns; a workflow without waiting tasks starts at the turn that is served now.
    Claims take the lowest turns, so workflows take turns whatever the number of their tasks.
    """

    __slots__ = ("_heaps", "_served", "_turns")

    def __init__(self) -> None:
        # By handler, entries under their turn and a number that keeps the order of equal turns.
        self._heaps: dict[str, list[tuple[int, int, _Entry]]] = {}
        # The last turn of each workflow, and the highest one that was claimed.
        self._turns: dict[str, int] = {}
        self._served = 0

    def append(self, entry: _Entry, number: int) -> None:
        """Add a task with the next turn of its workflow."""
        workflow_id = entry.task.workflow_id
        entry.turn = max(self._turns.get(workflow_id, 0), self._served) + 1
        self._turns[workflow_id] = entry.turn
        self.put_back(entry, number)

    def put_back(self, entry: _Entry, number: int) -> None:
        """Add a task under the turn that it has."""
        entry.is_waiting = True
        heap = self._heaps.setdefault(entry.task.handler, [])
        heappush(heap, (entry.turn, number, entry))

    def pop(self, limit: int, handlers: Collection[str] | None) -> list[_Entry]:
        """Remove and return up to `limit` tasks of these handlers, by turn."""
        popped: list[_Entry] = []
        while len(popped) < limit:
            heap = self._first_heap(handlers)
            if heap is None:
                break
            entry = heappop(heap)[2]
            self._served = max(self._served, entry.turn)
            popped.append(entry)
        if not self._heaps:
            self._turns.clear()
        return popped

    def _first_heap(self, handlers: Collection[str] | None) -> list[tuple[int, int, _Entry]] | None:
        """Return the heap with the lowest turn of these handlers, without removed entries at its head."""
        first: list[tuple[int, int, _Entry]] | None = None
        for handler, heap in tuple(self._heaps.items()):
            while heap and not heap[0][2].is_waiting:
                heappop(heap)
            if not heap:
                del self._heaps[handler]
            elif handlers is None or handler in handlers:
                first = heap if first is None else min(first, heap)
        return first

    def next_entries(self) -> Iterable[_Entry]:
        """Return some waiting tasks of the lowest turns."""
        for heap in self._heaps.values():
            yield from islice((entry for _, _, entry in heap if entry.is_waiting), NEXT_MAX)


class _Queue:
    """The waiting tasks of one queue."""

    __slots__ = ("_by_priority", "_numbers", "depth")

    def __init__(self) -> None:
        # Sorted from the highest priority to the lowest.
        self._by_priority: dict[int, _Priority] = {}
        self._numbers = count()
        self.depth: Counter[str] = Counter()

    def _priority(self, number: int) -> _Priority:
        priority = self._by_priority.get(number)
        if priority is None:
            priority = self._by_priority[number] = _Priority()
            self._by_priority = dict(sorted(self._by_priority.items(), reverse=True))
        return priority

    def append(self, entry: _Entry) -> None:
        """Add a new task."""
        self._priority(entry.task.priority).append(entry, next(self._numbers))
        self.depth[entry.task.handler] += 1

    def put_back(self, entry: _Entry) -> None:
        """Add a task at its former position."""
        self._priority(entry.task.priority).put_back(entry, next(self._numbers))
        self.depth[entry.task.handler] += 1

    def remove(self, entry: _Entry) -> None:
        """Remove a waiting task."""
        entry.is_waiting = False
        self.depth[entry.task.handler] -= 1

    def pop(self, limit: int, handlers: Collection[str] | None) -> list[_Entry]:
        """Remove and return up to `limit` tasks of these handlers."""
        popped: list[_Entry] = []
        for priority in self._by_priority.values():
            if len(popped) >= limit:
                break
            popped += priority.pop(limit - len(popped), handlers)
        for entry in popped:
            self.remove(entry)
        return popped

    def oldest_published_at(self) -> int:
        """Return when the oldest of the tasks that come next was published."""
        return min(
            entry.published_at
            for priority in self._by_priority.values()
            for entry in priority.next_entries()
        )


class _Worker(Struct, gc=False):
    """A worker, and the tasks it holds."""

    seen_at: int = 0
    queues: tuple[str, ...] = ()
    handlers: tuple[str, ...] | None = None
    held: dict[str, _Entry] = {}


class _Inbox:
    """The messages of a shard: unread ones, and received ones that are not acknowledged."""

    __slots__ = ("received", "signal", "unread")

    def __init__(self) -> None:
        self.unread: deque[Message] = deque()
        self.received: deque[Message] = deque()
        self.signal = Signal()

    def append(self, messages: Sequence[Message]) -> None:
        self.unread.extend(messages)
        self.signal.notify()

    async def wait_until_quiet(self, limit: int) -> None:
        """Let workers on this event loop report more tasks first: few large batches cost less than many small ones."""
        turns = 0
        while turns < QUIET_TURNS and len(self.unread) < limit:
            before = len(self.unread)
            await asyncio.sleep(0)
            turns = turns + 1 if len(self.unread) == before else 0

    def receive(self, limit: int) -> list[Message]:
        if len(self.unread) <= limit:
            batch = list(self.unread)
            self.unread.clear()
        else:
            batch = [self.unread.popleft() for _ in range(limit)]
        self.received.extend(batch)
        return batch

    def acknowledge(self, count: int) -> None:
        if count >= len(self.received):
            self.received.clear()
        else:
            for _ in range(count):
                self.received.popleft()

    def rewind(self) -> None:
        self.unread.extendleft(reversed(self.received))
        self.received.clear()
        self.signal.notify()


class MemoryBroker:
    """The Broker contract in one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._queues: defaultdict[str, _Queue] = defaultdict(_Queue)
        self._workers: defaultdict[str, _Worker] = defaultdict(_Worker)
        # Held tasks that were cancelled, by worker, until the worker receives them.
        self._cancellations: dict[str, list[str]] = {}
        self._inboxes: defaultdict[int, _Inbox] = defaultdict(_Inbox)
        # The latest epoch of the owners of each shard.
        self._epochs: defaultdict[int, int] = defaultdict(int)
        self._done_callbacks: list[Callable[[Sequence[str]], None]] = []
        self._published = Signal()
        self._cancelled = Signal()

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    # Tasks

    async def incarnation(self) -> str:
        # The contents are lost only with the process.
        return "memory"

    async def register_owner(self, shard: int, epoch: int) -> None:
        self._epochs[shard] = max(self._epochs[shard], epoch)

    async def publish(self, tasks: Sequence[Task], epoch: int = 0) -> None:
        entries = self._entries
        now = self._clock.now()
        for task in tasks:
            if task.task_id not in entries and epoch >= self._epochs[task.shard]:
                entry = entries[task.task_id] = _Entry(task, published_at=now)
                self._queues[task.queue].append(entry)
        self._published.notify()

    async def claim(
        self,
        worker_id: str,
        queues: Sequence[str],
        limit: int,
        wait_seconds: float,
        *,
        handlers: Sequence[str] | None = None,
    ) -> Sequence[TaskClaim]:
        claims = self._claim(worker_id, queues, limit, handlers)
        if not claims and wait_seconds > 0:
            await self._published.wait(wait_seconds)
            claims = self._claim(worker_id, queues, limit, handlers)
        return claims

    def _claim(
        self, worker_id: str, queues: Sequence[str], limit: int, handlers: Sequence[str] | None
    ) -> list[TaskClaim]:
        worker = self._seen(worker_id)
        worker.queues = tuple(queues)
        worker.handlers = None if handlers is None else tuple(handlers)
        claims: list[TaskClaim] = []
        for name in self._queues if ALL_QUEUES in queues else queues:
            queue = self._queues.get(name)
            if queue is None:
                continue
            for entry in queue.pop(limit - len(claims), worker.handlers):
                entry.worker_id = worker_id
                entry.extended_at = entry.claimed_at = worker.seen_at
                entry.deliveries += 1
                worker.held[entry.task.task_id] = entry
                claims.append(TaskClaim(entry.task, entry.deliveries))
        return claims

    def _seen(self, worker_id: str) -> _Worker:
        """Return the worker, and record that it called just now."""
        worker = self._workers[worker_id]
        worker.seen_at = self._clock.now()
        return worker

    async def extend(self, worker_id: str, task_ids: Sequence[str]) -> Sequence[str]:
        worker = self._seen(worker_id)
        to_stop: list[str] = []
        for task_id in task_ids:
            entry = worker.held.get(task_id)
            if entry is None:
                to_stop.append(task_id)
            else:
                entry.extended_at = worker.seen_at
        return to_stop

    async def finish(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        worker = self._seen(worker_id)
        shards: set[int] = set()
        for report in reports:
            task_id = report.task_id
            if task_id in worker.held:
                del worker.held[task_id]
                del self._entries[task_id]
            else:
                # Reclaimed from this worker: its result counts, and the other delivery is cancelled.
                self._remove(task_id)
            self._inboxes[report.shard].unread.append(report.message)
            shards.add(report.shard)
        for shard in shards:
            self._inboxes[shard].signal.notify()

    async def return_tasks(self, worker_id: str, task_ids: Sequence[str]) -> None:
        worker = self._workers.get(worker_id)
        if worker is None:
            return
        for task_id in reversed(task_ids):
            entry = worker.held.pop(task_id, None)
            if entry is not None:
                entry.worker_id = None
                entry.deliveries -= 1
                self._queues[entry.task.queue].put_back(entry)
        self._published.notify()

    async def reclaim(self, timeout_seconds: float) -> int:
        expired_before = self._clock.now() - round(timeout_seconds * MICROSECONDS)
        count = 0
        for worker in list(self._workers.values()):
            lost = [entry for entry in worker.held.values() if entry.extended_at < expired_before]
            for entry in lost:
                await self._lose(worker, entry)
            count += len(lost)
        return count

    async def forget_workers(self, silent_seconds: float) -> None:
        silent_before = self._clock.now() - round(silent_seconds * MICROSECONDS)
        for worker_id, worker in list(self._workers.items()):
            if worker.seen_at < silent_before:
                await self.deregister(worker_id)

    async def deregister(self, worker_id: str) -> None:
        worker = self._workers.get(worker_id)
        if worker is not None and not worker.held:
            del self._workers[worker_id]
            self._cancellations.pop(worker_id, None)

    async def _lose(self, worker: _Worker, entry: _Entry) -> None:
        task = entry.task
        message = TaskLost.of(task, entry.worker_id or "", entry.losses + 1)
        del worker.held[task.task_id]
        entry.worker_id = None
        entry.losses += 1
        self._queues[task.queue].put_back(entry)
        await self.send(task.shard, [message])
        self._published.notify()

    async def cancel(self, task_ids: Sequence[str]) -> None:
        for task_id in task_ids:
            self._remove(task_id)

    def _remove(self, task_id: str) -> None:
        """Remove a task, if it is known; its holder is asked to stop."""
        entry = self._entries.pop(task_id, None)
        if entry is None:
            return
        if entry.worker_id is None:
            self._queues[entry.task.queue].remove(entry)
        else:
            del self._workers[entry.worker_id].held[task_id]
            self._cancellations.setdefault(entry.worker_id, []).append(task_id)
            self._cancelled.notify()

    async def receive_cancellations(self, worker_id: str, wait_seconds: float) -> Sequence[str]:
        if worker_id not in self._cancellations and wait_seconds > 0:
            await self._cancelled.wait(wait_seconds)
        return self._cancellations.pop(worker_id, [])

    async def missing(self, task_ids: Sequence[str]) -> Sequence[str]:
        return [task_id for task_id in task_ids if task_id not in self._entries]

    async def tasks_of(self, shard: int) -> Sequence[str]:
        return [task_id for task_id, entry in self._entries.items() if entry.task.shard == shard]

    def tasks(self) -> Sequence[Task]:
        """Return all queued and held tasks."""
        return [entry.task for entry in self._entries.values()]

    # Overview

    async def workers(self) -> Sequence[WorkerInfo]:
        found: list[WorkerInfo] = []
        now = self._clock.now()
        for worker_id, worker in sorted(self._workers.items()):
            held = [HeldTask(entry.claimed_at, task_id) for task_id, entry in worker.held.items()]
            oldest = nsmallest(HELD_SHOWN_MAX, held)
            found.append(
                WorkerInfo(
                    worker_id=worker_id,
                    queues=worker.queues,
                    held=len(held),
                    seen_at=worker.seen_at,
                    silent_seconds=(now - worker.seen_at) / MICROSECONDS,
                    tasks=oldest,
                    handlers=worker.handlers,
                )
            )
        return found

    async def queues(self) -> Sequence[QueueInfo]:
        running = Counter(
            entry.task.queue for worker in self._workers.values() for entry in worker.held.values()
        )
        now = self._clock.now()
        found: list[QueueInfo] = []
        for name, queue in sorted(self._queues.items()):
            depth = queue.depth.total()
            if depth:
                oldest_seconds = (now - queue.oldest_published_at()) / MICROSECONDS
                waiting = tuple(sorted((+queue.depth).items()))
                found.append(QueueInfo(name, depth, running[name], oldest_seconds, waiting))
            elif running[name]:
                found.append(QueueInfo(name, 0, running[name]))
        return found

    # Inboxes

    async def send(self, shard: int, messages: Sequence[Message]) -> None:
        self._inboxes[shard].append(messages)

    async def receive(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        inbox = self._inboxes[shard]
        if not inbox.unread and wait_seconds > 0:
            await inbox.signal.wait(wait_seconds)
        if inbox.unread and self._entries:
            await inbox.wait_until_quiet(limit)
        return inbox.receive(limit)

    async def acknowledge(self, shard: int, count: int) -> None:
        self._inboxes[shard].acknowledge(count)

    async def rewind(self, shard: int) -> None:
        self._inboxes[shard].rewind()

    # Notifications

    def notify_done(self, ids: Sequence[str]) -> None:
        for callback in self._done_callbacks:
            callback(ids)

    def subscribe_done(self, callback: Callable[[Sequence[str]], None]) -> None:
        self._done_callbacks.append(callback)
