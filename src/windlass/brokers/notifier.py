"""Who in this process waits for what. A server's notifications ring here; nobody asks it again and again.

Look, then wait: an ear that was rung since the last look stays rung, so nothing is missed in between.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

# How often those who wait look by themselves while notifications do not come.
LOOK_SECONDS = 0.5

Found = TypeVar("Found")


class Subscription:
    """Waits for rings of some channels. It is born rung: what was there before it must be looked for."""

    __slots__ = ("_waiting", "channels", "is_nudged", "is_rung")

    def __init__(self, channels: Sequence[str]) -> None:
        self.channels = tuple(channels)
        self.is_rung = True
        # Whether somebody in this process wants the wait to end, whatever is found.
        self.is_nudged = False
        self._waiting: list[asyncio.Future[None]] = []

    def ring(self) -> None:
        """Say that there may be something; whoever waits goes on."""
        self.is_rung = True
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            _wake(future)

    def nudge(self) -> None:
        """End the wait, also for nothing."""
        self.is_nudged = True
        self.ring()

    def hush(self) -> None:
        """Forget the rings so far, just before a look."""
        self.is_rung = False
        self.is_nudged = False

    async def wait(self, seconds: float) -> None:
        """Wait until it is rung, at most so long."""
        if self.is_rung or seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append(future)
        # Cheaper than asyncio.timeout, and a worker waits once for every task of a chain.
        timer = loop.call_later(seconds, _wake, future)
        try:
            await future
        finally:
            timer.cancel()
            if future in self._waiting:
                self._waiting.remove(future)


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Notifier:
    """The ears of a process, by channel."""

    def __init__(self, look_seconds: float) -> None:
        # How often to look although notifications come: for servers that may miss one.
        self._look_seconds = look_seconds
        self._ears: dict[str, set[Subscription]] = {}
        # Whether notifications do not come at present: who waits must then look from time to time.
        self.are_silent = True

    @property
    def channels(self) -> Sequence[str]:
        """Every channel that somebody wants to hear of."""
        return list(self._ears)

    def add(self, ear: Subscription) -> Sequence[str]:
        """Let an ear hear its channels; those that nobody heard before."""
        new = [channel for channel in ear.channels if channel not in self._ears]
        for channel in ear.channels:
            self._ears.setdefault(channel, set()).add(ear)
        return new

    def remove(self, ear: Subscription) -> Sequence[str]:
        """Forget an ear; the channels that nobody hears any more."""
        left: list[str] = []
        for channel in ear.channels:
            ears = self._ears.get(channel, set())
            ears.discard(ear)
            if not ears:
                self._ears.pop(channel, None)
                left.append(channel)
        return left

    def ring(self, channel: str) -> None:
        """Ring everyone who hears a channel."""
        for ear in self._ears.get(channel, ()):
            ear.ring()

    def ring_all(self) -> None:
        """Ring everyone: notifications may have been missed."""
        for ears in self._ears.values():
            for ear in ears:
                ear.ring()

    async def awaited(
        self, ear: Subscription, look: Callable[[], Awaitable[Sequence[Found]]], limit: int, wait_seconds: float
    ) -> Sequence[Found]:
        """Look, and again at each ring, until something is found, the ear is nudged or the time is over."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait_seconds
        has_time = wait_seconds > 0
        while True:
            if has_time and not ear.is_rung:
                look_seconds = LOOK_SECONDS if self.are_silent else self._look_seconds
                await ear.wait(min(deadline - clock(), look_seconds))
                has_time = clock() < deadline
            is_nudged = ear.is_nudged
            ear.hush()
            try:
                # Once more also when the time is over: a look tells a server that somebody lives.
                found = await look()
            except BaseException:
                ear.ring()
                raise
            # Fewer than wanted: there is no more until it rings.
            if len(found) >= limit:
                ear.ring()
            if found or is_nudged or not has_time:
                return found
