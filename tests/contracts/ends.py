"""Somebody who hears of jobs that have ended."""

import asyncio
from collections.abc import Callable, Sequence

from windlass.ports.broker import Broker

HEARS_SECONDS = 10.0
LOOK_SECONDS = 0.01


class Listener:
    """Remembers all that it heard."""

    def __init__(self, broker: Broker) -> None:
        self.heard: list[str] = []
        self._news = asyncio.Event()
        broker.subscribe_done(self._hear)

    def _hear(self, job_ids: Sequence[str]) -> None:
        self.heard += job_ids
        self._news.set()

    async def until(self, tell: Callable[[], None], job_ids: Sequence[str]) -> None:
        """Have something told again and again until all these jobs were heard of: what is told is only a hint."""
        async with asyncio.timeout(HEARS_SECONDS):
            while not set(job_ids) <= set(self.heard):
                tell()
                await asyncio.sleep(LOOK_SECONDS)

    async def until_heard(self, job_ids: Sequence[str]) -> None:
        """Wait until all these jobs were heard of."""
        async with asyncio.timeout(HEARS_SECONDS):
            while not set(job_ids) <= set(self.heard):
                self._news.clear()
                await self._news.wait()


async def listening(broker: Broker, teller: Broker) -> Listener:
    """A listener that hears what another broker tells."""
    listener = Listener(broker)
    await listener.until(lambda: teller.notify_done(["first"]), ["first"])
    return listener
