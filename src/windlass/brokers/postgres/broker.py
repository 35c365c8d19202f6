"""The broker on PostgreSQL, for deployments without Redis: unlogged tables and claims that skip locked rows.

A crash of the server empties the tables; the engines publish again what their rows say is in flight.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import msgspec

from windlass.brokers.batches import BATCH_MAX, LOOKUP_MAX, batches, slices
from windlass.brokers.notifier import CANCELLATIONS_MAX, SubscriptionCache
from windlass.brokers.postgres.connection import PostgresBrokerConnector, PostgresBrokerPool
from windlass.brokers.postgres.inbox import PostgresInbox
from windlass.brokers.postgres.notifications import PostgresNotifications
from windlass.core.changes import Task
from windlass.core.messages import Message, TaskLost
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

# Waiting tasks that are counted per queue; the depth of a longer queue is shown as this number.
COUNTED_MAX = 100_000
# How long a cancelled caller waits for an answer that must be undone.
UNDO_SECONDS_MAX = 1.0

log = logging.getLogger("windlass.brokers")
_task_decoder = msgspec.msgpack.Decoder(Task)
_task_encoder = msgspec.msgpack.Encoder()


class PostgresBroker:
    """The Broker contract on a PostgreSQL database, 14 or newer."""

    def __init__(self, pool: PostgresBrokerPool, notifications: PostgresNotifications) -> None:
        self._pool = pool
        self._notifications = notifications
        self._subscriptions = SubscriptionCache(
            notifications.notifier, notifications.subscribe, notifications.unsubscribe
        )
        self._inboxes: dict[int, PostgresInbox] = {}

    @classmethod
    async def open(cls, url: str) -> "PostgresBroker":
        """Return a broker on the database of a URL; create its tables if needed. Raises BrokerUnavailable."""
        connector = PostgresBrokerConnector(url)
        pool = PostgresBrokerPool(connector, await connector.pool())
        try:
            await pool.create_schema()
        except BaseException:
            await pool.aclose()
            raise
        return cls(pool, PostgresNotifications(connector, pool))

    async def close(self) -> None:
        """Close the connections. Queued and held tasks stay in the tables."""
        await self._notifications.aclose()
        await self._pool.aclose()

    # Tasks

    async def incarnation(self) -> str:
        [(name,)] = await self._pool.fetch("incarnation", uuid4().hex)
        return name

    async def register_owner(self, shard: int, epoch: int) -> None:
        await self._pool.fetch("register_owner", shard, epoch)

    async def publish(self, tasks: Sequence[Task], epoch: int = 0) -> None:
        encoded = [(task, _task_encoder.encode(task)) for task in tasks]
        for batch in batches(encoded, _encoded_size, BATCH_MAX):
            rows = await self._pool.fetch(
                "publish",
                tasks[0].shard,
                epoch,
                [task.task_id for task, _ in batch],
                [task.queue for task, _ in batch],
                [task.priority for task, _ in batch],
                [task.handler for task, _ in batch],
                [task.workflow_id for task, _ in batch],
                [body for _, body in batch],
            )
            self._notifications.notify_queues(row[0] for row in rows)

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
        served = None if handlers is None else list(handlers)
        query = asyncio.ensure_future(
            self._pool.fetch("claim", worker_id, list(queues), served, limit)
        )
        try:
            return _claims(await asyncio.shield(query))
        except asyncio.CancelledError:
            # Return the tasks that were claimed for a cancelled caller. If that fails they are reclaimed later.
            await asyncio.wait([query], timeout=UNDO_SECONDS_MAX)
            if not query.done():
                query.cancel()
            elif not query.cancelled() and query.exception() is None:
                claims = _claims(query.result())
                await self.return_tasks(worker_id, [claim.task.task_id for claim in claims])
            raise

    async def extend(self, worker_id: str, task_ids: Sequence[str]) -> Sequence[str]:
        return _first_column(await self._pool.fetch("extend", worker_id, list(task_ids)))

    async def finish(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        encoded = [(report, encode_message(report.message)) for report in reports]
        for batch in batches(encoded, _encoded_size, BATCH_MAX):
            shards = [report.shard for report, _ in batch]
            rows = await self._pool.fetch(
                "finish",
                worker_id,
                [report.task_id for report, _ in batch],
                shards,
                [message for _, message in batch],
            )
            self._notifications.notify_shards(shards)
            self._notifications.notify_cancelled(_first_column(rows))

    async def return_tasks(self, worker_id: str, task_ids: Sequence[str]) -> None:
        if task_ids:
            rows = await self._pool.fetch("return_tasks", worker_id, list(task_ids))
            self._notifications.notify_queues(_first_column(rows))

    async def reclaim(self, timeout_seconds: float) -> int:
        count = 0
        while True:
            reclaimed: int = await self._pool.retry(lambda: self._reclaim_batch(timeout_seconds))
            count += reclaimed
            # Each round ends the leases it finds, so the loop ends.
            if reclaimed < BATCH_MAX:
                return count

    async def _reclaim_batch(self, timeout_seconds: float) -> int:
        """Requeue tasks and send TaskLost to their shards in one transaction; return the number of tasks."""
        messages: dict[int, list[bytes]] = {}
        invalid: list[str] = []
        async with self._pool.transaction() as fetch:
            rows = await fetch("reclaim", timeout_seconds, BATCH_MAX)
            for row in rows:
                try:
                    task = _task_decoder.decode(row["body"])
                except msgspec.DecodeError:
                    invalid.append(row["task_id"])
                else:
                    lost = TaskLost.of(task, row["worker_id"], row["losses"])
                    messages.setdefault(task.shard, []).append(encode_message(lost))
            for shard, encoded in messages.items():
                await fetch("send", shard, encoded)
            if invalid:
                # The engine finds them missing and publishes them again.
                await fetch("delete_tasks", invalid)
        self._notifications.notify_queues(row["queue"] for row in rows)
        self._notifications.notify_shards(messages)
        return len(rows)

    async def forget_workers(self, silent_seconds: float) -> None:
        await self._pool.fetch("forget_workers", silent_seconds)

    async def deregister(self, worker_id: str) -> None:
        await self._pool.fetch("deregister", worker_id)

    async def cancel(self, task_ids: Sequence[str]) -> None:
        for part in slices(task_ids, LOOKUP_MAX):
            rows = await self._pool.fetch("cancel", list(part))
            self._notifications.notify_cancelled(_first_column(rows))

    async def receive_cancellations(self, worker_id: str, wait_seconds: float) -> Sequence[str]:
        return await self._subscriptions.receive_cancellations(
            worker_id, lambda: self._pop_cancellations(worker_id), wait_seconds
        )

    async def _pop_cancellations(self, worker_id: str) -> Sequence[str]:
        return _first_column(
            await self._pool.fetch("pop_cancellations", worker_id, CANCELLATIONS_MAX)
        )

    async def missing(self, task_ids: Sequence[str]) -> Sequence[str]:
        found: list[str] = []
        for part in slices(task_ids, LOOKUP_MAX):
            found += _first_column(await self._pool.fetch("missing", list(part)))
        return found

    async def tasks_of(self, shard: int) -> Sequence[str]:
        return _first_column(await self._pool.fetch("tasks_of", shard))

    # Overview

    async def workers(self) -> Sequence[WorkerInfo]:
        held: dict[str, list[HeldTask]] = {}
        for holder, task_id, claimed_at in await self._pool.fetch(
            "held", WORKERS_SHOWN_MAX * HELD_SHOWN_MAX, HELD_SHOWN_MAX
        ):
            held.setdefault(holder, []).append(HeldTask(claimed_at, task_id))
        workers: list[WorkerInfo] = []
        for row in await self._pool.fetch("workers", WORKERS_SHOWN_MAX):
            info = WorkerInfo(
                worker_id=row["worker_id"],
                queues=tuple(row["queues"]),
                held=row["held"],
                seen_at=row["seen_at"],
                silent_seconds=row["silent_seconds"],
                tasks=sorted(held.get(row["worker_id"], ())),
                handlers=None if row["handlers"] is None else tuple(row["handlers"]),
            )
            workers.append(info)
        return workers

    async def queues(self) -> Sequence[QueueInfo]:
        found: list[QueueInfo] = []
        for *counts, handlers, depths in await self._pool.fetch("queues", COUNTED_MAX):
            waiting = zip(handlers or (), depths or (), strict=True)
            found.append(QueueInfo(*counts, waiting=tuple(waiting)))
        return found

    # Inboxes

    def _inbox(self, shard: int) -> PostgresInbox:
        inbox = self._inboxes.get(shard)
        if inbox is None:
            inbox = self._inboxes[shard] = PostgresInbox(shard, self._pool, self._notifications)
        return inbox

    async def send(self, shard: int, messages: Sequence[Message]) -> None:
        if not messages:
            # Only ends a wait of this process; the server is not involved.
            self._inbox(shard).wake()
            return
        for batch in batches([encode_message(message) for message in messages], len, BATCH_MAX):
            await self._pool.fetch("send", shard, batch)
        self._notifications.notify_shards([shard])

    async def receive(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        return await self._inbox(shard).receive(min(limit, BATCH_MAX), wait_seconds)

    async def acknowledge(self, shard: int, count: int) -> None:
        await self._inbox(shard).acknowledge(count)

    async def rewind(self, shard: int) -> None:
        await self._inbox(shard).rewind()

    # Notifications

    def notify_done(self, ids: Sequence[str]) -> None:
        self._notifications.notify_done(ids)

    def subscribe_done(self, callback: Callable[[Sequence[str]], None]) -> None:
        self._notifications.subscribe_done(callback)


def _claims(rows: Sequence[Any]) -> list[TaskClaim]:
    claims: list[TaskClaim] = []
    for body, delivery_count in rows:
        try:
            claims.append(TaskClaim(_task_decoder.decode(body), delivery_count))
        except msgspec.DecodeError:
            # No worker extends it, so it is reclaimed, deleted and published again.
            log.warning("ignoring an invalid task: %r", body[:200])
    return claims


def _encoded_size(item: tuple[object, bytes]) -> int:
    return len(item[1])


def _first_column(rows: Sequence[Any]) -> list[str]:
    return [row[0] for row in rows]
