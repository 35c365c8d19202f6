"""Log lines about runs: the state at the event, the run's own job, instants as text, and what happened in words."""

import logging
from typing import Any

import msgspec
import pytest
from msgspec import structs

from tests.core.runs.run_harness import EVERY_MINUTE, MINUTE, T0, action, rules
from windlass.core.changes import Changes
from windlass.core.runs.commands import MakeCall
from windlass.core.runs.decide import ScheduleContext, decide
from windlass.core.runs.messages import (
    JobArrived,
    JobFinished,
    JobStarted,
    RunDue,
    RunMessage,
    RunSignal,
    RunWait,
    ScheduleChanged,
)
from windlass.core.runs.registry import RunRegistry
from windlass.core.runs.rows import ScheduleRow
from windlass.core.runs.rules import Hook, RunRetry, RunRules
from windlass.engine.run_log import log_heartbeats, log_runs

HOOK = Hook(url="https://user:pass@example.test/hook?token=s3cret#part")


class LoggedRuns:
    """Decisions about runs, each logged as one commit."""

    def __init__(self, caplog: pytest.LogCaptureFixture, flow_rules: RunRules) -> None:
        caplog.set_level("INFO", logger="windlass.runs")
        self.registry = RunRegistry(0)
        self.registry.rules["flow", 1] = flow_rules
        self.now = T0
        self.calls: list[MakeCall] = []
        self._caplog = caplog

    def decide(self, *messages: RunMessage | RunSignal, **context: Any) -> None:
        """Decide on messages in one batch and log what its commit stores."""
        changes = Changes()
        for message in messages:
            made = decide(self.registry, message, self.now, changes, **context)
            self.calls += [command for command in made if isinstance(command, MakeCall)]
        assert changes.runs is not None
        log_runs(changes.runs)

    @property
    def records(self) -> list[logging.LogRecord]:
        return self._caplog.records

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The fields of all lines."""
        return [vars(record)["fields"] for record in self.records]

    def of(self, event: str) -> dict[str, Any]:
        """Return the fields of the last line about an event."""
        return next(line for line in reversed(self.lines) if line["event"] == event)

    def text_of(self, event: str) -> str:
        """Return the text of the last line about an event."""
        found = [one for one in self.records if vars(one)["fields"]["event"] == event]
        return found[-1].getMessage()


def test_a_line_has_the_state_at_its_event(caplog: pytest.LogCaptureFixture) -> None:
    logged = LoggedRuns(caplog, rules(max_concurrent_runs=1, pre_run_hook=HOOK))

    logged.decide(JobArrived("job001", "flow", 1, T0, None))

    assert [(line["event"], line["state"]) for line in logged.lines] == [
        ("run_created", "pre_run"),
        ("run_state_changed", "pending"),
        ("run_state_changed", "condition_pending"),
        ("run_state_changed", "condition_running"),
        ("call_started", "condition_running"),
    ]


def test_a_line_has_the_state_before_a_later_change_of_the_same_commit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logged = LoggedRuns(caplog, rules(max_allowed_run_seconds=5.0))
    logged.decide(JobArrived("job001", "flow", 1, T0, None))
    logged.decide(JobStarted("job001", T0))
    logged.now += 5_000_000

    logged.decide(RunDue("flow", "flow:job001", RunWait.LIMIT))

    assert logged.of("constraint_violated")["state"] == "running"
    assert logged.lines[-1]["state"] == "failed"


def test_a_line_has_the_attempt_at_its_event(caplog: pytest.LogCaptureFixture) -> None:
    given = rules(max_expected_run_seconds=5.0, retry=RunRetry(max_retries=1))
    logged = LoggedRuns(caplog, given)
    logged.decide(JobArrived("job001", "flow", 1, T0, None))
    logged.decide(JobStarted("job001", T0))
    logged.now += 5_000_000

    logged.decide(
        RunDue("flow", "flow:job001", RunWait.SLOW), JobFinished("job001", "failed", "it broke")
    )

    attempts = [(line["event"], line["state"], line["attempt"]) for line in logged.lines[-3:]]
    assert attempts == [
        ("constraint_violated", "running", 0),
        ("run_state_changed", "terminating", 0),
        ("run_state_changed", "retrying", 1),
    ]


def test_the_job_of_a_line_is_that_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    logged = LoggedRuns(caplog, rules(success=action("webhook", hook=HOOK)))
    logged.decide(JobArrived("job001", "flow", 1, T0, None))
    logged.decide(JobStarted("job001", T0))
    logged.decide(JobFinished("job001", "completed"))
    [call] = logged.calls
    logged.decide(JobFinished(call.job_id, "completed"))

    for event in ("call_started", "action_completed"):
        line = logged.of(event)
        assert (line["job_id"], line["started_job_id"]) == ("job001", call.job_id)


def test_instants_are_text_in_every_line(caplog: pytest.LogCaptureFixture) -> None:
    logged = LoggedRuns(caplog, rules(schedule=EVERY_MINUTE))
    row = ScheduleRow("flow", 1, is_paused=False, slot_at=T0, created_at=T0, changed_at=T0)
    context = ScheduleContext(row, logged.registry.rules["flow", 1])
    logged.decide(ScheduleChanged("flow"), context=context)
    planned = logged.registry.workflow("flow").planned
    assert planned is not None
    logged.now += 10 * MINUTE

    logged.decide(RunDue("flow", planned.id, RunWait.START))
    paused = structs.replace(row, is_paused=True)
    logged.decide(ScheduleChanged("flow"), context=structs.replace(context, schedule=paused))

    slot = "2023-11-14T22:15:00Z"
    assert logged.of("run_created")["scheduled_at"] == "2023-11-14T22:24:00Z"
    missed = logged.of("slots_missed")
    assert (missed["first"], missed["slots"][0], missed["at"]) == (
        slot,
        slot,
        "2023-11-14T22:24:00Z",
    )
    assert logged.of("schedule_stopped")["planned"] == "2023-11-14T22:25:00Z"


def test_no_line_contains_the_query_of_a_hook(caplog: pytest.LogCaptureFixture) -> None:
    logged = LoggedRuns(caplog, rules(pre_run_hook=HOOK))

    logged.decide(JobArrived("job001", "flow", 1, T0, None))

    assert logged.of("call_started")["url"] == "https://example.test/hook"
    texts = [one.getMessage() for one in logged.records]
    assert "s3cret" not in msgspec.json.encode([*logged.lines, *texts]).decode()


def test_the_text_of_a_line_says_which_and_why(caplog: pytest.LogCaptureFixture) -> None:
    failing = action("webhook", hook=HOOK)
    logged = LoggedRuns(caplog, rules(max_concurrent_runs=1, violation=failing))
    logged.decide(JobArrived("job001", "flow", 1, T0, None))
    logged.decide(JobArrived("job002", "flow", 1, T0, None))
    logged.decide(JobFinished(logged.calls[0].job_id, "failed", "no answer"))

    run = "run flow:job002"
    assert logged.text_of("constraint_violated") == (
        f"{run}: violated a constraint: max_concurrent_runs: 1 of at most 1 runs are active"
    )
    assert logged.text_of("action_failed") == (
        f"{run}: failed an action: on_constraint_violation: webhook: no answer"
    )
    assert logged.text_of("run_state_changed") == (
        f"{run}: changed state: completed: skipped: 1 of at most 1 runs are active"
    )


def test_heartbeats_of_active_runs_are_logged_for_debugging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = LoggedRuns(caplog, rules())
    runs.decide(JobArrived("job001", "flow", 1, T0, None))
    caplog.clear()

    log_heartbeats(runs.registry.runs())
    assert runs.records == []
    caplog.set_level("DEBUG", logger="windlass.runs")
    log_heartbeats(runs.registry.runs())

    assert [record.levelname for record in runs.records] == ["DEBUG"]
    [line] = runs.lines
    assert (line["event"], line["state"], line["attempt"]) == ("heartbeat", "container_creating", 0)
    assert line["run_id"].startswith("flow:")
