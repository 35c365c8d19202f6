"""Leases and engines in PostgreSQL."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from windlass.ports.store.leases import Deployment, EngineRow, Lease, LeaseRow, Ownership
from windlass.stores.postgres.batched_query import BatchedQuery
from windlass.stores.postgres.database import PostgresStatements
from windlass.stores.postgres.pool import Session


class PostgresLeases:
    """The LeaseStore contract on one PostgreSQL database."""

    def __init__(self, database: PostgresStatements) -> None:
        self._database = database
        self._epochs = BatchedQuery(database, "lease_epoch")

    async def take(self, shard: int, owner: str) -> Lease:
        [row] = await self._database.write("lease_take", shard=shard, owner=owner, ttl_seconds=None)
        return Lease(*row)

    async def claim(self, shard: int, owner: str, ttl_seconds: float) -> Lease | None:
        # Not on the connection for leases: a claim may wait for a commit in progress.
        rows = await self._database.write(
            "lease_take", shard=shard, owner=owner, ttl_seconds=ttl_seconds
        )
        return Lease(*rows[0]) if rows else None

    async def renew(
        self, engine: EngineRow, leases: Mapping[int, int], ttl_seconds: float
    ) -> Mapping[int, int]:
        rows = await self._database.write_lease(
            "lease_renew",
            owner=engine.owner,
            worker_timeout_seconds=engine.worker_timeout_seconds,
            shards=list(leases),
            epochs=list(leases.values()),
            ttl_seconds=ttl_seconds,
        )
        return {row[0]: row[1] for row in rows}

    async def release(self, shard: int, epoch: int) -> None:
        await self._database.write_lease("lease_release", shard=shard, epoch=epoch)

    async def epoch(self, shard: int) -> int:
        rows = await self._epochs.rows(shard)
        return rows[0][0] if rows else 0

    async def ownership(self) -> Ownership:
        return await self._database.query(self._ownership)

    async def engines(self) -> Sequence[EngineRow]:
        return await self._database.query(self._engines)

    async def join_deployment(self, deployment: Deployment) -> Deployment:
        await self._database.write("deployment_put", **structs.asdict(deployment))
        [row] = await self._database.rows("deployment_get")
        return Deployment(*row)

    async def probe(self, now: int) -> None:
        await self._database.write("write_probe", now=now)

    async def deregister(self, owner: str) -> None:
        await self._database.write_lease("engine_delete", owner=owner)

    async def _ownership(self, session: Session) -> Ownership:
        leases = await self._database.execute(session, "lease_list")
        return Ownership(await self._engines(session), [LeaseRow(*row) for row in leases])

    async def _engines(self, session: Session) -> list[EngineRow]:
        return [EngineRow(*row) for row in await self._database.execute(session, "engine_list")]
