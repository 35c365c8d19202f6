"""The life of runs: constraints, actions, jobs, attempts, and ends."""

import pytest

from tests.core.run_story import HOOK, T0, Story, action, rules
from windlass.core.runs.commands import AdmitJob, CancelJob, MakeCall, MakeJob, RetryJob, TriggerJob
from windlass.core.runs.messages import Container, ContainerEnded, JobArrived, JobRefused, RunDue, RunLost, RunWait
from windlass.core.runs.rules import RunRetry
from windlass.core.runs.states import RUN_FINAL, RunState

TO_JOB = ["pending", "condition_pending", "condition_running", "container_creating"]
TO_ACTION = ["pending", "condition_pending", "condition_running", "action_pending", "action_running"]
RAN = ["running", "terminating", "completed"]


def test_the_happy_path() -> None:
    story = Story(rules(max_concurrent_runs=1))
    run = story.submit()
    story.start(run)

    story.end(run)

    assert story.path(run) == [*TO_JOB, *RAN]
    assert story.rows[run].succeeded is True


def test_a_run_without_anything_to_check_goes_straight_to_its_job() -> None:
    story = Story(rules(success=action("trigger_job", workflow_id="report")))

    run = story.submit()

    assert story.path(run) == ["pending", "container_creating"]
    assert story.commands == [AdmitJob("job001")]


def test_the_path_with_actions() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("wait")))
    first, second = story.submit(), story.submit()
    story.start(first)
    story.end(first)
    story.start(second)

    story.end(second)

    assert story.path(second) == [*TO_ACTION, "container_creating", *RAN]


def test_the_path_with_a_retry() -> None:
    story = Story(rules(max_concurrent_runs=1, retry=RunRetry(max_retries=2, initial_delay_seconds=30.0)))
    run = story.submit()
    story.start(run)
    story.end(run, "failed")
    waiting = story.state(run)
    story.pass_time(30)
    story.start(run)

    story.end(run)

    assert waiting == "retrying"
    assert story.path(run) == [*TO_JOB, "running", "terminating", "retrying", *TO_JOB, *RAN]
    assert story.rows[run].attempt == 1


def test_every_transition_is_an_event_under_gapless_numbers() -> None:
    story = Story(rules(max_concurrent_runs=1))
    run = story.submit()
    story.start(run)

    story.end(run)

    told = [kind for key, kind in story.events if key == run]
    assert told == ["run_created", *["run_state_changed"] * 7]
    assert story.rows[run].detail.seq == 8


def test_the_previous_state_and_its_time_are_kept() -> None:
    story = Story(rules())
    run = story.submit()
    story.pass_time(5)

    story.start(run)

    row = story.rows[run]
    assert (row.state, row.previous_state, row.state_at) == ("running", "container_creating", T0 + 5_000_000)


def test_a_violation_without_an_action_skips_the_run_and_stops_its_job() -> None:
    story = Story(rules(max_concurrent_runs=1))
    story.submit()

    second = story.submit()

    assert story.path(second) == [*TO_ACTION, "completed"]
    assert story.rows[second].detail.is_skipped
    assert story.rows[second].succeeded is None
    assert story.cancelled() == ["job002"]
    [violation] = story.rows[second].detail.violations
    assert (violation.constraint, violation.at) == ("max_concurrent_runs", T0)


def test_waiting_runs_start_in_order_and_one_at_a_time() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("wait")))
    runs = [story.submit() for _ in range(4)]
    begun: list[str] = []
    for run in runs:
        begun += [command.job_id for command in story.commands if isinstance(command, AdmitJob)][len(begun) :]
        assert len([one for one in runs if story.state(one) in ("container_creating", "running")]) == 1
        story.start(run)
        story.end(run)

    assert begun == ["job001", "job002", "job003", "job004"]
    assert story.states() == ["completed"] * 4


def test_a_new_run_queues_behind_waiting_runs() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("wait")))
    first = story.submit()
    second = story.submit()
    story.pass_time(1)
    third = story.submit()
    story.start(first)

    story.end(first)

    assert (story.state(second), story.state(third)) == ("container_creating", "action_running")


def test_a_run_that_waits_too_long_fails() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("wait", timeout_seconds=60.0)))
    story.submit()
    second = story.submit()

    story.pass_time(60)

    assert story.state(second) == "failed"
    assert CancelJob("job002", story.rows[second].detail.reason or "") in story.commands


def test_kill_old_leaves_exactly_the_newest() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("kill_old")))
    runs: list[str] = []
    for _ in range(5):
        runs.append(story.submit())
        story.start(runs[-1])
        story.pass_time(1)

    assert [story.state(run) for run in runs] == [*["cancelled"] * 4, "running"]
    assert [command.job_id for command in story.commands if isinstance(command, CancelJob)] == [
        f"job00{n}" for n in range(1, 5)
    ]


def test_kill_old_makes_room_for_one_only() -> None:
    story = Story(rules(max_concurrent_runs=3, violation=action("kill_old")))

    runs = [story.submit() for _ in range(5)]

    assert [story.state(run) for run in runs] == [*["cancelled"] * 2, *["container_creating"] * 3]


def test_retry_later_checks_again_after_the_delay() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("retry_later", delay_seconds=60.0)))
    first, second = story.submit(), story.submit()
    story.start(first)
    story.end(first)
    story.pass_time(59)
    before = story.state(second)

    story.pass_time(1)

    assert (before, story.state(second)) == ("action_running", "container_creating")


def test_retry_later_fails_after_the_maximum_number_of_checks() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("retry_later", delay_seconds=60.0, times_max=3)))
    story.submit()
    second = story.submit()

    story.pass_time(180)

    assert story.state(second) == "failed"
    assert len(story.rows[second].detail.violations) == 4


def test_a_run_is_skipped_after_one_that_failed_where_success_is_required() -> None:
    story = Story(rules(require_previous_success=True))
    first = story.submit()
    story.start(first)
    story.end(first, "failed")

    second, third = story.submit(), story.submit()

    assert [story.state(run) for run in (first, second, third)] == ["failed", "completed", "completed"]
    assert story.rows[third].detail.violations[0].constraint == "require_previous_success"


def test_a_retry_by_request_is_a_run_that_may_repair_the_previous_one() -> None:
    story = Story(rules(require_previous_success=True))
    first = story.submit()
    story.start(first)
    story.end(first, "failed")
    story.decide(JobArrived("job001", "flow", 1, T0, None, "request", "fetch"))
    again = "flow:request"
    story.start(again)
    story.end(again)

    third = story.submit()

    assert RetryJob("job001", "fetch") in story.commands
    assert [story.state(run) for run in (first, again, third)] == ["failed", "completed", "container_creating"]


def test_a_retry_that_is_requested_twice_is_one_run() -> None:
    story = Story(rules())
    first = story.submit()
    story.start(first)
    story.end(first, "failed")
    asked = JobArrived("job001", "flow", 1, T0, None, "request")
    story.decide(asked)
    story.end("flow:request")

    story.decide(asked)

    assert story.count(RetryJob) == 1


def test_the_action_on_failure_follows_the_last_attempt_only() -> None:
    story = Story(rules(failure=action("trigger_job", workflow_id="alarm"), retry=RunRetry(max_retries=1)))
    run = story.submit()
    story.start(run)
    story.end(run, "failed")
    before = story.count(TriggerJob)
    story.pass_time(30)
    story.start(run)

    story.end(run, "failed")

    assert (before, story.count(TriggerJob), story.state(run)) == (0, 1, "failed")


def test_delays_between_attempts_grow_up_to_their_maximum() -> None:
    story = Story(rules(retry=RunRetry(max_retries=4, initial_delay_seconds=10.0, max_delay_seconds=35.0)))
    run = story.submit()
    waits: list[float] = []
    for _ in range(4):
        story.start(run)
        story.end(run, "failed")
        waits.append(((story.rows[run].detail.due_at or 0) - story.now) / 1e6)
        story.pass_time(waits[-1])

    assert waits == [10.0, 20.0, 35.0, 35.0]


def test_a_retry_is_partial_unless_full_is_set() -> None:
    partial = Story(rules(retry=RunRetry(max_retries=1)))
    full = Story(rules(retry=RunRetry(max_retries=1, full=True)))
    for story in (partial, full):
        run = story.submit()
        story.start(run)
        story.end(run, "failed")
        story.pass_time(30)

    assert (partial.count(RetryJob), partial.count(MakeJob)) == (1, 0)
    assert (full.count(RetryJob), full.count(MakeJob)) == (0, 1)
    assert full.rows[run].detail.earlier_jobs == ["job001"]


def test_a_run_between_attempts_keeps_its_place() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("wait"), retry=RunRetry(max_retries=1)))
    first, second = story.submit(), story.submit()
    story.start(first)

    story.end(first, "failed")
    story.pass_time(30)

    assert [story.state(run) for run in (first, second)] == ["container_creating", "action_running"]


def test_a_run_that_takes_longer_than_expected_continues_and_is_reported_once() -> None:
    story = Story(rules(max_expected_run_seconds=10.0, slow=action("trigger_job", workflow_id="alarm")))
    run = story.submit()
    story.start(run)

    story.pass_time(60)

    assert story.state(run) == "running"
    assert [one.constraint for one in story.rows[run].detail.violations] == ["max_expected_run_time"]
    assert story.count(TriggerJob) == 1


def test_a_run_that_takes_longer_than_allowed_is_stopped_and_fails() -> None:
    story = Story(rules(max_allowed_run_seconds=10.0, retry=RunRetry(max_retries=3)))
    run = story.submit()
    story.start(run)

    story.pass_time(10)

    assert story.path(run)[-3:] == ["running", "terminating", "failed"]
    assert story.cancelled() == ["job001"]


def test_a_cancelled_job_cancels_its_run_before_its_end() -> None:
    story = Story(rules(retry=RunRetry(max_retries=3)))
    run = story.submit()
    story.start(run)

    story.end(run, "cancelled")

    assert story.state(run) == "cancelled"


def test_a_job_without_tasks_counts_as_a_run() -> None:
    story = Story(rules())
    run = story.submit()

    story.end(run)

    assert story.path(run) == ["pending", "container_creating", *RAN]


def test_a_job_that_cannot_be_created_fails_its_run() -> None:
    story = Story(rules())
    run = story.submit()

    story.decide(JobRefused(run, "bad input"))

    assert (story.state(run), story.rows[run].detail.reason) == ("failed", "bad input")


def test_a_job_that_is_scheduled_later_waits_before_its_constraints_are_checked() -> None:
    story = Story(rules(max_concurrent_runs=1))
    run = story.submit(scheduled_at=T0 + 60_000_000)
    before = story.state(run)

    story.pass_time(60)

    assert (before, story.state(run)) == ("pre_run", "container_creating")


def in_state(state: RunState) -> tuple[Story, str]:
    """A story with a run in that state."""
    if state is RunState.PRE_RUN:
        story = Story(rules())
        return story, story.submit(scheduled_at=T0 + 60_000_000)
    if state in (RunState.CONDITION_RUNNING,):
        story = Story(rules(pre_run_hook=HOOK))
        return story, story.submit()
    if state is RunState.ACTION_RUNNING:
        story = Story(rules(max_concurrent_runs=1, violation=action("wait")))
        story.submit()
        return story, story.submit()
    story = Story(rules(success=action("webhook", hook=HOOK), retry=RunRetry(max_retries=1)))
    run = story.submit()
    if state in (RunState.RUNNING, RunState.TERMINATING, RunState.RETRYING):
        story.start(run)
    if state is RunState.TERMINATING:
        story.end(run)
    if state is RunState.RETRYING:
        story.end(run, "failed")
    # These last for a moment within one turn: put there by hand.
    if state in (RunState.PENDING, RunState.CONDITION_PENDING, RunState.ACTION_PENDING):
        story.run(run).state = state
    return story, run


@pytest.mark.parametrize("state", [state for state in RunState if state not in RUN_FINAL])
def test_a_run_can_be_cancelled_in_every_state_before_its_end(state: RunState) -> None:
    story, run = in_state(state)
    assert story.run(run).state is state

    story.cancel(run)

    assert (story.state(run), story.rows[run].previous_state) == ("cancelled", state)
    assert story.registry.find(run) is None
    assert story.rows[run].job_id in story.cancelled()


@pytest.mark.parametrize("state", [state for state in RunState if state not in RUN_FINAL])
def test_a_run_that_no_engine_serves_is_orphaned_once_it_has_started(state: RunState) -> None:
    story, run = in_state(state)

    story.decide(RunLost("flow", run, 7_200.0))

    assert story.state(run) == ("pre_run" if state is RunState.PRE_RUN else "orphaned")
    calls = [command.job_id for command in story.commands if isinstance(command, MakeCall)]
    assert story.cancelled() == ([] if state is RunState.PRE_RUN else [*calls, story.rows[run].job_id])


def test_a_cancel_of_a_run_that_has_ended_changes_nothing() -> None:
    story = Story(rules())
    run = story.submit()
    story.start(run)
    story.end(run)
    before = story.rows[run]

    story.cancel(run)

    assert story.rows[run] == before


def test_a_cancelled_run_starts_the_next_waiting_run() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("wait")))
    first, second = story.submit(), story.submit()

    story.cancel(first)

    assert story.state(second) == "container_creating"


def test_a_timer_that_fires_too_early_is_set_again() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("wait", timeout_seconds=60.0)))
    story.submit()
    second = story.submit()
    story.pass_time(30)

    story.decide(RunDue("flow", second, RunWait.OTHERS))

    assert story.state(second) == "action_running"


def test_repeated_messages_change_nothing() -> None:
    story = Story(rules(max_concurrent_runs=1))
    run = story.submit()
    story.start(run)
    story.end(run)
    before = (dict(story.rows), len(story.commands))

    story.start(run)
    story.end(run)

    assert (dict(story.rows), len(story.commands)) == before


def test_the_metrics_have_the_duration_of_each_phase() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("wait"), retry=RunRetry(max_retries=1)))
    first, run = story.submit(), story.submit()
    story.start(first)
    story.pass_time(10)
    story.end(first)
    story.pass_time(3)
    story.start(run)
    story.pass_time(20)
    story.end(run, "failed")
    story.pass_time(31)
    story.start(run)
    story.pass_time(4)

    story.end(run)

    metrics = story.rows[run].detail.metrics
    assert metrics is not None
    assert (metrics.action_seconds, metrics.container_creation_seconds, metrics.execution_seconds) == (10.0, 4.0, 24.0)
    assert (metrics.retry_wait_seconds, metrics.total_seconds) == (30.0, 68.0)
    assert (metrics.constraints_violated, metrics.actions_executed, metrics.retry_attempt) == (1, 1, 1)
    assert (metrics.final_state, metrics.success, metrics.max_retries) == ("completed", True, 1)
    assert metrics.state_transitions == len(story.path(run))


def test_the_metrics_sum_up_the_containers_of_all_attempts_and_have_the_last_exit_code() -> None:
    story = Story(rules(retry=RunRetry(max_retries=1)))
    run = story.submit()
    story.start(run)
    story.decide(ContainerEnded("job001", Container(exit_code=137, pod_start_seconds=2.0, api_calls=5)))
    story.end(run, "failed")
    story.pass_time(30)
    story.start(run)
    for one in (Container(0, 3.5, 4), Container(2, 1.0, 1), Container(0, None, 1)):
        story.decide(ContainerEnded("job001", one))

    story.end(run)

    metrics = story.rows[run].detail.metrics
    assert metrics is not None
    assert (metrics.exit_code, metrics.pod_start_seconds, metrics.api_calls) == (2, 3.5, 11)


def test_the_rows_contain_the_whole_state_in_memory() -> None:
    story = Story(rules(max_concurrent_runs=1, violation=action("wait"), pre_run_hook=HOOK))
    for _ in range(3):
        story.submit()
        story.answer()

    assert {row.run_id: row for row in story.memory()} == story.rows
