"""The broker on PostgreSQL, for those who have no Redis: unlogged tables, claims that pass over locked rows, and
notifications outside the transactions they tell of.

A crash of the server empties the tables; the engines publish again what their rows say is in flight.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from windlass.brokers.notifier import Subscription
from windlass.brokers.postgres.connection import Dial, Link, Notices
from windlass.core.changes import Task
from windlass.core.messages import Message, TaskLost
from windlass.ports.broker import ALL_QUEUES, HELD_SHOWN_MAX, HeldTask, QueueInfo, TaskClaim, TaskReport, WorkerInfo
from windlass.ports.message_codec import decode_message, encode_message

# What one statement handles at most.
BATCH_MAX = 500
BATCH_BYTES_MAX = 4 * 1024 * 1024
ASK_MAX = 5_000
WORKERS_MAX = 10_000
STOPS_MAX = 1_000
# Tasks that are counted of each queue; a longer one is shown to be so long.
COUNTED_MAX = 100_000
EARS_MAX = 1_000
# A cancelled caller waits so long for an answer that must be dealt with.
SALVAGE_SECONDS_MAX = 1.0
# No statement of the broker runs this long: a number that was read so long ago has none below it still to come.
LATE_SECONDS_MAX = 30.0

Item = TypeVar("Item")
log = logging.getLogger("windlass.brokers")
_tasks = msgspec.msgpack.Decoder(Task)
_encoder = msgspec.msgpack.Encoder()


class _Inbox:
    """How far this process has read a shard's inbox."""

    __slots__ = ("ear", "floor", "gathered", "marks", "reading", "unreadable")

    def __init__(self, ear: Subscription) -> None:
        self.ear = ear
        # The numbers of messages that were gathered and not acknowledged, oldest first.
        self.gathered: deque[int] = deque()
        self.unreadable: set[int] = set()
        # Nothing at or below this number is looked for any more; and the highest numbers read, with when that was.
        self.floor = 0
        self.marks: deque[tuple[float, int]] = deque()
        # Counts rewinds: an answer that was under way meanwhile is not used.
        self.reading = 0

    def mark(self, at: float, number: int) -> None:
        """Remember how far the inbox was read, and raise the floor to where it was read long ago."""
        if not self.marks or at > self.marks[-1][0] + 1.0:
            self.marks.append((at, number))
        while self.marks and self.marks[0][0] < at - LATE_SECONDS_MAX:
            self.floor = max(self.floor, self.marks.popleft()[1])


class PostgresBroker:
    """The Broker contract on a PostgreSQL database, >= 14."""

    def __init__(self, link: Link, notices: Notices) -> None:
        self._link = link
        self._notices = notices
        self._bells = notices.bells
        self._ears: OrderedDict[tuple[str, ...], Subscription] = OrderedDict()
        self._inboxes: dict[int, _Inbox] = {}

    @classmethod
    async def open(cls, url: str) -> "PostgresBroker":
        """A broker on the database of a URL; its tables are made if they are not there. BrokerUnavailable."""
        dial = Dial(url)
        link = Link(dial, await dial.pool())
        try:
            await link.make_tables()
        except BaseException:
            await link.aclose()
            raise
        return cls(link, Notices(dial, link))

    async def close(self) -> None:
        """End the connections. What is queued and held stays in the tables."""
        await self._notices.aclose()
        await self._link.aclose()

    def _ear(self, *channels: str, key: tuple[str, ...]) -> Subscription:
        ear = self._ears.get(key)
        if ear is None:
            ear = self._ears[key] = Subscription(channels)
            self._bells.add(ear)
            if len(self._ears) > EARS_MAX:
                self._bells.remove(self._ears.popitem(last=False)[1])
        else:
            self._ears.move_to_end(key)
        return ear

    def _tell_workers(self, queues: Iterable[str]) -> None:
        told = [f"work:{queue}" for queue in dict.fromkeys(queues)]
        self._notices.tell([*told, f"work:{ALL_QUEUES}"] if told else told)

    def _tell_holders(self, workers: Iterable[str]) -> None:
        self._notices.tell([f"stop:{worker_id}" for worker_id in dict.fromkeys(workers)])

    def _tell_shards(self, shards: Iterable[int]) -> None:
        self._notices.tell([f"inbox:{shard}" for shard in dict.fromkeys(shards)])

    # Tasks

    async def publish(self, tasks: Sequence[Task]) -> None:
        for part in _batches([(task, _encoder.encode(task)) for task in tasks]):
            told = [task for task, _ in part]
            rows = await self._link.fetch(
                "publish",
                [task.task_id for task in told],
                [task.queue for task in told],
                [task.priority for task in told],
                [body for _, body in part],
            )
            self._tell_workers(row[0] for row in rows)

    async def claim(
        self, worker_id: str, queues: Sequence[str], limit: int, wait_seconds: float
    ) -> Sequence[TaskClaim]:
        limit = min(limit, BATCH_MAX)
        if wait_seconds <= 0:
            return await self._take(worker_id, queues, limit)
        ear = self._ear(*(f"work:{queue}" for queue in queues), key=("work", worker_id, *queues))
        return await self._bells.awaited(ear, lambda: self._take(worker_id, queues, limit), limit, wait_seconds)

    async def _take(self, worker_id: str, queues: Sequence[str], limit: int) -> Sequence[TaskClaim]:
        asking = asyncio.ensure_future(self._link.fetch("claim", worker_id, list(queues), limit))
        try:
            return _deliveries(await asyncio.shield(asking))
        except asyncio.CancelledError:
            # What was taken for a caller that has left goes back at once, if it can; else it is reclaimed later.
            await asyncio.wait([asking], timeout=SALVAGE_SECONDS_MAX)
            if not asking.done():
                asking.cancel()
            elif not asking.cancelled() and asking.exception() is None:
                taken = _deliveries(asking.result())
                await self.return_tasks(worker_id, [delivery.task.task_id for delivery in taken])
            raise

    async def extend(self, worker_id: str, task_ids: Sequence[str]) -> Sequence[str]:
        return [row[0] for row in await self._link.fetch("extend", worker_id, list(task_ids))]

    async def finish(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        for part in _batches([(report, encode_message(report.message)) for report in reports]):
            told = [report for report, _ in part]
            stopped = await self._link.fetch(
                "finish",
                worker_id,
                [report.task_id for report in told],
                [report.shard for report in told],
                [message for _, message in part],
            )
            self._tell_shards(report.shard for report in told)
            self._tell_holders(row[0] for row in stopped)

    async def return_tasks(self, worker_id: str, task_ids: Sequence[str]) -> None:
        if task_ids:
            rows = await self._link.fetch("return_tasks", worker_id, list(task_ids))
            self._tell_workers(row[0] for row in rows)

    async def reclaim(self, silent_seconds: float) -> int:
        count = 0
        while True:
            rows: Sequence[Any] = await self._link.persist(lambda: self._reclaim(silent_seconds))
            count += len(rows)
            # Every round ends the leases it finds, so there is a last one.
            if len(rows) < BATCH_MAX:
                await self._link.fetch("forget_workers", silent_seconds)
                return count

    async def _reclaim(self, silent_seconds: float) -> Sequence[Any]:
        """Queue again and tell the shards in one transaction."""
        lost: dict[int, list[bytes]] = {}
        unreadable: list[str] = []
        async with self._link.transaction() as fetch:
            rows = await fetch("reclaim", silent_seconds, BATCH_MAX)
            for row in rows:
                try:
                    task = _tasks.decode(row["body"])
                except msgspec.DecodeError:
                    # The engine finds it missing and publishes it again.
                    unreadable.append(row["task_id"])
                    continue
                worker_id: str = row["worker_id"]
                told = TaskLost(task.job_id, task.node_id, task.attempt, worker_id, row["losses"], task.index)
                lost.setdefault(task.shard, []).append(encode_message(told))
            for shard, messages in lost.items():
                await fetch("send", shard, messages)
            if unreadable:
                await fetch("drop_tasks", unreadable)
        self._tell_workers(row["queue"] for row in rows)
        self._tell_shards(lost)
        return rows

    async def cancel(self, task_ids: Sequence[str]) -> None:
        for part in _portions(task_ids):
            self._tell_holders([row[0] for row in await self._link.fetch("cancel", part)])

    async def receive_cancellations(self, worker_id: str, wait_seconds: float) -> Sequence[str]:
        if wait_seconds <= 0:
            return await self._stops(worker_id)
        ear = self._ear(f"stop:{worker_id}", key=("stop", worker_id))
        return await self._bells.awaited(ear, lambda: self._stops(worker_id), STOPS_MAX, wait_seconds)

    async def _stops(self, worker_id: str) -> Sequence[str]:
        return [row[0] for row in await self._link.fetch("stops", worker_id, STOPS_MAX)]

    async def workers(self) -> Sequence[WorkerInfo]:
        held: dict[str, list[HeldTask]] = {}
        for holder, task_id, since in await self._link.fetch("held", WORKERS_MAX * HELD_SHOWN_MAX, HELD_SHOWN_MAX):
            held.setdefault(holder, []).append(HeldTask(since, task_id))
        return [
            WorkerInfo(worker_id, tuple(queues), count, seen_at, sorted(held.get(worker_id, ())))
            for worker_id, queues, seen_at, count in await self._link.fetch("workers", WORKERS_MAX)
        ]

    async def queues(self) -> Sequence[QueueInfo]:
        return [QueueInfo(*row) for row in await self._link.fetch("queues", COUNTED_MAX)]

    async def missing(self, task_ids: Sequence[str]) -> Sequence[str]:
        return [row[0] for part in _portions(task_ids) for row in await self._link.fetch("missing", part)]

    # Inboxes

    def _inbox(self, shard: int) -> _Inbox:
        inbox = self._inboxes.get(shard)
        if inbox is None:
            inbox = self._inboxes[shard] = _Inbox(Subscription([f"inbox:{shard}"]))
            self._bells.add(inbox.ear)
        return inbox

    async def send(self, shard: int, messages: Sequence[Message]) -> None:
        for part in _batches([(message, encode_message(message)) for message in messages]):
            await self._link.fetch("send", shard, [encoded for _, encoded in part])
        if messages:
            self._tell_shards([shard])
        else:
            # Nothing to say to other processes: whoever waits in this one goes on.
            self._inbox(shard).ear.nudge()

    async def receive(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        inbox = self._inbox(shard)
        limit = min(limit, BATCH_MAX)
        return await self._bells.awaited(inbox.ear, lambda: self._read(shard, inbox, limit), limit, wait_seconds)

    async def _read(self, shard: int, inbox: _Inbox, limit: int) -> Sequence[Message]:
        reading, at = inbox.reading, asyncio.get_running_loop().time()
        known = [*inbox.gathered, *inbox.unreadable]
        rows = await self._link.fetch("receive", shard, inbox.floor, known, limit)
        if reading != inbox.reading:
            inbox.ear.ring()
            return ()
        messages: list[Message] = []
        for number, encoded in rows:
            try:
                messages.append(decode_message(encoded))
            except msgspec.DecodeError:
                log.warning("shard %d passes over a message that cannot be read: %r", shard, encoded[:200])
                inbox.unreadable.add(number)
                continue
            inbox.gathered.append(number)
        if rows:
            inbox.mark(at, rows[-1][0])
        if len(rows) >= limit:
            # Also when some of them cannot be read.
            inbox.ear.ring()
        return messages

    async def acknowledge(self, shard: int, count: int) -> None:
        inbox = self._inbox(shard)
        numbers = [inbox.gathered.popleft() for _ in range(min(count, len(inbox.gathered)))]
        if numbers:
            numbers += inbox.unreadable
            inbox.unreadable.clear()
            await self._link.fetch("acknowledge", shard, numbers)

    async def rewind(self, shard: int) -> None:
        inbox = self._inbox(shard)
        inbox.gathered.clear()
        inbox.unreadable.clear()
        inbox.marks.clear()
        inbox.floor = 0
        inbox.reading += 1
        inbox.ear.ring()

    # What is done

    def notify_done(self, ids: Sequence[str]) -> None:
        self._notices.notify_done(ids)

    def subscribe_done(self, hear: Callable[[Sequence[str]], None]) -> None:
        self._notices.subscribe_done(hear)


def _deliveries(rows: Sequence[Any]) -> list[TaskClaim]:
    deliveries: list[TaskClaim] = []
    for body, number in rows:
        try:
            deliveries.append(TaskClaim(_tasks.decode(body), number))
        except msgspec.DecodeError:
            # Nobody extends it, so it is taken back, dropped, and published again.
            log.warning("a task that cannot be read is left alone: %r", body[:200])
    return deliveries


def _batches(items: Sequence[tuple[Item, bytes]]) -> Iterable[list[tuple[Item, bytes]]]:
    """Split what is to be written, so that no statement has too much of it."""
    batch: list[tuple[Item, bytes]] = []
    size = 0
    for item in items:
        if batch and (len(batch) >= BATCH_MAX or size + len(item[1]) > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += len(item[1])
    if batch:
        yield batch


def _portions(items: Sequence[Item], size: int = ASK_MAX) -> Iterable[list[Item]]:
    return (list(items[start : start + size]) for start in range(0, len(items), size))
