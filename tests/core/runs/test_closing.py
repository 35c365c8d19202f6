"""The end of a run: critical actions, last calls with the true outcome, and why it failed."""

from typing import Any

import pytest

from tests.core.runs.run_harness import HOOK, RunHarness, action, rules
from windlass.core.runs.commands import CancelJob, MakeCall, TriggerJob
from windlass.core.runs.messages import JobFinished, JobTriggered, RunLost
from windlass.core.runs.rules import Action, RunRetry, RunRules

ENDED, FAILED, COMPLETED, SLOW = "run.ended", "run.failed", "run.completed", "run.slow"


def critical(**fields: Any) -> Action:
    return action("webhook", hook=HOOK, critical=True, **fields)


def notice() -> Action:
    return action("webhook", hook=HOOK)


def answer(harness: RunHarness, run: str, type: str, status: str = "completed") -> None:
    """End the call of a type that was made for a run."""
    [call] = harness.calls(run, type)
    error = "no answer" if status == "failed" else None
    harness.decide(JobFinished(call.job_id, status, error))


def told(harness: RunHarness, run: str, type: str) -> list[tuple[str, str | None]]:
    """Return the outcome and the reason that calls of a type sent."""
    return [(call.data["outcome"], call.data["reason"]) for call in harness.calls(run, type)]


def started(given: RunRules) -> tuple[RunHarness, str]:
    harness = RunHarness(given)
    run = harness.submit()
    harness.start(run)
    return harness, run


def test_a_critical_action_on_success_that_fails_is_followed_by_the_calls_of_a_failure() -> None:
    harness, run = started(rules(success=critical(), failure=notice(), post_run_hook=HOOK))
    harness.end(run)
    before = [command.type for command in harness.calls(run)]

    answer(harness, run, COMPLETED, "failed")
    answer(harness, run, FAILED)
    answer(harness, run, ENDED)

    reason = "action on_success failed: no answer"
    assert before == [COMPLETED]
    assert told(harness, run, FAILED) == [("failed", reason)]
    assert told(harness, run, ENDED) == [("failed", reason)]
    assert (harness.state(run), harness.rows[run].detail.reason) == ("failed", reason)


def test_a_critical_action_on_success_that_is_refused_fails_the_run() -> None:
    harness, run = started(
        rules(
            success=action("trigger_job", workflow_id="gone", critical=True),
            failure=notice(),
            post_run_hook=HOOK,
        )
    )
    job_id = harness.rows[run].job_id or ""
    harness.refused = "no such workflow"

    harness.decide(JobFinished(job_id, "completed"))
    answer(harness, run, FAILED)
    answer(harness, run, ENDED)

    reason = "action on_success failed: no such workflow"
    assert told(harness, run, FAILED) == told(harness, run, ENDED) == [("failed", reason)]
    assert harness.state(run) == "failed"


def test_the_hook_after_the_run_follows_a_critical_action_that_succeeds() -> None:
    harness, run = started(rules(success=critical(), failure=notice(), post_run_hook=HOOK))
    harness.end(run)

    answer(harness, run, COMPLETED)
    harness.reload()
    answer(harness, run, ENDED)

    assert [command.type for command in harness.calls(run)] == [COMPLETED, ENDED]
    assert told(harness, run, ENDED) == [("completed", None)]
    assert harness.state(run) == "completed"


def test_a_critical_action_on_slow_that_fails_fails_the_run_after_its_job() -> None:
    harness, run = started(
        rules(
            max_expected_run_seconds=1.0,
            slow=critical(),
            failure=notice(),
            post_run_hook=HOOK,
            retry=RunRetry(max_retries=2),
        )
    )
    harness.pass_time(1)
    answer(harness, run, SLOW, "failed")
    during = harness.state(run)

    harness.end(run)
    answer(harness, run, FAILED)
    answer(harness, run, ENDED)

    reason = "action on_slow failed: no answer"
    assert during == "running"
    assert told(harness, run, FAILED) == told(harness, run, ENDED) == [("failed", reason)]
    assert (harness.state(run), harness.rows[run].detail.reason) == ("failed", reason)


def test_the_last_calls_wait_for_a_critical_action_that_may_still_fail_the_run() -> None:
    harness, run = started(
        rules(max_expected_run_seconds=1.0, slow=critical(), failure=notice(), post_run_hook=HOOK)
    )
    harness.pass_time(1)
    harness.end(run)
    before = (harness.state(run), [command.type for command in harness.calls(run)])

    answer(harness, run, SLOW, "failed")

    assert before == ("terminating", [SLOW])
    assert told(harness, run, ENDED) == [("failed", "action on_slow failed: no answer")]


def test_the_first_reason_stays_first_when_the_job_fails_as_well() -> None:
    harness, run = started(rules(max_expected_run_seconds=1.0, slow=critical(), post_run_hook=HOOK))
    harness.pass_time(1)
    answer(harness, run, SLOW, "failed")

    harness.end(run, "failed")

    assert told(harness, run, ENDED) == [("failed", "action on_slow failed: no answer; it broke")]


def test_a_critical_action_on_failure_that_fails_keeps_the_reason_of_the_failure_first() -> None:
    harness, run = started(rules(failure=critical(), post_run_hook=HOOK))
    harness.end(run, "failed")

    answer(harness, run, FAILED, "failed")
    answer(harness, run, ENDED)

    assert told(harness, run, FAILED) == told(harness, run, ENDED) == [("failed", "it broke")]
    assert harness.state(run) == "failed"
    assert harness.rows[run].detail.reason == "it broke; action on_failure failed: no answer"


def test_a_critical_action_on_a_violation_keeps_the_violation_first() -> None:
    harness = RunHarness(
        rules(pre_run_hook=HOOK, violation=critical(), failure=notice(), post_run_hook=HOOK)
    )
    run = harness.submit()
    harness.answer_hook(run, refusal="not today")

    answer(harness, run, "run.constraint_violated", "failed")

    reason = "not today; action on_constraint_violation failed: no answer"
    assert told(harness, run, FAILED) == told(harness, run, ENDED) == [("failed", reason)]


def test_a_terminating_run_that_waits_for_a_critical_action_is_not_orphaned() -> None:
    harness, run = started(rules(success=critical()))
    harness.end(run)

    harness.decide(RunLost("flow", run, 7_200.0))
    answer(harness, run, COMPLETED)

    assert harness.state(run) == "completed"


def test_the_reason_of_an_attempt_does_not_outlive_it() -> None:
    harness, run = started(rules(retry=RunRetry(max_retries=1, initial_delay_seconds=1.0)))
    harness.end(run, "failed")
    between = harness.rows[run].detail.reason

    harness.pass_time(1)

    assert (between, harness.rows[run].detail.reason) == ("it broke", None)


@pytest.mark.parametrize("kind", ["webhook", "trigger_job"])
def test_an_action_on_a_violation_is_told_the_reason_and_the_violations(kind: str) -> None:
    harness = RunHarness(
        rules(pre_run_hook=HOOK, violation=action(kind, hook=HOOK, workflow_id="report"))
    )
    run = harness.submit()

    harness.answer_hook(run, refusal="nope")

    [sent] = [
        command.data if isinstance(command, MakeCall) else command.run
        for command in harness.commands[1:]
        if isinstance(command, (MakeCall, TriggerJob))
    ]
    assert sent["reason"] == "nope"
    assert [one["constraint"] for one in sent["violations"]] == ["pre_run_hook"]


# Actions that fail by themselves


def test_a_wait_that_times_out_is_a_failed_action() -> None:
    harness = RunHarness(
        rules(max_concurrent_runs=1, violation=action("wait", timeout_seconds=5.0))
    )
    harness.submit()
    run = harness.submit()

    harness.pass_time(5)

    [failed] = harness.events_of(run, "action_failed")
    metrics = harness.rows[run].detail.metrics
    assert metrics is not None
    assert (failed["action"], failed["on"]) == ("wait", "on_constraint_violation")
    assert failed["error"] == harness.rows[run].detail.reason
    assert (metrics.actions_executed, metrics.actions_failed) == (1, 1)


def test_a_retry_later_that_runs_out_is_a_failed_action() -> None:
    harness = RunHarness(
        rules(
            max_concurrent_runs=1,
            violation=action("retry_later", delay_seconds=1.0, times_max=2, critical=True),
        )
    )
    harness.submit()
    run = harness.submit()

    harness.pass_time(2)

    [failed] = harness.events_of(run, "action_failed")
    assert (harness.state(run), harness.rows[run].detail.actions_failed) == ("failed", 1)
    assert failed["error"] == harness.rows[run].detail.reason


def test_a_run_that_is_skipped_unchecked_says_so_in_its_events() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK))
    run = harness.submit()

    harness.answer_hook(run, "failed")

    [check] = harness.events_of(run, "check_failed")
    assert (check["constraint"], check["decision"]) == ("pre_run_hook", "skip")
    assert harness.events_of(run, "action_started") == [{"action": "skip"}]
    assert [one["action"] for one in harness.events_of(run, "action_completed")] == ["skip"]


@pytest.mark.parametrize("kind", ["skip", "kill_old", "wait", "retry_later"])
def test_every_action_that_starts_also_ends(kind: str) -> None:
    harness = RunHarness(
        rules(
            max_concurrent_runs=1,
            require_previous_success=True,
            violation=action(kind, delay_seconds=1.0, times_max=1, timeout_seconds=2.0),
        )
    )
    first = harness.submit()
    harness.start(first)
    harness.end(first, "failed")
    run = harness.submit()

    harness.pass_time(5)

    ends = [
        event
        for name in ("action_completed", "action_failed")
        for event in harness.events_of(run, name)
    ]
    assert len(harness.events_of(run, "action_started")) == len(ends) == 1


def test_an_action_that_is_stopped_with_its_run_has_failed() -> None:
    harness = RunHarness(
        rules(max_expected_run_seconds=1.0, slow=notice(), start_timeout_seconds=2.0)
    )
    run = harness.submit()

    harness.pass_time(2)

    [failed] = harness.events_of(run, "action_failed")
    assert (failed["on"], harness.state(run)) == ("on_slow", "failed")
    assert isinstance(harness.commands[-1], CancelJob)


# The bounds on the duration


def test_the_expected_time_counts_while_no_worker_takes_the_run() -> None:
    harness = RunHarness(
        rules(max_expected_run_seconds=5.0, slow=action("trigger_job", workflow_id="alarm"))
    )
    run = harness.submit()
    harness.reload()

    harness.pass_time(5)

    assert harness.state(run) == "container_creating"
    assert harness.count(TriggerJob) == 1


def test_both_bounds_on_the_duration_count_from_the_same_moment() -> None:
    harness = RunHarness(rules(max_expected_run_seconds=10.0, max_allowed_run_seconds=10.0))
    run = harness.submit()
    harness.pass_time(4)
    harness.start(run)

    harness.pass_time(6)

    found = [one.constraint for one in harness.rows[run].detail.violations]
    assert sorted(found) == ["max_allowed_run_time", "max_expected_run_time"]


def closing() -> tuple[RunHarness, str]:
    """Return a run that failed because no worker took it, and whose last call has not ended."""
    harness = RunHarness(rules(start_timeout_seconds=2.0, post_run_hook=HOOK))
    run = harness.submit()
    harness.pass_time(2)
    return harness, run


def test_the_start_of_a_task_does_not_move_a_closing_run() -> None:
    harness, run = closing()

    harness.start(run)
    answer(harness, run, ENDED)

    assert harness.path(run)[-2:] == ["container_creating", "failed"]


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_the_end_of_its_cancelled_job_does_not_end_a_closing_run(is_reloaded: bool) -> None:
    harness, run = closing()
    if is_reloaded:
        harness.reload()

    harness.end(run, "cancelled")
    before = harness.state(run)
    answer(harness, run, ENDED)

    assert (before, harness.state(run)) == ("container_creating", "failed")


def test_a_closing_run_is_not_reported_as_slow() -> None:
    harness = RunHarness(
        rules(
            max_expected_run_seconds=3.0,
            start_timeout_seconds=2.0,
            slow=action("trigger_job", workflow_id="alarm"),
            post_run_hook=HOOK,
        )
    )
    run = harness.submit()

    harness.pass_time(5)

    assert [one.constraint for one in harness.rows[run].detail.violations] == ["start_timeout"]
    assert harness.count(TriggerJob) == 0


def test_a_run_is_started_by_what_started_its_job() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1))
    first = harness.submit(origin="trigger_job")

    second = harness.submit(origin="trigger_job")

    assert [row.detail.origin for row in harness.rows.values()] == ["trigger_job"] * 2
    assert harness.events_of(first, "run_created")[0]["origin"] == "trigger_job"
    assert harness.rows[second].job_id in harness.cancelled()


def test_a_run_that_is_not_due_yet_shows_how_often_it_is_retried() -> None:
    harness = RunHarness(rules(retry=RunRetry(max_retries=3)))
    later = harness.submit(scheduled_at=harness.now + 60_000_000)

    assert harness.rows[later].detail.max_retries == 3


def test_a_job_that_an_action_starts_is_confirmed_once() -> None:
    harness, run = started(rules(success=action("trigger_job", workflow_id="x", critical=True)))
    harness.end(run)
    [command] = [one for one in harness.commands if isinstance(one, TriggerJob)]

    harness.decide(JobTriggered(run, command.purpose, command.job_id))

    assert harness.state(run) == "completed"
    assert len(harness.rows[run].detail.actions) == 1
