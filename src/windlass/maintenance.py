"""Database maintenance: migrating a schema, and copying an embedded database to PostgreSQL."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.clock import SystemClock
from windlass.core.errors import StoreUnavailable
from windlass.factory import postgres_driver_missing, sqlite_path
from windlass.settings import POSTGRES_SCHEMES, Settings, is_shared
from windlass.stores.migrator import migrate_file
from windlass.stores.sqlite.file_lock import lock_database

# The PostgreSQL driver is an extra.
if TYPE_CHECKING:
    from windlass.stores.copy import CopiedTable


async def migrate_database(settings: Settings) -> int:
    """Migrate the schema to this version; return the number of migrations applied. StoreUnavailable, DatabaseInUse."""
    now = SystemClock().now()
    if not is_shared(settings):
        path = sqlite_path(settings)
        with lock_database(path):
            return await migrate_file(path, now)
    try:
        # The driver is an extra.
        from windlass.stores.postgres.store import migrate
    except ImportError as error:
        raise postgres_driver_missing(error) from None
    return await migrate(settings.database_url, now)


async def copy_to_postgres(settings: Settings, target: str) -> "Sequence[CopiedTable]":
    """Copy the embedded database to an empty PostgreSQL database. StoreUnavailable, DatabaseInUse."""
    if not target.startswith(POSTGRES_SCHEMES):
        raise StoreUnavailable(
            f"unsupported target of a copy: {target!r}; use a URL like postgresql://user@host/name"
        )
    try:
        # The driver is an extra.
        from windlass.stores.copy import copy_database
    except ImportError as error:
        raise postgres_driver_missing(error) from None
    path = sqlite_path(settings)
    if not await asyncio.to_thread(Path(path).exists):
        raise StoreUnavailable(f"database not found: {path}; give the URL of an embedded database")
    with lock_database(path):
        return await copy_database(path, target, settings.engine.shards, SystemClock().now())
