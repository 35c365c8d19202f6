"""Leases in SQLite: who owns which shard, and which engines live. Each function is one step of the writer's thread."""

from collections.abc import Mapping

from windlass.core.instants import MICROSECONDS
from windlass.ports.store import Lease, LeaseRow, Ownership
from windlass.stores.queries import queries
from windlass.stores.sqlite.connection import Connection


def take(connection: Connection, shard: int, owner: str) -> Lease:
    """Own a shard, whoever did, until it is given back or taken."""
    return _put(connection, shard, owner, None)


def claim(connection: Connection, shard: int, owner: str, ttl_seconds: float, now: int) -> Lease | None:
    """Own a shard that is nobody's, or expired, or the caller's own."""
    row = connection.execute(queries("sqlite")["lease"], (shard,)).fetchone()
    if row is not None:
        _, holder, expires_at = row
        if holder not in (None, owner) and not _is_expired(expires_at, now):
            return None
    return _put(connection, shard, owner, now + round(ttl_seconds * MICROSECONDS))


def beat(connection: Connection, owner: str, leases: Mapping[int, int], ttl_seconds: float, now: int) -> Ownership:
    """Renew what is still the owner's, and tell how the shards are spread."""
    sql = queries("sqlite")
    expires_at = now + round(ttl_seconds * MICROSECONDS)
    connection.execute(sql["say_alive"], (owner, expires_at))
    connection.execute(sql["forget_dead"], (now,))
    for shard, epoch in leases.items():
        connection.execute(sql["renew_lease"], (expires_at, shard, epoch, owner))
    return ownership(connection, now)


def ownership(connection: Connection, now: int) -> Ownership:
    """How the shards are spread."""
    sql = queries("sqlite")
    rows = [
        LeaseRow(shard, holder, epoch, holder is not None and _is_expired(ends_at, now), ends_at)
        for shard, holder, epoch, ends_at in connection.execute(sql["leases"])
    ]
    return Ownership([name for (name,) in connection.execute(sql["engines"])], rows)


def _put(connection: Connection, shard: int, owner: str, expires_at: int | None) -> Lease:
    sql = queries("sqlite")
    before = connection.execute(sql["lease"], (shard,)).fetchone()
    taken = connection.execute(sql["put_lease"], (shard, owner, expires_at)).fetchone()
    assert taken is not None
    return Lease(taken[0], abandoned=before is not None and before[1] is not None)


def _is_expired(expires_at: int | None, now: int) -> bool:
    return expires_at is not None and expires_at <= now
