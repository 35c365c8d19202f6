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
from windlass.brokers.redis.contents_check import ContentsCheck, info_value
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
# Stands for all handlers in a claim.
ALL_HANDLERS = "*"

log = logging.getLogger("windlass.brokers")
_task_decoder = msgspec.msgpack.Decoder(Task)
_task_encoder = msgspec.msgpack.Encoder()
_json_encoder = msgspec.json.Encoder()


class _TaskHeader(Struct, gc=False):
    """The part of a task that the scripts need, as JSON: they cannot decode MessagePack with binary values."""

    queue: str
    priority: int
    handler: str
    shard: int
    job_id: str
    node_id: str
    attempt: int
    index: int


class _Capabilities(Struct):
    """What a worker serves, as the server stores it."""

    queues: tuple[str, ...] = ()
    handlers: tuple[str, ...] | None = None


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
        self._contents = ContentsCheck(self._connection)
        self._done_callbacks: list[Callable[[Sequence[str]], None]] = []

    @classmethod
    async def open(cls, url: str, prefix: str = PREFIX) -> "RedisBroker":
        """Return a broker whose server answers. Raises BrokerUnavailable."""
        broker = cls(url, prefix)
        try:
            _warn_of_eviction(await broker._connection.call("INFO", "memory"))
        except BaseException:
            await broker.close()
            raise
        return broker

    async def close(self) -> None:
        """Close the connections. Queued and held tasks stay on the server."""
        await self._listener.aclose()
        await self._connection.aclose()

    # Tasks

    async def incarnation(self) -> str:
        return await self._contents.incarnation()

    async def register_owner(self, shard: int, epoch: int) -> None:
        await self._connection.run("register_owner", [shard, epoch])

    async def publish(self, tasks: Sequence[Task], epoch: int = 0) -> None:
        if tasks:
            arguments = [
                (
                    task.task_id,
                    task.queue,
                    task.priority,
                    task.handler,
                    task.workflow_id,
                    _encode_task(task),
                )
                for task in tasks
            ]
            first: list[Argument] = [tasks[0].shard, epoch]
            await self._connection.run_batches("publish", first, _joined(arguments))

    async def claim(
        self,
        worker_id: str,
        queues: Sequence[str],
        limit: int,
        wait_seconds: float,
        *,
        handlers: Sequence[str] | None = None,
    ) -> Sequence[TaskClaim]:
        limit = min(limit, BATCH_MAX)
        return await self._subscriptions.claim_tasks(
            worker_id,
            queues,
            lambda: self._claim(worker_id, queues, limit, handlers),
            limit,
            wait_seconds,
        )

    async def _claim(
        self, worker_id: str, queues: Sequence[str], limit: int, handlers: Sequence[str] | None
    ) -> Sequence[TaskClaim]:
        async def undo(answer: Sequence[Any]) -> None:
            await self.return_tasks(worker_id, [claim.task.task_id for claim in _claims(answer)])

        served = _Capabilities(tuple(queues), None if handlers is None else tuple(handlers))
        names = [ALL_HANDLERS] if handlers is None else handlers
        arguments: list[Argument] = [
            worker_id,
            limit,
            _json_encoder.encode(served),
            len(queues),
            *queues,
            *names,
        ]
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

    async def tasks_of(self, shard: int) -> Sequence[str]:
        found: set[str] = set()
        cursor = b"0"
        while True:
            cursor, task_ids = await self._connection.run("tasks_of", [shard, BATCH_MAX, cursor])
            found.update(task_id.decode() for task_id in task_ids)
            if cursor == b"0":
                return sorted(found)

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


def _warn_of_eviction(memory: bytes) -> None:
    limit, policy = info_value(memory, "maxmemory"), info_value(memory, "maxmemory_policy")
    if limit not in {"", "0"} and policy not in {"", "noeviction"}:
        log.warning(
            "Redis evicts keys when its memory is full (maxmemory-policy %s): tasks and results are lost until "
            "engines publish them again; set maxmemory-policy noeviction",
            policy,
        )


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
    encoded: bytes,
    held: int,
    *tasks: bytes,
) -> WorkerInfo:
    held_tasks = [
        HeldTask(int(claimed_at), task_id.decode())
        for task_id, claimed_at in zip(tasks[::2], tasks[1::2], strict=True)
    ]
    capabilities = msgspec.json.decode(encoded or b"{}", type=_Capabilities)
    return WorkerInfo(
        worker_id=worker_id.decode(),
        queues=capabilities.queues,
        handlers=capabilities.handlers,
        held=held,
        seen_at=int(seen_at),
        silent_seconds=silent_microseconds / MICROSECONDS,
        tasks=sorted(held_tasks),
    )


def _queue_info(
    name: bytes, depth: int, running: int, oldest_microseconds: int, *handlers: Any
) -> QueueInfo:
    if oldest_microseconds < 0:
        return QueueInfo(name.decode(), depth, running)
    waiting = [
        (handler.decode(), count)
        for handler, count in zip(handlers[::2], handlers[1::2], strict=True)
    ]
    oldest_seconds = oldest_microseconds / MICROSECONDS
    return QueueInfo(name.decode(), depth, running, oldest_seconds, tuple(sorted(waiting)))


def _encode_task(task: Task) -> bytes:
    header = _TaskHeader(
        queue=task.queue,
        priority=task.priority,
        handler=task.handler,
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
