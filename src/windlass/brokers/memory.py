"""The broker of one process: plain queues on one event loop. It dies with the process, and the rows know better."""

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from heapq import nsmallest

from msgspec import Struct

from windlass.core.changes import Task
from windlass.core.instants import MICROSECONDS
from windlass.core.messages import Message, TaskLost
from windlass.ports.broker import ALL_QUEUES, HELD_SHOWN_MAX, HeldTask, QueueInfo, TaskClaim, TaskReport, WorkerInfo
from windlass.ports.clock import Clock

# What is gathered is complete when so many turns of the loop brought no more: a worker needs two from one report to the
# next.
LULL_TURNS = 3


class Bell:
    """Wakes those who wait on one loop. A ring that nobody hears is not kept: look first, then wait."""

    __slots__ = ("_timer_at", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []
        # When the bell looks for those who waited long enough. It is not taken back when they were woken before: a
        # worker waits once for every task of a chain, and setting a timer takes longer than running the task.
        self._timer_at = math.inf

    def ring(self) -> None:
        """Wake everyone who waits now."""
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait for a ring, at most so long."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        until = loop.time() + seconds
        self._waiting.append((until, future))
        self._look_at(until, loop)
        await future

    def _look_at(self, when: float, loop: asyncio.AbstractEventLoop) -> None:
        if when < self._timer_at:
            self._timer_at = when
            loop.call_at(when, self._look, when, loop)

    def _look(self, when: float, loop: asyncio.AbstractEventLoop) -> None:
        if when != self._timer_at:
            return
        self._timer_at = math.inf
        waiting, self._waiting = self._waiting, []
        for until, future in waiting:
            if future.done():
                continue
            if until <= when:
                future.set_result(None)
            else:
                self._waiting.append((until, future))
                self._look_at(until, loop)


async def _lull(unread: "deque[Message]", limit: int) -> None:
    """Let workers on the loop go on that report one task after the other: few large batches cost less than many."""
    turns = 0
    while turns < LULL_TURNS and len(unread) < limit:
        before = len(unread)
        await asyncio.sleep(0)
        turns = turns + 1 if len(unread) == before else 0


class _Entry(Struct, gc=False):
    """A task that is queued, or held by a worker."""

    task: Task
    worker_id: str | None = None
    # When the holder last said that it has the task. One that never heard of it does not: its claim's answer was lost.
    extended_at: int = 0
    deliveries: int = 0
    losses: int = 0
    published_at: int = 0
    taken_at: int = 0


class _Inbox:
    """A shard's messages: those not yet gathered, and those gathered but not acknowledged."""

    __slots__ = ("bell", "gathered", "unread")

    def __init__(self) -> None:
        self.unread: deque[Message] = deque()
        self.gathered: deque[Message] = deque()
        self.bell = Bell()


class MemoryBroker:
    """The Broker contract inside one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        # queue -> priority -> task ids; ids of tasks that were cancelled meanwhile are passed over.
        self._queues: dict[str, dict[int, deque[str]]] = {}
        # How many tasks wait in each.
        self._depths: Counter[str] = Counter()
        self._held: dict[str, dict[str, None]] = {}
        self._seen_at: dict[str, int] = {}
        self._serves: dict[str, tuple[str, ...]] = {}
        self._stops: dict[str, list[str]] = {}
        self._inboxes: dict[int, _Inbox] = {}
        self._hearing: list[Callable[[Sequence[str]], None]] = []
        self._work = Bell()
        self._stopping = Bell()

    async def close(self) -> None:
        """Nothing to let go of."""

    # Tasks

    async def publish(self, tasks: Sequence[Task]) -> None:
        entries = self._entries
        now = self._clock.now()
        for task in tasks:
            if task.task_id not in entries:
                entries[task.task_id] = _Entry(task, published_at=now)
                self._line(task.queue, task.priority).append(task.task_id)
                self._depths[task.queue] += 1
        self._work.ring()

    def _line(self, queue: str, priority: int) -> deque[str]:
        lines = self._queues.get(queue)
        if lines is None:
            lines = self._queues[queue] = {}
        line = lines.get(priority)
        if line is None:
            line = lines[priority] = deque()
            # Kept sorted, so that taking is a walk from the highest priority down.
            self._queues[queue] = dict(sorted(lines.items(), reverse=True))
        return line

    async def claim(
        self, worker_id: str, queues: Sequence[str], limit: int, wait_seconds: float
    ) -> Sequence[TaskClaim]:
        taken = self._take(worker_id, queues, limit)
        if not taken and wait_seconds > 0:
            await self._work.wait(wait_seconds)
            taken = self._take(worker_id, queues, limit)
        return taken

    def _take(self, worker_id: str, queues: Sequence[str], limit: int) -> list[TaskClaim]:
        now = self._seen_at[worker_id] = self._clock.now()
        self._serves[worker_id] = tuple(queues)
        held = self._held.setdefault(worker_id, {})
        taken: list[TaskClaim] = []
        for queue in self._queues if ALL_QUEUES in queues else queues:
            for line in self._queues.get(queue, {}).values():
                while line and len(taken) < limit:
                    entry = self._entries.get(line.popleft())
                    if entry is None or entry.worker_id is not None:
                        continue
                    entry.worker_id = worker_id
                    entry.extended_at = entry.taken_at = now
                    self._depths[queue] -= 1
                    entry.deliveries += 1
                    held[entry.task.task_id] = None
                    taken.append(TaskClaim(entry.task, entry.deliveries))
        return taken

    async def extend(self, worker_id: str, task_ids: Sequence[str]) -> Sequence[str]:
        now = self._seen_at[worker_id] = self._clock.now()
        held = self._held.setdefault(worker_id, {})
        for task_id in task_ids:
            if task_id in held:
                self._entries[task_id].extended_at = now
        return [task_id for task_id in task_ids if task_id not in held]

    async def finish(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        self._seen_at[worker_id] = self._clock.now()
        held = self._held.setdefault(worker_id, {})
        shards: set[int] = set()
        for report in reports:
            task_id = report.task_id
            if task_id in held:
                del held[task_id]
                del self._entries[task_id]
            elif task_id in self._entries:
                # Reclaimed from this worker meanwhile: its result counts, and the other delivery is stopped.
                self._withdraw(task_id)
            self._inbox(report.shard).unread.append(report.message)
            shards.add(report.shard)
        for shard in shards:
            self._inbox(shard).bell.ring()

    async def return_tasks(self, worker_id: str, task_ids: Sequence[str]) -> None:
        held = self._held.setdefault(worker_id, {})
        for task_id in reversed(task_ids):
            if task_id in held:
                del held[task_id]
                entry = self._entries[task_id]
                entry.worker_id = None
                entry.deliveries -= 1
                self._depths[entry.task.queue] += 1
                self._line(entry.task.queue, entry.task.priority).appendleft(task_id)
        self._work.ring()

    async def reclaim(self, silent_seconds: float) -> int:
        silent_since = self._clock.now() - round(silent_seconds * MICROSECONDS)
        count = 0
        for worker_id, held in list(self._held.items()):
            for task_id in [task_id for task_id in held if self._entries[task_id].extended_at < silent_since]:
                del held[task_id]
                await self._lose(worker_id, self._entries[task_id])
                count += 1
            if not held and self._seen_at.get(worker_id, 0) < silent_since:
                del self._held[worker_id]
                self._seen_at.pop(worker_id, None)
                self._serves.pop(worker_id, None)
                self._stops.pop(worker_id, None)
        return count

    async def _lose(self, worker_id: str, entry: _Entry) -> None:
        task = entry.task
        entry.worker_id = None
        entry.losses += 1
        self._depths[task.queue] += 1
        self._line(task.queue, task.priority).appendleft(task.task_id)
        lost = TaskLost(task.job_id, task.node_id, task.attempt, worker_id, entry.losses, task.index)
        await self.send(task.shard, [lost])
        self._work.ring()

    async def cancel(self, task_ids: Sequence[str]) -> None:
        for task_id in task_ids:
            if task_id in self._entries:
                self._withdraw(task_id)

    def _withdraw(self, task_id: str) -> None:
        entry = self._entries.pop(task_id)
        if entry.worker_id is None:
            self._depths[entry.task.queue] -= 1
        else:
            del self._held[entry.worker_id][task_id]
            self._stops.setdefault(entry.worker_id, []).append(task_id)
            self._stopping.ring()

    async def receive_cancellations(self, worker_id: str, wait_seconds: float) -> Sequence[str]:
        if worker_id not in self._stops and wait_seconds > 0:
            await self._stopping.wait(wait_seconds)
        return self._stops.pop(worker_id, [])

    async def workers(self) -> Sequence[WorkerInfo]:
        return [self._seen(worker_id, seen_at) for worker_id, seen_at in sorted(self._seen_at.items())]

    def _seen(self, worker_id: str, seen_at: int) -> WorkerInfo:
        held = self._held.get(worker_id, {})
        tasks = nsmallest(HELD_SHOWN_MAX, (HeldTask(self._entries[task_id].taken_at, task_id) for task_id in held))
        return WorkerInfo(worker_id, self._serves.get(worker_id, ()), len(held), seen_at, tasks)

    async def queues(self) -> Sequence[QueueInfo]:
        running = Counter(self._entries[task_id].task.queue for held in self._held.values() for task_id in held)
        now = self._clock.now()
        found: list[QueueInfo] = []
        for queue in sorted(self._depths.keys() | running.keys()):
            depth = self._depths[queue]
            if depth or running[queue]:
                waits = (now - self._oldest(queue)) / MICROSECONDS if depth else None
                found.append(QueueInfo(queue, depth, running[queue], waits))
        return found

    def _oldest(self, queue: str) -> int:
        """When the task was published that waits for longest: one of those at the heads of the lines."""
        heads: list[int] = []
        for line in self._queues[queue].values():
            while line and ((entry := self._entries.get(line[0])) is None or entry.worker_id is not None):
                line.popleft()
            if line:
                heads.append(self._entries[line[0]].published_at)
        return min(heads)

    async def missing(self, task_ids: Sequence[str]) -> Sequence[str]:
        return [task_id for task_id in task_ids if task_id not in self._entries]

    # Inboxes

    def _inbox(self, shard: int) -> _Inbox:
        inbox = self._inboxes.get(shard)
        if inbox is None:
            inbox = self._inboxes[shard] = _Inbox()
        return inbox

    async def send(self, shard: int, messages: Sequence[Message]) -> None:
        inbox = self._inbox(shard)
        inbox.unread.extend(messages)
        inbox.bell.ring()

    async def receive(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        inbox = self._inbox(shard)
        if not inbox.unread and wait_seconds > 0:
            await inbox.bell.wait(wait_seconds)
        unread = inbox.unread
        if unread and self._entries:
            await _lull(unread, limit)
        if len(unread) <= limit:
            batch = list(unread)
            unread.clear()
        else:
            batch = [unread.popleft() for _ in range(limit)]
        inbox.gathered.extend(batch)
        return batch

    async def acknowledge(self, shard: int, count: int) -> None:
        gathered = self._inbox(shard).gathered
        if count >= len(gathered):
            gathered.clear()
        else:
            for _ in range(count):
                gathered.popleft()

    async def rewind(self, shard: int) -> None:
        inbox = self._inbox(shard)
        inbox.unread.extendleft(reversed(inbox.gathered))
        inbox.gathered.clear()
        inbox.bell.ring()

    # What is done

    def notify_done(self, ids: Sequence[str]) -> None:
        for hear in self._hearing:
            hear(ids)

    def subscribe_done(self, hear: Callable[[Sequence[str]], None]) -> None:
        self._hearing.append(hear)
