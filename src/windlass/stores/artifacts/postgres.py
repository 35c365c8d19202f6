"""Artifacts in the PostgreSQL database that all processes share."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from windlass.core.errors import ArtifactNotFound, CommitUnknown, StoreUnavailable
from windlass.stores.artifacts.keys import checked, key_of, verified
from windlass.stores.postgres.pool import PostgresPool, Session

CONNECTIONS_MAX = 4

_PUT = "insert into artifacts (job_id, digest, body) values ($1, $2, $3) on conflict do nothing"
_GET = "select body from artifacts where job_id = $1 and digest = $2"
_REMOVE = "delete from artifacts where job_id = any($1::text[])"


class PostgresArtifacts:
    """The Artifacts contract on one PostgreSQL database. Connects at the first use."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: PostgresPool | None = None
        self._opening = asyncio.Lock()

    async def put(self, job_id: str, body: bytes) -> str:
        key = await asyncio.to_thread(key_of, job_id, body)

        async def insert(session: Session) -> None:
            await session.execute(_PUT, job_id, key.rpartition("/")[2], body)

        await self._change(insert)
        return key

    async def get(self, key: str) -> bytes:
        job_id, _, digest = checked(key).partition("/")
        rows = await (await self._opened()).read(_GET, job_id, digest)
        if not rows:
            raise ArtifactNotFound(
                f"artifact not found: {key}; its job was deleted, or it was never stored"
            )
        return await asyncio.to_thread(verified, key, rows[0]["body"])

    async def remove(self, job_ids: Sequence[str]) -> None:
        async def delete(session: Session) -> None:
            await session.execute(_REMOVE, list(job_ids))

        await self._change(delete)

    async def _change(self, work: Callable[[Session], Awaitable[None]]) -> None:
        pool = await self._opened()
        try:
            await pool.change(work)
        except CommitUnknown as error:
            # A key contains the digest of its content, so a repeated write changes nothing.
            raise StoreUnavailable(str(error)) from error

    async def aclose(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    async def _opened(self) -> PostgresPool:
        async with self._opening:
            if self._pool is None:
                self._pool = await PostgresPool.open(self._url, connections_max=CONNECTIONS_MAX)
            return self._pool
