"""Hooks and actions of runs, and how the run continues after them."""

import pytest

from tests.core.run_story import HOOK, Story, action, rules
from windlass.core.runs.commands import MakeCall, TriggerJob
from windlass.core.runs.rules import OnCheckError, RunRetry

TO_ACTION = ["pending", "condition_pending", "condition_running", "action_pending", "action_running"]


def test_a_hook_is_called_before_the_run() -> None:
    story = Story(rules(pre_run_hook=HOOK))
    run = story.submit()
    waiting = story.state(run)

    story.answer()

    assert (waiting, story.state(run)) == ("condition_running", "container_creating")
    assert [command.hook for command in story.commands if isinstance(command, MakeCall)] == [HOOK]


def test_a_hook_may_refuse_a_run() -> None:
    story = Story(rules(pre_run_hook=HOOK))
    run = story.submit()

    story.answer(refusal="not today")

    assert story.path(run) == [*TO_ACTION, "completed"]
    assert story.rows[run].detail.reason == "not today"


def test_a_hook_is_called_before_each_attempt_while_the_run_keeps_its_place() -> None:
    story = Story(
        rules(pre_run_hook=HOOK, max_concurrent_runs=1, violation=action("wait"), retry=RunRetry(max_retries=1))
    )
    first = story.submit()
    story.answer()
    story.start(first)
    story.end(first, "failed")
    story.pass_time(30)
    asked = (story.state(first), story.count(MakeCall))

    second = story.submit()
    story.answer()

    assert asked == ("condition_running", 2)
    assert (story.state(first), story.state(second)) == ("container_creating", "action_running")


def test_a_run_that_exceeded_its_limit_stays_failed_when_its_job_ends() -> None:
    story = Story(rules(max_allowed_run_seconds=10.0, post_run_hook=HOOK))
    run = story.submit()
    story.start(run)
    story.pass_time(10)
    story.end(run, "cancelled")
    before = story.state(run)

    story.answer()

    assert (before, story.state(run)) == ("terminating", "failed")


@pytest.mark.parametrize(("choice", "state"), [("allow", "container_creating"), ("skip", "completed")])
def test_a_hook_that_cannot_be_called_follows_on_check_error(choice: str, state: str) -> None:
    story = Story(rules(pre_run_hook=HOOK, on_check_error=OnCheckError(choice)))
    run = story.submit()

    story.answer("failed")

    assert story.state(run) == state


def test_the_limit_is_checked_again_after_the_response_of_a_hook() -> None:
    story = Story(rules(pre_run_hook=HOOK, max_concurrent_runs=1))
    first = story.submit()
    call = story.commands[-1]
    second = story.submit()
    story.answer()

    story.commands.append(call)
    story.answer()

    assert [story.state(run) for run in (first, second)] == ["completed", "container_creating"]


def test_a_webhook_on_a_violation_does_not_lift_the_limit() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("webhook", hook=HOOK)))
    story.submit()
    second = story.submit()

    story.answer()

    assert story.path(second) == [*TO_ACTION, "completed"]


def test_a_run_continues_after_a_webhook_about_any_other_violation() -> None:
    story = Story(rules(require_previous_success=True, violation=action("webhook", hook=HOOK)))
    first = story.submit()
    story.start(first)
    story.end(first, "failed")
    second = story.submit()

    story.answer("failed")

    assert story.state(second) == "container_creating"
    assert ("flow:job002", "action_failed") in story.events
    assert story.rows[second].detail.actions_failed == 1


def test_a_critical_action_that_fails_fails_the_run() -> None:
    story = Story(rules(require_previous_success=True, violation=action("webhook", hook=HOOK, critical=True)))
    first = story.submit()
    story.start(first)
    story.end(first, "failed")
    second = story.submit()

    story.answer("failed")

    assert story.state(second) == "failed"


def test_a_run_waits_for_the_webhook_after_success() -> None:
    story = Story(rules(success=action("webhook", hook=HOOK)))
    run = story.submit()
    story.start(run)
    story.end(run)
    before = story.state(run)

    story.answer()

    assert (before, story.state(run)) == ("terminating", "completed")


def test_a_critical_webhook_after_success_can_fail_the_run() -> None:
    story = Story(rules(success=action("webhook", hook=HOOK, critical=True), retry=RunRetry(max_retries=3)))
    run = story.submit()
    story.start(run)
    story.end(run)

    story.answer("failed")

    assert (story.state(run), story.rows[run].succeeded) == ("failed", False)


def test_a_hook_after_the_run_that_fails_is_a_violation_and_changes_nothing_else() -> None:
    story = Story(rules(post_run_hook=HOOK))
    run = story.submit()
    story.start(run)
    story.end(run)

    story.answer("failed")

    assert story.state(run) == "completed"
    assert [one.constraint for one in story.rows[run].detail.violations] == ["post_run_hook"]


def test_another_workflow_is_started_after_success_and_not_after_failure() -> None:
    story = Story(rules(success=action("trigger_job", workflow_id="report", input_data={"day": 1})))
    good, bad = story.submit(), story.submit()
    for run, status in ((good, "completed"), (bad, "failed")):
        story.start(run)
        story.end(run, status)

    [command] = [command for command in story.commands if isinstance(command, TriggerJob)]
    assert (command.run_id, command.workflow_id, command.input) == (good, "report", {"day": 1})
    assert story.states() == ["completed", "failed"]
