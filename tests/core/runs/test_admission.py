"""Room and hooks before a run: who gets room, in which order, and when a hook is asked."""

from typing import Any

import pytest

from tests.core.runs.run_harness import (
    EVERY_MINUTE,
    HOOK,
    MINUTE,
    T0,
    RunHarness,
    action,
    rules,
)
from tests.core.runs.test_scheduling import run_id, slots_run
from windlass.core.runs.commands import AdmitJob
from windlass.core.runs.messages import JobArrived, RunDue, RunWait
from windlass.core.runs.registry import Run
from windlass.core.runs.rules import Action, OnCheckError

STARTING = "run.starting"


def backfilled(violation: Action | None = None, count: int = 4, **constraints: Any) -> RunHarness:
    """Return a workflow with a hook and room for one run, and a backfill of the last minutes."""
    harness = RunHarness(
        rules(
            schedule=EVERY_MINUTE,
            pre_run_hook=HOOK,
            max_concurrent_runs=1,
            violation=violation,
            **constraints,
        )
    )
    harness.deploy()
    harness.backfill(T0 - (count + 1) * MINUTE, T0 - MINUTE)
    return harness


def retry(harness: RunHarness, job_id: str = "job001", request_id: str = "request") -> str:
    """Ask for a retry of a job, as an operator does; return the id of the run."""
    harness.decide(JobArrived(job_id, "flow", 1, harness.now, None, request_id))
    return f"flow:{request_id}"


@pytest.mark.parametrize("kind", ["skip", "wait", "kill_old", "retry_later", "webhook"])
def test_made_up_slots_ask_their_hooks_one_after_the_other_and_start_in_order(kind: str) -> None:
    harness = backfilled(action(kind, hook=HOOK))
    asked: list[int] = []
    for minute in (-4, -3, -2, -1):
        asked.append(sum(len(harness.calls(run_id(one), STARTING)) for one in (-4, -3, -2, -1)))
        harness.answer_hook(run_id(minute))
        harness.start(run_id(minute))
        harness.end(run_id(minute))

    assert asked == [1, 2, 3, 4]
    assert slots_run(harness) == [-4, -3, -2, -1]


def test_a_queued_run_asks_its_hook_when_it_could_start() -> None:
    harness = backfilled(count=2)
    harness.answer_hook(run_id(-2))
    harness.start(run_id(-2))
    before = len(harness.calls(run_id(-1)))

    harness.end(run_id(-2))

    assert (before, len(harness.calls(run_id(-1), STARTING))) == (0, 1)
    assert harness.state(run_id(-1)) == "action_running"


def test_a_run_whose_hook_is_asked_keeps_its_place() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK, max_concurrent_runs=1, violation=action("wait")))
    first, second = harness.submit(), harness.submit()
    waiting = (harness.state(second), len(harness.calls(second)))

    harness.answer_hook(first)

    assert waiting == ("action_running", 0)
    assert harness.state(first) == "container_creating"


def test_a_slot_that_is_due_while_a_made_up_slot_asks_its_hook_queues_behind_it() -> None:
    harness = backfilled(count=1)
    harness.pass_time(60)

    assert harness.run(run_id(1)).is_queued_for_room


@pytest.mark.parametrize("ending", ["vetoed", "unreachable", "cancelled"])
def test_a_run_that_loses_its_place_gives_it_to_the_next(ending: str) -> None:
    harness = backfilled(count=2, on_check_error=OnCheckError.SKIP)
    if ending == "vetoed":
        harness.answer_hook(run_id(-2), refusal="not today")
    elif ending == "unreachable":
        harness.answer_hook(run_id(-2), "failed")
    else:
        harness.cancel(run_id(-2))

    assert len(harness.calls(run_id(-1), STARTING)) == 1


def test_a_waiting_run_that_asks_its_hook_again_takes_one_place() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK, max_concurrent_runs=2, violation=action("wait")))
    first = harness.submit()
    harness.answer_hook(first, refusal="not yet")
    harness.pass_time(1)

    second = harness.submit()

    assert harness.run(first).is_waiting
    assert len(harness.calls(first, STARTING)) == 2
    assert len(harness.calls(second, STARTING)) == 1


def test_a_vetoed_run_that_waits_is_not_asked_again_before_its_delay() -> None:
    harness = backfilled(action("wait"), count=2)
    harness.answer_hook(run_id(-2), refusal="not yet")
    at_once = len(harness.calls(run_id(-2), STARTING))

    harness.pass_time(1)

    assert (at_once, len(harness.calls(run_id(-2), STARTING))) == (1, 2)
    assert len(harness.calls(run_id(-1), STARTING)) == 0


def test_a_run_with_retry_later_gives_its_place_to_the_next_after_a_veto() -> None:
    harness = RunHarness(
        rules(pre_run_hook=HOOK, max_concurrent_runs=1, violation=action("retry_later"))
    )
    first = harness.submit()
    harness.answer_hook(first, refusal="not yet")

    second = harness.submit()
    harness.answer_hook(second)

    assert (harness.state(first), harness.state(second)) == (
        "action_running",
        "container_creating",
    )


def test_a_made_up_slot_that_checks_later_queues_again_when_there_is_no_room() -> None:
    harness = backfilled(action("retry_later", delay_seconds=3.0), count=2)
    harness.answer_hook(run_id(-2), refusal="not yet")
    harness.answer_hook(run_id(-1))
    harness.start(run_id(-1))
    harness.pass_time(3)
    queued = harness.run(run_id(-2)).is_queued_for_room

    harness.end(run_id(-1))

    assert queued
    assert len(harness.calls(run_id(-2), STARTING)) == 2
    assert len(harness.events_of(run_id(-2), "action_completed")) == 1


def test_a_made_up_slot_starts_its_action_when_there_is_room_and_its_predecessor_failed() -> None:
    harness = RunHarness(
        rules(
            schedule=EVERY_MINUTE,
            max_concurrent_runs=2,
            require_previous_success=True,
            violation=action("wait"),
        )
    )
    harness.deploy()
    harness.backfill(T0 - 5 * MINUTE, T0 - MINUTE)
    for minute in (-4, -3):
        harness.start(run_id(minute))
        harness.end(run_id(minute), "failed")

    assert harness.events_of(run_id(-2), "action_started") == [{"action": "wait"}]
    assert harness.events_of(run_id(-1), "action_started") == [{"action": "wait"}]


def test_a_vetoed_run_that_lacks_room_after_its_delay_asks_when_there_is_room() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK, max_concurrent_runs=1, violation=action("wait")))
    vetoed = harness.submit()
    harness.answer_hook(vetoed, refusal="not yet")
    again = retry(harness, "job009")
    harness.answer_hook(again)
    harness.start(again)
    harness.pass_time(2)
    before = len(harness.calls(vetoed, STARTING))

    harness.end(again)

    assert (before, len(harness.calls(vetoed, STARTING))) == (1, 2)


def test_a_run_that_stops_others_for_room_stops_those_that_ask_their_hook_before_it() -> None:
    harness = RunHarness(
        rules(pre_run_hook=HOOK, max_concurrent_runs=1, violation=action("kill_old"))
    )
    first = harness.submit()
    harness.pass_time(1)
    second = harness.submit()

    harness.answer_hook(second)

    assert (harness.state(first), harness.state(second)) == ("cancelled", "container_creating")


def test_a_run_that_stops_others_for_room_leaves_a_newer_one_that_asks_its_hook() -> None:
    harness = RunHarness(
        rules(pre_run_hook=HOOK, max_concurrent_runs=1, violation=action("kill_old"))
    )
    first = harness.submit()
    harness.pass_time(1)
    second = harness.submit()

    harness.answer_hook(first)
    between = (harness.state(first), harness.state(second))
    harness.answer_hook(second)

    assert between == ("container_creating", "condition_running")
    assert (harness.state(first), harness.state(second)) == ("cancelled", "container_creating")


def test_kill_old_stops_no_run_for_one_that_does_not_start() -> None:
    harness = RunHarness(
        rules(schedule=EVERY_MINUTE, max_concurrent_runs=1, violation=action("kill_old"))
    )
    harness.deploy()
    harness.backfill(T0 - 3 * MINUTE, T0 - MINUTE)

    submitted = harness.submit()

    assert harness.state(run_id(-2)) == "cancelled"
    assert harness.state(submitted) == "container_creating"
    assert harness.run(run_id(-1)).is_queued_for_room


def test_the_answer_of_a_hook_is_not_kept_when_the_run_cannot_start() -> None:
    harness = RunHarness(
        rules(pre_run_hook=HOOK, require_previous_success=True, violation=action("wait"))
    )
    first, second = harness.submit(), harness.submit()
    harness.answer_hook(first)
    harness.start(first)
    harness.end(first, "failed")
    harness.answer_hook(second)
    again = retry(harness)
    harness.answer_hook(again)
    harness.start(again)
    harness.end(again)

    harness.pass_time(60)

    assert harness.count(AdmitJob) == 1
    assert len(harness.calls(second, STARTING)) == 2


def test_further_checks_of_a_run_that_waits_for_room_are_not_counted() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1, violation=action("wait")))
    harness.submit()
    second, third = harness.submit(), harness.submit()

    harness.cancel(third)

    detail = harness.run(second).detail
    assert (detail.constraints_checked, detail.constraints_violated) == (1, 1)


def test_further_checks_of_a_run_that_waits_for_a_success_are_not_counted() -> None:
    harness = RunHarness(rules(require_previous_success=True, violation=action("wait")))
    failed = harness.submit()
    harness.start(failed)
    harness.end(failed, "failed")
    waiting = harness.submit()

    harness.pass_time(30)

    detail = harness.run(waiting).detail
    assert detail.checks > 1
    assert (detail.constraints_checked, detail.constraints_violated) == (1, 1)


def test_a_further_check_that_comes_too_early_waits_for_its_instant() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK, violation=action("wait")))
    run = harness.submit()
    harness.answer_hook(run, refusal="not yet")
    harness.timers.clear()

    harness.decide(RunDue("flow", run, RunWait.RECHECK))
    early = len(harness.calls(run))
    harness.pass_time(1)

    assert (early, len(harness.calls(run))) == (1, 2)


# A wait for the success of another run


def test_a_run_that_is_cancelled_before_its_start_says_nothing_about_the_next_one() -> None:
    harness = RunHarness(rules(require_previous_success=True))
    harness.cancel(harness.submit())

    assert harness.state(harness.submit()) == "container_creating"


def test_a_retry_does_not_queue_behind_a_run_that_waits_for_its_success() -> None:
    harness = RunHarness(
        rules(require_previous_success=True, max_concurrent_runs=1, violation=action("wait"))
    )
    first = harness.submit()
    harness.start(first)
    harness.end(first, "failed")
    second = harness.submit()

    again = retry(harness)
    started = harness.state(again)
    harness.start(again)
    harness.end(again)

    assert started == "container_creating"
    assert harness.state(second) == "container_creating"


def test_a_retry_does_not_queue_behind_a_run_that_first_waited_for_room() -> None:
    harness = RunHarness(
        rules(require_previous_success=True, max_concurrent_runs=1, violation=action("wait"))
    )
    first, second = harness.submit(), harness.submit()
    harness.start(first)
    harness.end(first, "failed")
    waiting = harness.state(second)

    again = retry(harness)

    assert (waiting, harness.state(again)) == ("action_running", "container_creating")


def test_a_retry_that_lacks_room_starts_before_a_run_that_waits_for_its_success() -> None:
    harness = RunHarness(
        rules(require_previous_success=True, max_concurrent_runs=1, violation=action("wait"))
    )
    first = harness.submit()
    harness.start(first)
    harness.end(first, "failed")
    one_retry = retry(harness)
    harness.start(one_retry)
    second = harness.submit()
    other_retry = retry(harness, "job009", "other")
    waiting = [harness.state(run) for run in (second, other_retry)]

    harness.end(one_retry, "failed")

    assert waiting == ["action_running", "action_running"]
    assert [harness.state(run) for run in (second, other_retry)] == [
        "action_running",
        "container_creating",
    ]


def test_a_retry_does_not_queue_behind_a_run_that_its_hook_forbids() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK, max_concurrent_runs=1, violation=action("wait")))
    vetoed = harness.submit()
    harness.answer_hook(vetoed, refusal="repair the last run first")

    again = retry(harness, "job009")

    assert len(harness.calls(again, STARTING)) == 1


def test_a_retry_that_its_hook_forbids_leaves_its_job_alone() -> None:
    harness = RunHarness(rules(pre_run_hook=HOOK))
    first = harness.submit()
    harness.answer_hook(first)
    harness.start(first)
    harness.end(first, "failed")
    again = retry(harness)

    harness.answer_hook(again, refusal="not today")

    assert harness.rows[again].detail.is_skipped
    assert harness.cancelled() == []


def test_a_retry_queues_behind_a_run_that_waits_for_room() -> None:
    harness = RunHarness(rules(max_concurrent_runs=1, violation=action("wait")))
    first, second = harness.submit(), harness.submit()
    again = retry(harness, "job009")
    harness.start(first)

    harness.end(first)

    assert [harness.state(run) for run in (second, again)] == [
        "container_creating",
        "action_running",
    ]


def test_runs_that_wait_for_a_success_are_not_compared_with_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = rules(require_previous_success=True, max_concurrent_runs=1, violation=action("wait"))
    harness = RunHarness(given)
    failed = harness.submit()
    harness.start(failed)
    harness.end(failed, "failed")
    waiting = [harness.submit() for _ in range(100)]
    compared: list[Run] = []
    position = Run.queue_position.fget
    assert position is not None

    def counted(run: Run) -> tuple[int, int, str]:
        compared.append(run)
        return position(run)

    monkeypatch.setattr(Run, "queue_position", property(counted))

    harness.cancel(waiting[0])
    harness.pass_time(2)

    assert len(compared) <= 2 * len(waiting)
    assert all(harness.state(run) == "action_running" for run in waiting[1:])


def test_a_run_that_gives_up_does_not_keep_its_place_until_its_last_calls_end() -> None:
    given = rules(
        pre_run_hook=HOOK,
        max_concurrent_runs=2,
        violation=action("wait", timeout_seconds=30.0),
        failure=action("webhook", hook=HOOK),
    )
    harness = RunHarness(given)
    first, second = harness.submit(), harness.submit()
    harness.answer_hook(first)
    harness.answer_hook(second, refusal="not yet")
    harness.pass_time(0.5)
    third = harness.submit()
    while harness.run(second).is_waiting:
        harness.pass_time(1)
        if harness.run(second).is_asking:
            harness.answer_hook(second, refusal="not yet")

    assert harness.run(second).detail.is_closing
    assert len(harness.calls(third, STARTING)) == 1


def test_a_failure_skips_a_thousand_queued_slots_at_once() -> None:
    harness = RunHarness(
        rules(schedule=EVERY_MINUTE, max_concurrent_runs=1, require_previous_success=True)
    )
    harness.deploy()
    harness.backfill(T0 - 1_001 * MINUTE, T0 - MINUTE)
    harness.start(run_id(-1_000))

    harness.end(run_id(-1_000), "failed")

    assert sum(row.detail.is_skipped for row in harness.rows.values()) == 999


@pytest.mark.parametrize(
    ("violation", "seconds", "what"),
    [
        (action("wait", timeout_seconds=5.0), 6, "timed out after waiting 5 s"),
        (action("retry_later", delay_seconds=1.0, times_max=1), 2, "after 1 further checks"),
    ],
)
def test_a_run_that_gives_up_says_which_constraint_did_not_hold(
    violation: Action, seconds: int, what: str
) -> None:
    harness = RunHarness(rules(max_concurrent_runs=1, violation=violation))
    harness.start(harness.submit())
    run = harness.submit()

    harness.pass_time(seconds)

    detail = harness.rows[run].detail
    assert what in (detail.reason or "")
    assert (detail.reason or "").endswith(": 1 of at most 1 runs are active")
    assert detail.actions[0].error == detail.reason
