"""Deletes the identities of tasks that were written long ago and cannot run again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from windlass.connections.failures import DatabaseRefused, DatabaseUnavailable, QueryCanceled

DAY_SECONDS = 86_400
# Rows of one statement. A database with more old ones gets the next statement with its next write.
DELETED_MAX = 1_000
PRUNE_EVERY_SECONDS = 600.0
# Unless the settings say otherwise. An identity matters only while its task may run again.
IDENTITY_RETENTION_DAYS = 30.0

# Deletes at most so many identities that are older than so many seconds; returns how many it deleted.
Delete = Callable[[int, float], Awaitable[int]]

log = logging.getLogger("windlass.sinks")


class IdentityPruner:
    """Decides when a sink deletes old identities in each of its databases: after a write, once per interval."""

    def __init__(self, retention_days: float) -> None:
        self._retention_seconds = retention_days * DAY_SECONDS
        self._due_at: dict[str, float] = {}

    async def prune(self, database: str, delete: Delete) -> None:
        """Delete old identities of a database if it is time to. The write before it holds whatever happens here."""
        now = asyncio.get_running_loop().time()
        if now < self._due_at.get(database, 0.0):
            return
        self._due_at[database] = now + PRUNE_EVERY_SECONDS
        try:
            deleted = await delete(DELETED_MAX, self._retention_seconds)
        except (DatabaseRefused, DatabaseUnavailable, QueryCanceled) as error:
            log.warning(
                "old identities of sinks in %s not deleted: %s; allow the role to delete them, or delete them yourself",
                database,
                error,
            )
            return
        if deleted == DELETED_MAX:
            del self._due_at[database]
