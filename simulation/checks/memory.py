"""Comparing a job in the memory of an engine with the one rebuilt from its rows."""

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from simulation.history import Violation
from windlass.core import loop_state
from windlass.core.job import Job
from windlass.core.loop_state import Loop
from windlass.core.states import NodeStatus
from windlass.engine.job_table import rebuild
from windlass.ports.store.jobs import JobSnapshot

# What must be equal in memory and after a rebuild. `values` is a cache, and
# `filling` may name loops without work.
_JOB_STATE = (
    "id", "spec", "state", "seq", "states", "outputs", "metas", "attempts", "in_flight", "last_attempts", "ready",
    "unfinished", "generations", "ignored", "first_seqs",
)  # fmt: skip
_LOOP_STATE = (
    "attempts_start", "begun", "in_flight_count", "completed", "deadline_at", "failed", "attempts", "generation",
    "skipped", "states", "total", "window", "paused_until", "first_failure", "first_seqs", "exhausted",
)  # fmt: skip


def check_memory(memory: Job, rows: JobSnapshot) -> list[Violation]:
    """Compare a job in memory with its rows, at an idle moment."""
    rebuilt = rebuild(memory.plan, rows)
    seen, expected = _view(memory), _view(rebuilt)
    # The counters of finished nodes are not used any more.
    for node in memory.unfinished_nodes():
        for name in ("remaining", "live"):
            key = f"{name} of node {node}"
            seen[key], expected[key] = getattr(memory, name)[node], getattr(rebuilt, name)[node]
    found: list[Violation] = []
    for name in sorted(seen.keys() | expected.keys()):
        if seen.get(name) != expected.get(name):
            in_memory, in_rows = _shown(seen.get(name)), _shown(expected.get(name))
            found.append(
                Violation(
                    "I2", memory.id, f"{name} is {in_memory} in memory, {in_rows} by the rows"
                )
            )
    return found


def check_window(job: Job) -> list[Violation]:
    """Check that a loop with work left has a full window."""
    found: list[Violation] = []
    for node, loop in job.loops.items():
        has_work = bool(loop.queued) or loop.begun < loop.total
        if has_work and loop.in_flight_count < loop.window and not _is_held_back(loop):
            evidence = f"{loop.in_flight_count} of {loop.window} in flight, {loop.begun} of {loop.total} begun"
            found.append(
                Violation("I17", job.id, f"node {node} has free slots and work left: {evidence}")
            )
    return found


def _is_held_back(loop: Loop) -> bool:
    """Return whether a loop waits for a server or a sequential iteration, or has too many waiting ones."""
    if loop.paused_until is not None and _waits_until(loop, loop.paused_until):
        return True
    if loop.plan.mode == "sequential" and any(index not in loop.queued for index in loop.attempts):
        return True
    return not loop.queued and len(loop.attempts) >= loop.plan.window + loop_state.WAITING_MAX


def _waits_until(loop: Loop, until: int) -> bool:
    """Return whether the timer of an iteration that ends a pause has not fired yet. It depends on no clock."""
    return any(
        (attempt.due_at or 0) >= until and index not in loop.queued
        for index, attempt in loop.attempts.items()
    )


def _view(job: Job) -> dict[str, Any]:
    view = {name: getattr(job, name) for name in _JOB_STATE}
    for node, loop in job.loops.items():
        view |= _loop_view(loop, f"loop {node}")
        view[f"attempt of loop {node}"] = loop.node_attempt
    for node, loop in job.parked.items():
        view |= _loop_view(loop, f"parked loop {node}")
    # Those of work that has ended matter only if it is repeated, and then its row has them.
    current = {(attempt.node, attempt.index) for attempt in job.current_attempts()}
    view["webhook_times"] = {key: at for key, at in job.webhook_times.items() if key in current}
    return view


def _loop_view(loop: Loop, label: str) -> dict[str, Any]:
    view = {name: getattr(loop, name) for name in _LOOP_STATE}
    view["chunks"] = loop.collection.chunks
    # In memory, iterations whose wait is over are queued too; in rows they wait until the timer fires again.
    view["queued"] = sorted(
        index for index in loop.queued if loop.states[index] == NodeStatus.PENDING
    )
    # The attempt numbers of iterations in flight are in `attempts`.
    view["attempts"] = _without_flights(loop, loop.last_attempts)
    view["attempts_before"] = _without_flights(loop, loop.attempts_before)
    return {f"{name} of {label}": value for name, value in view.items()}


def _without_flights(loop: Loop, numbers: Mapping[int, int]) -> dict[int, int]:
    return {index: number for index, number in numbers.items() if index not in loop.attempts}


def _shown(value: object) -> str:
    match value:
        case Raw():
            return bytes(value).decode()[:200]
        case bytearray():
            return repr(list(value))
        case _:
            return repr(value)[:500]
