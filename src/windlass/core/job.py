"""A job in memory: the state that the rules decide on."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, structs

from windlass.core.artifacts import GONE, is_reference, read_reference
from windlass.core.changes import InFlightEntry
from windlass.core.errors import TemplateFailed
from windlass.core.ids import task_id_text
from windlass.core.jobs import JobRecord
from windlass.core.loop_state import (
    IN_FLIGHT,
    IS_IN_FLIGHT,
    Attempt,
    Loop,
    LoopProgress,
)
from windlass.core.plan import Plan
from windlass.core.states import NODE_FINAL, NodeStatus
from windlass.core.templates.template import Template

_FINAL_BYTES = frozenset(int(state) for state in NODE_FINAL)
_COMPLETED, _SKIPPED, _FAILED = (
    int(NodeStatus.COMPLETED),
    int(NodeStatus.SKIPPED),
    int(NodeStatus.FAILED),
)


class Job:
    """The state of one job. Nodes are numbers in the plan; only nodes in flight take more than a few bytes."""

    __slots__ = (
        "attempts",
        "attempts_before",
        "attempts_start",
        "filling",
        "generations",
        "id",
        "ignored",
        "in_flight",
        "large",
        "last_attempts",
        "late",
        "live",
        "loops",
        "metas",
        "outputs",
        "parked",
        "plan",
        "ready",
        "remaining",
        "seq",
        "spec",
        "stalled",
        "state",
        "states",
        "unfinished",
        "values",
        "wanted",
    )

    def __init__(self, plan: Plan, record: JobRecord) -> None:
        count = len(plan.nodes)
        self.id = record.spec.job_id
        self.plan = plan
        self.spec = record.spec
        # A copy: the record must not change with the job.
        self.state = structs.replace(record.state)
        self.seq = record.seq
        self.states = bytearray(count)
        self.remaining = plan.dependency_counts[:]
        # 1 if some dependency was met other than by being skipped.
        self.live = bytearray(count)
        self.outputs: list[Raw | None] = [None] * count
        self.metas: dict[int, Raw] = {}
        self.attempts: dict[int, Attempt] = {}
        # The entries of nodes in flight that have no row yet.
        self.in_flight: dict[int, InFlightEntry] = {}
        # Loops in progress, and loops that ended without completing, which a retry resumes.
        self.loops: dict[int, Loop] = {}
        self.parked: dict[int, Loop] = {}
        # Loops that may have something to dispatch.
        self.filling: dict[int, None] = {}
        # Sparse: how often a node was run again with other inputs. Its work then differs from the work before.
        self.generations: dict[int, int] = {}
        # Sparse: the last attempt of a node that is not in flight, if it is not 1.
        self.last_attempts: dict[int, int] = {}
        # Sparse: the attempts before the last retry.
        self.attempts_before: dict[int, int] = {}
        # Sparse: the highest attempt of iterations in earlier generations of a loop.
        self.attempts_start: dict[int, int] = {}
        # Attempts (node, index or -1, number) that were closed without a result: one that arrives later is ignored.
        self.late: set[tuple[int, int, int]] = set()
        # Those of them with an event that says so.
        self.ignored: set[tuple[int, int, int]] = set()
        self.ready: deque[int] = deque()
        self.unfinished = count
        # Decoded values for templates; the engine clears them after each turn.
        self.values: dict[str, Any] = {}
        # By node id: outputs that are references to large values.
        self.large: dict[str, Raw] = {}
        # Large outputs that the engine must decode into `values`, and the ready nodes that wait for them.
        self.wanted: dict[str, None] = {}
        self.stalled: list[int] = []

    def recount(self, nodes: Iterable[int]) -> None:
        """Count the dependencies of nodes again, from the states of their parents."""
        states, parents = self.states, self.plan.parents
        for node in nodes:
            met = [parent for parent in parents[node] if self.is_met(parent)]
            self.remaining[node] = len(parents[node]) - len(met)
            self.live[node] = any(states[parent] != _SKIPPED for parent in met)

    def enqueue_unblocked(self) -> None:
        """Make the pending nodes ready whose dependencies are all met."""
        pairs = zip(self.states, self.remaining, strict=True)
        self.ready.extend(
            node for node, (state, remaining) in enumerate(pairs) if state == remaining == 0
        )

    def is_met(self, node: int) -> bool:
        """Whether the node meets the dependency of the nodes after it."""
        state = self.states[node]
        if state == _FAILED:
            return self.plan.nodes[node].allow_failure
        return state in (_COMPLETED, _SKIPPED)

    def is_node_final(self, node: int) -> bool:
        """Whether the node has finished."""
        return self.states[node] in _FINAL_BYTES

    @property
    def is_final(self) -> bool:
        """Whether the job has finished."""
        return self.state.is_final

    def last_attempt_number(self, node: int) -> int:
        """Return the last attempt of a node; 0 without any."""
        attempt = self.attempts.get(node)
        if attempt is None and self.loops and node in self.loops:
            attempt = self.loops[node].node_attempt
        if attempt is not None:
            return attempt.number
        state = self.states[node]
        return self.last_attempts.get(node, 1 if state in (_COMPLETED, _FAILED) else 0)

    def last_attempt_of_task(self, node: int, index: int) -> int:
        """Return the number of the last attempt of a node, or of one of its iterations; 0 if there was none."""
        if self.plan.nodes[node].loop is None:
            return self.last_attempt_number(node)
        # Attempts of a loop that has completed, and of earlier generations.
        last = self.attempts_start.get(node, 0)
        loop = self.loops.get(node) or self.parked.get(node)
        if loop is not None and 0 <= index < loop.begun:
            last = max(last, loop.last_attempt_number(index))
        return last

    def remember_attempt(self, node: int, attempt: int) -> None:
        """Keep the attempt of a node that is not in flight, unless its status implies it."""
        self.last_attempts.pop(node, None)
        if attempt != self.last_attempt_number(node):
            self.last_attempts[node] = attempt

    def find_attempt(self, node: int, index: int, number: int) -> Attempt | None:
        """Return the attempt in flight with this number; None if its result is not awaited."""
        attempt = self.attempts.get(node)
        states, position = self.states, node
        if self.loops and node in self.loops:
            loop = self.loops[node]
            attempt = loop.attempts.get(index)
            states, position = loop.states, index
        if attempt is None or not IS_IN_FLIGHT[states[position]] or attempt.number != number:
            return None
        return attempt

    def current_attempts(self) -> Iterator[Attempt]:
        """Yield the current attempts of all nodes and iterations."""
        yield from self.attempts.values()
        for loop in self.loops.values():
            yield from loop.attempts.values()

    def attempts_in_flight(self) -> list[Attempt]:
        """Return all attempts that are dispatched or running."""
        return [
            attempt for attempt in self.current_attempts() if self.state_of(attempt) in IN_FLIGHT
        ]

    def state_of(self, attempt: Attempt) -> int:
        """Return the state of the node or the iteration of an attempt."""
        if attempt.is_iteration:
            return self.loops[attempt.node].states[attempt.index]
        return self.states[attempt.node]

    def task_id(self, attempt: Attempt) -> str:
        """Return the id of the task of an attempt."""
        index = attempt.index if attempt.is_iteration else None
        return task_id_text(self.id, self.plan.nodes[attempt.node].id, index, attempt.number)

    def put_output(self, node: int, output: Raw) -> None:
        """Keep the output of a node."""
        self.outputs[node] = output
        if is_reference(output):
            self.large[self.plan.nodes[node].id] = output

    def clear_output(self, node: int) -> None:
        """Discard the output of a node that runs again."""
        self.outputs[node] = None
        self.metas.pop(node, None)
        self.large.pop(self.plan.nodes[node].id, None)

    def value_of(self, output: Raw) -> Any:
        """Return a decoded output. TemplateFailed if it is large and could not be read."""
        if not is_reference(output):
            return msgspec.json.decode(output)
        key = read_reference(output).key
        found = self.values.get(key, GONE)
        if found is GONE:
            raise TemplateFailed(
                f"artifact not found: {key}; it was removed from the artifact store"
            )
        return found

    def request_missing(self, template: Template, *, allow_references: bool = False) -> bool:
        """Request the large outputs that a template reads and that are not decoded; return whether there are any."""
        names = template.names_read(allow_references=allow_references) & self.large.keys()
        keys = {read_reference(self.large[name]).key for name in names} - self.values.keys()
        # Sorted, so that equal decisions have equal effects.
        self.wanted.update(dict.fromkeys(sorted(keys)))
        return bool(keys)

    def progress_of(self, node: int, attempt: Attempt | None) -> Raw | None:
        """Return the progress of the loop or the pagination of a node, for its row."""
        loop = self.loops.get(node) or self.parked.get(node)
        generation, attempts = self.generations.get(node, 0), self.attempts_start.get(node, 0)
        if loop is not None:
            return encoded_progress(
                LoopProgress(
                    loop.generation, loop.total, loop.begun, loop.attempts_start, loop.deadline_at
                )
            )
        if attempt is not None and (attempt.calls or attempt.is_merging):
            return encoded_progress(
                LoopProgress(
                    generation,
                    calls=attempt.calls,
                    is_merging=attempt.is_merging,
                    patch=attempt.patch,
                )
            )
        return (
            encoded_progress(LoopProgress(generation, attempts=attempts))
            if generation or attempts
            else None
        )

    def unfinished_nodes(self) -> Sequence[int]:
        """Return the nodes that have not ended, in topological order."""
        return [node for node, state in enumerate(self.states) if state not in _FINAL_BYTES]


def encoded_progress(progress: LoopProgress) -> Raw:
    return Raw(msgspec.json.encode(progress))
