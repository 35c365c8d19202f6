"""Settings: their declarations, and reading them from defaults, `windlass.toml`, environment variables and flags.

Later sources override earlier ones, and each effective value records its origin. Only this module reads the
environment.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeGuard, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, field

from windlass.core.errors import Problem, SettingsInvalid
from windlass.core.fields import whole
from windlass.core.redaction import MASK, redact_url
from windlass.core.templates.json_values import nearest
from windlass.core.type_errors import problem_of

FILE_NAME = "windlass.toml"
FILE_BYTES_MAX = 1 << 20
VARIABLE_PREFIX = "WINDLASS_"
# The only setting whose variable does not follow from its name: it is the one that users type most often.
SERVER_VARIABLE = "WINDLASS_SERVER"
SERVER_KEY = "server.url"
DEFAULT_ORIGIN = "default"
FLAG_ORIGIN = "flag"
# Values of settings with these names, and of all settings in this section, are never displayed.
SECRET_NAMES = frozenset({"api_key"})
SECRET_SECTION = "secrets"
# A child process receives up to four outputs as params in one message, whose length is a 32-bit number.
ARTIFACT_BYTES_LIMIT = 512 * 1024 * 1024

Count = Annotated[int, Meta(ge=1, le=100_000)]
Seconds = Annotated[float, Meta(ge=0.01, le=86_400)]
FilePath = Annotated[str, Meta(min_length=1, max_length=4096)]


class SqliteSettings(Struct, frozen=True):
    """The embedded database."""

    synchronous: Annotated[
        Literal["full", "normal"],
        Meta(description="`full` flushes every commit to disk; `normal` is faster, see Durability below"),
    ] = "full"


class PostgresSettings(Struct, frozen=True):
    """The shared database."""

    connections_max: Annotated[
        int, Meta(ge=2, le=1_000, description="connections per process, plus one for leases")
    ] = 10


class EngineSettings(Struct, frozen=True):
    """Engines."""

    sweep_seconds: Annotated[Seconds, Meta(description="interval of the sweep for rows whose message was lost")] = 1.0
    retention_days: Annotated[float, Meta(gt=0, le=36_500, description="how long finished jobs are kept")] = 7.0
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
        Seconds, Meta(description="duration of a shard lease; after it expires, another engine takes over")
    ] = 3.0
    worker_timeout_seconds: Annotated[
        Seconds, Meta(description="a worker without a heartbeat for this long is lost")
    ] = 15.0
    worker_check_seconds: Annotated[Seconds, Meta(description="interval of the check for lost workers")] = 1.0
    in_flight_check_seconds: Annotated[
        Seconds, Meta(description="age of a task in flight before an engine checks that the queues still have it")
    ] = 30.0
    run_heartbeat_seconds: Annotated[Seconds, Meta(description="interval of engine heartbeats for runs")] = 10.0
    run_heartbeats_missed_max: Annotated[
        int,
        Meta(ge=0, description="missed heartbeats before runs are orphaned instead of adopted; `0` never orphans"),
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
        Meta(ge=0, le=3_600, description="how long a stopping worker waits for its tasks before it hands them back"),
    ] = 30.0
    imports: Annotated[list[str], Meta(description="modules that declare handlers; also `--import`")] = []
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
            extra={"default": "the directory `artifacts` next to the SQLite file, or the PostgreSQL database"},
        ),
    ] = None
    bytes_max: Annotated[int, Meta(ge=1024, le=ARTIFACT_BYTES_LIMIT, description="the largest output, in bytes")] = (
        64 * 1024 * 1024
    )


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


class LlmSettings(Struct, frozen=True):
    """Defaults of `llm` nodes."""

    base_url: Annotated[
        Annotated[str, Meta(pattern=whole(r"https?://[^\s?#]+"), extra={"form": "a URL like https://host/v1"})] | None,
        Meta(description="the server for `llm` nodes without a `base_url`, such as `https://host/v1`"),
    ] = None
    api_key: Annotated[FilePath | None, Meta(description="its key; sent only to that server")] = None


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
    allow_pod_spec: Annotated[bool, Meta(description="whether nodes may set a whole `pod_spec`")] = False
    allow_root: Annotated[bool, Meta(description="whether containers may run as root")] = False
    service_accounts: Annotated[list[str], Meta(description="service accounts that nodes may use")] = []
    start_timeout_seconds: Annotated[Seconds, Meta(description="how long a container may take to start")] = 120.0
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
        float, Meta(ge=0.1, le=10_000, description="rate limit of a worker's requests to the API server")
    ] = 20.0
    requests_burst: Annotated[Count, Meta(description="requests that may exceed the rate at once")] = 40
    log_bytes_max: Annotated[
        int, Meta(ge=1024, le=64 * 1024 * 1024, description="how much of a container's log is kept")
    ] = 1024 * 1024
    reconcile_seconds: Annotated[
        int, Meta(ge=1, le=3_600, description="interval of the comparison of watched pods with the list")
    ] = 60
    orphan_seconds: Annotated[
        int, Meta(ge=300, le=604_800, description="Jobs that no worker followed for this long are deleted")
    ] = 3600


class ServerSettings(Struct, frozen=True):
    """The API server, and where commands find it."""

    url: Annotated[
        Annotated[str, Meta(pattern=whole(r"https?://[^/\s]+/?"), extra={"form": "a URL like http://127.0.0.1:8470"})]
        | None,
        Meta(description="the server that commands use, such as `http://127.0.0.1:8470`; also `--server`"),
    ] = None
    host: Annotated[str, Meta(min_length=1, max_length=255, description="listen address of `dev` and `server`")] = (
        "127.0.0.1"
    )
    port: Annotated[
        int, Meta(ge=0, le=65_535, description="listen port of `dev` and `server`; 0 selects a free port")
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
        int, Meta(ge=0, le=3_600, description="how long requests may take to finish when the server stops")
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
        Annotated[str, Meta(pattern=r"^(redis|rediss|unix)://")] | None,
        Meta(description="the broker for processes on PostgreSQL; without it PostgreSQL is also the broker"),
    ] = None
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
        Meta(description="a named database for SQL nodes and sinks: `postgresql://…` or `sqlite:///path`"),
    ] = {}
    secrets: Annotated[
        dict[str, str], Meta(description="a secret for signing webhooks, by the name that workflows use")
    ] = {}


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


class EffectiveSetting(Struct, frozen=True):
    """A value and its origin."""

    key: str
    value: object
    origin: str


class LoadedSettings(Struct, frozen=True):
    """The effective settings, as a whole and one by one."""

    settings: Settings
    effective: tuple[EffectiveSetting, ...]
    # Of all sources; the settings that have one keep their defaults.
    problems: tuple[Problem, ...] = ()


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


def load_settings(
    flags: Mapping[str, object] | None = None,
    *,
    preset: Mapping[str, object] | None = None,
    preset_origin: str = DEFAULT_ORIGIN,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Read all sources, as `read_settings` does. SettingsInvalid lists all problems of all of them."""
    loaded = read_settings(flags, preset=preset, preset_origin=preset_origin, folder=folder, environ=environ)
    if loaded.problems:
        raise SettingsInvalid(loaded.problems)
    return loaded


def read_settings(
    flags: Mapping[str, object] | None = None,
    *,
    preset: Mapping[str, object] | None = None,
    preset_origin: str = DEFAULT_ORIGIN,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Read all sources, with their problems.

    Keys of `flags` and `preset` are dotted names. Flags that are None were not given. `preset` holds the defaults of a
    command, which every other source overrides.
    """
    problems: list[Problem] = []
    given = _from_mapping(preset or {}, preset_origin)
    given += _from_file((folder or Path()) / FILE_NAME, problems)
    given += _from_environment(os.environ if environ is None else environ)
    given += _from_mapping(flags or {}, FLAG_ORIGIN)
    values: dict[str, EffectiveSetting] = {}
    for setting in given:
        if setting.value is None:
            continue
        checked = _check(setting, problems)
        if checked is not None:
            values[setting.key] = checked
    settings = msgspec.convert(_nested(values.values()), Settings)
    return LoadedSettings(settings, tuple(_effective(settings, values)), tuple(problems))


def process_environment() -> dict[str, str]:
    """Return the environment variables of this process; workers pass a safe part of them on to user code."""
    return dict(os.environ)


def variable_name(key: str) -> str:
    """Return the environment variable of a setting."""
    if key == SERVER_KEY:
        return SERVER_VARIABLE
    return VARIABLE_PREFIX + key.upper().replace(".", "__")


def mask_secrets(value: object, key: str = "") -> object:
    """Replace the password in a URL, or the whole value if the setting is a secret."""
    section, _, name = key.rpartition(".")
    is_secret = name in SECRET_NAMES or section == SECRET_SECTION
    if is_secret and value is not None:
        return MASK
    if isinstance(value, str):
        return redact_url(value)
    return value


def _from_mapping(values: Mapping[str, object], origin: str) -> list[EffectiveSetting]:
    return [EffectiveSetting(key, value, origin) for key, value in values.items()]


def _from_file(path: Path, problems: list[Problem]) -> list[EffectiveSetting]:
    if not path.is_file():
        return []
    if path.stat().st_size > FILE_BYTES_MAX:
        problems.append(Problem(path=path.name, message=f"file too large: more than {FILE_BYTES_MAX} bytes"))
        return []
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(Problem(path=path.name, message=f"invalid TOML: {error}"))
        return []
    return [EffectiveSetting(key, value, path.name) for key, value in _flatten(document)]


def _flatten(document: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in document.items():
        key = f"{prefix}{name}"
        if not _is_table(value):
            yield key, value
        elif key in declarations():
            for entry, entry_value in value.items():
                yield f"{key}.{entry}", entry_value
        else:
            yield from _flatten(value, f"{key}.")


def _is_table(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _from_environment(environ: Mapping[str, str]) -> list[EffectiveSetting]:
    return [
        EffectiveSetting(_key_of(variable), environ[variable], variable)
        for variable in sorted(environ)
        if variable.startswith(VARIABLE_PREFIX)
    ]


def _key_of(variable: str) -> str:
    if variable == SERVER_VARIABLE:
        return SERVER_KEY
    return variable.removeprefix(VARIABLE_PREFIX).lower().replace("__", ".")


def _check(setting: EffectiveSetting, problems: list[Problem]) -> EffectiveSetting | None:
    """Convert a value to its declared type, or add a problem and return None."""
    section, _, name = setting.key.partition(".")
    declaration = declarations().get(setting.key)
    table = declarations().get(section)
    if name and table is not None and table.is_table:
        expected: object = str
    elif declaration is not None:
        expected = declaration.annotation
    else:
        problems.append(_unknown(setting))
        return None
    try:
        value = msgspec.convert(_split_list(setting.value, declaration), expected, strict=False)
    except msgspec.ValidationError as error:
        problems.append(_invalid(setting, problem_of(error, expected).message))
        return None
    return EffectiveSetting(setting.key, value, setting.origin)


def _split_list(value: object, declaration: Declaration | None) -> object:
    """Read a list from a variable: `a,b`."""
    if declaration is None or not declaration.is_list or not isinstance(value, str):
        return value
    return [part.strip() for part in value.split(",") if part.strip()]


def _unknown(setting: EffectiveSetting) -> Problem:
    similar = nearest(setting.key, list(declarations()))
    if similar is None:
        hint = "`windlass config` lists all settings"
    elif setting.origin.startswith(VARIABLE_PREFIX):
        hint = f"did you mean {variable_name(similar)}?"
    else:
        hint = f"did you mean '{similar}'?"
    return Problem(path=_place(setting), message=f"unknown setting '{setting.key}'", hint=hint)


def _invalid(setting: EffectiveSetting, reason: str) -> Problem:
    shown = mask_secrets(setting.value, setting.key)
    return Problem(path=_place(setting), message=f"invalid value {shown!r}: {reason}")


def _place(setting: EffectiveSetting) -> str:
    if setting.origin in (FILE_NAME, FLAG_ORIGIN):
        return f"{setting.origin}: {setting.key}"
    return setting.origin


def _nested(values: Iterable[EffectiveSetting]) -> dict[str, object]:
    plain: dict[str, object] = {}
    tables: dict[str, dict[str, object]] = {}
    for setting in values:
        section, _, name = setting.key.partition(".")
        if name:
            tables.setdefault(section, {})[name] = setting.value
        else:
            plain[section] = setting.value
    return {**plain, **tables}


def _effective(settings: Settings, given: Mapping[str, EffectiveSetting]) -> Iterator[EffectiveSetting]:
    """Yield every effective value in the order of declaration."""
    document = _table(msgspec.to_builtins(settings))
    for key, declaration in declarations().items():
        section, _, name = key.partition(".")
        if declaration.is_table:
            for entry in _table(document[section]):
                yield given[f"{section}.{entry}"]
        elif key in given:
            yield given[key]
        elif name:
            yield EffectiveSetting(key, _table(document[section])[name], DEFAULT_ORIGIN)
        else:
            yield EffectiveSetting(key, document[section], DEFAULT_ORIGIN)


def _table(value: object) -> dict[str, object]:
    return msgspec.convert(value, dict[str, object])
