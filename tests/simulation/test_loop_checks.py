"""The checker finds violations in changed histories of loops, pagination and sinks."""

from array import array
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from simulation.checker import check
from simulation.checks.memory import check_memory, check_window
from simulation.faults import NoFaults
from simulation.history import Execution, History, JobHistory, LoopRecords, SinkRow
from simulation.processes import SystemConfig
from simulation.simulator import Simulation
from simulation.workflow_drafts import (
    ERROR,
    FATAL,
    FLAKY,
    OK,
    HandlerScript,
    NodeDraft,
    compiled,
    loop_over,
    paging,
)
from windlass.core.events import Event
from windlass.core.loop_state import LoopRows
from windlass.core.plan import Collect, RetryOnError
from windlass.core.submit_request import SubmitRequest
from windlass.core.templates.template import compile_template
from windlass.engine.job_table import rebuild
from windlass.ports.store.jobs import JobSnapshot

Tamper = Callable[[JobHistory], JobHistory]
LOOP, PAGINATED = "each", "paged"


@pytest.fixture(scope="module")
def history() -> History:
    """A tolerant sequential loop with pagination, a loop with chunks, and a paginated node, with sinks."""
    quick = RetryOnError(attempts_max=2, initial_delay_seconds=0.5, jitter=0.0)
    each = NodeDraft(LOOP, [], on_error=quick, sinks=True, when="{{ index != 3 }}")
    each.script = HandlerScript(
        work_seconds=0.1, pages=2, iteration_actions=((OK,), (FLAKY, OK), (FATAL,))
    )
    each.loop = loop_over(
        "{{ input.items }}", mode="sequential", tolerant=True, timeout_seconds=60.0
    )
    each.calls = paging(Collect.APPEND, calls_max=3)
    chunks = NodeDraft("chunks", [LOOP], reads=[LOOP], script=HandlerScript(work_seconds=0.1))
    chunks.loop = loop_over([1, 2, 3], window=2, chunk_size=2)
    paged = NodeDraft(PAGINATED, ["chunks"], script=HandlerScript(pages=3), sinks=True)
    paged.calls = paging(Collect.COLLECT, delay_seconds=0.2)
    doomed = NodeDraft("doomed", [PAGINATED], script=HandlerScript((ERROR, OK)))
    plan = compiled("loops", [each, chunks, paged, doomed])
    simulation = Simulation(SystemConfig(), NoFaults(), Random(1))
    simulation.undisturbed = True

    async def main() -> None:
        await simulation.deploy(plan)
        await simulation.submit(SubmitRequest("loops", {"items": [5, 6, 7, 8], "n": 1}, 1))
        await simulation.settle()

    report = simulation.run(main)
    assert report.violations == []
    return simulation.history()


def violated(history: History, tamper: Tamper) -> set[str]:
    return {found.invariant for found in check(replace(history, jobs=[tamper(history.jobs[0])]))}


def with_events(type: str, index: int | None, change: Callable[[Event], Event | None]) -> Tamper:
    """Change or remove the first event with this type and index, and number the others again."""

    def tamper(job: JobHistory) -> JobHistory:
        at = next(n for n, e in enumerate(job.events) if (e.type, e.index) == (type, index))
        changed = change(job.events[at])
        events = [*job.events[:at], *([] if changed is None else [changed]), *job.events[at + 1 :]]
        return replace(job, events=[replace(event, seq=seq) for seq, event in enumerate(events, 1)])

    return tamper


def moved(type: str, index: int, before: str, other: int) -> Tamper:
    """Move an event before another one."""

    def tamper(job: JobHistory) -> JobHistory:
        event = next(e for e in job.events if (e.type, e.index) == (type, index))
        rest = [e for e in job.events if e is not event]
        at = next(n for n, e in enumerate(rest) if (e.type, e.index) == (before, other))
        events = [*rest[:at], event, *rest[at:]]
        return replace(job, events=[replace(event, seq=seq) for seq, event in enumerate(events, 1)])

    return tamper


def with_data(type: str, index: int | None, **fields: Any) -> Tamper:
    def change(event: Event) -> Event:
        data = {**msgspec.json.decode(event.data or b"{}"), **fields}
        return replace(event, data=Raw(msgspec.json.encode(data)))

    return with_events(type, index, change)


def with_row(index: int, **fields: Any) -> Tamper:
    def tamper(job: JobHistory) -> JobHistory:
        rows = [
            replace(r, **fields) if (r.number, r.index) == (0, index) else r
            for r in job.loops.iterations
        ]
        return replace(job, loops=replace(job.loops, iterations=rows))

    return tamper


def with_loops(change: Callable[[LoopRecords], LoopRecords]) -> Tamper:
    return lambda job: replace(job, loops=change(job.loops))


def with_node(node_id: str, **fields: Any) -> Tamper:
    return lambda job: replace(
        job, nodes=[replace(n, **fields) if n.node_id == node_id else n for n in job.nodes]
    )


def with_runs(node_id: str, change: Callable[[Execution], Execution]) -> Tamper:
    return lambda job: replace(
        job, executions=[change(e) if e.node_id == node_id else e for e in job.executions]
    )


def with_condition(text: str) -> Tamper:
    def tamper(job: JobHistory) -> JobHistory:
        first, *others = job.plan.nodes
        return replace(
            job,
            plan=replace(job.plan, nodes=[replace(first, when=compile_template(text)), *others]),
        )

    return tamper


def without_page(records: LoopRecords) -> LoopRecords:
    return replace(records, pages={key: page for key, page in records.pages.items() if key[3] != 2})


def with_sink_rows(change: Callable[[list[SinkRow]], list[SinkRow]]) -> Tamper:
    return lambda job: replace(job, sink_rows=change(list(job.sink_rows or ())))


def test_unchanged_history_has_no_violations(history: History) -> None:
    assert check(history) == []


@pytest.mark.parametrize(("invariant", "tamper"), [
    ("I1", with_events("iteration_started", 1, lambda event: None)),
    ("I1", with_events("retry_sequence_completed", 0, lambda event: None)),
    ("I2", with_row(0, status="failed")),
    ("I2", with_row(1, attempt=9)),
    ("I2", with_row(2, error=None)),
    ("I2", with_loops(lambda loops: replace(loops, iterations=loops.iterations[1:]))),
    ("I2", with_node(PAGINATED, progress=Raw(b'{"generation":1}'))),
    ("I3", with_data("iteration_dispatched", 0, attempt_number=5)),
    ("I3", with_data("retry_sequence_completed", 0, total_attempts=7)),
    ("I3", with_data("retry_sequence_completed", 0, is_exhausted=True)),
    ("I6", with_loops(without_page)),
    ("I6", with_row(0, output=Raw(b'["another"]'))),
    ("I6", with_node(PAGINATED, output=Raw(b"[]"))),
    ("I7", with_runs(LOOP, lambda run: replace(run, idempotency_key="one for all"))),
    ("I7", with_runs(LOOP, lambda run: replace(run, idempotency_key=f"{run.idempotency_key}{run.attempt}"))),
    ("I7", with_runs(LOOP, lambda run: replace(run, index=9))),
    ("I7", with_sink_rows(lambda sink_rows: sink_rows[1:])),
    ("I7", with_sink_rows(lambda sink_rows: [*sink_rows, sink_rows[0]])),
    ("I7", with_sink_rows(lambda sink_rows: [replace(sink_rows[0], output=Raw(b"1")), *sink_rows[1:]])),
    ("I8", with_runs(PAGINATED, lambda run: replace(run, params=Raw(b'{"query":{"page":1}}')))),
    ("I10", with_data("iterator_started", None, total_iterations=3)),
    ("I10", with_data("iterator_started", None, concurrency=9)),
    ("I10", with_data("iterator_completed", None, successful=4)),
    ("I10", with_events("iterator_completed", None, lambda event: None)),
    ("I10", with_node(LOOP, output=Raw(b"[null,null,null,null]"))),
    ("I10", with_node(LOOP, meta=None)),
    ("I10", with_node("chunks", output=Raw(b"[]"))),
    ("I10", with_loops(lambda loops: replace(loops, collections={}))),
    ("I10", with_loops(lambda loops: replace(loops, collections={(0, 0): [b"[5,6,7,9]"]}))),
    ("I10", with_runs("chunks", lambda run: replace(run, element=Raw(b"[1]")))),
    ("I10", moved("iteration_dispatched", 1, "iteration_started", 0)),
    ("I11", with_condition("{{ index == 3 }}")),
    ("I11", with_runs(PAGINATED, lambda run: replace(run, output=Raw(b'{"more":false,"next":2,"run":1}')))),
    ("I17", moved("iteration_dispatched", 1, "iteration_started", 0)),
    ("I22", with_events("iteration_retrying", 1, lambda event: replace(event, at=event.at + 400_000))),
    ("I23", with_data("iteration_retrying", 1, delay_seconds=7.0)),
    ("I27", with_row(0, output=None)),
])  # fmt: skip
def test_changed_history_has_violations(history: History, invariant: str, tamper: Tamper) -> None:
    assert invariant in violated(history, tamper)


def test_handlers_beyond_the_window_are_a_violation(history: History) -> None:
    def longer(run: Execution) -> Execution:
        return replace(run, finished_at=(run.finished_at or 0) + 60_000_000)

    assert "I17" in violated(history, with_runs(LOOP, longer))


def test_loop_after_its_timeout_is_a_violation(history: History) -> None:
    late = with_events(
        "node_completed", None, lambda event: replace(event, at=event.at + 90_000_000)
    )

    assert "I23" in violated(history, late)


def rows_of(history: History) -> JobSnapshot:
    """Return the rows of the loop as if it had not completed, so that memory is compared with them."""
    job = history.jobs[0]
    progress = Raw(b'{"total":4,"begun":4}')
    nodes = [
        replace(n, status="running", progress=progress) if n.node_id == LOOP else n
        for n in job.nodes
    ]
    rows = [replace(row, output=None) for row in job.loops.iterations if row.number == 0]
    return JobSnapshot(
        job.job, nodes, [LoopRows(0, 0, list(job.loops.collections[0, 0]), array("l"), rows)]
    )


def test_loop_in_memory_that_differs_from_its_rows_is_a_violation(history: History) -> None:
    rows = rows_of(history)
    memory = rebuild(history.jobs[0].plan, rows)
    assert check_memory(memory, rows) == []

    memory.loops[0].completed += 1

    assert [found.invariant for found in check_memory(memory, rows)] == ["I2"]


def test_loop_with_free_slots_and_work_left_is_a_violation(history: History) -> None:
    rows = rows_of(history)
    memory = rebuild(history.jobs[0].plan, rows)
    assert check_window(memory) == []

    memory.loops[0].begun -= 1

    assert [found.invariant for found in check_window(memory)] == ["I17"]
