"""Leases and engines in SQLite. Each operation runs on the writer's thread, so it needs no lock."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from windlass.core.instants import MICROSECONDS
from windlass.ports.store.leases import Deployment, EngineRow, Lease, LeaseRow, Ownership
from windlass.stores.sqlite.connection import Connection
from windlass.stores.sqlite.database import SqliteStatements


class SqliteLeases:
    """The LeaseStore contract on one SQLite file."""

    def __init__(self, database: SqliteStatements) -> None:
        self._database = database

    async def take(self, shard: int, owner: str) -> Lease:
        return await self._database.transact(
            lambda connection: self._put(connection, shard, owner, None)
        )

    async def claim(self, shard: int, owner: str, ttl_seconds: float) -> Lease | None:
        now = self._database.now()

        def claim(connection: Connection) -> Lease | None:
            row = self._database.execute_first(connection, "lease_get", shard=shard)
            if row is not None:
                _, holder, expires_at = row
                if holder not in (None, owner) and not _is_expired(expires_at, now):
                    return None
            return self._put(connection, shard, owner, _expiry(now, ttl_seconds))

        return await self._database.transact(claim)

    async def renew(
        self, engine: EngineRow, leases: Mapping[int, int], ttl_seconds: float
    ) -> Mapping[int, int]:
        now = self._database.now()
        expires_at = _expiry(now, ttl_seconds)

        def renew(connection: Connection) -> Mapping[int, int]:
            self._database.execute(
                connection,
                "engine_put",
                owner=engine.owner,
                expires_at=expires_at,
                worker_timeout_seconds=engine.worker_timeout_seconds,
            )
            self._database.execute(connection, "engine_delete_expired", now=now)
            renewed: dict[int, int] = {}
            for shard, epoch in leases.items():
                row = self._database.execute_first(
                    connection,
                    "lease_renew",
                    shard=shard,
                    epoch=epoch,
                    owner=engine.owner,
                    expires_at=expires_at,
                )
                if row is not None:
                    renewed[shard] = epoch
            return renewed

        return await self._database.transact(renew)

    async def release(self, shard: int, epoch: int) -> None:
        await self._database.write("lease_release", shard=shard, epoch=epoch)

    async def epoch(self, shard: int) -> int:
        row = await self._database.first("lease_get", shard=shard)
        return 0 if row is None else row[0]

    async def ownership(self) -> Ownership:
        now = self._database.now()
        return await self._database.query(lambda connection: self._ownership(connection, now))

    async def engines(self) -> Sequence[EngineRow]:
        now = self._database.now()
        return await self._database.query(lambda connection: self._engines(connection, now))

    async def join_deployment(self, deployment: Deployment) -> Deployment:
        def join(connection: Connection) -> Deployment:
            self._database.execute(connection, "deployment_put", **structs.asdict(deployment))
            row = self._database.execute_first(connection, "deployment_get")
            assert row is not None
            return Deployment(*row)

        return await self._database.transact(join)

    async def probe(self, now: int) -> None:
        await self._database.write("write_probe", now=now)

    async def deregister(self, owner: str) -> None:
        await self._database.write("engine_delete", owner=owner)

    def _put(self, connection: Connection, shard: int, owner: str, expires_at: int | None) -> Lease:
        before = self._database.execute_first(connection, "lease_get", shard=shard)
        taken = self._database.execute_first(
            connection, "lease_put", shard=shard, owner=owner, expires_at=expires_at
        )
        assert taken is not None
        return Lease(taken[0], abandoned=before is not None and before[1] is not None)

    def _ownership(self, connection: Connection, now: int) -> Ownership:
        leases: list[LeaseRow] = []
        for shard, owner, epoch, expires_at in self._database.execute(connection, "lease_list"):
            expired = owner is not None and _is_expired(expires_at, now)
            leases.append(LeaseRow(shard, owner, epoch, expired=expired, expires_at=expires_at))
        return Ownership(self._engines(connection, now), leases)

    def _engines(self, connection: Connection, now: int) -> list[EngineRow]:
        return [
            EngineRow(*row) for row in self._database.execute(connection, "engine_list", now=now)
        ]


def _expiry(now: int, ttl_seconds: float) -> int:
    return now + round(ttl_seconds * MICROSECONDS)


def _is_expired(expires_at: int | None, now: int) -> bool:
    return expires_at is not None and expires_at <= now
