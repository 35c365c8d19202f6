"""The broker on Redis: queues are sorted sets, claims are leases, inboxes are streams; each step is one Lua script.

The server may be flushed or restarted at any time: the database records which tasks are in flight.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from windlass.brokers.batches import BATCH_MAX, LOOKUP_MAX, batches, slices
from windlass.brokers.notifier import CANCELLATIONS_MAX, SubscriptionCache
from windlass.brokers.redis.channel_listener import ChannelListener
from windlass.brokers.redis.connection import RedisConnection
from windlass.brokers.redis.inbox import RedisInbox
from windlass.brokers.redis.protocol import Argument, RedisConnector
from windlass.core.changes import Task
from windlass.core.instants import MICROSECONDS
from windlass.core.messages import Message
from windlass.ports.broker import (
    HELD_SHOWN_MAX,
    WORKERS_SHOWN_MAX,
    HeldTask,
    QueueInfo,
    TaskClaim,
    TaskReport,
    WorkerInfo,
)
from windlass.ports.message_codec import encode_message

PREFIX = "windlass:"
# The channel of finished jobs and applied requests.
DONE_CHANNEL = "done"

log = logging.getLogger("windlass.brokers")
_task_decoder = msgspec.msgpack.Decoder(Task)
_task_encoder = msgspec.msgpack.Encoder()
_json_encoder = msgspec.json.Encoder()


class _TaskHeader(Struct, gc=False):
    """The part of a task that the scripts need, as JSON: they cannot decode MessagePack with binary values."""

    queue: str
    priority: int
    shard: int
    job_id: str
    node_id: str
    attempt: int
    index: int


class RedisBroker:
    """The Broker contract on one Redis server, 6.2 or newer."""

    def __init__(self, url: str, prefix: str = PREFIX) -> None:
        connector = RedisConnector(url)
        self._prefix = prefix
        self._connection = RedisConnection(connector, prefix)
        self._listener = ChannelListener(connector, prefix)
        self._subscriptions = SubscriptionCache(
            self._listener.notifier, self._listener.subscribe, self._listener.unsubscribe
        )
        self._inboxes: dict[int, RedisInbox] = {}
        self._done_callbacks: list[Callable[[Sequence[str]], None]] = []

    @classmethod
    async def open(cls, url: str, prefix: str = PREFIX) -> "RedisBroker":
        """Return a broker whose server answers. Raises BrokerUnavailable."""
        broker = cls(url, prefix)
        try:
            await broker._connection.call("PING")
        except BaseException:
            await broker.close()
            raise
        return broker

    async def close(self) -> None:
        """Close the connections. Queued and held tasks stay on the server."""
        await self._listener.aclose()
        await self._connection.aclose()

    # Tasks

    async def publish(self, tasks: Sequence[Task]) -> None:
        if tasks:
            arguments = [
                (task.task_id, task.queue, task.priority, _encode_task(task)) for task in tasks
            ]
            await self._connection.run_batches("publish", (), _joined(arguments))

    async def claim(
        self, worker_id: str, queues: Sequence[str], limit: int, wait_seconds: float
    ) -> Sequence[TaskClaim]:
        limit = min(limit, BATCH_MAX)
        return await self._subscriptions.claim_tasks(
            worker_id, queues, lambda: self._claim(worker_id, queues, limit), limit, wait_seconds
        )

    async def _claim(
        self, worker_id: str, queues: Sequence[str], limit: int
    ) -> Sequence[TaskClaim]:
        async def undo(answer: Sequence[Any]) -> None:
            await self.return_tasks(worker_id, [claim.task.task_id for claim in _claims(answer)])

        arguments: list[Argument] = [worker_id, limit, msgspec.json.encode(queues), *queues]
        return _claims(await self._connection.run("claim", arguments, undo))

    async def extend(self, worker_id: str, task_ids: Sequence[str]) -> Sequence[str]:
        answers = await self._connection.run_batches(
            "extend", [worker_id], slices(task_ids, LOOKUP_MAX)
        )
        return _joined_ids(answers)

    async def finish(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        arguments = [
            (report.task_id, report.shard, encode_message(report.message)) for report in reports
        ]
        await self._connection.run_batches("finish", [worker_id], _joined(arguments))

    async def return_tasks(self, worker_id: str, task_ids: Sequence[str]) -> None:
        for part in slices(task_ids, LOOKUP_MAX):
            await self._connection.run("return_tasks", [worker_id, *part])

    async def reclaim(self, timeout_seconds: float) -> int:
        timeout_microseconds = round(timeout_seconds * MICROSECONDS)
        count, cursor = 0, b"0"
        while True:
            cursor, reclaimed = await self._connection.run(
                "reclaim", [timeout_microseconds, BATCH_MAX, cursor]
            )
            count += reclaimed
            if cursor == b"0":
                return count

    async def forget_workers(self, silent_seconds: float) -> None:
        silent_microseconds = round(silent_seconds * MICROSECONDS)
        await self._connection.run("forget_workers", [silent_microseconds, BATCH_MAX])

    async def deregister(self, worker_id: str) -> None:
        await self._connection.run("deregister", [worker_id])

    async def cancel(self, task_ids: Sequence[str]) -> None:
        for part in slices(task_ids, LOOKUP_MAX):
            await self._connection.run("cancel", part)

    async def receive_cancellations(self, worker_id: str, wait_seconds: float) -> Sequence[str]:
        return await self._subscriptions.receive_cancellations(
            worker_id, lambda: self._pop_cancellations(worker_id), wait_seconds
        )

    async def _pop_cancellations(self, worker_id: str) -> Sequence[str]:
        found = await self._connection.call(
            "LPOP", f"{self._prefix}cancellations:{worker_id}", CANCELLATIONS_MAX
        )
        return [task_id.decode() for task_id in found or ()]

    async def missing(self, task_ids: Sequence[str]) -> Sequence[str]:
        return _joined_ids(
            [await self._connection.run("missing", part) for part in slices(task_ids, LOOKUP_MAX)]
        )

    # Overview

    async def workers(self) -> Sequence[WorkerInfo]:
        found = await self._connection.run("workers", [WORKERS_SHOWN_MAX, HELD_SHOWN_MAX])
        workers = [_worker_info(*row) for row in found]
        return sorted(workers, key=lambda worker: worker.worker_id)

    async def queues(self) -> Sequence[QueueInfo]:
        found = await self._connection.run("queues", ())
        return [_queue_info(*row) for row in sorted(found)]

    # Inboxes

    def _inbox(self, shard: int) -> RedisInbox:
        inbox = self._inboxes.get(shard)
        if inbox is None:
            inbox = self._inboxes[shard] = RedisInbox(
                shard, self._prefix, self._connection, self._listener
            )
        return inbox

    async def send(self, shard: int, messages: Sequence[Message]) -> None:
        if not messages:
            # Only ends a wait of this process; the server is not involved.
            self._inbox(shard).wake()
            return
        arguments = [(encode_message(message),) for message in messages]
        await self._connection.run_batches("send", [shard], _joined(arguments))

    async def receive(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        return await self._inbox(shard).receive(min(limit, BATCH_MAX), wait_seconds)

    async def acknowledge(self, shard: int, count: int) -> None:
        await self._inbox(shard).acknowledge(count)

    async def rewind(self, shard: int) -> None:
        await self._inbox(shard).rewind()

    # Notifications

    def notify_done(self, ids: Sequence[str]) -> None:
        for part in slices(ids, BATCH_MAX):
            self._connection.send_hint("PUBLISH", self._prefix + DONE_CHANNEL, " ".join(part))

    def subscribe_done(self, callback: Callable[[Sequence[str]], None]) -> None:
        if not self._done_callbacks:
            self._listener.subscribe([DONE_CHANNEL], self._on_done)
        self._done_callbacks.append(callback)

    def _on_done(self, notification: bytes) -> None:
        ids = notification.decode("utf-8", "replace").split()
        if not ids:
            # The payload is empty when the subscription begins.
            return
        for callback in self._done_callbacks:
            callback(ids)


def _claims(answer: Sequence[Any]) -> list[TaskClaim]:
    claims: list[TaskClaim] = []
    for body, delivery_count in zip(answer[::2], answer[1::2], strict=True):
        try:
            _, _, encoded = body.partition(b"\n")
            claims.append(TaskClaim(_task_decoder.decode(encoded), delivery_count))
        except msgspec.DecodeError:
            # No worker extends it, so it is reclaimed, and after some losses its shard fails it.
            log.warning("ignoring an invalid task: %r", body[:200])
    return claims


def _worker_info(
    worker_id: bytes,
    seen_at: bytes,
    silent_microseconds: int,
    queues: bytes,
    held: int,
    *tasks: bytes,
) -> WorkerInfo:
    held_tasks = [
        HeldTask(int(claimed_at), task_id.decode())
        for task_id, claimed_at in zip(tasks[::2], tasks[1::2], strict=True)
    ]
    return WorkerInfo(
        worker_id=worker_id.decode(),
        queues=msgspec.json.decode(queues or b"[]", type=tuple[str, ...]),
        held=held,
        seen_at=int(seen_at),
        silent_seconds=silent_microseconds / MICROSECONDS,
        tasks=sorted(held_tasks),
    )


def _queue_info(name: bytes, depth: int, running: int, oldest_microseconds: int) -> QueueInfo:
    if oldest_microseconds < 0:
        return QueueInfo(name.decode(), depth, running)
    return QueueInfo(name.decode(), depth, running, oldest_microseconds / MICROSECONDS)


def _encode_task(task: Task) -> bytes:
    header = _TaskHeader(
        queue=task.queue,
        priority=task.priority,
        shard=task.shard,
        job_id=task.job_id,
        node_id=task.node_id,
        attempt=task.attempt,
        index=task.index,
    )
    return _json_encoder.encode(header) + b"\n" + _task_encoder.encode(task)


def _joined(items: Sequence[tuple[*tuple[Argument, ...], bytes]]) -> Iterable[list[Argument]]:
    """Join the arguments of many items into those of few calls."""
    for batch in batches(items, lambda item: len(item[-1]), BATCH_MAX):
        yield [argument for item in batch for argument in item]


def _joined_ids(answers: Sequence[Sequence[bytes]]) -> list[str]:
    return [task_id.decode() for answer in answers for task_id in answer]
