"""The rules for runs of a document are part of its plan."""

from datetime import UTC, datetime

import msgspec
import pytest

from windlass.core.runs.cron import Schedule
from windlass.core.runs.rules import (
    Action,
    ActionKind,
    CatchUp,
    Constraints,
    Hook,
    OnCheckError,
    RunRetry,
    RunRules,
)
from windlass.spec import compile_plan, definition_from_json, definition_json, read_definition

HEAD = "workflow_id: w\nnodes:\n  a: {handler: echo}\n"


def rules_of(text: str) -> RunRules | None:
    return compile_plan(read_definition(HEAD + text)[0], 1).runs


def schedule_of(text: str) -> Schedule | None:
    rules = rules_of(f"schedule: {{{text}}}\n")
    return None if rules is None else rules.schedule


FULL = """
schedule: {cron: "*/15 * * * *", timezone: Europe/Paris, jitter: 10s, input: {n: 1}}
constraints:
  max_concurrent_runs: 1
  require_previous_success: true
  catch_up: latest
  catch_up_window: 1h
  max_expected_run_time: 10m
  max_allowed_run_time: 1h
  pre_run_hook: {url: "https://x.test/before", secret: hook_key, timeout: 5s, max_attempts: 2}
  post_run_hook: {url: "https://x.test/after"}
  on_check_error: allow
  max_missed_heartbeats: 7
actions:
  on_constraint_violation: {type: wait, parameters: {timeout: 30m}, critical: true}
  on_failure: {type: webhook, parameters: {url: "https://x.test/failed", secret: hook_key}}
  on_success: {type: trigger_job, parameters: {workflow_id: report, version: stable, input: {of: w}}}
  on_slow: {type: webhook, parameters: {url: "https://x.test/slow"}}
run_retry: {max_retries: 2, initial_delay: 30s, backoff_multiplier: 3, max_delay: 10m, full: true}
"""


def test_all_rules_of_runs_are_in_the_plan() -> None:
    assert rules_of(FULL) == RunRules(
        schedule=Schedule(
            cron="*/15 * * * *", zone="Europe/Paris", jitter_seconds=10.0, input_data={"n": 1}
        ),
        constraints=Constraints(
            max_concurrent_runs=1,
            require_previous_success=True,
            catch_up=CatchUp.LATEST,
            catch_up_window_seconds=3600.0,
            max_expected_run_seconds=600.0,
            max_allowed_run_seconds=3600.0,
            pre_run_hook=Hook(
                url="https://x.test/before", secret="hook_key", timeout_seconds=5.0, attempts_max=2
            ),
            post_run_hook=Hook(url="https://x.test/after"),
            on_check_error=OnCheckError.ALLOW,
            missed_heartbeats_max=7,
        ),
        on_constraint_violation=Action(kind=ActionKind.WAIT, timeout_seconds=1800.0, critical=True),
        on_failure=Action(
            kind=ActionKind.WEBHOOK, hook=Hook(url="https://x.test/failed", secret="hook_key")
        ),
        on_success=Action(
            kind=ActionKind.TRIGGER_JOB,
            workflow_id="report",
            version="stable",
            input_data={"of": "w"},
        ),
        on_slow=Action(kind=ActionKind.WEBHOOK, hook=Hook(url="https://x.test/slow")),
        retry=RunRetry(
            max_retries=2,
            initial_delay_seconds=30.0,
            backoff_multiplier=3.0,
            max_delay_seconds=600.0,
            full=True,
        ),
    )


def test_a_plain_workflow_has_no_rules_of_runs() -> None:
    assert rules_of("") is None


def test_stored_rules_equal_the_original() -> None:
    definition = read_definition(HEAD + FULL)[0]

    assert definition_from_json(definition_json(definition)) == definition


def test_rules_can_be_sent_as_json() -> None:
    rules = rules_of(FULL)

    assert msgspec.json.decode(msgspec.json.encode(rules), type=RunRules) == rules


@pytest.mark.parametrize(
    ("written", "meant"),
    [("true", CatchUp.ALL), ("false", CatchUp.NONE), ("all", CatchUp.ALL), ("none", CatchUp.NONE)],
)
def test_catch_up_has_several_spellings(written: str, meant: CatchUp) -> None:
    rules = rules_of(f"schedule: {{every: 1h}}\nconstraints: {{catch_up: {written}}}\n")

    assert rules is not None
    assert rules.constraints.catch_up is meant


def test_a_number_is_a_shorthand_for_retries_of_the_run() -> None:
    rules = rules_of("run_retry: 3\n")

    assert rules is not None
    assert rules.retry == RunRetry(max_retries=3)


def test_a_string_is_a_shorthand_for_an_action_without_parameters() -> None:
    rules = rules_of(
        "constraints: {max_concurrent_runs: 1}\nactions: {on_constraint_violation: kill_old}\n"
    )

    assert rules is not None
    assert rules.on_constraint_violation == Action(kind=ActionKind.KILL_OLD)


def test_an_interval_is_anchored() -> None:
    anchored = schedule_of("every: 90s, anchor: '2030-01-01T00:00:30', timezone: Europe/Paris")

    assert anchored == Schedule(
        interval_seconds=90,
        zone="Europe/Paris",
        anchor=int(datetime(2029, 12, 31, 23, 0, 30, tzinfo=UTC).timestamp()),
    )


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("at: 2030-07-01T08:00:00Z", 8),
        ("at: '2030-07-01 08:00+02:00'", 6),
        ("at: 2030-07-01T08:00, timezone: America/New_York", 12),
    ],
)
def test_an_instant_has_an_offset_or_is_local_time_of_the_zone(text: str, hour: int) -> None:
    once = schedule_of(text)

    assert once is not None
    assert once.at == int(datetime(2030, 7, 1, hour, tzinfo=UTC).timestamp())


def test_the_input_of_scheduled_jobs_has_the_defaults_of_the_schema() -> None:
    rules = rules_of(
        "input: {properties: {n: {default: 5}}}\nschedule: {every: 1h, input: {m: 1}}\n"
    )

    assert rules is not None
    assert rules.schedule is not None
    assert rules.schedule.input_data == {"n": 5, "m": 1}


def test_a_hook_names_the_secret_that_verifies_requests() -> None:
    definition = read_definition(HEAD + "hook: {secret: shop_key}\n")[0]

    assert compile_plan(definition, 1).hook_secret == "shop_key"
    assert definition_from_json(definition_json(definition)) == definition


@pytest.mark.parametrize(
    ("retry", "attempts"), [("", 4), (", retry: 1", 1), (", retry: {max_redeliveries: 2}", 4)]
)
def test_a_webhook_is_retried_by_default(retry: str, attempts: int) -> None:
    text = f"workflow_id: w\nnodes:\n  a: {{handler: webhook, params: {{url: 'https://x.test'}}{retry}}}\n"

    plan = compile_plan(read_definition(text)[0], 1)

    assert plan.nodes[0].on_error.attempts_max == attempts
