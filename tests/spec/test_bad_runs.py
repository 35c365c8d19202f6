"""Every error in schedules, constraints, actions and retries of runs is reported with its position."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import DefinitionInvalid, Problem
from windlass.spec import read_definition

HEAD = "workflow_id: w\nnodes:\n  a: {handler: echo}\n"
WIDE = "'" + "1," * 120 + "2 * * * *'"


def problems_of(text: str) -> list[Problem]:
    with pytest.raises(DefinitionInvalid) as caught:
        read_definition(HEAD + text + "\n")
    return list(caught.value.problems)


CASES: list[tuple[str, str, int, str]] = [
    # name, the fourth line, column, a part of the message
    ("a bad cron", "schedule: {cron: '61 * * * *'}", 18, "invalid cron expression: '61 * * * *': bad minute"),
    ("a bad second", "schedule: {cron: '60 * * * * *'}", 18, "invalid cron expression: '60 * * * * *': bad second"),
    ("a cron of four fields", "schedule: {cron: '* * * *'}", 18, "invalid cron expression: '* * * *'"),
    ("a cron of seven fields", "schedule: {cron: '* * * * * * *'}", 18, "invalid cron expression: '* * * * * * *'"),
    ("a cron that is a number", "schedule: {cron: 5}", 18, "invalid cron expression: 5"),
    ("a cron that is too long", f"schedule: {{cron: {WIDE}}}", 18, "longer than 200"),
    ("a cron of an odd form", "schedule: {cron: '0 0 * * 1#2/3'}", 18,
     "invalid cron expression: '0 0 * * 1#2/3': bad day-of-week"),
    ("a cron expression that never fires", "schedule: {cron: '0 0 31 2 *'}", 18, "bad day-of-month"),
    ("a cron that never fires", "schedule: {cron: '0 0 */31 2 MON#5'}", 18, "never fires"),
    ("a bad cron macro", "schedule: {cron: '@dayly'}", 18, "unknown cron macro: '@dayly'"),
    ("no time at all", "schedule: {enabled: true}", 11, "missing key: one of cron, every, at"),
    ("two kinds of times", "schedule: {cron: '@daily', every: 5m}", 28, "conflicting keys: cron, every"),
    ("a bad interval", "schedule: {every: often}", 19, "invalid duration: 'often'"),
    ("an interval of zero", "schedule: {every: 0s}", 19, "must be at least 1s: '0s'"),
    ("an interval with a fraction", "schedule: {every: 1500ms}", 19, "must be a whole number of seconds: '1500ms'"),
    ("an invalid time", "schedule: {at: tomorrow}", 16, "invalid time: 'tomorrow'"),
    ("a date without a time", "schedule: {at: '2030-01-31'}", 16, "invalid time: '2030-01-31'"),
    ("an invalid day", "schedule: {at: '2030-02-30T08:00:00Z'}", 16, "invalid time: '2030-02-30T08:00:00Z'"),
    ("a time too far away", "schedule: {at: '9999-01-01T08:00:00Z'}", 16, "invalid time: '9999-01-01T08:00:00Z'"),
    ("an anchor of a cron", "schedule: {cron: '@daily', anchor: '2030-01-01T00:00'}", 28,
     "anchor has no effect without `every`"),
    ("a bad zone", "schedule: {cron: '@daily', timezone: Europe/Pariss}", 38, "unknown time zone: 'Europe/Pariss'"),
    ("a zone that is a path", "schedule: {cron: '@daily', timezone: ../../etc/passwd}", 38,
     "unknown time zone: '../../etc/passwd'"),
    ("a zone that is a number", "schedule: {cron: '@daily', timezone: 2}", 38, "unknown time zone: 2"),
    ("a bad jitter", "schedule: {cron: '@daily', jitter: -1s}", 36, "invalid duration: '-1s'"),
    ("a jitter over a day", "schedule: {cron: '@daily', jitter: 2d}", 36, "must be at most 1d: '2d'"),
    ("an input that is a list", "schedule: {cron: '@daily', input: [1]}", 35, "must be an object: a list"),
    ("an unknown key of a schedule", "schedule: {crn: '@daily'}", 12, "unknown key: 'crn'"),
    ("a schedule that is a text", "schedule: '@daily'", 11, "must be an object: a string"),
    ("a bad constraint", "constraints: {max_concurrent_runs: 0}", 36, "must be at least 1: 0"),
    ("an unknown constraint", "constraints: {max_concurent_runs: 1}", 15, "unknown key: 'max_concurent_runs'"),
    ("a bad catch-up", "constraints: {catch_up: some}", 25, "unknown value: 'some'"),
    ("a bad window", "constraints: {catch_up_window: soon}", 32, "invalid duration: 'soon'"),
    ("a bad fail-safe", "constraints: {on_check_error: fail}", 31, "unknown value: 'fail'"),
    ("bad heartbeats", "constraints: {max_missed_heartbeats: 0}", 38, "must be at least 1: 0"),
    ("a hook elsewhere", "constraints: {pre_run_hook: {url: ftp://x}}", 35, "invalid URL: 'ftp://x'"),
    ("a hook without host", "constraints: {pre_run_hook: {url: 'http:///x'}}", 35, "URL without a host: 'http:///x'"),
    ("a hook with an invalid port", "constraints: {pre_run_hook: {url: 'http://x:99999/'}}", 35,
     "invalid URL: 'http://x:99999/'"),
    ("a hook without address", "constraints: {post_run_hook: {timeout: 3s}}", 30, "missing key: 'url'"),
    ("a hook with a bad timeout", "constraints: {pre_run_hook: {url: 'https://x', timeout: 1h}}", 57,
     "must be at most 5m: '1h'"),
    ("a hook with a bad secret", "constraints: {pre_run_hook: {url: 'https://x', secret: a b}}", 56,
     "invalid secret name: 'a b'"),
    ("an unknown key of a hook", "constraints: {pre_run_hook: {url: 'https://x', tmeout: 1s}}", 48,
     "unknown key: 'tmeout'"),
    ("a bad action", "actions: {on_failure: {type: shout}}", 30, "unknown value: 'shout'"),
    ("an action that cannot apply after a failure", "actions: {on_failure: {type: skip}}", 30,
     "unknown value: 'skip'"),
    ("an unknown event", "actions: {on_faliure: {type: skip}}", 11, "unknown key: 'on_faliure'"),
    ("actions that are a list", "actions: [skip]", 10, "must be an object: a list"),
    ("a webhook to nowhere", "actions: {on_failure: {type: webhook}}", 23, "missing parameters: webhook needs url"),
    ("a bad parameter", "actions: {on_failure: {type: webhook, parameters: {url: x}}}", 57, "invalid URL: 'x'"),
    ("an unknown parameter", "actions: {on_constraint_violation: {type: wait, parameters: {timout: 3s}}}", 62,
     "unknown key: 'timout'"),
    ("a parameter too many", "actions: {on_constraint_violation: {type: skip, parameters: {delay: 3s}}}", 62,
     "unknown key: 'delay'"),
    ("a trigger of nothing", "actions: {on_success: {type: trigger_job, parameters: {version: 1}}}", 55,
     "missing key: 'workflow_id'"),
    ("a bad version", "actions: {on_success: {type: trigger_job, parameters: {workflow_id: x, version: 0}}}", 81,
     "must be at least 1: 0"),
    ("a template that cannot be read",
     "actions: {on_success: {type: trigger_job, parameters: {workflow_id: x, input: {a: '{{ b'}}}}", 83, "expected"),
    ("a template that reads an unknown key of the run",
     "actions: {on_success: {type: trigger_job, parameters: {workflow_id: x, input: {a: '{{ run.id }}'}}}}", 83,
     "unknown key: 'run' has no 'id'"),
    ("a template that reads the parents of no node",
     "actions: {on_success: {type: trigger_job, parameters: {workflow_id: x, input: {a: '{{ parents }}'}}}}", 83,
     "name not available here: 'parents' is only known in nodes"),
    ("a start timeout that is too short", "constraints: {start_timeout: 0.1s}", 30, "must be at least 1"),
    ("an invalid value for critical",
     "actions: {on_failure: {critical: very, type: webhook, parameters: {url: 'https://x'}}}", 34, "true or false"),
    ("a hook without a secret", "hook: {}", 7, "missing key: 'secret'"),
    ("a hook that holds a key", "hook: {secret: whsec_AAAA}", 16,
     "a secret must be given by name: this is the key itself, and"),
    ("a bad run retry", "run_retry: {max_retries: -1}", 26, "must be at least 0: -1"),
    ("a bad multiplier", "run_retry: {max_retries: 1, backoff_multiplier: 0.5}", 49, "must be at least 1: 0.5"),
    ("an unknown key of a retry", "run_retry: {max_retry: 1}", 13, "unknown key: 'max_retry'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "column", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_bad_rules_for_runs_are_rejected_with_position_and_hint(
    text: str, column: int, message: str
) -> None:
    problem = problems_of(text)[0]

    assert message in problem.message
    assert (problem.line, problem.column) == (4, column)
    assert problem.hint


def test_all_problems_of_the_rules_are_reported_together() -> None:
    text = "schedule: {cron: x, timezone: y}\nconstraints: {catch_up: 5}\nrun_retry: {full: 1}"

    assert [problem.line for problem in problems_of(text)] == [4, 4, 5, 6]


def test_an_unknown_zone_suggests_a_similar_one() -> None:
    assert problems_of("schedule: {cron: '@daily', timezone: Australia/Lord_How}")[0].hint == (
        "did you mean 'Australia/Lord_Howe'?"
    )


def test_a_key_instead_of_its_name_is_not_shown() -> None:
    problem = problems_of(
        "constraints: {pre_run_hook: {url: 'https://x', secret: whsec_c2VjcmV0}}"
    )[0]

    assert "this is the key itself" in problem.message
    assert "c2VjcmV0" not in str(problem)


def test_credentials_in_a_url_are_rejected_and_not_shown() -> None:
    problem = problems_of("constraints: {pre_run_hook: {url: 'https://me:hidden@x.test/'}}")[0]

    assert "credentials" in problem.message
    assert "hidden" not in str(problem)


def test_an_invalid_input_of_a_schedule_is_rejected() -> None:
    text = "input: {properties: {n: {type: integer}}}\nschedule: {cron: '@daily', input: {n: x}}"

    assert "invalid input of the schedule" in problems_of(text)[0].message


WARNED = {
    "a schedule without the needed input": (
        "input: {required: [n]}\nschedule: {cron: '@daily'}",
        "invalid input of the schedule",
    ),
    "a catch-up without a schedule": ("constraints: {catch_up: latest}", "catch_up has no effect"),
    "an on_slow without a time": (
        "actions: {on_slow: {type: webhook, parameters: {url: 'https://x'}}}",
        "on_slow has no effect",
    ),
    "an action without constraints": (
        "actions: {on_constraint_violation: skip}",
        "there are no constraints",
    ),
    "a run that is stopped before it is slow": (
        "constraints: {max_expected_run_time: 1h, max_allowed_run_time: 1h}",
        "max_expected_run_time has no effect",
    ),
    "a workflow that starts itself": (
        "actions: {on_success: {type: trigger_job, parameters: {workflow_id: w}}}",
        "on_success starts this workflow again",
    ),
}


@pytest.mark.parametrize(("text", "message"), WARNED.values(), ids=WARNED)
def test_rules_without_effect_cause_a_warning(text: str, message: str) -> None:
    _, warnings = read_definition(HEAD + text + "\n")

    assert [message in warning.message for warning in warnings] == [True]


KEYS = st.sampled_from(
    ["cron", "every", "at", "timezone", "url", "secret", "type", "parameters", "catch_up", "full"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 10**12) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "@daily", "5m", "webhook", "wait", "https://[", "UTC", "2030-01-31T08:00:00Z", "*" * 300])
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
PLACES = st.sampled_from(["schedule", "constraints", "actions", "run_retry"])


@given(
    PLACES, st.sampled_from(["", "pre_run_hook", "on_failure", "on_constraint_violation"]), VALUES
)
def test_any_value_is_accepted_or_rejected_with_a_hint(
    place: str, inner: str, value: object
) -> None:
    problems: list[Problem] = []
    try:
        read_definition(
            {
                "workflow_id": "w",
                "nodes": {"a": {"handler": "e"}},
                place: {inner: value} if inner else value,
            }
        )
    except DefinitionInvalid as refused:
        problems = list(refused.problems)

    assert all(problem.hint and problem.path for problem in problems)
