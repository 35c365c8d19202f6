"""What an operator may set: defaults, `windlass.toml`, `WINDLASS_*` variables, flags, the later the stronger.

Each effective value knows its origin. The only module that reads the environment.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeGuard, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, field

from windlass.core.errors import Problem, SettingsInvalid
from windlass.core.redaction import MASK, redact_url
from windlass.core.templates.json_values import nearest

FILE_NAME = "windlass.toml"
FILE_BYTES_MAX = 1 << 20
VARIABLE_PREFIX = "WINDLASS_"
# The one setting with a variable that is not its name: what people type most.
SERVER_VARIABLE = "WINDLASS_SERVER"
SERVER_KEY = "server.url"
DEFAULT = "default"
# Settings of these names are secrets, whatever their section.
SECRET_NAMES = frozenset({"api_key"})
# And whatever is in this one.
SECRET_SECTION = "secrets"
ARTIFACT_BYTES_MAX = 64 * 1024 * 1024
# A child process gets params of up to four outputs in one message, whose length has 32 bits.
ARTIFACT_BYTES_LIMIT = 512 * 1024 * 1024

Count = Annotated[int, Meta(ge=1, le=100_000)]
Seconds = Annotated[float, Meta(ge=0.01, le=86_400)]


class SqliteSettings(Struct, frozen=True):
    """How the embedded database writes."""

    # "normal" skips the flush after each commit: faster, and a power cut may take the last commits with it.
    synchronous: Literal["full", "normal"] = "full"


class PostgresSettings(Struct, frozen=True):
    """How one process uses the database that many share."""

    connections_max: Annotated[int, Meta(ge=2, le=1_000)] = 10


class EngineSettings(Struct, frozen=True):
    """How jobs are driven and how long they are kept."""

    sweep_seconds: Seconds = 1.0
    retention_days: Annotated[float, Meta(gt=0, le=36_500)] = 7.0
    # Parts that the jobs are spread over on PostgreSQL, for good; the embedded database has one.
    shards: Annotated[int, Meta(ge=1, le=1_000)] = 32
    # How long an engine keeps its shards without a word; another takes them over then.
    lease_seconds: Seconds = 3.0
    # A worker that said nothing for so long is dead, and how often somebody looks for such.
    worker_silent_seconds: Seconds = 15.0
    reap_seconds: Seconds = 1.0
    # How long a task is out before somebody asks whether the queues still know it.
    flight_seconds: Seconds = 30.0
    # How often engines say that they serve runs, and how many such words may be missing before runs are given up
    # instead of taken up again; 0 never gives up.
    run_heartbeat_seconds: Seconds = 10.0
    run_heartbeats_missed_max: Annotated[int, Meta(ge=0)] = 360


class WorkerSettings(Struct, frozen=True):
    """How many tasks run at once, and where."""

    concurrency: Count = 64
    threads: Count = 32
    processes: Count = field(default_factory=lambda: os.cpu_count() or 1)
    heartbeat_seconds: Seconds = 5.0
    # How long a worker that is to stop waits for its tasks before it hands them back.
    drain_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 30.0
    imports: list[str] = []
    # What the worker inside a server takes; others may serve the rest. `windlass run` serves every queue.
    queues: list[str] = field(default_factory=lambda: ["default"])


class HttpSettings(Struct, frozen=True):
    """What http nodes and hooks may reach."""

    allow_private: bool = False


class ArtifactSettings(Struct, frozen=True):
    """Where outputs too large for the database are kept, and how large an output may be."""

    # None: the folder `artifacts` beside the database.
    url: Annotated[str, Meta(pattern=r"^(file:///[^?#]+|s3://[A-Za-z0-9._-]{1,255}(/[^?#]*)?)$")] | None = None
    bytes_max: Annotated[int, Meta(ge=1024, le=ARTIFACT_BYTES_LIMIT)] = ARTIFACT_BYTES_MAX


class SinkSettings(Struct, frozen=True):
    """Where sinks may write files."""

    # Paths of file sinks, and of SQLite databases that nodes name by their paths, never lead out of it.
    folder: Annotated[str, Meta(min_length=1, max_length=4096)] = "."


class LlmSettings(Struct, frozen=True):
    """What llm nodes use that name no server or key of their own."""

    base_url: Annotated[str, Meta(pattern=r"^https?://[^\s?#]+$")] | None = None
    api_key: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None


class ContainerSettings(Struct, frozen=True):
    """Where container nodes run that do not say it."""

    runtime: Literal["process", "kubernetes"] = "process"


class KubernetesSettings(Struct, frozen=True):
    """The cluster of container nodes, and what they may do there."""

    # Tells the Jobs of several installations in one namespace apart.
    instance: Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")] = "default"
    # None: that of the kubeconfig's context, or of the worker's service account.
    namespace: Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")] | None = None
    # None: the service account of the pod that the worker runs in, $KUBECONFIG or ~/.kube/config.
    kubeconfig: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    context: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    # Whoever may write a whole pod spec may do whatever the namespace allows.
    allow_pod_spec: bool = False
    allow_root: bool = False
    service_accounts: list[str] = []
    start_timeout_seconds: Seconds = 120.0
    # How long a finished Job stays: another worker may have to read it, if this one dies before it has reported.
    ttl_seconds: Annotated[int, Meta(ge=60, le=604_800)] = 600
    requests_per_second: Annotated[float, Meta(ge=0.1, le=10_000)] = 20.0
    requests_burst: Count = 40
    log_bytes_max: Annotated[int, Meta(ge=1024, le=64 * 1024 * 1024)] = 1024 * 1024
    # How often the list is compared with what was watched.
    reconcile_seconds: Annotated[int, Meta(ge=1, le=3_600)] = 60
    # A Job that no worker followed for so long is nobody's, and deleted.
    orphan_seconds: Annotated[int, Meta(ge=300, le=604_800)] = 3600


class ServerSettings(Struct, frozen=True):
    """Where a server listens, and where commands find one."""

    url: Annotated[str, Meta(pattern=r"^https?://[^/\s]+/?$")] | None = None
    host: Annotated[str, Meta(min_length=1, max_length=255)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8470
    # Names under which the server is reached besides localhost; requests for any other are refused.
    allowed_hosts: list[str] = []
    # Everybody who reaches the port may do everything: there are no keys yet.
    allow_open: bool = False
    drain_seconds: Annotated[int, Meta(ge=0, le=3_600)] = 5


class Settings(Struct, frozen=True):
    """Everything that can be set."""

    database_url: Annotated[str, Meta(min_length=1)] = "sqlite:///.windlass/windlass.db"
    # Carries the tasks between processes on PostgreSQL; without it the database does that too.
    redis_url: Annotated[str, Meta(pattern=r"^(redis|rediss|unix)://")] | None = None
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
    connections: dict[str, str] = {}
    # What webhooks are signed with, by the names that workflows use.
    secrets: dict[str, str] = {}


def process_environment() -> dict[str, str]:
    """The variables of this process, of which workers pass a harmless part on to user code."""
    return dict(os.environ)


class Effective(Struct, frozen=True):
    """One value in force, and where it comes from."""

    key: str
    value: object
    origin: str


class Loaded(Struct, frozen=True):
    """The settings in force, whole and one by one."""

    settings: Settings
    effective: tuple[Effective, ...]


def load_settings(
    flags: Mapping[str, object] | None = None,
    *,
    preset: Mapping[str, object] | None = None,
    preset_origin: str = DEFAULT,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Read every layer; SettingsInvalid lists all problems of all of them.

    `preset` holds a command's own defaults, which anything else overrules. Keys of `flags` and `preset` are dotted.
    """
    problems: list[Problem] = []
    known = dict(_leaves(Settings))
    values: dict[str, Effective] = {}
    layers = [
        [Effective(key, value, preset_origin) for key, value in (preset or {}).items()],
        _from_file((folder or Path()) / FILE_NAME, known, problems),
        _from_environment(os.environ if environ is None else environ),
        [Effective(key, value, "flag") for key, value in (flags or {}).items()],
    ]
    for given in (one for layer in layers for one in layer):
        expected = _type_of(given.key, known)
        if expected is None:
            problems.append(_unknown(given, known))
            continue
        try:
            value = msgspec.convert(_split(given.value, expected), expected, strict=False)
        except msgspec.ValidationError as error:
            problems.append(_unfit(given, expected, error))
        else:
            values[given.key] = Effective(given.key, value, given.origin)
    if problems:
        raise SettingsInvalid(problems)
    settings = msgspec.convert(_nested(values.values()), Settings)
    return Loaded(settings, tuple(_effective(settings, values)))


def masked(value: object, key: str = "") -> object:
    """The value without the password that a URL may carry; nothing of one whose name says that it is a secret."""
    section, _, name = key.rpartition(".")
    if value is not None and (name in SECRET_NAMES or section == SECRET_SECTION):
        return MASK
    return redact_url(value) if isinstance(value, str) else value


def _leaves(kind: type[Struct], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Dotted names of all settings, with their types."""
    for setting in msgspec.structs.fields(kind):
        expected: object = setting.type
        if isinstance(expected, type) and issubclass(expected, Struct):
            yield from _leaves(expected, f"{prefix}{setting.name}.")
        else:
            yield f"{prefix}{setting.name}", expected


def _type_of(key: str, known: Mapping[str, object]) -> object | None:
    section, _, name = key.partition(".")
    if name and get_origin(known.get(section)) is dict:
        return str
    return known.get(key)


def _from_file(path: Path, known: Mapping[str, object], problems: list[Problem]) -> list[Effective]:
    if not path.is_file():
        return []
    if path.stat().st_size > FILE_BYTES_MAX:
        problems.append(Problem(path=path.name, message=f"the file is larger than {FILE_BYTES_MAX} bytes"))
        return []
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(Problem(path=path.name, message=f"not a TOML document: {error}"))
        return []
    return [Effective(key, value, path.name) for key, value in _flat(document, known)]


def _flat(
    document: Mapping[str, object], known: Mapping[str, object], prefix: str = ""
) -> Iterator[tuple[str, object]]:
    for name, value in document.items():
        if _is_table(value) and f"{prefix}{name}" not in known:
            yield from _flat(value, known, f"{prefix}{name}.")
        elif _is_table(value):
            yield from ((f"{prefix}{name}.{inner}", innermost) for inner, innermost in value.items())
        else:
            yield f"{prefix}{name}", value


def _is_table(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _from_environment(environ: Mapping[str, str]) -> list[Effective]:
    return [
        Effective(_key_of(variable), environ[variable], variable)
        for variable in sorted(environ)
        if variable.startswith(VARIABLE_PREFIX)
    ]


def _key_of(variable: str) -> str:
    if variable == SERVER_VARIABLE:
        return SERVER_KEY
    return variable.removeprefix(VARIABLE_PREFIX).lower().replace("__", ".")


def _split(value: object, expected: object) -> object:
    """A variable holds a list as `a,b`."""
    if isinstance(value, str) and get_origin(expected) is list:
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _unknown(given: Effective, known: Mapping[str, object]) -> Problem:
    like = nearest(given.key, list(known))
    hint = f"did you mean {_spelled(like, given.origin)}?" if like else "`windlass config` lists every setting"
    return Problem(path=_place(given), message=f"there is no setting '{given.key}'", hint=hint)


def _unfit(given: Effective, expected: object, error: msgspec.ValidationError) -> Problem:
    shown = masked(given.value, given.key)
    reason = f"it is one of {', '.join(get_args(expected))}" if get_origin(expected) is Literal else str(error).lower()
    return Problem(path=_place(given), message=f"{shown!r} cannot be used: {reason}")


def _place(given: Effective) -> str:
    return f"{given.origin}: {given.key}" if given.origin in (FILE_NAME, "flag") else given.origin


def _spelled(key: str, origin: str) -> str:
    if origin.startswith(VARIABLE_PREFIX):
        return VARIABLE_PREFIX + key.upper().replace(".", "__")
    return f"'{key}'"


def _nested(values: Iterable[Effective]) -> dict[str, object]:
    plain: dict[str, object] = {}
    tables: dict[str, dict[str, object]] = {}
    for one in values:
        section, _, name = one.key.partition(".")
        if name:
            tables.setdefault(section, {})[name] = one.value
        else:
            plain[section] = one.value
    return {**plain, **tables}


def _effective(settings: Settings, given: Mapping[str, Effective]) -> Iterator[Effective]:
    """Every value in force, in the order of declaration; given ones carry their origin."""
    document = _table(msgspec.to_builtins(settings))
    for key, expected in _leaves(Settings):
        section, _, name = key.partition(".")
        if get_origin(expected) is dict:
            yield from (given[f"{section}.{entry}"] for entry in _table(document[section]))
        else:
            value = _table(document[section])[name] if name else document[section]
            yield given.get(key, Effective(key, value, DEFAULT))


def _table(value: object) -> dict[str, object]:
    return msgspec.convert(value, dict[str, object])
