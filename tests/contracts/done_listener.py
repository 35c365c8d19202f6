"""A subscriber to notifications of ended jobs."""

import asyncio
from collections.abc import Callable, Sequence

from windlass.ports.broker import Broker

NOTIFIED_SECONDS_MAX = 10.0
POLL_SECONDS = 0.01


class DoneListener:
    """Remembers the ids of all notifications."""

    def __init__(self, broker: Broker) -> None:
        self.received: list[str] = []
        self._has_news = asyncio.Event()
        broker.subscribe_done(self._on_done)

    def _on_done(self, job_ids: Sequence[str]) -> None:
        self.received += job_ids
        self._has_news.set()

    async def until(self, notify: Callable[[], None], job_ids: Sequence[str]) -> None:
        """Repeat a notification until all these jobs were received: notifications may be lost."""
        async with asyncio.timeout(NOTIFIED_SECONDS_MAX):
            while not set(job_ids) <= set(self.received):
                notify()
                await asyncio.sleep(POLL_SECONDS)

    async def until_received(self, job_ids: Sequence[str]) -> None:
        """Wait until all these jobs were received."""
        async with asyncio.timeout(NOTIFIED_SECONDS_MAX):
            while not set(job_ids) <= set(self.received):
                self._has_news.clear()
                await self._has_news.wait()


async def subscribed(broker: Broker, sender: Broker) -> DoneListener:
    """Return a listener that receives the notifications of another broker."""
    listener = DoneListener(broker)
    await listener.until(lambda: sender.notify_done(["first"]), ["first"])
    return listener
