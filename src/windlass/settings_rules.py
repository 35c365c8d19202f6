"""Settings that must fit together: every rule about more than one setting."""

from collections.abc import Callable, Sequence
from functools import reduce

from msgspec import Struct

from windlass.core.errors import Problem, SettingsInvalid
from windlass.core.heartbeats import HEARTBEATS_PER_TIMEOUT, is_often_enough
from windlass.core.redaction import redact_url
from windlass.settings import EngineSettings, Settings, is_shared


class Rule(Struct, frozen=True):
    """What several settings must fulfil together."""

    keys: tuple[str, ...]
    holds: Callable[[Settings], bool]
    text: str


def contradictions(settings: Settings) -> list[Problem]:
    """Return the rules that the settings break, each with the settings concerned and their values."""
    return [_problem(rule, settings) for rule in RULES if not rule.holds(settings)]


def require_consistent(settings: Settings) -> None:
    """Raise SettingsInvalid if settings contradict each other."""
    problems = contradictions(settings)
    if problems:
        raise SettingsInvalid(problems)


def _problem(rule: Rule, settings: Settings) -> Problem:
    values = [f"{key} = {_text(settings, key)}" for key in rule.keys]
    return Problem(
        path="", message=f"settings contradict each other: {', '.join(values)}; {rule.text}"
    )


def _text(settings: Settings, key: str) -> str:
    value: object = reduce(getattr, key.split("."), settings)
    if isinstance(value, float):
        return f"{value:g}"
    return redact_url(str(value))


def _lost_worker_seconds(engine: EngineSettings) -> float:
    """Return how long it takes at most until an engine gives the tasks of a dead worker to another one."""
    return engine.worker_timeout_seconds + engine.worker_check_seconds


def _heartbeats_arrive(settings: Settings) -> bool:
    return is_often_enough(
        settings.worker.heartbeat_seconds, settings.engine.worker_timeout_seconds
    )


def _runs_are_adopted(settings: Settings) -> bool:
    engine = settings.engine
    if engine.run_heartbeats_missed_max == 0:
        return True
    # The last heartbeat of a killed engine may be a whole interval old.
    unserved_seconds = engine.lease_seconds + engine.run_heartbeat_seconds
    return engine.run_heartbeats_missed_max * engine.run_heartbeat_seconds > unserved_seconds


def _followed_jobs_are_kept(settings: Settings) -> bool:
    kubernetes = settings.kubernetes
    marked_seconds = kubernetes.reconcile_seconds + _lost_worker_seconds(settings.engine)
    return kubernetes.orphan_seconds > marked_seconds


def _identities_outlive_jobs(settings: Settings) -> bool:
    days = settings.sinks.identity_retention_days
    return days is None or days >= settings.engine.retention_days


RULES: Sequence[Rule] = (
    Rule(
        ("worker.heartbeat_seconds", "engine.worker_timeout_seconds"),
        _heartbeats_arrive,
        f"engine.worker_timeout_seconds must be at least {HEARTBEATS_PER_TIMEOUT} times "
        "worker.heartbeat_seconds, or healthy workers count as lost and their tasks run twice",
    ),
    Rule(
        ("engine.worker_check_seconds", "engine.worker_timeout_seconds"),
        lambda settings: (
            settings.engine.worker_check_seconds <= settings.engine.worker_timeout_seconds
        ),
        "engine.worker_check_seconds must be at most engine.worker_timeout_seconds, or lost workers "
        "are found too late",
    ),
    Rule(
        ("engine.worker_retention_seconds", "engine.worker_timeout_seconds"),
        lambda settings: (
            settings.engine.worker_retention_seconds >= settings.engine.worker_timeout_seconds
        ),
        "engine.worker_retention_seconds must be at least engine.worker_timeout_seconds, or healthy "
        "workers are forgotten between two heartbeats",
    ),
    Rule(
        ("sinks.identity_retention_days", "engine.retention_days"),
        _identities_outlive_jobs,
        "sinks.identity_retention_days must be at least engine.retention_days, or a retry of an old job "
        "writes rows again",
    ),
    Rule(
        ("engine.sweep_seconds", "engine.in_flight_check_seconds"),
        lambda settings: settings.engine.sweep_seconds <= settings.engine.in_flight_check_seconds,
        "engine.sweep_seconds must be at most engine.in_flight_check_seconds, because the sweep makes "
        "this check",
    ),
    Rule(
        (
            "engine.run_heartbeats_missed_max",
            "engine.run_heartbeat_seconds",
            "engine.lease_seconds",
        ),
        _runs_are_adopted,
        "engine.run_heartbeats_missed_max times engine.run_heartbeat_seconds must exceed "
        "engine.lease_seconds plus engine.run_heartbeat_seconds, or runs are orphaned before another "
        "engine can adopt them",
    ),
    Rule(
        (
            "kubernetes.ttl_seconds",
            "engine.worker_timeout_seconds",
            "engine.worker_check_seconds",
        ),
        lambda settings: settings.kubernetes.ttl_seconds > _lost_worker_seconds(settings.engine),
        "kubernetes.ttl_seconds must exceed engine.worker_timeout_seconds plus "
        "engine.worker_check_seconds, or the result of a finished Job is deleted before another "
        "worker can read it",
    ),
    Rule(
        (
            "kubernetes.orphan_seconds",
            "kubernetes.reconcile_seconds",
            "engine.worker_timeout_seconds",
            "engine.worker_check_seconds",
        ),
        _followed_jobs_are_kept,
        "kubernetes.orphan_seconds must exceed kubernetes.reconcile_seconds plus "
        "engine.worker_timeout_seconds plus engine.worker_check_seconds, or Jobs are deleted that a "
        "worker follows or is about to take over",
    ),
    Rule(
        ("redis_url", "database_url"),
        lambda settings: settings.redis_url is None or is_shared(settings),
        "Redis carries tasks between processes on PostgreSQL: set database_url to a URL like "
        "postgresql://user@host/name, or remove redis_url",
    ),
)
