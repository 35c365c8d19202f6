"""Heartbeats: their interval, which the engines may shorten, and event loops that are blocked."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.worker.worker_harness import Bench, registry
from windlass.brokers.memory import MemoryBroker
from windlass.clock import SystemClock
from windlass.ports.broker import Broker
from windlass.ports.handler_declaration import handler
from windlass.worker import heartbeat, worker
from windlass.worker.heartbeat import Heartbeat, HeartbeatInterval

PATIENCE_SECONDS = 10.0


class CountingBroker(MemoryBroker):
    """Passes each heartbeat, which comes from a thread, to the event loop of a test."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(SystemClock())
        self._loop = loop
        self.heartbeats: asyncio.Queue[None] = asyncio.Queue()

    async def extend(self, worker_id: str, task_ids: Sequence[str]) -> Sequence[str]:
        self._loop.call_soon_threadsafe(self.heartbeats.put_nowait, None)
        return await super().extend(worker_id, task_ids)

    async def wait_for_heartbeats(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for _ in range(count):
                await self.heartbeats.get()


class Engines:
    """The timeout that the engines publish."""

    def __init__(self, worker_timeout_seconds: float) -> None:
        self.worker_timeout_seconds = worker_timeout_seconds

    def interval(self, heartbeat_seconds: float) -> HeartbeatInterval:
        return HeartbeatInterval(heartbeat_seconds, lambda: self.worker_timeout_seconds)


@asynccontextmanager
async def beating(interval: HeartbeatInterval) -> AsyncIterator[CountingBroker]:
    broker = CountingBroker(asyncio.get_running_loop())

    async def open_broker() -> Broker:
        return broker

    sender = Heartbeat(open_broker, interval)
    sender.start("w1", list, lambda task_ids: None)
    try:
        yield broker
    finally:
        await sender.stop()


def test_the_interval_is_a_third_of_a_shorter_timeout_of_the_engines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engines = Engines(worker_timeout_seconds=60.0)
    interval = engines.interval(20.0)
    assert interval.seconds() == 20.0
    assert caplog.messages == []

    engines.worker_timeout_seconds = 15.0

    with caplog.at_level(logging.WARNING):
        assert [interval.seconds(), interval.seconds()] == [5.0, 5.0]
    assert caplog.messages == [
        (
            "heartbeats are sent every 5 s: worker.heartbeat_seconds = 20, and the engines count workers as lost "
            "after engine.worker_timeout_seconds = 15"
        )
    ]


async def test_a_shorter_timeout_applies_while_the_worker_waits_for_its_next_heartbeat() -> None:
    engines = Engines(worker_timeout_seconds=3_600.0)
    async with beating(engines.interval(600.0)) as broker:
        await broker.wait_for_heartbeats(1)

        engines.worker_timeout_seconds = 0.3

        await broker.wait_for_heartbeats(3)


async def test_rare_heartbeats_do_not_make_a_running_event_loop_look_blocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @handler("nothing")
    async def nothing() -> None: ...

    monkeypatch.setattr(heartbeat, "BLOCKED_SECONDS_MAX", 0.5)
    monkeypatch.setattr(worker, "LOOP_RAN_SECONDS", 0.05)
    broker = CountingBroker(asyncio.get_running_loop())

    async def open_broker() -> Broker:
        return broker

    sender = Heartbeat(open_broker, Engines(60.0).interval(0.7))
    bench = Bench(registry(nothing), heartbeat_seconds=3_600.0, heartbeat=sender)
    running = asyncio.create_task(bench.worker.run())

    await broker.wait_for_heartbeats(3)

    await bench.worker.stop(0.0)
    await running
