"""The broker on Redis: queues as sorted sets, held tasks as leases, inboxes as streams; every step is one Lua script.

It keeps nothing that the rows do not know. A server that was emptied or restarted is used as it is found.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from windlass.brokers.notifier import Subscription
from windlass.brokers.redis.connection import Link, scripts
from windlass.brokers.redis.inbox import START, Inbox, after
from windlass.brokers.redis.protocol import Argument, Dial
from windlass.brokers.redis.subscriber import ChannelListener
from windlass.core.changes import Task
from windlass.core.instants import MICROSECONDS
from windlass.core.messages import Message
from windlass.ports.broker import HELD_SHOWN_MAX, HeldTask, QueueInfo, TaskClaim, TaskReport, WorkerInfo
from windlass.ports.message_codec import decode_message, encode_message

PREFIX = "windlass:"
# What one script handles at most, so that no call keeps the server from the others for more than some milliseconds.
BATCH_MAX = 500
BATCH_BYTES_MAX = 4 * 1024 * 1024
ASK_MAX = 5_000
WORKERS_MAX = 10_000
STOPS_MAX = 1_000
# The channel on which is told what is done.
DONE = "done"
# How many waiting parties a process remembers; each worker id and each shard is one.
EARS_MAX = 1_000

log = logging.getLogger("windlass.brokers")
_tasks = msgspec.msgpack.Decoder(Task)
_json = msgspec.json.Encoder()
_msgpack = msgspec.msgpack.Encoder()


class _Place(Struct, gc=False):
    """What the server's scripts know of a task: they cannot read MessagePack that holds bytes."""

    queue: str
    priority: int
    shard: int
    job_id: str
    node_id: str
    attempt: int
    index: int


class RedisBroker:
    """The Broker contract on one Redis server, >= 6.2."""

    def __init__(self, url: str, prefix: str = PREFIX) -> None:
        dial = Dial(url)
        self._prefix = prefix
        self._scripts = scripts()
        self._link = Link(dial)
        self._subscription = ChannelListener(dial, prefix)
        self._bells = self._subscription.bells
        self._ears: OrderedDict[tuple[str, ...], Subscription] = OrderedDict()
        self._inboxes: dict[int, Inbox] = {}
        self._hearing: list[Callable[[Sequence[str]], None]] = []

    @classmethod
    async def open(cls, url: str, prefix: str = PREFIX) -> "RedisBroker":
        """A broker whose server answers. BrokerUnavailable."""
        broker = cls(url, prefix)
        try:
            await broker._link.call("PING")
        except BaseException:
            await broker.close()
            raise
        return broker

    async def close(self) -> None:
        """End the connections. What is queued and held stays with the server."""
        await self._subscription.aclose()
        await self._link.aclose()

    async def _run(self, name: str, arguments: Sequence[Argument]) -> Any:
        return await self._link.run(self._scripts[name], self._prefix, arguments)

    async def _run_all(self, name: str, first: Sequence[Argument], batches: Iterable[Sequence[Argument]]) -> list[Any]:
        """Run a script for each batch, one after the other. Without a batch, once all the same."""
        answers = [await self._run(name, [*first, *batch]) for batch in batches]
        return answers or [await self._run(name, first)]

    def _ear(self, *channels: str, key: tuple[str, ...]) -> Subscription:
        ear = self._ears.get(key)
        if ear is None:
            ear = self._ears[key] = self._subscription.listen(channels)
            if len(self._ears) > EARS_MAX:
                self._subscription.forget(self._ears.popitem(last=False)[1])
        else:
            self._ears.move_to_end(key)
        return ear

    # Tasks

    async def publish(self, tasks: Sequence[Task]) -> None:
        if tasks:
            parts = ((task.task_id, task.queue, task.priority, _body(task)) for task in tasks)
            await self._run_all("publish", (), _batches(parts))

    async def claim(
        self, worker_id: str, queues: Sequence[str], limit: int, wait_seconds: float
    ) -> Sequence[TaskClaim]:
        if wait_seconds <= 0:
            return await self._take(worker_id, queues, limit)
        ear = self._ear(*(f"work:{queue}" for queue in queues), key=("work", worker_id, *queues))
        limit = min(limit, BATCH_MAX)
        return await self._bells.awaited(ear, lambda: self._take(worker_id, queues, limit), limit, wait_seconds)

    async def _take(self, worker_id: str, queues: Sequence[str], limit: int) -> Sequence[TaskClaim]:
        async def return_tasks(found: Sequence[Any]) -> None:
            await self.return_tasks(worker_id, [delivery.task.task_id for delivery in _deliveries(found)])

        serves = msgspec.json.encode(queues)
        arguments: list[Argument] = [worker_id, min(limit, BATCH_MAX), serves, *queues]
        found = await self._link.run(self._scripts["claim"], self._prefix, arguments, return_tasks)
        return _deliveries(found)

    async def extend(self, worker_id: str, task_ids: Sequence[str]) -> Sequence[str]:
        answers = await self._run_all("extend", [worker_id], _portions(task_ids))
        return [task_id.decode() for answer in answers for task_id in answer]

    async def finish(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        parts = ((report.task_id, report.shard, encode_message(report.message)) for report in reports)
        await self._run_all("finish", [worker_id], _batches(parts))

    async def return_tasks(self, worker_id: str, task_ids: Sequence[str]) -> None:
        for part in _portions(task_ids):
            await self._run("return_tasks", [worker_id, *part])

    async def reclaim(self, silent_seconds: float) -> int:
        count, cursor = 0, b"0"
        while True:
            cursor, queued = await self._run("reclaim", [round(silent_seconds * MICROSECONDS), BATCH_MAX, cursor])
            count += queued
            if cursor == b"0":
                return count

    async def cancel(self, task_ids: Sequence[str]) -> None:
        for part in _portions(task_ids):
            await self._run("cancel", part)

    async def receive_cancellations(self, worker_id: str, wait_seconds: float) -> Sequence[str]:
        if wait_seconds <= 0:
            return await self._stops(worker_id)
        ear = self._ear(f"stop:{worker_id}", key=("stop", worker_id))
        return await self._bells.awaited(ear, lambda: self._stops(worker_id), STOPS_MAX, wait_seconds)

    async def _stops(self, worker_id: str) -> Sequence[str]:
        found = await self._link.call("LPOP", f"{self._prefix}stops:{worker_id}", STOPS_MAX)
        return [task_id.decode() for task_id in found or ()]

    async def workers(self) -> Sequence[WorkerInfo]:
        found = await self._run("workers", [WORKERS_MAX, HELD_SHOWN_MAX])
        return sorted((_seen(*one) for one in found), key=lambda worker: worker.worker_id)

    async def queues(self) -> Sequence[QueueInfo]:
        found = await self._run("queues", ())
        return [
            QueueInfo(name.decode(), depth, running, waits / MICROSECONDS if waits >= 0 else None)
            for name, depth, running, waits in sorted(found)
        ]

    async def missing(self, task_ids: Sequence[str]) -> Sequence[str]:
        answers = [await self._run("missing", part) for part in _portions(task_ids)]
        return [task_id.decode() for answer in answers for task_id in answer]

    # Inboxes

    def _inbox(self, shard: int) -> Inbox:
        inbox = self._inboxes.get(shard)
        if inbox is None:
            inbox = self._inboxes[shard] = Inbox()
            inbox.ear = self._subscription.listen([f"inbox:{shard}"], inbox.hear)
        return inbox

    async def send(self, shard: int, messages: Sequence[Message]) -> None:
        if messages:
            await self._run_all("send", [shard], _batches((encode_message(message),) for message in messages))
        else:
            # Nothing to say to other processes: whoever waits in this one goes on.
            self._inbox(shard).ear.nudge()

    async def receive(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        inbox = self._inbox(shard)
        limit = min(limit, BATCH_MAX)
        return await self._bells.awaited(inbox.ear, lambda: self._read(shard, inbox, limit), limit, wait_seconds)

    async def _read(self, shard: int, inbox: Inbox, limit: int) -> Sequence[Message]:
        if inbox.told and not inbox.is_behind:
            found = inbox.take_told(limit)
        else:
            found = await self._fetch(shard, inbox, limit)
        messages: list[Message] = []
        for place, encoded in found:
            try:
                messages.append(decode_message(encoded))
                inbox.gathered.append(place)
            except msgspec.DecodeError:
                # It goes when one after it is acknowledged.
                log.warning("shard %d passes over a message that cannot be read: %r", shard, encoded[:200])
        return messages

    async def _fetch(self, shard: int, inbox: Inbox, limit: int) -> Sequence[tuple[bytes, bytes]]:
        reading = inbox.reading
        if inbox.connection != self._link.connections:
            # The server may have lost its data and its clock may differ.
            inbox.connection = self._link.connections
            if inbox.last != START and await self._run("is_beyond", [shard, inbox.last]):
                inbox.last = START
        inbox.begin_fetch()
        inbox_key = f"{self._prefix}inbox:{shard}"
        try:
            answer = await self._link.call("XREAD", "COUNT", limit, "STREAMS", inbox_key, inbox.last)
        except BaseException:
            inbox.end_fetch(None)
            raise
        if reading != inbox.reading:
            inbox.ear.ring()
            return ()
        found = [(place, encoded) for place, (_, encoded) in answer[0][1]] if answer else []
        if len(found) >= limit:
            # Also when some of them cannot be read.
            inbox.ear.ring()
        inbox.end_fetch(found[-1][0] if found else None)
        return found

    async def acknowledge(self, shard: int, count: int) -> None:
        gathered = self._inbox(shard).gathered
        places = [gathered.popleft() for _ in range(min(count, len(gathered)))]
        if places:
            # All that came before goes with the last: messages are gathered in their order. Nobody need wait for it:
            # what is read again after a crash changes nothing.
            self._link.ride("XTRIM", f"{self._prefix}inbox:{shard}", "MINID", after(places[-1]))

    async def rewind(self, shard: int) -> None:
        self._inbox(shard).rewind()

    # What is done

    def notify_done(self, ids: Sequence[str]) -> None:
        for part in _portions(ids, BATCH_MAX):
            self._link.hint("PUBLISH", self._prefix + DONE, " ".join(part))

    def subscribe_done(self, hear: Callable[[Sequence[str]], None]) -> None:
        if not self._hearing:
            self._subscription.listen([DONE], self._hear_done)
        self._hearing.append(hear)

    def _hear_done(self, notification: bytes) -> None:
        # Nothing, where it has just begun to listen.
        ids = notification.decode("utf-8", "replace").split()
        for hear in self._hearing if ids else ():
            hear(ids)


def _deliveries(found: Sequence[Any]) -> list[TaskClaim]:
    deliveries: list[TaskClaim] = []
    for body, number in zip(found[::2], found[1::2], strict=True):
        try:
            deliveries.append(TaskClaim(_tasks.decode(body[body.index(b"\n") + 1 :]), number))
        except (msgspec.DecodeError, ValueError):
            # Nobody extends it, so it is taken back, and after some losses its shard gives it up.
            log.warning("a task that cannot be read is left alone: %r", body[:200])
    return deliveries


def _seen(worker_id: bytes, at: bytes, serves: bytes, held: int, *tasks: bytes) -> WorkerInfo:
    queues = msgspec.json.decode(serves or b"[]", type=tuple[str, ...])
    named = [HeldTask(int(since), task_id.decode()) for task_id, since in zip(tasks[::2], tasks[1::2], strict=True)]
    return WorkerInfo(worker_id.decode(), queues, held, int(at), sorted(named))


def _body(task: Task) -> bytes:
    place = _Place(task.queue, task.priority, task.shard, task.job_id, task.node_id, task.attempt, task.index)
    return _json.encode(place) + b"\n" + _msgpack.encode(task)


def _batches(parts: Iterable[tuple[*tuple[Argument, ...], bytes]]) -> Iterable[list[Argument]]:
    """Join the arguments of many, whose last is what may be large, into those of few calls, none of them too large."""
    batch: list[Argument] = []
    count = size = 0
    for part in parts:
        more = len(part[-1])
        if batch and (count >= BATCH_MAX or size + more > BATCH_BYTES_MAX):
            yield batch
            batch, count, size = [], 0, 0
        batch.extend(part)
        count, size = count + 1, size + more
    if batch:
        yield batch


def _portions(items: Sequence[Any], size: int = ASK_MAX) -> Iterable[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
