"""Compares a job in the memory of an engine with what its rows make of it."""

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from simulation.history import Violation
from windlass.core import loop_state
from windlass.core.job import Job
from windlass.core.loop_state import Loop
from windlass.core.states import NodeStatus
from windlass.engine.recovery import rebuild
from windlass.ports.store.jobs import JobSnapshot

# What a job in memory and one rebuilt from its rows must agree on. `values` is a cache; `late` forgets on purpose
# which results were already recorded as ignored; `filling` may name loops that have nothing to do after all.
_JOB_STATE = (
    "id", "spec", "state", "seq", "states", "outputs", "metas", "flights", "departed", "attempts", "ready", "unfinished",
    "generations",
)  # fmt: skip
_LOOP_STATE = (
    "attempts_start", "begun", "busy", "completed", "deadline_at", "failed", "flights", "generation", "skipped",
    "states", "total",
)  # fmt: skip


def check_memory(memory: Job, rows: JobSnapshot) -> list[Violation]:
    """At a quiet moment a job in memory is what its rows make of it."""
    rebuilt = rebuild(memory.plan, rows)
    seen, expected = _view(memory), _view(rebuilt)
    # The counters of a node that has ended are never looked at again.
    for node in memory.unfinished_nodes():
        for name in ("remaining", "live"):
            key = f"{name} of node {node}"
            seen[key], expected[key] = getattr(memory, name)[node], getattr(rebuilt, name)[node]
    return [
        Violation(
            "I2", memory.id, f"{name} is {_shown(seen.get(name))} in memory, {_shown(expected.get(name))} by rows"
        )
        for name in sorted(seen.keys() | expected.keys())
        if seen.get(name) != expected.get(name)
    ]


def check_room(job: Job) -> list[Violation]:
    """A loop with work left keeps its window full, unless it runs in order and one of its iterations waits."""
    found: list[Violation] = []
    for node, loop in job.loops.items():
        waits = loop.plan.mode == "sequential" and any(index not in loop.queued for index in loop.flights)
        bounded = not loop.queued and len(loop.flights) >= loop.plan.window + loop_state.WAITING_MAX
        if (loop.queued or loop.begun < loop.total) and loop.busy < loop.plan.window and not waits and not bounded:
            told = f"{loop.busy} of {loop.plan.window} in flight, {loop.begun} of {loop.total} begun"
            found.append(Violation("I17", job.id, f"node {node} has room and work left: {told}"))
    return found


def _view(job: Job) -> dict[str, Any]:
    view = {name: getattr(job, name) for name in _JOB_STATE}
    for kind, loops in (("loop", job.loops), ("parked loop", job.parked)):
        for node, loop in loops.items():
            view |= {f"{name} of {kind} {node}": value for name, value in _loop_view(loop, is_parked=kind != "loop")}
    return view


def _loop_view(loop: Loop, *, is_parked: bool) -> list[tuple[str, Any]]:
    view: list[tuple[str, Any]] = [(name, getattr(loop, name)) for name in _LOOP_STATE]
    view.append(("blocks", loop.collection.blocks))
    # Those whose wait is over are queued too, in memory; rows have them waiting until they are told again.
    view.append(("queued", sorted(index for index in loop.queued if loop.states[index] == NodeStatus.PENDING)))
    # Iterations in flight have these in their flight.
    view.append(("attempts", _landed(loop, loop.attempts)))
    view.append(("attempts_before", _landed(loop, loop.attempts_before)))
    if not is_parked:
        view.append(("flight", loop.flight))
    return view


def _landed(loop: Loop, numbers: Mapping[int, int]) -> dict[int, int]:
    return {index: number for index, number in numbers.items() if index not in loop.flights}


def _shown(value: object) -> str:
    match value:
        case Raw():
            return bytes(value).decode()[:200]
        case bytearray():
            return repr(list(value))
        case _:
            return repr(value)[:500]
