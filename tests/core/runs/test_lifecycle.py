"""The lifecycle of runs: constraints, actions, jobs, attempts and final states."""

import pytest

from tests.core.runs.run_harness import HOOK, T0, RunHarness, action, rules
from windlass.core.runs.commands import AdmitJob, CancelJob, MakeCall, MakeJob, RetryJob, TriggerJob
from windlass.core.runs.messages import (
    Container,
    ContainerEnded,
    JobArrived,
    JobRefused,
    JobStarted,
    RunDue,
    RunLost,
    RunWait,
)
from windlass.core.runs.metrics import metrics_of
from windlass.core.runs.rules import RunRetry
from windlass.core.runs.states import RUN_FINAL, RunState

TO_JOB = ["pending", "condition_pending", "condition_running", "container_creating"]
TO_ACTION = [
    "pending",
    "condition_pending",
    "condition_running",
    "action_pending",
    "action_running",
]
RAN = ["running", "terminating", "completed"]


def test_a_run_without_violations_passes_through_its_states() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1))
    run = harness.submit()
    harness.start(run)

    harness.end(run)

    assert harness.path(run) == [*TO_JOB, *RAN]
    assert harness.rows[run].succeeded is True


def test_a_run_without_constraints_starts_its_job_at_once() -> None:
    harness = RunHarness(rules(success=action("trigger_job", workflow_id="report")))

    run = harness.submit()

    assert harness.path(run) == ["pending", "container_creating"]
    assert harness.commands == [AdmitJob("job001")]


def test_a_run_with_actions_passes_through_their_states() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1, violation=action("wait")))
    first, second = harness.submit(), harness.submit()
    harness.start(first)
    harness.end(first)
    harness.start(second)

    harness.end(second)

    assert harness.path(second) == [*TO_ACTION, "container_creating", *RAN]


def test_a_retried_run_passes_through_retrying() -> None:
    harness = RunHarness(
        rules(max_concurrent_runs=1, retry=RunRetry(max_retries=2, initial_delay_seconds=30.0))
    )
    run = harness.submit()
    harness.start(run)
    harness.end(run, "failed")
    waiting = harness.state(run)
    harness.pass_time(30)
    harness.start(run)

    harness.end(run)

    assert waiting == "retrying"
    assert harness.path(run) == [*TO_JOB, "running", "terminating", "retrying", *TO_JOB, *RAN]
    assert harness.rows[run].attempt == 1


def test_every_transition_is_an_event_and_numbers_have_no_gaps() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1))
    run = harness.submit()
    harness.start(run)

    harness.end(run)

    types = [kind for key, kind in harness.events if key == run]
    assert types == ["run_created", *["run_state_changed"] * 7]
    assert harness.rows[run].detail.seq == 8


def test_the_previous_state_and_its_time_are_kept() -> None:
    harness = RunHarness(rules())
    run = harness.submit()
    harness.pass_time(5)

    harness.start(run)

    row = harness.rows[run]
    assert (row.state, row.previous_state, row.state_at) == (
        "running",
        "container_creating",
        T0 + 5_000_000,
    )


def test_a_violation_without_an_action_skips_the_run_and_stops_its_job() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1))
    harness.submit()

    second = harness.submit()

    assert harness.path(second) == [*TO_ACTION, "completed"]
    assert harness.rows[second].detail.is_skipped
    assert harness.rows[second].succeeded is None
    assert harness.cancelled() == ["job002"]
    [violation] = harness.rows[second].detail.violations
    assert (violation.constraint, violation.at) == ("max_concurrent_runs", T0)


def test_waiting_runs_start_in_order_and_one_at_a_time() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1, violation=action("wait")))
    runs = [harness.submit() for _ in range(4)]
    begun: list[str] = []
    for run in runs:
        begun += [command.job_id for command in harness.commands if isinstance(command, AdmitJob)][
            len(begun) :
        ]
        assert (
            len([one for one in runs if harness.state(one) in ("container_creating", "running")])
            == 1
        )
        harness.start(run)
        harness.end(run)

    assert begun == ["job001", "job002", "job003", "job004"]
    assert harness.states() == ["completed"] * 4


def test_a_new_run_queues_behind_waiting_runs() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1, violation=action("wait")))
    first = harness.submit()
    second = harness.submit()
    harness.pass_time(1)
    third = harness.submit()
    harness.start(first)

    harness.end(first)

    assert (harness.state(second), harness.state(third)) == ("container_creating", "action_running")


def test_a_run_that_waits_too_long_fails() -> None:
    harness = RunHarness(
        rules(max_concurrent_runs=1, violation=action("wait", timeout_seconds=60.0))
    )
    harness.submit()
    second = harness.submit()

    harness.pass_time(60)

    assert harness.state(second) == "failed"
    assert CancelJob("job002", harness.rows[second].detail.reason or "") in harness.commands


def test_kill_old_leaves_exactly_the_newest() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1, violation=action("kill_old")))
    runs: list[str] = []
    for _ in range(5):
        runs.append(harness.submit())
        harness.start(runs[-1])
        harness.pass_time(1)

    assert [harness.state(run) for run in runs] == [*["cancelled"] * 4, "running"]
    assert [command.job_id for command in harness.commands if isinstance(command, CancelJob)] == [
        f"job00{n}" for n in range(1, 5)
    ]


def test_kill_old_makes_room_for_one_only() -> None:
    harness = RunHarness(rules(max_concurrent_runs=3, violation=action("kill_old")))

    runs = [harness.submit() for _ in range(5)]

    assert [harness.state(run) for run in runs] == [*["cancelled"] * 2, *["container_creating"] * 3]


def test_retry_later_checks_again_after_the_delay() -> None:
    harness = RunHarness(
        rules(max_concurrent_runs=1, violation=action("retry_later", delay_seconds=60.0))
    )
    first, second = harness.submit(), harness.submit()
    harness.start(first)
    harness.end(first)
    harness.pass_time(59)
    before = harness.state(second)

    harness.pass_time(1)

    assert (before, harness.state(second)) == ("action_running", "container_creating")


def test_retry_later_fails_after_the_maximum_number_of_checks() -> None:
    harness = RunHarness(
        rules(
            max_concurrent_runs=1, violation=action("retry_later", delay_seconds=60.0, times_max=3)
        )
    )
    harness.submit()
    second = harness.submit()

    harness.pass_time(180)

    assert harness.state(second) == "failed"
    assert len(harness.rows[second].detail.violations) == 4


def test_a_run_is_skipped_after_one_that_failed_where_success_is_required() -> None:
    harness = RunHarness(rules(require_previous_success=True))
    first = harness.submit()
    harness.start(first)
    harness.end(first, "failed")

    second, third = harness.submit(), harness.submit()

    assert [harness.state(run) for run in (first, second, third)] == [
        "failed",
        "completed",
        "completed",
    ]
    assert harness.rows[third].detail.violations[0].constraint == "require_previous_success"


def test_a_retry_by_request_is_a_run_that_may_repair_the_previous_one() -> None:
    harness = RunHarness(rules(require_previous_success=True))
    first = harness.submit()
    harness.start(first)
    harness.end(first, "failed")
    harness.decide(JobArrived("job001", "flow", 1, T0, None, "request", "fetch"))
    again = "flow:request"
    harness.start(again)
    harness.end(again)

    third = harness.submit()

    assert RetryJob("job001", "fetch") in harness.commands
    assert [harness.state(run) for run in (first, again, third)] == [
        "failed",
        "completed",
        "container_creating",
    ]


def test_a_retry_that_is_requested_twice_is_one_run() -> None:
    harness = RunHarness(rules())
    first = harness.submit()
    harness.start(first)
    harness.end(first, "failed")
    asked = JobArrived("job001", "flow", 1, T0, None, "request")
    harness.decide(asked)
    harness.end("flow:request")

    harness.decide(asked)

    assert harness.count(RetryJob) == 1


def test_a_request_to_retry_the_job_of_a_run_that_starts_changes_nothing() -> None:
    harness = RunHarness(rules())
    harness.submit()

    harness.decide(JobArrived("job001", "flow", 1, T0, None, "request"))

    assert [type(command) for command in harness.commands] == [AdmitJob]
    assert list(harness.rows) == ["flow:job001"]


def test_the_action_on_failure_follows_the_last_attempt_only() -> None:
    harness = RunHarness(
        rules(failure=action("trigger_job", workflow_id="alarm"), retry=RunRetry(max_retries=1))
    )
    run = harness.submit()
    harness.start(run)
    harness.end(run, "failed")
    before = harness.count(TriggerJob)
    harness.pass_time(30)
    harness.start(run)

    harness.end(run, "failed")

    assert (before, harness.count(TriggerJob), harness.state(run)) == (0, 1, "failed")


def test_delays_between_attempts_grow_up_to_their_maximum() -> None:
    harness = RunHarness(
        rules(retry=RunRetry(max_retries=4, initial_delay_seconds=10.0, max_delay_seconds=35.0))
    )
    run = harness.submit()
    waits: list[float] = []
    for _ in range(4):
        harness.start(run)
        harness.end(run, "failed")
        waits.append(((harness.rows[run].detail.due_at or 0) - harness.now) / 1e6)
        harness.pass_time(waits[-1])

    assert waits == [10.0, 20.0, 35.0, 35.0]


def test_a_retry_is_partial_unless_full_is_set() -> None:
    partial = RunHarness(rules(retry=RunRetry(max_retries=1)))
    full = RunHarness(rules(retry=RunRetry(max_retries=1, full=True)))
    for harness in (partial, full):
        run = harness.submit()
        harness.start(run)
        harness.end(run, "failed")
        harness.pass_time(30)

    assert (partial.count(RetryJob), partial.count(MakeJob)) == (1, 0)
    assert (full.count(RetryJob), full.count(MakeJob)) == (0, 1)
    assert full.rows[run].detail.earlier_jobs == ["job001"]


def test_a_run_between_attempts_keeps_its_place() -> None:
    harness = RunHarness(
        rules(max_concurrent_runs=1, violation=action("wait"), retry=RunRetry(max_retries=1))
    )
    first, second = harness.submit(), harness.submit()
    harness.start(first)

    harness.end(first, "failed")
    harness.pass_time(30)

    assert [harness.state(run) for run in (first, second)] == [
        "container_creating",
        "action_running",
    ]


def test_a_run_that_takes_longer_than_expected_continues_and_is_reported_once() -> None:
    harness = RunHarness(
        rules(max_expected_run_seconds=10.0, slow=action("trigger_job", workflow_id="alarm"))
    )
    run = harness.submit()
    harness.start(run)

    harness.pass_time(60)

    assert harness.state(run) == "running"
    assert [one.constraint for one in harness.rows[run].detail.violations] == [
        "max_expected_run_time"
    ]
    assert harness.count(TriggerJob) == 1


def test_a_run_that_takes_longer_than_allowed_is_stopped_and_fails() -> None:
    harness = RunHarness(rules(max_allowed_run_seconds=10.0, retry=RunRetry(max_retries=3)))
    run = harness.submit()
    harness.start(run)

    harness.pass_time(10)

    assert harness.path(run)[-3:] == ["running", "terminating", "failed"]
    assert harness.cancelled() == ["job001"]


def test_the_allowed_duration_ends_a_run_between_its_attempts() -> None:
    retry = RunRetry(max_retries=3, initial_delay_seconds=60.0)
    trigger = action("trigger_job", workflow_id="other")
    harness = RunHarness(rules(max_allowed_run_seconds=10.0, retry=retry, failure=trigger))
    run = harness.submit()
    harness.start(run)
    harness.end(run, "failed")
    assert harness.state(run) == "retrying"

    harness.pass_time(10)

    row = harness.rows[run]
    assert harness.path(run)[-2:] == ["retrying", "failed"]
    assert row.detail.reason == "it broke; the run took longer than the allowed 10 s"
    assert [one.constraint for one in row.detail.violations] == ["max_allowed_run_time"]
    assert harness.count(TriggerJob) == 1
    harness.pass_time(100)
    assert harness.count(RetryJob) == 0


def test_an_allowed_duration_reached_while_a_run_terminates_counts_before_another_attempt() -> None:
    retry = RunRetry(max_retries=1, initial_delay_seconds=60.0)
    slow = action("webhook", hook=HOOK, critical=True)
    harness = RunHarness(
        rules(
            max_expected_run_seconds=1.0,
            max_allowed_run_seconds=10.0,
            retry=retry,
            slow=slow,
        )
    )
    run = harness.submit()
    harness.start(run)
    harness.pass_time(2)
    harness.end(run, "failed")
    harness.pass_time(20)
    assert harness.state(run) == "terminating"
    harness.answer()

    harness.pass_time(0)

    assert harness.path(run)[-2:] == ["retrying", "failed"]


def test_a_cancelled_job_cancels_its_run_before_its_end() -> None:
    harness = RunHarness(rules(retry=RunRetry(max_retries=3)))
    run = harness.submit()
    harness.start(run)

    harness.end(run, "cancelled")

    assert harness.state(run) == "cancelled"


def test_a_job_without_tasks_counts_as_a_run() -> None:
    harness = RunHarness(rules())
    run = harness.submit()

    harness.end(run)

    assert harness.path(run) == ["pending", "container_creating", *RAN]


def test_a_job_that_cannot_be_created_fails_its_run() -> None:
    harness = RunHarness(rules())
    run = harness.submit()

    harness.decide(JobRefused(run, "bad input"))

    assert (harness.state(run), harness.rows[run].detail.reason) == ("failed", "bad input")


def test_a_job_that_is_scheduled_later_waits_before_its_constraints_are_checked() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1))
    run = harness.submit(scheduled_at=T0 + 60_000_000)
    before = harness.state(run)

    harness.pass_time(60)

    assert (before, harness.state(run)) == ("pre_run", "container_creating")


def in_state(state: RunState) -> tuple[RunHarness, str]:
    """Return a harness with a run in a state."""
    if state is RunState.PRE_RUN:
        harness = RunHarness(rules())
        return harness, harness.submit(scheduled_at=T0 + 60_000_000)
    if state in (RunState.CONDITION_RUNNING,):
        harness = RunHarness(rules(pre_run_hook=HOOK))
        return harness, harness.submit()
    if state is RunState.ACTION_RUNNING:
        harness = RunHarness(rules(max_concurrent_runs=1, violation=action("wait")))
        harness.submit()
        return harness, harness.submit()
    harness = RunHarness(rules(success=action("webhook", hook=HOOK), retry=RunRetry(max_retries=1)))
    run = harness.submit()
    if state in (RunState.RUNNING, RunState.TERMINATING, RunState.RETRYING):
        harness.start(run)
    if state is RunState.TERMINATING:
        harness.end(run)
    if state is RunState.RETRYING:
        harness.end(run, "failed")
    # A run passes through these states within one turn, so they are set here.
    if state in (RunState.PENDING, RunState.CONDITION_PENDING, RunState.ACTION_PENDING):
        harness.run(run).state = state
    return harness, run


@pytest.mark.parametrize("state", [state for state in RunState if state not in RUN_FINAL])
def test_a_run_can_be_cancelled_in_every_state_before_its_end(state: RunState) -> None:
    harness, run = in_state(state)
    assert harness.run(run).state is state

    harness.cancel(run)

    assert (harness.state(run), harness.rows[run].previous_state) == ("cancelled", state)
    assert harness.registry.find(run) is None
    assert harness.rows[run].job_id in harness.cancelled()


@pytest.mark.parametrize("state", [state for state in RunState if state not in RUN_FINAL])
def test_a_run_that_no_engine_serves_is_orphaned_once_it_has_started(state: RunState) -> None:
    harness, run = in_state(state)

    harness.decide(RunLost("flow", run, 7_200.0))

    # The outcome of a terminating run is decided: its last calls are jobs that continue.
    unaffected = (RunState.PRE_RUN, RunState.TERMINATING)
    assert harness.state(run) == (state.value if state in unaffected else "orphaned")
    calls = [command.job_id for command in harness.commands if isinstance(command, MakeCall)]
    assert harness.cancelled() == (
        [] if state in unaffected else [*calls, harness.rows[run].job_id]
    )


def test_a_cancel_of_a_run_that_has_ended_changes_nothing() -> None:
    harness = RunHarness(rules())
    run = harness.submit()
    harness.start(run)
    harness.end(run)
    before = harness.rows[run]

    harness.cancel(run)

    assert harness.rows[run] == before


def test_a_cancelled_run_starts_the_next_waiting_run() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1, violation=action("wait")))
    first, second = harness.submit(), harness.submit()

    harness.cancel(first)

    assert harness.state(second) == "container_creating"


def test_a_timer_that_fires_too_early_is_set_again() -> None:
    harness = RunHarness(
        rules(max_concurrent_runs=1, violation=action("wait", timeout_seconds=60.0))
    )
    harness.submit()
    second = harness.submit()
    harness.pass_time(30)

    harness.decide(RunDue("flow", second, RunWait.OTHERS))

    assert harness.state(second) == "action_running"


def test_repeated_messages_change_nothing() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1))
    run = harness.submit()
    harness.start(run)
    harness.end(run)
    before = (dict(harness.rows), len(harness.commands))

    harness.start(run)
    harness.end(run)

    assert (dict(harness.rows), len(harness.commands)) == before


def test_the_metrics_have_the_duration_of_each_phase() -> None:
    harness = RunHarness(
        rules(max_concurrent_runs=1, violation=action("wait"), retry=RunRetry(max_retries=1))
    )
    first, run = harness.submit(), harness.submit()
    harness.start(first)
    harness.pass_time(10)
    harness.end(first)
    harness.pass_time(3)
    harness.start(run)
    harness.pass_time(20)
    harness.end(run, "failed")
    harness.pass_time(31)
    harness.start(run)
    harness.pass_time(4)

    harness.end(run)

    metrics = harness.rows[run].detail.metrics
    assert metrics is not None
    assert (
        metrics.action_seconds,
        metrics.container_creation_seconds,
        metrics.execution_seconds,
    ) == (10.0, 4.0, 24.0)
    assert (metrics.retry_wait_seconds, metrics.total_seconds) == (30.0, 68.0)
    assert (metrics.constraints_violated, metrics.actions_executed, metrics.retry_attempt) == (
        1,
        1,
        1,
    )
    assert (metrics.final_state, metrics.success, metrics.max_retries) == ("completed", True, 1)
    assert metrics.state_transitions == len(harness.path(run))


def test_a_database_that_counts_heartbeats_anew_shows_none() -> None:
    harness = RunHarness(rules())
    harness.registry.heartbeats = 7
    run = harness.submit()

    assert metrics_of(harness.rows[run], harness.now, 2).heartbeats == 0
    assert metrics_of(harness.rows[run], harness.now, 9).heartbeats == 2


def test_the_metrics_sum_up_the_containers_of_all_attempts_and_have_the_last_exit_code() -> None:
    harness = RunHarness(rules(retry=RunRetry(max_retries=1)))
    run = harness.submit()
    harness.start(run)
    harness.decide(
        ContainerEnded("job001", Container(exit_code=137, pod_start_seconds=2.0, api_calls=5))
    )
    harness.end(run, "failed")
    harness.pass_time(30)
    harness.start(run)
    for one in (
        Container(0, 3.5, 4, task="a[0]"),
        Container(2, 1.0, 1, task="b[0]"),
        Container(0, None, 1, task="c[0]"),
    ):
        harness.decide(ContainerEnded("job001", one))

    harness.end(run)

    metrics = harness.rows[run].detail.metrics
    assert metrics is not None
    assert (metrics.exit_code, metrics.pod_start_seconds, metrics.api_calls) == (2, 3.5, 11)


def test_the_exit_code_of_a_run_is_that_of_the_last_attempt_of_a_task() -> None:
    harness = RunHarness(rules(retry=RunRetry(max_retries=1)))
    run = harness.submit()
    harness.start(run)
    for code in (3, 4, 0):
        harness.decide(ContainerEnded("job001", Container(code, task="a[0]")))

    harness.end(run)

    metrics = harness.rows[run].detail.metrics
    assert metrics is not None
    assert metrics.exit_code == 0


def test_the_rows_contain_all_state_in_memory() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1, violation=action("wait"), pre_run_hook=HOOK))
    for _ in range(3):
        harness.submit()
        harness.answer()

    assert {row.run_id: row for row in harness.memory()} == harness.rows


def test_a_run_that_no_worker_takes_fails_at_its_start_timeout() -> None:
    harness = RunHarness(
        rules(start_timeout_seconds=5.0, failure=action("trigger_job", workflow_id="alarm"))
    )
    run = harness.submit()
    harness.reload()
    harness.pass_time(4)
    before = harness.state(run)

    harness.pass_time(1)

    assert before == "container_creating"
    assert harness.path(run) == ["pending", "container_creating", "failed"]
    assert [one.constraint for one in harness.rows[run].detail.violations] == ["start_timeout"]
    assert harness.cancelled() == ["job001"]
    assert harness.count(TriggerJob) == 1


def test_the_start_timeout_ends_with_the_first_task() -> None:
    harness = RunHarness(rules(start_timeout_seconds=5.0))
    run = harness.submit()
    harness.start(run)

    harness.pass_time(60)

    assert harness.state(run) == "running"


def test_the_allowed_time_counts_while_no_worker_takes_the_run() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1, max_allowed_run_seconds=5.0))
    run = harness.submit()
    harness.reload()

    harness.pass_time(5)
    second = harness.submit()

    assert harness.path(run) == [*TO_JOB, "failed"]
    assert harness.state(second) == "container_creating"
    assert harness.cancelled() == ["job001"]


def test_a_job_that_fails_before_a_task_starts_does_not_show_running() -> None:
    harness = RunHarness(rules())
    run = harness.submit()

    harness.end(run, "failed")

    assert harness.path(run) == ["pending", "container_creating", "failed"]
    assert harness.cancelled() == []


def test_the_execution_time_counts_from_the_start_of_the_task() -> None:
    harness = RunHarness(rules())
    run = harness.submit()
    job_id = harness.rows[run].job_id or ""
    started_at = harness.now + 50_000
    harness.now += 250_000

    harness.decide(JobStarted(job_id, started_at))
    harness.end(run)

    metrics = harness.rows[run].detail.metrics
    assert metrics is not None
    assert (metrics.execution_seconds, metrics.container_creation_seconds) == (0.2, 0.05)


def test_more_constraints_are_checked_than_violated() -> None:
    harness = RunHarness(
        rules(
            max_expected_run_seconds=1.0,
            max_allowed_run_seconds=2.0,
            start_timeout_seconds=9.0,
            post_run_hook=HOOK,
        )
    )
    run = harness.submit()
    harness.start(run)
    harness.pass_time(2)
    harness.answer("failed")

    metrics = harness.rows[run].detail.metrics
    assert metrics is not None
    assert (metrics.constraints_checked, metrics.constraints_violated) == (4, 3)


def test_the_run_of_a_retried_job_keeps_the_time_of_its_slot() -> None:
    harness = RunHarness(rules())

    harness.decide(JobArrived("job009", "flow", 1, T0, T0 - 60_000_000, request_id="r1"))

    assert harness.rows["flow:r1"].scheduled_at == T0 - 60_000_000
