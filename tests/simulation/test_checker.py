"""The checker finds a violation of each invariant in changed histories."""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from simulation.checker import check
from simulation.checks.memory import check_memory
from simulation.faults import NoFaults
from simulation.history import AcknowledgedSubmit, History, JobHistory
from simulation.processes import SystemConfig
from simulation.simulator import Simulation
from simulation.workflow_drafts import FLAKY, OK, HandlerScript, NodeDraft, compiled
from windlass.core.events import Event
from windlass.core.plan import RetryOnError
from windlass.core.submit_request import SubmitRequest
from windlass.engine.job_table import rebuild
from windlass.ports.store.jobs import JobSnapshot, Request

Tamper = Callable[[JobHistory], JobHistory]


@pytest.fixture(scope="module")
def history() -> History:
    """A diamond whose left branch needed two attempts and whose extra node was skipped."""
    plan = compiled(
        "diamond",
        [
            NodeDraft("top", []),
            NodeDraft(
                "left",
                ["top"],
                script=HandlerScript((FLAKY, OK)),
                on_error=RetryOnError(attempts_max=2),
                reads=["top"],
            ),
            NodeDraft("right", ["top"], reads=["top"]),
            NodeDraft("extra", ["top"], when="{{ not top.output.flag }}"),
            NodeDraft("join", ["left", "right", "extra"], reads=["left", "right"]),
        ],
    )
    simulation = Simulation(SystemConfig(), NoFaults(), Random(1))

    async def main() -> None:
        await simulation.deploy(plan)
        await simulation.submit(SubmitRequest("diamond", {}, 1, "key"))
        await simulation.settle()

    report = simulation.run(main)
    assert report.violations == []
    return simulation.history()


def violated(history: History, tamper: Tamper) -> set[str]:
    """Return the invariants that a change of the only job violates."""
    return {found.invariant for found in check(replace(history, jobs=[tamper(history.jobs[0])]))}


def with_events(change: Callable[[list[Event]], list[Event]]) -> Tamper:
    return lambda job: replace(job, events=change(list(job.events)))


def with_row(node_id: str, **fields: Any) -> Tamper:
    return lambda job: replace(
        job, nodes=[replace(n, **fields) if n.node_id == node_id else n for n in job.nodes]
    )


def with_state(**fields: Any) -> Tamper:
    return lambda job: replace(job, job=replace(job.job, state=replace(job.job.state, **fields)))


def with_executions(node_id: str, **fields: Any) -> Tamper:
    def tamper(job: JobHistory) -> JobHistory:
        return replace(
            job,
            executions=[
                replace(e, **fields) if e.node_id == node_id else e for e in job.executions
            ],
        )

    return tamper


def without(type: str, node_id: str | None) -> Tamper:
    def change(events: list[Event]) -> list[Event]:
        kept = [event for event in events if (event.type, event.node_id) != (type, node_id)]
        return [replace(event, seq=seq) for seq, event in enumerate(kept, 1)]

    return with_events(change)


def swapped(first: tuple[str, str], second: tuple[str, str]) -> Tamper:
    def change(events: list[Event]) -> list[Event]:
        places = {(event.type, event.node_id): at for at, event in enumerate(events)}
        one, two = places[first], places[second]
        events[one], events[two] = (
            replace(events[two], seq=one + 1),
            replace(events[one], seq=two + 1),
        )
        return events

    return with_events(change)


def appended(type: str, node_id: str | None, data: object) -> Tamper:
    def change(events: list[Event]) -> list[Event]:
        last = events[-1]
        return [
            *events,
            Event(last.seq + 1, type, node_id, None, last.at, Raw(msgspec.json.encode(data))),
        ]

    return with_events(change)


def test_unchanged_history_has_no_violations(history: History) -> None:
    assert check(history) == []


@pytest.mark.parametrize(("invariant", "tamper"), [
    ("I1", without("node_started", "join")),
    ("I1", appended("node_completed", "join", {"attempt_number": 1})),
    ("I2", with_row("join", status="failed")),
    ("I2", with_row("left", attempt=1)),
    ("I2", with_row("right", started_at=1)),
    ("I2", with_row("left", losses=1)),
    ("I2", with_state(status="failed")),
    ("I2", with_state(round=1)),
    ("I3", with_events(lambda events: [
        replace(e, data=Raw(b'{"attempt_number":7}')) if e.type == "node_dispatched" else e for e in events
    ])),
    ("I6", with_row("join", output=Raw(b'"another"'))),
    ("I6", with_executions("left", outcome="succeeded")),
    ("I7", with_executions("join", outcome="stopped")),
    ("I7", with_executions("join", attempt=2)),
    ("I7", with_executions("top", dispatch_was_durable=False)),
    ("I8", swapped(("node_ready", "join"), ("node_completed", "right"))),
    ("I8", with_executions("join", reads={"right": Raw(b'"another"')})),
    ("I11", with_events(lambda events: [
        replace(e, data=Raw(b'{"reason":"every dependency was skipped"}')) if e.type == "node_skipped" else e
        for e in events
    ])),
    ("I11", with_row("top", output=Raw(b'{"flag":false}'))),
    ("I12", appended("node_ready", "join", {})),
    ("I13", without("node_skipped", "extra")),
    ("I14", without("job_completed", None)),
    ("I14", lambda job: replace(job, requests=[(Request("r", job.job.spec.job_id, "cancel", 0), False)])),
    ("I23", with_events(lambda events: [
        replace(e, data=Raw(b'{"attempt_number":1,"delay_seconds":99.0,"error":{"type":"E","message":""}}'))
        if e.type == "node_retrying" else e for e in events
    ])),
    ("I22", with_events(lambda events: [
        replace(e, at=e.at - 900_000) if e.type == "node_ready" and e.parent_seq is not None else e for e in events
    ])),
    ("I26", with_events(lambda events: events[:-2] + events[-1:])),
    ("I26", with_events(lambda events: [*events, events[-1]])),
    ("I27", with_row("join", output=None)),
])  # fmt: skip
def test_changed_history_has_violations(history: History, invariant: str, tamper: Tamper) -> None:
    assert invariant in violated(history, tamper)


def test_running_job_after_an_applied_cancel_is_a_violation(history: History) -> None:
    job = history.jobs[0]
    running = without("job_completed", None)(
        replace(job, requests=[(Request("r", job.job.spec.job_id, "cancel", 0), True)])
    )

    assert "I31" in {found.invariant for found in check(replace(history, jobs=[running]))}


def test_changing_idempotency_keys_are_a_violation(history: History) -> None:
    def tamper(job: JobHistory) -> JobHistory:
        runs = [
            replace(e, idempotency_key=f"{e.idempotency_key}{e.attempt}") for e in job.executions
        ]
        return replace(job, executions=runs)

    assert "I7" in violated(history, tamper)


def test_missing_acknowledged_job_is_a_violation(history: History) -> None:
    acknowledged = [*history.acknowledged, AcknowledgedSubmit("gone", "diamond")]

    assert [found.invariant for found in check(replace(history, acknowledged=acknowledged))] == [
        "I24"
    ]


def test_two_jobs_with_one_key_are_a_violation(history: History) -> None:
    job = history.jobs[0].job
    twin = replace(history.jobs[0], job=replace(job, spec=replace(job.spec, job_id="twin")))

    assert "I25" in {
        found.invariant for found in check(replace(history, jobs=[*history.jobs, twin]))
    }


def test_job_acknowledged_for_another_body_is_a_violation(history: History) -> None:
    acknowledged = [replace(history.acknowledged[0], request_digest="another")]

    assert [found.invariant for found in check(replace(history, acknowledged=acknowledged))] == [
        "I25"
    ]


def test_memory_that_differs_from_the_rows_is_a_violation(history: History) -> None:
    job = history.jobs[0]
    memory = rebuild(job.plan, JobSnapshot(job.job, job.nodes))
    rows = JobSnapshot(job.job, job.nodes)
    assert check_memory(memory, rows) == []

    memory.seq += 1

    assert [found.invariant for found in check_memory(memory, rows)] == ["I2"]
