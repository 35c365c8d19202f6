"""Waiting for notifications of a broker's server inside one process.

A subscription keeps a notification until the next `clear`, so one that arrives between a fetch and the following wait
is not missed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from windlass.concurrency.futures import resolve

# How often waiters poll while the connection that receives notifications is down.
POLL_SECONDS = 0.5
# Subscriptions that a process keeps between calls. Each worker id needs two.
SUBSCRIPTIONS_MAX = 1_000
# Cancellations that a worker receives with one call.
CANCELLATIONS_MAX = 1_000

Found = TypeVar("Found")


class Subscription:
    """Waits for notifications of some channels. It starts notified, because items may exist already."""

    __slots__ = ("_waiters", "channels", "is_notified", "is_woken")

    def __init__(self, channels: Sequence[str]) -> None:
        self.channels = tuple(channels)
        self.is_notified = True
        # Whether this process wants the current wait to end even if there is nothing to fetch.
        self.is_woken = False
        self._waiters: list[asyncio.Future[None]] = []

    def notify(self) -> None:
        """Record that there may be something to fetch, and wake the waiters."""
        self.is_notified = True
        waiters, self._waiters = self._waiters, []
        for future in waiters:
            resolve(future, None)

    def wake(self) -> None:
        """End the current wait even if there is nothing to fetch."""
        self.is_woken = True
        self.notify()

    def clear(self) -> None:
        """Forget the notifications so far. Call it just before a fetch."""
        self.is_notified = False
        self.is_woken = False

    async def wait(self, seconds: float) -> None:
        """Wait for a notification, at most `seconds`."""
        if self.is_notified or seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiters.append(future)
        # Cheaper than asyncio.timeout; a worker waits once for every task of a chain.
        timer = loop.call_later(seconds, resolve, future, None)
        try:
            await future
        finally:
            timer.cancel()
            if future in self._waiters:
                self._waiters.remove(future)


class Notifier:
    """The subscriptions of a process, by channel."""

    def __init__(self, poll_seconds: float) -> None:
        # How often waiters poll while notifications arrive, for servers that may lose one.
        self._poll_seconds = poll_seconds
        self._subscriptions: dict[str, set[Subscription]] = {}
        # Whether notifications arrive at present. Waiters poll while they do not.
        self.is_connected = False

    @property
    def channels(self) -> Sequence[str]:
        """The channels with at least one subscription."""
        return list(self._subscriptions)

    def add(self, subscription: Subscription) -> Sequence[str]:
        """Add a subscription; return those of its channels that had none."""
        new = [channel for channel in subscription.channels if channel not in self._subscriptions]
        for channel in subscription.channels:
            self._subscriptions.setdefault(channel, set()).add(subscription)
        return new

    def remove(self, subscription: Subscription) -> Sequence[str]:
        """Remove a subscription; return those of its channels that have none left."""
        unused: list[str] = []
        for channel in subscription.channels:
            others = self._subscriptions.get(channel, set())
            others.discard(subscription)
            if not others:
                self._subscriptions.pop(channel, None)
                unused.append(channel)
        return unused

    def notify(self, channel: str) -> None:
        """Notify the subscriptions of a channel."""
        for subscription in self._subscriptions.get(channel, ()):
            subscription.notify()

    def notify_all(self) -> None:
        """Notify every subscription: notifications may have been missed."""
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.notify()

    async def fetch_when_notified(
        self,
        subscription: Subscription,
        fetch: Callable[[], Awaitable[Sequence[Found]]],
        limit: int,
        wait_seconds: float,
    ) -> Sequence[Found]:
        """Fetch, and again at each notification, until something is found, the wait is woken or the time is over."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait_seconds
        has_time = wait_seconds > 0
        while True:
            if has_time and not subscription.is_notified:
                poll_seconds = self._poll_seconds if self.is_connected else POLL_SECONDS
                await subscription.wait(min(deadline - clock(), poll_seconds))
                has_time = clock() < deadline
            is_woken = subscription.is_woken
            subscription.clear()
            try:
                # Also when the time is over: a fetch is a heartbeat of the worker.
                found = await fetch()
            except BaseException:
                subscription.notify()
                raise
            # Fewer than `limit` means that there is no more until the next notification.
            if len(found) >= limit:
                subscription.notify()
            if found or is_woken or not has_time:
                return found


class SubscriptionCache:
    """Keeps the subscriptions of recent callers, so that a repeated call does not subscribe again."""

    def __init__(
        self,
        notifier: Notifier,
        subscribe: Callable[[Sequence[str]], Subscription],
        unsubscribe: Callable[[Subscription], object],
    ) -> None:
        self._notifier = notifier
        self._subscribe = subscribe
        self._unsubscribe = unsubscribe
        self._kept: OrderedDict[tuple[str, ...], Subscription] = OrderedDict()

    async def claim_tasks(
        self,
        worker_id: str,
        queues: Sequence[str],
        claim: Callable[[], Awaitable[Sequence[Found]]],
        limit: int,
        wait_seconds: float,
    ) -> Sequence[Found]:
        """Claim tasks for a worker; wait for the first one for at most `wait_seconds`."""
        if wait_seconds <= 0:
            return await claim()
        subscription = self._get((worker_id, *(f"work:{queue}" for queue in queues)))
        return await self._notifier.fetch_when_notified(subscription, claim, limit, wait_seconds)

    async def receive_cancellations(
        self, worker_id: str, receive: Callable[[], Awaitable[Sequence[str]]], wait_seconds: float
    ) -> Sequence[str]:
        """Receive the cancellations of a worker's tasks; wait for the first one for at most `wait_seconds`."""
        if wait_seconds <= 0:
            return await receive()
        subscription = self._get((worker_id, f"cancel:{worker_id}"))
        return await self._notifier.fetch_when_notified(
            subscription, receive, CANCELLATIONS_MAX, wait_seconds
        )

    def _get(self, key: tuple[str, ...]) -> Subscription:
        """Return the subscription of a key: its owner, and the channels."""
        subscription = self._kept.get(key)
        if subscription is not None:
            self._kept.move_to_end(key)
            return subscription
        subscription = self._kept[key] = self._subscribe(key[1:])
        if len(self._kept) > SUBSCRIPTIONS_MAX:
            _, oldest = self._kept.popitem(last=False)
            self._unsubscribe(oldest)
        return subscription
