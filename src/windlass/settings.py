"""Every setting: its default, its bounds, what it is for, and the names that sources give it."""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, field

from windlass.core.fields import whole

VARIABLE_PREFIX = "WINDLASS_"
# The only setting whose variable does not follow from its name: it is the one that users type most often.
SERVER_VARIABLE = "WINDLASS_SERVER"
SERVER_KEY = "server.url"
# A child process receives up to four outputs as params in one message, whose length is a 32-bit number.
ARTIFACT_BYTES_LIMIT = 512 * 1024 * 1024
POSTGRES_SCHEMES = ("postgresql://", "postgres://")

Count = Annotated[int, Meta(ge=1, le=100_000)]
Seconds = Annotated[float, Meta(ge=0.01, le=86_400)]
FilePath = Annotated[str, Meta(min_length=1, max_length=4096)]


class SqliteSettings(Struct, frozen=True):
    """The embedded database."""

    synchronous: Annotated[
        Literal["full", "normal"],
        Meta(
            description="`full` flushes every commit to disk; `normal` is faster, see Durability below"
        ),
    ] = "full"


class PostgresSettings(Struct, frozen=True):
    """The shared database."""

    connections_max: Annotated[
        int, Meta(ge=2, le=1_000, description="connections per process, plus one for leases")
    ] = 10


class EngineSettings(Struct, frozen=True):
    """Engines."""

    sweep_seconds: Annotated[
        Seconds, Meta(description="interval of the sweep for rows whose message was lost")
    ] = 1.0
    retention_days: Annotated[
        float, Meta(gt=0, le=36_500, description="how long finished jobs are kept")
    ] = 7.0
    shards: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000,
            description="number of shards on PostgreSQL, and therefore the maximum number of engines; "
            "the same for every process and for the life of a database",
        ),
    ] = 32
    lease_seconds: Annotated[
        Seconds,
        Meta(description="duration of a shard lease; after it expires, another engine takes over"),
    ] = 3.0
    worker_timeout_seconds: Annotated[
        Seconds, Meta(description="a worker without a heartbeat for this long is lost")
    ] = 15.0
    worker_check_seconds: Annotated[
        Seconds, Meta(description="interval of the check for lost workers")
    ] = 1.0
    worker_retention_seconds: Annotated[
        Seconds,
        Meta(
            description="how long a worker without a heartbeat is listed as stale before it is forgotten"
        ),
    ] = 300.0
    in_flight_check_seconds: Annotated[
        Seconds,
        Meta(
            description="age of a task in flight before an engine checks that the queues still have it"
        ),
    ] = 30.0
    run_heartbeat_seconds: Annotated[
        Seconds, Meta(description="interval of engine heartbeats for runs")
    ] = 10.0
    run_heartbeats_missed_max: Annotated[
        int,
        Meta(
            ge=0,
            description="missed heartbeats before runs are orphaned instead of adopted; `0` never orphans",
        ),
    ] = 360


class WorkerSettings(Struct, frozen=True):
    """Workers."""

    concurrency: Annotated[Count, Meta(description="concurrent tasks")] = 64
    threads: Annotated[Count, Meta(description="concurrent blocking handlers")] = 32
    processes: Annotated[
        Count,
        Meta(
            description="concurrent isolated handlers such as `python`, each in its own process",
            extra={"default": "the number of CPUs"},
        ),
    ] = field(default_factory=lambda: os.cpu_count() or 1)
    heartbeat_seconds: Annotated[Seconds, Meta(description="heartbeat interval")] = 5.0
    drain_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=3_600,
            description="how long a stopping worker waits for its tasks before it hands them back",
        ),
    ] = 30.0
    imports: Annotated[
        list[str], Meta(description="modules that declare handlers; also `--import`")
    ] = []
    queues: Annotated[
        list[str],
        Meta(
            description="queues that the worker serves; other queues are left to other workers. "
            "`windlass run` serves every queue"
        ),
    ] = field(default_factory=lambda: ["default"])


class HttpSettings(Struct, frozen=True):
    """Outgoing HTTP requests."""

    allow_private: Annotated[
        bool,
        Meta(
            description="whether `http` nodes and sinks may reach loopback and private addresses",
            extra={"default": "`false`; `true` for `run` and `dev`"},
        ),
    ] = False


class ArtifactSettings(Struct, frozen=True):
    """Outputs that are too large for the database."""

    url: Annotated[
        Annotated[
            str,
            Meta(
                pattern=whole(r"(file:///[^?#\r\n]+|s3://[A-Za-z0-9._-]{1,255}(/[^?#\r\n]*)?)"),
                extra={"form": "a URL like file:///path or s3://bucket/prefix"},
            ),
        ]
        | None,
        Meta(
            description="where outputs above 256 KiB are stored: `file:///…` or `s3://bucket/prefix`",
            extra={
                "default": "the directory `artifacts` next to the SQLite file, or the PostgreSQL database"
            },
        ),
    ] = None
    bytes_max: Annotated[
        int, Meta(ge=1024, le=ARTIFACT_BYTES_LIMIT, description="the largest output, in bytes")
    ] = 64 * 1024 * 1024


class SinkSettings(Struct, frozen=True):
    """Files that sinks write."""

    folder: Annotated[
        FilePath,
        Meta(
            description="base directory for file sinks and for SQLite databases that nodes name by path; "
            "paths cannot leave it",
            extra={"default": "the current directory"},
        ),
    ] = "."
    identity_retention_days: Annotated[
        Annotated[float, Meta(gt=0, le=36_500)] | None,
        Meta(
            description="how long SQL sinks keep the identities of tasks that they have written",
            extra={"default": "30, or `engine.retention_days` if that is longer"},
        ),
    ] = None


class LlmSettings(Struct, frozen=True):
    """Defaults of `llm` nodes."""

    base_url: Annotated[
        Annotated[
            str,
            Meta(pattern=whole(r"https?://[^\s?#]+"), extra={"form": "a URL like https://host/v1"}),
        ]
        | None,
        Meta(
            description="the server for `llm` nodes without a `base_url`, such as `https://host/v1`"
        ),
    ] = None
    api_key: Annotated[FilePath | None, Meta(description="its key; sent only to that server")] = (
        None
    )


class ContainerSettings(Struct, frozen=True):
    """Defaults of `container` nodes."""

    runtime: Annotated[
        Literal["process", "kubernetes"],
        Meta(description="default runtime of `container` nodes: `process` or `kubernetes`"),
    ] = "process"


class KubernetesSettings(Struct, frozen=True):
    """The cluster of `container` nodes, and what they may do there."""

    instance: Annotated[
        str,
        Meta(
            pattern=whole(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"),
            description="distinguishes installations in one namespace",
            extra={"form": "1 to 63 letters, digits, _, . and -"},
        ),
    ] = "default"
    namespace: Annotated[
        Annotated[
            str,
            Meta(
                pattern=whole(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"),
                extra={"form": "1 to 63 lower-case letters, digits and -"},
            ),
        ]
        | None,
        Meta(
            description="where Jobs are created",
            extra={"default": "that of the context or the service account"},
        ),
    ] = None
    kubeconfig: Annotated[
        FilePath | None,
        Meta(
            description="the file that describes the cluster",
            extra={"default": "the worker's service account, `$KUBECONFIG` or `~/.kube/config`"},
        ),
    ] = None
    context: Annotated[
        Annotated[str, Meta(min_length=1, max_length=255)] | None,
        Meta(description="the context in that file", extra={"default": "its current context"}),
    ] = None
    # A node with its own pod spec has every permission that the namespace grants.
    allow_pod_spec: Annotated[
        bool, Meta(description="whether nodes may set a whole `pod_spec`")
    ] = False
    allow_root: Annotated[bool, Meta(description="whether containers may run as root")] = False
    service_accounts: Annotated[
        list[str], Meta(description="service accounts that nodes may use")
    ] = []
    start_timeout_seconds: Annotated[
        Seconds, Meta(description="how long a container may take to start")
    ] = 120.0
    # Another worker may have to read the Job's result if this one dies before it has reported.
    ttl_seconds: Annotated[
        int,
        Meta(
            ge=60,
            le=604_800,
            description="how long finished Jobs are kept; must exceed the time to detect a lost worker",
        ),
    ] = 600
    requests_per_second: Annotated[
        float,
        Meta(ge=0.1, le=10_000, description="rate limit of a worker's requests to the API server"),
    ] = 20.0
    requests_burst: Annotated[
        Count, Meta(description="requests that may exceed the rate at once")
    ] = 40
    log_bytes_max: Annotated[
        int, Meta(ge=1024, le=64 * 1024 * 1024, description="how much of a container's log is kept")
    ] = 1024 * 1024
    reconcile_seconds: Annotated[
        int,
        Meta(
            ge=1, le=3_600, description="interval of the comparison of watched pods with the list"
        ),
    ] = 60
    orphan_seconds: Annotated[
        int,
        Meta(
            ge=300, le=604_800, description="Jobs that no worker followed for this long are deleted"
        ),
    ] = 3600


class ServerSettings(Struct, frozen=True):
    """The API server, and where commands find it."""

    url: Annotated[
        Annotated[
            str,
            Meta(
                pattern=whole(r"https?://[^/\s]+/?"),
                extra={"form": "a URL like http://127.0.0.1:8470"},
            ),
        ]
        | None,
        Meta(
            description="the server that commands use, such as `http://127.0.0.1:8470`; also `--server`"
        ),
    ] = None
    host: Annotated[
        str, Meta(min_length=1, max_length=255, description="listen address of `dev` and `server`")
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Meta(
            ge=0, le=65_535, description="listen port of `dev` and `server`; 0 selects a free port"
        ),
    ] = 8470
    allowed_hosts: Annotated[
        list[str],
        Meta(
            description="host names of the server besides `localhost`, `127.0.0.1` and `[::1]`; "
            "requests for other hosts are rejected"
        ),
    ] = []
    allow_remote: Annotated[
        bool,
        Meta(
            description="allow `server.host` to be reachable from other machines; there is no authentication yet, "
            "so they have full access"
        ),
    ] = False
    drain_seconds: Annotated[
        int,
        Meta(
            ge=0, le=3_600, description="how long requests may take to finish when the server stops"
        ),
    ] = 5


class Settings(Struct, frozen=True):
    """All settings."""

    database_url: Annotated[
        str,
        Meta(
            min_length=1,
            description="the database: SQLite or PostgreSQL; a relative path starts at the current directory",
        ),
    ] = "sqlite:///.windlass/windlass.db"
    redis_url: Annotated[
        Annotated[
            str,
            Meta(
                pattern=r"^(redis|rediss|unix)://", extra={"form": "a URL like redis://host:6379"}
            ),
        ]
        | None,
        Meta(
            description="the broker for processes on PostgreSQL; without it PostgreSQL is also the broker"
        ),
    ] = None
    redis_prefix: Annotated[
        str,
        Meta(
            pattern=whole(r"[A-Za-z0-9_.-]{1,64}"),
            description="first part of the names of all Redis keys and channels; the id of the installation follows, "
            "so that several installations can share a server",
            extra={"form": "1 to 64 letters, digits and _.-"},
        ),
    ] = "windlass"
    sqlite: SqliteSettings = SqliteSettings()
    postgres: PostgresSettings = PostgresSettings()
    engine: EngineSettings = EngineSettings()
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    http: HttpSettings = HttpSettings()
    artifacts: ArtifactSettings = ArtifactSettings()
    llm: LlmSettings = LlmSettings()
    sinks: SinkSettings = SinkSettings()
    container: ContainerSettings = ContainerSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
    server: ServerSettings = ServerSettings()
    connections: Annotated[
        dict[str, str],
        Meta(
            description="a named database for SQL nodes and sinks: `postgresql://…` or `sqlite:///path`"
        ),
    ] = {}
    secrets: Annotated[
        dict[str, str],
        Meta(description="a secret for signing webhooks, by the name that workflows use"),
    ] = {}


def is_shared(settings: Settings) -> bool:
    """Return whether several processes can use the database at the same time."""
    return settings.database_url.startswith(POSTGRES_SCHEMES)


class Declaration(Struct, frozen=True):
    """One declared setting: its dotted name, its type with bounds, and what the documentation says about it."""

    key: str
    # The annotation, for conversions; and the type without annotations, to distinguish lists and tables.
    annotation: object
    plain_type: object
    description: str
    # Describes a default that is not a constant.
    default_text: str | None

    @property
    def variable(self) -> str:
        """Return the name of the environment variable."""
        return variable_name(self.key)

    @property
    def is_table(self) -> bool:
        """Return whether users choose the names of the entries, as in `connections.NAME`."""
        return get_origin(self.plain_type) is dict

    @property
    def is_list(self) -> bool:
        """Return whether the value is a list, which a variable holds as `a,b`."""
        return get_origin(self.plain_type) is list


@cache
def declarations() -> Mapping[str, Declaration]:
    """Return all settings by their dotted names, in the order of declaration."""
    return {declaration.key: declaration for declaration in _declared(Settings)}


def _declared(section: type[Struct], prefix: str = "") -> Iterator[Declaration]:
    for setting in msgspec.structs.fields(section):
        key = f"{prefix}{setting.name}"
        subsection = _section(setting.type)
        if subsection is not None:
            yield from _declared(subsection, f"{key}.")
        else:
            yield _declaration(key, setting.type)


def _section(annotation: object) -> type[Struct] | None:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    return None


def _declaration(key: str, annotation: object) -> Declaration:
    plain_type, *metadata = get_args(annotation)
    description = ""
    default_text: str | None = None
    for meta in metadata:
        description = meta.description or description
        if meta.extra is not None:
            default_text = meta.extra.get("default")
    return Declaration(
        key=key,
        annotation=annotation,
        plain_type=plain_type,
        description=description,
        default_text=default_text,
    )


def variable_name(key: str) -> str:
    """Return the environment variable of a setting."""
    if key == SERVER_KEY:
        return SERVER_VARIABLE
    return VARIABLE_PREFIX + key.upper().replace(".", "__")
