"""Hooks and actions of runs, and how the run continues after them."""

import pytest

from tests.core.runs.run_harness import HOOK, RunHarness, action, rules
from windlass.core.runs.commands import MakeCall, TriggerJob
from windlass.core.runs.rules import OnCheckError, RunRetry

TO_ACTION = [
    "pending",
    "condition_pending",
    "condition_running",
    "action_pending",
    "action_running",
]


def test_a_hook_is_called_before_the_run() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK))
    run = harness.submit()
    waiting = harness.state(run)

    harness.answer()

    assert (waiting, harness.state(run)) == ("condition_running", "container_creating")
    assert [command.hook for command in harness.commands if isinstance(command, MakeCall)] == [HOOK]


def test_a_hook_may_refuse_a_run() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK))
    run = harness.submit()

    harness.answer(refusal="not today")

    assert harness.path(run) == [*TO_ACTION, "completed"]
    assert harness.rows[run].detail.reason == "not today"


def test_a_hook_is_called_before_each_attempt_while_the_run_keeps_its_place() -> None:
    harness = RunHarness(
        rules(
            pre_run_hook=HOOK,
            max_concurrent_runs=1,
            violation=action("wait"),
            retry=RunRetry(max_retries=1),
        )
    )
    first = harness.submit()
    harness.answer()
    harness.start(first)
    harness.end(first, "failed")
    harness.pass_time(30)
    asked = (harness.state(first), harness.count(MakeCall))

    second = harness.submit()
    harness.answer()

    assert asked == ("condition_running", 2)
    assert (harness.state(first), harness.state(second)) == ("container_creating", "action_running")


def test_a_run_that_exceeded_its_limit_stays_failed_when_its_job_ends() -> None:
    harness = RunHarness(rules(max_allowed_run_seconds=10.0, post_run_hook=HOOK))
    run = harness.submit()
    harness.start(run)
    harness.pass_time(10)
    harness.end(run, "cancelled")
    before = harness.state(run)

    harness.answer()

    assert (before, harness.state(run)) == ("terminating", "failed")


@pytest.mark.parametrize(
    ("choice", "state"), [("allow", "container_creating"), ("skip", "completed")]
)
def test_a_hook_that_cannot_be_called_follows_on_check_error(choice: str, state: str) -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK, on_check_error=OnCheckError(choice)))
    run = harness.submit()

    harness.answer("failed")

    assert harness.state(run) == state


def test_the_limit_is_checked_again_after_the_response_of_a_hook() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK, max_concurrent_runs=1))
    first = harness.submit()
    call = harness.commands[-1]
    second = harness.submit()
    harness.answer()

    harness.commands.append(call)
    harness.answer()

    assert [harness.state(run) for run in (first, second)] == ["completed", "container_creating"]


def test_a_webhook_on_a_violation_does_not_lift_the_limit() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1, violation=action("webhook", hook=HOOK)))
    harness.submit()
    second = harness.submit()

    harness.answer()

    assert harness.path(second) == [*TO_ACTION, "completed"]


def test_a_run_continues_after_a_webhook_about_any_other_violation() -> None:
    harness = RunHarness(
        rules(require_previous_success=True, violation=action("webhook", hook=HOOK))
    )
    first = harness.submit()
    harness.start(first)
    harness.end(first, "failed")
    second = harness.submit()

    harness.answer("failed")

    assert harness.state(second) == "container_creating"
    assert ("flow:job002", "action_failed") in harness.events
    assert harness.rows[second].detail.actions_failed == 1


def test_a_critical_action_that_fails_fails_the_run() -> None:
    harness = RunHarness(
        rules(require_previous_success=True, violation=action("webhook", hook=HOOK, critical=True))
    )
    first = harness.submit()
    harness.start(first)
    harness.end(first, "failed")
    second = harness.submit()

    harness.answer("failed")

    assert harness.state(second) == "failed"


def test_a_run_waits_for_the_webhook_after_success() -> None:
    harness = RunHarness(rules(success=action("webhook", hook=HOOK)))
    run = harness.submit()
    harness.start(run)
    harness.end(run)
    before = harness.state(run)

    harness.answer()

    assert (before, harness.state(run)) == ("terminating", "completed")


def test_a_critical_webhook_after_success_can_fail_the_run() -> None:
    harness = RunHarness(
        rules(success=action("webhook", hook=HOOK, critical=True), retry=RunRetry(max_retries=3))
    )
    run = harness.submit()
    harness.start(run)
    harness.end(run)

    harness.answer("failed")

    assert (harness.state(run), harness.rows[run].succeeded) == ("failed", False)


def test_a_hook_after_the_run_that_fails_is_a_violation_and_changes_nothing_else() -> None:
    harness = RunHarness(rules(post_run_hook=HOOK))
    run = harness.submit()
    harness.start(run)
    harness.end(run)

    harness.answer("failed")

    assert harness.state(run) == "completed"
    assert [one.constraint for one in harness.rows[run].detail.violations] == ["post_run_hook"]


def test_another_workflow_is_started_after_success_and_not_after_failure() -> None:
    harness = RunHarness(
        rules(success=action("trigger_job", workflow_id="report", input_data={"day": 1}))
    )
    good, bad = harness.submit(), harness.submit()
    for run, status in ((good, "completed"), (bad, "failed")):
        harness.start(run)
        harness.end(run, status)

    [command] = [command for command in harness.commands if isinstance(command, TriggerJob)]
    assert (command.run_id, command.workflow_id, command.input) == (good, "report", {"day": 1})
    assert harness.states() == ["completed", "failed"]
