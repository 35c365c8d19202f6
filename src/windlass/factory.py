"""Builds the adapters that the settings name: stores, brokers, artifacts, connections, sinks, handlers."""

import asyncio
import fcntl
import importlib
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from windlass.brokers.memory import MemoryBroker
from windlass.clock import SystemClock
from windlass.connections.folder import Folder
from windlass.connections.named import Connections
from windlass.connections.secrets import Secrets
from windlass.core.errors import BrokerUnavailable, DatabaseInUse, HandlerInvalid, StoreUnavailable
from windlass.core.plan import Plan
from windlass.handlers import builtin
from windlass.handlers.container.handler import ContainerDefaults
from windlass.handlers.container.manifest import KubernetesRules
from windlass.handlers.llm import LlmDefaults
from windlass.handlers.sender import GuardedSender
from windlass.ports.artifacts import Artifacts
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.handler import Handler
from windlass.ports.handler_declaration import collect
from windlass.ports.sink import Sink
from windlass.ports.store import Store
from windlass.ports.store.workflows import StoredWorkflow
from windlass.settings import Settings, process_environment
from windlass.sinks.file import FileSink
from windlass.sinks.http import HttpSink
from windlass.sinks.postgres import PostgresSink
from windlass.sinks.sqlite import SqliteSink
from windlass.spec.compile import compile_plan, definition_from_json
from windlass.stores.artifacts.folder import FolderArtifacts
from windlass.stores.migrator import migrate_file
from windlass.stores.sqlite.store import SqliteStore

# For the types only: the driver of PostgreSQL is an extra.
if TYPE_CHECKING:
    from windlass.stores.copy import CopiedTable

SQLITE_SCHEME = "sqlite:///"
POSTGRES_SCHEMES = ("postgresql://", "postgres://")
FILE_SCHEME = "file://"
ARTIFACT_FOLDER = "artifacts"


def is_shared(settings: Settings) -> bool:
    """Whether the database is one that many processes work on."""
    return settings.database_url.startswith(POSTGRES_SCHEMES)


async def open_store(settings: Settings, clock: Clock) -> Store:
    """The store of the settings, its schema brought up to date. StoreUnavailable."""
    if not is_shared(settings):
        path, synchronous = sqlite_path(settings), settings.sqlite.synchronous
        return await SqliteStore.open(path, clock, synchronous=synchronous, alone=True)
    try:
        # The driver is an extra.
        from windlass.stores.postgres.store import PostgresStore
    except ImportError as error:
        raise _driver_missing(error) from None
    return await PostgresStore.open(settings.database_url, clock, connections_max=settings.postgres.connections_max)


async def open_broker(settings: Settings, clock: Clock) -> Broker:
    """The queues of the settings: Redis where it is named, else the database itself, or this process alone."""
    if settings.redis_url is not None:
        try:
            # The driver is an extra, and takes half a second to import.
            from windlass.brokers.redis.broker import RedisBroker
        except ImportError as error:
            raise BrokerUnavailable(
                f"redis_url is set, for which a package is missing ({error}): pip install 'windlass[redis]'"
            ) from None
        return await RedisBroker.open(settings.redis_url)
    if not is_shared(settings):
        return MemoryBroker(clock)
    try:
        # The driver is an extra.
        from windlass.brokers.postgres.broker import PostgresBroker
    except ImportError as error:
        raise _driver_missing(error) from None
    return await PostgresBroker.open(settings.database_url)


def registry_of(settings: Settings, connections: Connections | None = None) -> dict[str, Handler]:
    """The handlers built in and those of the modules that the settings name."""
    handlers = builtin(
        allow_private=settings.http.allow_private,
        environment=process_environment(),
        llm=LlmDefaults(settings.llm.base_url, settings.llm.api_key),
        container=ContainerDefaults(settings.container.runtime, _kubernetes_rules(settings)),
        connections=connections or connections_of(settings),
        secrets=Secrets(settings.secrets),
    )
    for name in settings.worker.imports:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise HandlerInvalid(f"the module {name} cannot be imported: {error}") from error
        handlers.update(collect(module))
    return handlers


def _kubernetes_rules(settings: Settings) -> KubernetesRules:
    # The same names on both sides; handlers know nothing of settings.
    return KubernetesRules(**msgspec.structs.asdict(settings.kubernetes))


def connections_of(settings: Settings) -> Connections:
    """The databases that the settings name; none is opened yet."""
    return Connections(settings.connections, _folder(settings))


def sinks_of(settings: Settings, connections: Connections) -> dict[str, Sink]:
    """All sinks, by the names of their tools."""
    return {
        "postgres": PostgresSink(connections),
        "sqlite": SqliteSink(connections),
        "file": FileSink(_folder(settings)),
        "http": HttpSink(GuardedSender(settings.http.allow_private)),
    }


def _folder(settings: Settings) -> Folder:
    url = settings.database_url
    reserved = Path(url.removeprefix(SQLITE_SCHEME)) if url.startswith(SQLITE_SCHEME) else None
    return Folder(Path(settings.sinks.folder), reserved)


def compiled(stored: StoredWorkflow) -> Plan:
    """The plan of a stored version."""
    return compile_plan(definition_from_json(stored.definition), stored.version)


def sqlite_path(settings: Settings) -> str:
    """The file behind the database URL; StoreUnavailable when it is not SQLite's."""
    url = settings.database_url
    if not url.startswith(SQLITE_SCHEME) or url == SQLITE_SCHEME:
        raise StoreUnavailable(f"the embedded engine needs a database URL like sqlite:///path/to/file.db, not {url!r}")
    return url.removeprefix(SQLITE_SCHEME)


def open_artifacts(settings: Settings) -> Artifacts:
    """The artifact store of the settings; StoreUnavailable when it cannot be used."""
    url = settings.artifacts.url
    if url is None and is_shared(settings):
        try:
            # The driver is an extra. A folder would be another on each machine.
            from windlass.stores.artifacts.postgres import PostgresArtifacts
        except ImportError as error:
            raise _driver_missing(error) from None
        return PostgresArtifacts(settings.database_url)
    if url is None:
        return FolderArtifacts(Path(sqlite_path(settings)).parent / ARTIFACT_FOLDER)
    if url.startswith(FILE_SCHEME):
        return FolderArtifacts(Path(unquote(url.removeprefix(FILE_SCHEME))))
    try:
        # An extra, and large; only who uses it pays for it.
        from windlass.stores.artifacts.s3 import S3Artifacts
    except ImportError as error:
        raise StoreUnavailable(
            f"artifacts.url is {url}, for which a package is missing ({error}): pip install 'windlass[s3]'"
        ) from None
    return S3Artifacts(url)


async def migrate_database(settings: Settings) -> int:
    """Bring the schema of the database up to date; how many steps it took. StoreUnavailable, DatabaseInUse."""
    if settings.database_url.startswith(POSTGRES_SCHEMES):
        try:
            # The driver is an extra.
            from windlass.stores.postgres.store import migrate
        except ImportError as error:
            raise _driver_missing(error) from None
        return await migrate(settings.database_url, SystemClock().now())
    path = sqlite_path(settings)
    with owned(path):
        return await migrate_file(path, SystemClock().now())


async def copy_to_postgres(settings: Settings, target: str) -> "Sequence[CopiedTable]":
    """Move the embedded database to an empty PostgreSQL database. DatabaseInUse, and what copying raises."""
    if not target.startswith(POSTGRES_SCHEMES):
        raise StoreUnavailable(f"a copy goes to a database URL like postgresql://user@host/name, not {target!r}")
    try:
        # The driver is an extra.
        from windlass.stores.copy import copy_database
    except ImportError as error:
        raise _driver_missing(error) from None
    path = sqlite_path(settings)
    if not await asyncio.to_thread(Path(path).exists):
        raise StoreUnavailable(f"there is no database at {path}; name the file of an embedded installation")
    with owned(path):
        return await copy_database(path, target, settings.engine.shards, SystemClock().now())


def _driver_missing(error: ImportError) -> StoreUnavailable:
    return StoreUnavailable(f"PostgreSQL needs a package that is missing ({error}): pip install 'windlass[postgres]'")


@contextmanager
def owned(path: str) -> Generator[None]:
    """Own the database: a lock that ends with the process, however that ends. DatabaseInUse."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{path}.lock").open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise DatabaseInUse(
                f"the database {path} is in use by another Windlass process (pid {lock.read().strip() or 'unknown'}); "
                "wait for it to end, or name another with --database"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
