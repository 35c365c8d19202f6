"""Waking coroutines that wait on one event loop."""

import asyncio
import math

from windlass.concurrency.futures import resolve


class Signal:
    """Wakes the coroutines that wait for it. A notification without waiters is not kept: check first, then wait."""

    __slots__ = ("_timer_at", "_waiters")

    def __init__(self) -> None:
        # Each waiter with its deadline.
        self._waiters: list[tuple[float, asyncio.Future[None]]] = []
        # The time of the next check for expired waiters. The timer is not cancelled when its waiter was woken before:
        # a worker waits once for every task of a chain, and would set and cancel a timer for each.
        self._timer_at = math.inf

    def notify(self) -> None:
        """Wake every waiter."""
        waiters, self._waiters = self._waiters, []
        for _, future in waiters:
            resolve(future, None)

    async def wait(self, seconds: float) -> None:
        """Wait for a notification, at most `seconds`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        deadline = loop.time() + seconds
        self._waiters.append((deadline, future))
        self._check_at(deadline, loop)
        await future

    def _check_at(self, when: float, loop: asyncio.AbstractEventLoop) -> None:
        if when < self._timer_at:
            self._timer_at = when
            loop.call_at(when, self._check, when, loop)

    def _check(self, when: float, loop: asyncio.AbstractEventLoop) -> None:
        if when != self._timer_at:
            # An earlier timer replaced this one.
            return
        self._timer_at = math.inf
        waiters, self._waiters = self._waiters, []
        for deadline, future in waiters:
            if future.done():
                continue
            if deadline <= when:
                future.set_result(None)
            else:
                self._waiters.append((deadline, future))
                self._check_at(deadline, loop)
