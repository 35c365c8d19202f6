"""Every way that schedules, constraints, actions and retries of runs can be wrong is told with its place."""

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
    ("a bad cron", "schedule: {cron: '61 * * * *'}", 18, "is no cron expression: bad minute"),
    ("a bad second", "schedule: {cron: '60 * * * * *'}", 18, "is no cron expression: bad second"),
    ("a cron of four fields", "schedule: {cron: '* * * *'}", 18, "is no cron expression"),
    ("a cron of seven fields", "schedule: {cron: '* * * * * * *'}", 18, "is no cron expression"),
    ("a cron that is a number", "schedule: {cron: 5}", 18, "5 is no cron expression"),
    ("a cron that is too long", f"schedule: {{cron: {WIDE}}}", 18, "more than the 200"),
    ("a cron of an odd form", "schedule: {cron: '0 0 * * 1#2/3'}", 18, "is no cron expression"),
    ("a cron of no date", "schedule: {cron: '0 0 31 2 *'}", 18, "bad day-of-month"),
    ("a cron that never fires", "schedule: {cron: '0 0 */31 2 MON#5'}", 18, "it never fires"),
    ("a bad cron macro", "schedule: {cron: '@dayly'}", 18, "'@dayly' is no cron macro"),
    ("no time at all", "schedule: {enabled: true}", 11, "does not say when"),
    ("two kinds of times", "schedule: {cron: '@daily', every: 5m}", 28, "either cron or every"),
    ("a bad interval", "schedule: {every: often}", 19, "'often' is no duration"),
    ("an interval of no time", "schedule: {every: 0s}", 19, "is not between 1 s"),
    ("an interval with a fraction", "schedule: {every: 1500ms}", 19, "is no whole number of seconds"),
    ("a bad moment", "schedule: {at: tomorrow}", 16, "'tomorrow' is no moment in time"),
    ("a moment without a time of day", "schedule: {at: '2030-01-31'}", 16, "is no moment in time"),
    ("a moment on no day", "schedule: {at: '2030-02-30T08:00:00Z'}", 16, "is no moment in time"),
    ("a moment too far away", "schedule: {at: '9999-01-01T08:00:00Z'}", 16, "is no moment in time"),
    ("an anchor of a cron", "schedule: {cron: '@daily', anchor: '2030-01-01T00:00'}", 28, "belongs to `every`"),
    ("a bad zone", "schedule: {cron: '@daily', timezone: Europe/Pariss}", 38, "is no time zone"),
    ("a zone that is a path", "schedule: {cron: '@daily', timezone: ../../etc/passwd}", 38, "is no time zone"),
    ("a zone that is a number", "schedule: {cron: '@daily', timezone: 2}", 38, "2 is no time zone"),
    ("a bad jitter", "schedule: {cron: '@daily', jitter: -1s}", 36, "is no duration"),
    ("a jitter over a day", "schedule: {cron: '@daily', jitter: 2d}", 36, "is not between 0 s and 86400 s"),
    ("an input that is a list", "schedule: {cron: '@daily', input: [1]}", 35, "an input is an object, not a list"),
    ("an unknown key of a schedule", "schedule: {crn: '@daily'}", 12, "there is no key 'crn' here"),
    ("a schedule that is a text", "schedule: '@daily'", 11, "this is an object, not a string"),
    ("a bad constraint", "constraints: {max_concurrent_runs: 0}", 36, "a whole number from 1"),
    ("an unknown constraint", "constraints: {max_concurent_runs: 1}", 15, "no key 'max_concurent_runs'"),
    ("a bad catch-up", "constraints: {catch_up: some}", 25, "'some' is not one of none, latest, all"),
    ("a bad window", "constraints: {catch_up_window: soon}", 32, "'soon' is no duration"),
    ("a bad fail-safe", "constraints: {on_check_error: fail}", 31, "'fail' is not one of allow, skip"),
    ("bad heartbeats", "constraints: {max_missed_heartbeats: 0}", 38, "a whole number from 1"),
    ("a hook elsewhere", "constraints: {pre_run_hook: {url: ftp://x}}", 35, "is no http address"),
    ("a hook without host", "constraints: {pre_run_hook: {url: 'http:///x'}}", 35, "names no host"),
    ("a hook on no port", "constraints: {pre_run_hook: {url: 'http://x:99999/'}}", 35, "is no http address"),
    ("a hook without address", "constraints: {post_run_hook: {timeout: 3s}}", 30, "'url' is missing"),
    ("a hook with a bad timeout", "constraints: {pre_run_hook: {url: 'https://x', timeout: 1h}}", 57, "and 300 s"),
    ("a hook with a bad secret", "constraints: {pre_run_hook: {url: 'https://x', secret: a b}}", 56, "is no name of"),
    ("an unknown key of a hook", "constraints: {pre_run_hook: {url: 'https://x', tmeout: 1s}}", 48, "no key 'tmeout'"),
    ("a bad action", "actions: {on_failure: {type: shout}}", 30, "'shout' is not one of"),
    ("an action that comes too late", "actions: {on_failure: {type: skip}}", 30, "'skip' is not one of webhook, trig"),
    ("an unknown event", "actions: {on_faliure: {type: skip}}", 11, "there is no event 'on_faliure'"),
    ("actions that are a list", "actions: [skip]", 10, "actions are an object"),
    ("a webhook to nowhere", "actions: {on_failure: {type: webhook}}", 23, "webhook needs url among its parameters"),
    ("a bad parameter", "actions: {on_failure: {type: webhook, parameters: {url: x}}}", 57, "is no http address"),
    ("an unknown parameter", "actions: {on_constraint_violation: {type: wait, parameters: {timout: 3s}}}", 62,
     "there is no key 'timout' here"),
    ("a parameter too many", "actions: {on_constraint_violation: {type: skip, parameters: {delay: 3s}}}", 62,
     "there is no key 'delay' here"),
    ("a trigger of nothing", "actions: {on_success: {type: trigger_job, parameters: {version: 1}}}", 55,
     "'workflow_id' is missing"),
    ("a bad version", "actions: {on_success: {type: trigger_job, parameters: {workflow_id: x, version: 0}}}", 81,
     "a whole number from 1"),
    ("a bad word for critical",
     "actions: {on_failure: {critical: very, type: webhook, parameters: {url: 'https://x'}}}", 34, "true or false"),
    ("a hook that names no secret", "hook: {}", 7, "'secret' is missing"),
    ("a hook that holds a key", "hook: {secret: whsec_AAAA}", 16, "this is a key itself"),
    ("a bad run retry", "run_retry: {max_retries: -1}", 26, "a whole number from 0"),
    ("a bad multiplier", "run_retry: {max_retries: 1, backoff_multiplier: 0.5}", 49, "a number from 1"),
    ("an unknown key of a retry", "run_retry: {max_retry: 1}", 13, "there is no key 'max_retry' here"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "column", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_bad_rules_of_runs_are_refused_with_place_and_hint(text: str, column: int, message: str) -> None:
    problem = problems_of(text)[0]

    assert message in problem.message
    assert (problem.line, problem.column) == (4, column)
    assert problem.hint


def test_all_problems_of_the_rules_are_told_at_once() -> None:
    text = "schedule: {cron: x, timezone: y}\nconstraints: {catch_up: 5}\nrun_retry: {full: 1}"

    assert [problem.line for problem in problems_of(text)] == [4, 4, 5, 6]


def test_a_zone_is_told_by_its_nearest_name() -> None:
    assert problems_of("schedule: {cron: '@daily', timezone: Australia/Lord_How}")[0].hint == (
        "did you mean 'Australia/Lord_Howe'?"
    )


def test_a_key_in_the_place_of_its_name_is_not_repeated() -> None:
    problem = problems_of("constraints: {pre_run_hook: {url: 'https://x', secret: whsec_c2VjcmV0}}")[0]

    assert "this is a key itself" in problem.message
    assert "c2VjcmV0" not in str(problem)


def test_credentials_in_an_address_are_refused_and_not_repeated() -> None:
    problem = problems_of("constraints: {pre_run_hook: {url: 'https://me:hidden@x.test/'}}")[0]

    assert "credentials" in problem.message
    assert "hidden" not in str(problem)


def test_an_input_that_the_workflow_refuses_is_told() -> None:
    text = "input: {properties: {n: {type: integer}}}\nschedule: {cron: '@daily', input: {n: x}}"

    assert "the workflow refuses the input that its schedule gives" in problems_of(text)[0].message


WARNED = {
    "a schedule without the needed input": (
        "input: {required: [n]}\nschedule: {cron: '@daily'}",
        "the workflow refuses the input",
    ),
    "a catch-up without a schedule": ("constraints: {catch_up: latest}", "there are no missed slots"),
    "an on_slow without a time": ("actions: {on_slow: {type: webhook, parameters: {url: 'https://x'}}}", "ever slow"),
    "a violation of nothing": ("actions: {on_constraint_violation: skip}", "there is no constraint"),
    "a run that is stopped before it is slow": (
        "constraints: {max_expected_run_time: 1h, max_allowed_run_time: 1h}",
        "stopped before it counts as slow",
    ),
    "a workflow that starts itself": (
        "actions: {on_success: {type: trigger_job, parameters: {workflow_id: w}}}",
        "starts itself again and again",
    ),
}


@pytest.mark.parametrize(("text", "message"), WARNED.values(), ids=WARNED)
def test_rules_without_effect_get_a_warning(text: str, message: str) -> None:
    _, warnings = read_definition(HEAD + text + "\n")

    assert [message in warning.message for warning in warnings] == [True]


KEYS = st.sampled_from(["cron", "every", "at", "timezone", "url", "secret", "type", "parameters", "catch_up", "full"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 10**12) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "@daily", "5m", "webhook", "wait", "https://[", "UTC", "2030-01-31T08:00:00Z", "*" * 300])
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
PLACES = st.sampled_from(["schedule", "constraints", "actions", "run_retry"])


@given(PLACES, st.sampled_from(["", "pre_run_hook", "on_failure", "on_constraint_violation"]), VALUES)
def test_whatever_stands_there_is_read_or_refused_with_a_way_out(place: str, inner: str, value: object) -> None:
    problems: list[Problem] = []
    try:
        read_definition(
            {"workflow_id": "w", "nodes": {"a": {"handler": "e"}}, place: {inner: value} if inner else value}
        )
    except DefinitionInvalid as refused:
        problems = list(refused.problems)

    assert all(problem.hint and problem.path for problem in problems)
