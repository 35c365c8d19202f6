"""Hooks and actions of runs, and how the run continues after them."""

import pytest

from tests.core.runs.run_harness import HOOK, RunHarness, action, rules
from windlass.core.runs.commands import AdmitJob, MakeCall, TriggerJob
from windlass.core.runs.messages import JobArrived, JobFinished, JobRefused, RunLost
from windlass.core.runs.rules import Action, ActionKind, OnCheckError, RunRetry
from windlass.core.runs.states import RunState

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


def test_a_run_is_skipped_while_the_hook_of_another_is_asked_and_there_is_no_more_room() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK, max_concurrent_runs=1))
    first, second = harness.submit(), harness.submit()

    harness.answer()

    assert [harness.state(run) for run in (first, second)] == ["container_creating", "completed"]
    assert harness.rows[second].detail.reason == (
        "0 of at most 1 runs are active, 1 before this one wait for their hook"
    )
    assert harness.count(MakeCall) == 1


def test_a_webhook_on_a_violation_does_not_lift_the_limit() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1, violation=action("webhook", hook=HOOK)))
    harness.submit()
    second = harness.submit()

    harness.answer()

    assert harness.path(second) == [*TO_ACTION, "completed"]


@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_a_failed_predecessor_is_not_overridden_by_a_webhook(outcome: str) -> None:
    harness = RunHarness(
        rules(require_previous_success=True, violation=action("webhook", hook=HOOK))
    )
    first = harness.submit()
    harness.start(first)
    harness.end(first, "failed")
    second = harness.submit()

    harness.answer(outcome)

    detail = harness.rows[second].detail
    assert (harness.state(second), detail.is_skipped) == ("completed", True)
    assert detail.reason == "the previous run did not succeed"
    assert detail.actions_failed == (outcome == "failed")
    assert harness.count(AdmitJob) == 1


@pytest.mark.parametrize(
    "response",
    [action("webhook", hook=HOOK), action("trigger_job", workflow_id="report"), action("kill_old")],
)
def test_a_veto_is_not_overridden_by_an_action(response: Action) -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK, max_concurrent_runs=1, violation=response))
    run = harness.submit()
    harness.answer(refusal="not today")

    if response.kind is ActionKind.WEBHOOK:
        harness.answer()

    detail = harness.rows[run].detail
    assert (harness.state(run), detail.is_skipped, detail.reason) == (
        "completed",
        True,
        "not today",
    )
    assert harness.count(AdmitJob) == 0
    assert harness.count(TriggerJob) == (response.kind is ActionKind.TRIGGER_JOB)


def test_the_hook_is_asked_before_a_run_starts_in_the_room_of_another() -> None:
    harness = RunHarness(
        rules(pre_run_hook=HOOK, max_concurrent_runs=1, violation=action("webhook", hook=HOOK))
    )
    first = harness.submit()
    harness.answer()
    second = harness.submit()
    notified = harness.commands[-1]
    harness.start(first)
    harness.end(first)

    harness.commands.append(notified)
    harness.answer()
    asked = (harness.state(second), harness.commands[-1])
    harness.answer(refusal="not today")
    harness.answer()

    assert isinstance(asked[1], MakeCall)
    assert (asked[0], asked[1].type) == ("action_running", "run.starting")
    assert harness.rows[second].detail.is_skipped


def test_no_run_is_stopped_for_one_that_its_hook_forbids() -> None:
    harness = RunHarness(
        rules(pre_run_hook=HOOK, max_concurrent_runs=1, violation=action("kill_old"))
    )
    first = harness.submit()
    harness.answer()
    harness.start(first)
    second = harness.submit()

    harness.answer(refusal="not today")

    assert (harness.state(first), harness.state(second)) == ("running", "completed")


def test_a_waiting_run_asks_its_hook_again_with_growing_delays_until_the_timeout() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK, violation=action("wait", timeout_seconds=600.0)))
    run = harness.submit()
    harness.answer(refusal="not yet")
    asked: list[int] = []
    for _ in range(9):
        count = harness.count(MakeCall)
        seconds = 0
        while harness.count(MakeCall) == count:
            harness.pass_time(1)
            seconds += 1
        harness.reload()
        asked.append(seconds)
        harness.answer(refusal="not yet")

    assert asked == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert harness.state(run) == "action_running"
    harness.pass_time(10)
    harness.pass_time(600)
    assert harness.state(run) == "failed"


def test_a_waiting_run_starts_when_its_hook_allows_it() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK, violation=action("wait")))
    run = harness.submit()
    harness.answer(refusal="not yet")
    harness.pass_time(1)

    harness.answer()

    assert harness.state(run) == "container_creating"


def test_the_end_of_a_call_is_stored_while_the_run_waits() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK, max_concurrent_runs=1, violation=action("wait")))
    second = harness.submit()
    harness.answer(refusal="not yet")
    first = harness.submit()
    harness.pass_time(1)
    asked = harness.commands[-1]
    blocker = harness.run(first)
    blocker.state = RunState.RUNNING

    assert isinstance(asked, MakeCall)
    harness.decide(JobFinished(asked.job_id, "completed"))

    assert harness.rows[second].detail.calls == {}


def test_a_run_that_fails_before_its_job_notifies_after_its_failure() -> None:
    harness = RunHarness(
        rules(
            max_concurrent_runs=1,
            violation=action("wait", timeout_seconds=5.0),
            failure=action("webhook", hook=HOOK),
        )
    )
    harness.submit()
    second = harness.submit()
    harness.pass_time(5)
    before = (harness.state(second), harness.count(MakeCall))

    harness.answer()

    assert before == ("action_running", 1)
    assert harness.state(second) == "failed"
    assert "timed out" in (harness.rows[second].detail.reason or "")


def test_a_refused_job_calls_the_hook_after_the_run() -> None:
    harness = RunHarness(rules(post_run_hook=HOOK, failure=action("trigger_job", workflow_id="x")))
    run = harness.submit()
    harness.decide(JobRefused(run, "no such version"))
    before = harness.state(run)

    harness.answer()

    assert (before, harness.state(run)) == ("container_creating", "failed")
    assert (harness.count(MakeCall), harness.count(TriggerJob)) == (1, 1)


def test_an_orphaned_run_calls_its_hooks_once() -> None:
    harness = RunHarness(rules(post_run_hook=HOOK, failure=action("trigger_job", workflow_id="x")))
    run = harness.submit()
    harness.start(run)
    harness.decide(RunLost("flow", run, 7200.0))
    harness.reload()
    harness.decide(RunLost("flow", run, 7200.0))
    before = harness.state(run)

    harness.answer()

    assert (before, harness.state(run)) == ("running", "orphaned")
    assert (harness.count(MakeCall), harness.count(TriggerJob)) == (1, 1)
    assert harness.cancelled() == ["job001"]


@pytest.mark.parametrize("ending", ["skipped", "cancelled"])
def test_a_skipped_or_cancelled_run_calls_nobody(ending: str) -> None:
    harness = RunHarness(
        rules(
            max_concurrent_runs=1,
            post_run_hook=HOOK,
            failure=action("trigger_job", workflow_id="x"),
        )
    )
    first, second = harness.submit(), harness.submit()

    if ending == "cancelled":
        harness.cancel(first)

    assert harness.rows[second].detail.is_skipped
    assert harness.count(MakeCall, TriggerJob) == 0


def test_a_chain_of_triggered_jobs_is_bounded_and_says_why() -> None:
    harness = RunHarness(rules(success=action("trigger_job", workflow_id="flow")))
    for depth in (15, 16):
        harness.decide(JobArrived(f"j{depth}", "flow", 1, harness.now, None, depth=depth))
        harness.start(f"flow:j{depth}")
        harness.end(f"flow:j{depth}")

    [command] = [command for command in harness.commands if isinstance(command, TriggerJob)]
    assert (command.run_id, command.depth, command.parent_job_id) == ("flow:j15", 16, "j15")
    [record] = harness.rows["flow:j16"].detail.actions
    assert "at most 16" in (record.error or "")
    assert harness.state("flow:j16") == "completed"


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
