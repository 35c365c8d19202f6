"""The contract for leases: which engine owns which shard, and which engines are alive."""

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import uuid4

from msgspec import Struct


class Lease(Struct, frozen=True):
    """Ownership of a shard. `abandoned` when the previous owner did not release it, so its attempts were lost."""

    epoch: int
    abandoned: bool


class LeaseRow(Struct, frozen=True):
    """The owner of a shard, by the database's clock."""

    shard: int
    owner: str | None
    epoch: int
    # Whether the owner did not renew it in time: any engine may take it.
    expired: bool
    # None: held until it is released or taken.
    expires_at: int | None = None


class EngineRow(Struct, frozen=True):
    """An engine that is alive, and the time without a heartbeat after which it counts workers as lost."""

    owner: str
    worker_timeout_seconds: float


class Ownership(Struct, frozen=True):
    """The engines that are alive, and every shard that ever had an owner."""

    engines: Sequence[EngineRow]
    leases: Sequence[LeaseRow]


class Deployment(Struct, frozen=True):
    """What all processes on a database have in common."""

    # Keeps the queues of deployments on one broker server apart.
    installation_id: str
    shard_count: int


def new_installation_id() -> str:
    """Return an id for a new installation."""
    return uuid4().hex[:16]


class LeaseStore(Protocol):
    """Stores leases and the heartbeats of engines. Instants are the database's."""

    async def take(self, shard: int, owner: str) -> Lease:
        """Become the shard's owner under a new epoch, whether or not another engine owns it."""
        ...

    async def claim(self, shard: int, owner: str, ttl_seconds: float) -> Lease | None:
        """Become the shard's owner under a new epoch if it has none, its lease expired, or it is the caller's own.

        None when another engine owns it. An engine that claims its own shard again can no longer commit under the old
        epoch.
        """
        ...

    async def renew(
        self, engine: EngineRow, leases: Mapping[int, int], ttl_seconds: float
    ) -> Mapping[int, int]:
        """Report that an engine is alive, and renew and return those of its leases (shard -> epoch) that are its own.

        One round trip: what is known late may be known too late.
        """
        ...

    async def release(self, shard: int, epoch: int) -> None:
        """Release the shard if it is still the caller's."""
        ...

    async def epoch(self, shard: int) -> int:
        """Return the epoch of the shard's newest lease; 0 when there was none."""
        ...

    async def ownership(self) -> Ownership:
        """Return the current owners of the shards and the engines that are alive."""
        ...

    async def probe(self, now: int) -> None:
        """Write something. CommitUnknown or StoreUnavailable if the database accepts no writes."""
        ...

    async def engines(self) -> Sequence[EngineRow]:
        """Return the engines that are alive, sorted by owner."""
        ...

    async def join_deployment(self, deployment: Deployment) -> Deployment:
        """Record what all processes have in common, unless it is recorded; return what is recorded."""
        ...

    async def deregister(self, owner: str) -> None:
        """Remove an engine that stops and has released its leases."""
        ...
