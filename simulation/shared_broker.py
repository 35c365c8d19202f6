"""A broker that several simulated processes share, as they would a server: each reads the inboxes for itself.

Reading removes nothing. What a process acknowledges is what it gathered itself, by number, whoever else has read it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from windlass.brokers.memory import MemoryBroker
from windlass.core.messages import Message
from windlass.ports.clock import Clock

# Messages that one look takes over from the queues' side: all there are.
COLLECT_MAX = 1_000_000


class SharedBroker:
    """The server's side: queues, and inboxes whose messages are numbered."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.broker = MemoryBroker(clock)
        # By shard, each message under its number, oldest first.
        self._inboxes: dict[int, dict[int, Message]] = {}
        # Numbers go on after everything was lost, as those of a server's streams do.
        self._last = 0
        # Those who hear of what is done: a server that was emptied still knows who listens.
        self.hearing: list[Callable[[Sequence[str]], None]] = []

    def lose_everything(self) -> None:
        """What a server that was emptied still has: nothing."""
        self.broker = MemoryBroker(self._clock)
        self._inboxes.clear()

    async def inbox(self, shard: int, wait_seconds: float) -> dict[int, Message]:
        """The messages of a shard, after waiting so long for new ones."""
        broker = self.broker
        found = await broker.receive(shard, COLLECT_MAX, wait_seconds)
        await broker.acknowledge(shard, len(found))
        inbox = self._inboxes.setdefault(shard, {})
        # What was on its way while everything was lost is lost, too.
        for message in found if broker is self.broker else ():
            self._last += 1
            inbox[self._last] = message
        return inbox

    def remove(self, shard: int, number: int) -> None:
        """Forget a message, if it is still there."""
        self._inboxes.get(shard, {}).pop(number, None)


class SharedBrokerClient:
    """The Broker contract as one process has it."""

    def __init__(self, server: SharedBroker) -> None:
        self._server = server
        self._read: dict[int, int] = {}
        self._gathered: dict[int, deque[int]] = {}

    def __getattr__(self, call: str) -> Any:
        # Everything but reading inboxes is the same for all processes.
        return getattr(self._server.broker, call)

    async def receive(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        """As the contract says."""
        return await self._look(shard, limit, 0.0) or await self._look(shard, limit, wait_seconds)

    async def _look(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        inbox = await self._server.inbox(shard, wait_seconds)
        last = self._read.get(shard, 0)
        numbers = [number for number in inbox if number > last][:limit]
        if numbers:
            self._read[shard] = numbers[-1]
            self._gathered.setdefault(shard, deque()).extend(numbers)
        return [inbox[number] for number in numbers]

    async def acknowledge(self, shard: int, count: int) -> None:
        """As the contract says."""
        gathered = self._gathered.setdefault(shard, deque())
        for _ in range(min(count, len(gathered))):
            self._server.remove(shard, gathered.popleft())

    async def rewind(self, shard: int) -> None:
        """As the contract says."""
        self._read.pop(shard, None)
        self._gathered.pop(shard, None)

    def notify_done(self, ids: Sequence[str]) -> None:
        """As the contract says."""
        for hear in self._server.hearing:
            hear(ids)

    def subscribe_done(self, hear: Callable[[Sequence[str]], None]) -> None:
        """As the contract says."""
        self._server.hearing.append(hear)
