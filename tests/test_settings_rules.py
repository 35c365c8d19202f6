"""Settings that contradict each other."""

from typing import Any

import pytest

from windlass.core.errors import SettingsInvalid
from windlass.process import ALL_ROLES, open_process
from windlass.settings import Settings
from windlass.settings_loader import load_settings
from windlass.settings_rules import RULES, contradictions

# For each rule the flags that break it, by the first setting it names.
BROKEN: dict[str, dict[str, Any]] = {
    "worker.heartbeat_seconds": {"worker.heartbeat_seconds": 20.0},
    "engine.worker_check_seconds": {"engine.worker_check_seconds": 16.0},
    "engine.worker_retention_seconds": {"engine.worker_retention_seconds": 14.0},
    "sinks.identity_retention_days": {"sinks.identity_retention_days": 6.0},
    "engine.sweep_seconds": {"engine.sweep_seconds": 31.0},
    "engine.run_heartbeats_missed_max": {
        "engine.run_heartbeats_missed_max": 1,
        "engine.run_heartbeat_seconds": 10.0,
    },
    "kubernetes.ttl_seconds": {
        "kubernetes.ttl_seconds": 60,
        "engine.worker_timeout_seconds": 60.0,
    },
    "kubernetes.orphan_seconds": {
        "kubernetes.orphan_seconds": 300,
        "kubernetes.reconcile_seconds": 300,
    },
    "redis_url": {"redis_url": "redis://:secret@localhost:6379"},
}


def loaded(flags: dict[str, object]) -> Settings:
    return load_settings(flags, environ={}).settings


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.keys[0])
def test_contradictory_settings_are_reported_with_their_values(rule: Any) -> None:
    settings = loaded(BROKEN[rule.keys[0]])

    [problem] = contradictions(settings)

    values = [f"{key} = " in problem.message for key in rule.keys]
    assert all(values)
    assert problem.message.endswith(f"; {rule.text}")


def test_the_message_names_both_settings_their_values_and_the_rule() -> None:
    [problem] = contradictions(loaded({"worker.heartbeat_seconds": 20.0}))

    assert str(problem) == (
        "settings contradict each other: worker.heartbeat_seconds = 20, "
        "engine.worker_timeout_seconds = 15; engine.worker_timeout_seconds must be at least 3 times "
        "worker.heartbeat_seconds, or healthy workers count as lost and their tasks run twice"
    )


def test_the_defaults_do_not_contradict_each_other() -> None:
    assert contradictions(Settings()) == []


@pytest.mark.parametrize(
    "flags",
    [
        {"worker.heartbeat_seconds": 0.1, "engine.worker_timeout_seconds": 0.3, "engine.worker_check_seconds": 0.1},
        {"engine.run_heartbeats_missed_max": 0, "engine.run_heartbeat_seconds": 0.1},
        {"redis_url": "redis://localhost", "database_url": "postgresql://db/x"},
        {"engine.sweep_seconds": 30.0},
    ],
)  # fmt: skip
def test_settings_at_the_limit_of_a_rule_are_accepted(flags: dict[str, object]) -> None:
    assert contradictions(loaded(flags)) == []


def test_passwords_are_not_shown() -> None:
    [problem] = contradictions(loaded({"redis_url": "redis://:secret@localhost:6379"}))

    assert "secret" not in problem.message


async def test_a_process_with_contradictory_settings_does_not_start() -> None:
    settings = loaded({"worker.heartbeat_seconds": 20.0})

    with pytest.raises(SettingsInvalid, match=r"worker\.heartbeat_seconds = 20"):
        async with open_process(settings, ALL_ROLES):
            pass
