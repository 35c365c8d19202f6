"""A broker that several simulated processes share as they would share a server: each has its own read positions.

Reading removes nothing. A process acknowledges the messages it received itself, by number, regardless of other readers.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from msgspec import Struct

from windlass.brokers.memory import MemoryBroker
from windlass.core.changes import Task
from windlass.core.messages import Message
from windlass.ports.clock import Clock

# More messages than an inbox ever has.
RECEIVE_MAX = 1_000_000


class Contents(Struct, frozen=True):
    """What a server has at some time."""

    tasks: Sequence[Task] = ()
    inboxes: Mapping[int, Mapping[int, Message]] = {}


class SharedBroker:
    """The server: queues, and inboxes whose messages are numbered."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.broker = MemoryBroker(clock)
        # By shard, each message under its number, oldest first.
        self._inboxes: dict[int, dict[int, Message]] = {}
        self._saved = Contents()
        # How often the contents were lost.
        self.losses = 0
        # Numbers continue after the contents were lost, as those of Redis streams do.
        self._last_number = 0
        # Subscriptions survive a flush of the server.
        self.done_callbacks: list[Callable[[Sequence[str]], None]] = []

    def lose_everything(self) -> None:
        """Lose all contents, as a flushed server does."""
        self.broker = MemoryBroker(self._clock)
        self._inboxes.clear()
        self.losses += 1

    async def forget(self, random: Random) -> None:
        """Lose some tasks and keep the rest, as a server does that evicts keys."""
        known = [task.task_id for task in self.broker.tasks()]
        await self.broker.cancel(random.sample(known, (len(known) + 1) // 2))

    def save(self) -> None:
        """Keep the contents for a later restore."""
        self._saved = Contents(
            tasks=self.broker.tasks(),
            inboxes={shard: dict(inbox) for shard, inbox in self._inboxes.items()},
        )

    async def restore(self) -> None:
        """Replace the contents by the saved ones: tasks that ended since then are queued again."""
        self.lose_everything()
        saved = self._saved
        await self.broker.publish(saved.tasks)
        self._inboxes = {shard: dict(inbox) for shard, inbox in saved.inboxes.items()}

    async def inbox(self, shard: int, wait_seconds: float) -> dict[int, Message]:
        """Return the messages of a shard after waiting for new ones."""
        broker = self.broker
        messages = await broker.receive(shard, RECEIVE_MAX, wait_seconds)
        await broker.acknowledge(shard, len(messages))
        inbox = self._inboxes.setdefault(shard, {})
        if broker is self.broker:
            for message in messages:
                self._last_number += 1
                inbox[self._last_number] = message
        # Else the contents were lost meanwhile, including these messages.
        return inbox

    def remove(self, shard: int, number: int) -> None:
        """Remove a message if it still exists."""
        self._inboxes.get(shard, {}).pop(number, None)


class SharedBrokerClient:
    """The Broker contract for one process."""

    def __init__(self, server: SharedBroker) -> None:
        self._server = server
        self._last_read: dict[int, int] = {}
        self._received: dict[int, deque[int]] = {}

    def __getattr__(self, call: str) -> Any:
        # All calls but those below are the same for all processes.
        return getattr(self._server.broker, call)

    async def incarnation(self) -> str:
        """Implement Broker.incarnation."""
        return str(self._server.losses)

    async def receive(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        """Implement Broker.receive."""
        return await self._read(shard, limit, 0.0) or await self._read(shard, limit, wait_seconds)

    async def _read(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        inbox = await self._server.inbox(shard, wait_seconds)
        last = self._last_read.get(shard, 0)
        numbers = [number for number in inbox if number > last][:limit]
        if numbers:
            self._last_read[shard] = numbers[-1]
            self._received.setdefault(shard, deque()).extend(numbers)
        return [inbox[number] for number in numbers]

    async def acknowledge(self, shard: int, count: int) -> None:
        """Implement Broker.acknowledge."""
        received = self._received.setdefault(shard, deque())
        for _ in range(min(count, len(received))):
            self._server.remove(shard, received.popleft())

    async def rewind(self, shard: int) -> None:
        """Implement Broker.rewind."""
        self._last_read.pop(shard, None)
        self._received.pop(shard, None)

    def notify_done(self, ids: Sequence[str]) -> None:
        """Implement Broker.notify_done."""
        for callback in self._server.done_callbacks:
            callback(ids)

    def subscribe_done(self, callback: Callable[[Sequence[str]], None]) -> None:
        """Implement Broker.subscribe_done."""
        self._server.done_callbacks.append(callback)
