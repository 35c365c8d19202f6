"""Builds the adapters that the settings name: stores, brokers, artifacts, connections, sinks, handlers."""

import importlib
from pathlib import Path
from urllib.parse import unquote

import msgspec

from windlass.brokers.memory import MemoryBroker
from windlass.connections.folder import Folder
from windlass.connections.named import Connections
from windlass.connections.secrets import Secrets
from windlass.core.errors import BrokerUnavailable, HandlerInvalid, StoreUnavailable
from windlass.core.plan import Plan
from windlass.handlers import builtin_handlers
from windlass.handlers.config import HandlerConfig, LlmConfig
from windlass.handlers.container.config import ContainerConfig, KubernetesConfig
from windlass.handlers.sender import GuardedSender
from windlass.ports.artifacts import Artifacts
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.handler import Handler
from windlass.ports.handler_declaration import collect
from windlass.ports.sink import Sink
from windlass.ports.store import Store
from windlass.ports.store.workflows import StoredWorkflow
from windlass.settings import Settings, is_shared
from windlass.settings_loader import process_environment
from windlass.sinks.file import FileSink
from windlass.sinks.http import HttpSink
from windlass.sinks.identity_pruner import IDENTITY_RETENTION_DAYS
from windlass.sinks.postgres import PostgresSink
from windlass.sinks.sqlite import SqliteSink
from windlass.spec import compile_plan, definition_from_json
from windlass.stores.artifacts.folder import FolderArtifacts
from windlass.stores.sqlite.store import SqliteStore

SQLITE_SCHEME = "sqlite:///"
FILE_SCHEME = "file://"
ARTIFACT_FOLDER = "artifacts"


def sqlite_path(settings: Settings) -> str:
    """Return the file of an embedded database. StoreUnavailable for other databases."""
    url = settings.database_url
    path = url.removeprefix(SQLITE_SCHEME)
    if not path or not url.startswith(SQLITE_SCHEME):
        raise StoreUnavailable(
            f"unsupported database URL: {url!r}; use a URL like sqlite:///path/to/file.db or "
            "postgresql://user@host/name"
        )
    return path


async def open_store(settings: Settings, clock: Clock) -> Store:
    """Open the store and migrate its schema. StoreUnavailable."""
    if not is_shared(settings):
        path, synchronous = sqlite_path(settings), settings.sqlite.synchronous
        return await SqliteStore.open(path, clock, synchronous=synchronous, alone=True)
    try:
        # The driver is an extra.
        from windlass.stores.postgres.store import PostgresStore
    except ImportError as error:
        raise postgres_driver_missing(error) from None
    return await PostgresStore.open(
        settings.database_url, clock, connections_max=settings.postgres.connections_max
    )


async def open_broker(settings: Settings, clock: Clock, installation_id: str) -> Broker:
    """Open the broker: Redis if `redis_url` is set, otherwise PostgreSQL, or memory for an embedded database."""
    if settings.redis_url is not None:
        try:
            # The driver is an extra, and takes half a second to import.
            from windlass.brokers.redis.broker import RedisBroker
        except ImportError as error:
            raise BrokerUnavailable(
                f"package missing for redis_url: {error}; run pip install 'windlass[redis]'"
            ) from None
        prefix = f"{settings.redis_prefix}:{installation_id}:"
        return await RedisBroker.open(settings.redis_url, prefix)
    if not is_shared(settings):
        return MemoryBroker(clock)
    try:
        # The driver is an extra.
        from windlass.brokers.postgres.broker import PostgresBroker
    except ImportError as error:
        raise postgres_driver_missing(error) from None
    return await PostgresBroker.open(settings.database_url)


def open_artifacts(settings: Settings) -> Artifacts:
    """Open the artifact store. StoreUnavailable."""
    url = settings.artifacts.url
    if url is None:
        return _default_artifacts(settings)
    if url.startswith(FILE_SCHEME):
        return FolderArtifacts(Path(unquote(url.removeprefix(FILE_SCHEME))))
    try:
        # An extra that is slow to import.
        from windlass.stores.artifacts.s3 import S3Artifacts
    except ImportError as error:
        raise StoreUnavailable(
            f"package missing for artifacts.url {url}: {error}; run pip install 'windlass[s3]'"
        ) from None
    return S3Artifacts(url)


def _default_artifacts(settings: Settings) -> Artifacts:
    if not is_shared(settings):
        return FolderArtifacts(Path(sqlite_path(settings)).parent / ARTIFACT_FOLDER)
    try:
        # The driver is an extra.
        from windlass.stores.artifacts.postgres import PostgresArtifacts
    except ImportError as error:
        raise postgres_driver_missing(error) from None
    # Not a directory: each machine would have its own.
    return PostgresArtifacts(settings.database_url)


def build_handlers(
    settings: Settings, connections: Connections | None = None
) -> dict[str, Handler]:
    """Return the built-in handlers and those of the modules in `worker.imports`, by name. HandlerInvalid."""
    config = HandlerConfig(
        allow_private=settings.http.allow_private,
        environment=process_environment(),
        llm=LlmConfig(settings.llm.base_url, settings.llm.api_key),
        container=ContainerConfig(settings.container.runtime, _kubernetes_config(settings)),
        connections=connections or build_connections(settings),
        secrets=Secrets(settings.secrets),
    )
    handlers = builtin_handlers(config)
    for name in settings.worker.imports:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise HandlerInvalid(f"cannot import module {name}: {error}") from error
        handlers.update(collect(module))
    return handlers


def _kubernetes_config(settings: Settings) -> KubernetesConfig:
    # Both structs have the same fields: handlers must not depend on the settings.
    return KubernetesConfig(**msgspec.structs.asdict(settings.kubernetes))


def build_connections(settings: Settings) -> Connections:
    """Return the named databases of the settings. They open on first use."""
    return Connections(settings.connections, _sink_folder(settings))


def build_sinks(settings: Settings, connections: Connections) -> dict[str, Sink]:
    """Return all sinks by name."""
    retention_days = settings.sinks.identity_retention_days
    if retention_days is None:
        retention_days = max(IDENTITY_RETENTION_DAYS, settings.engine.retention_days)
    return {
        "postgres": PostgresSink(connections, retention_days),
        "sqlite": SqliteSink(connections, retention_days),
        "file": FileSink(_sink_folder(settings)),
        "http": HttpSink(GuardedSender(settings.http.allow_private)),
    }


def _sink_folder(settings: Settings) -> Folder:
    reserved: Path | None = None
    if settings.database_url.startswith(SQLITE_SCHEME):
        reserved = Path(settings.database_url.removeprefix(SQLITE_SCHEME))
    return Folder(Path(settings.sinks.folder), reserved)


def compile_stored(stored: StoredWorkflow) -> Plan:
    """Compile the definition of a stored version."""
    return compile_plan(definition_from_json(stored.definition), stored.version)


def postgres_driver_missing(error: ImportError) -> StoreUnavailable:
    """Return the error for a missing PostgreSQL driver."""
    return StoreUnavailable(
        f"package missing for PostgreSQL: {error}; run pip install 'windlass[postgres]'"
    )
