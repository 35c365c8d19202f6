"""A job in memory: the state that the rules decide on."""

from array import array
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
from windlass.core.json_text import NULL
from windlass.core.loop_state import (
    IN_FLIGHT,
    IS_IN_FLIGHT,
    Attempt,
    Loop,
    LoopProgress,
)
from windlass.core.plan import Plan
from windlass.core.states import NODE_FINAL, NodeStatus

_FINAL_BYTES = frozenset(int(state) for state in NODE_FINAL)
_COMPLETED, _SKIPPED, _FAILED = (
    int(NodeStatus.COMPLETED),
    int(NodeStatus.SKIPPED),
    int(NodeStatus.FAILED),
)


_decode_ignored = msgspec.json.Decoder(list[tuple[int, int, int]]).decode


class Job:
    """The state of one job. Nodes are numbers in the plan; only nodes in flight take more than a few bytes."""

    __slots__ = (
        "attempts",
        "attempts_before",
        "attempts_start",
        "filling",
        "first_seqs",
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
        "reporters",
        "seq",
        "spec",
        "stalled",
        "state",
        "states",
        "unfinished",
        "values",
        "wanted",
        "webhook_times",
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
        # The event of the first start of each node, to which the events of its later attempts link; 0 before it.
        self.first_seqs = array("q", bytes(8 * count))
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
        # By node and index (or -1): attempts that were closed without a result; one that arrives later is ignored.
        self.late: dict[tuple[int, int], list[int]] = {}
        # Of nodes that deliver webhooks, by node and index (or -1): when the message was first dispatched. Its body
        # names that time and is the same for all attempts, also after a retry of the job.
        self.webhook_times: dict[tuple[int, int], int] = {}
        # Sparse: by node and index (or -1), the last attempt with a result of those that several workers held, and the
        # worker whose result it was.
        self.reporters: dict[tuple[int, int], tuple[int, str]] = {}
        # Results (node, index or -1, attempt) that an event records as ignored.
        self.ignored: set[tuple[int, int, int]] = set()
        if self.state.ignored is not None:
            self.ignored.update(_decode_ignored(self.state.ignored))
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
        found = read_reference(output)
        if found.key not in self.values:
            raise TemplateFailed(
                f"too much to read: a large output of {found.size} bytes among others; "
                "pass large values on by plain references, and compute with them in a node"
            )
        value = self.values[found.key]
        if value is GONE:
            raise TemplateFailed(
                f"artifact not found: {found.key}; it was removed from the artifact store"
            )
        return value

    def upstream_of(self, node: int | None) -> Sequence[int]:
        """Return the nodes before a node, in topological order; without a node, all of them."""
        if node is None:
            return range(len(self.plan.nodes))
        # The space distinguishes this key from the ids of nodes.
        key = f" upstream of {node}"
        if key not in self.values:
            found = set(self.plan.parents[node])
            waiting = list(found)
            while waiting:
                above = [n for n in self.plan.parents[waiting.pop()] if n not in found]
                found.update(above)
                waiting.extend(above)
            self.values[key] = sorted(found)
        return self.values[key]

    def progress_of(self, node: int, attempt: Attempt | None) -> Raw | None:
        """Return the progress of the loop or the attempts of a node, for its row."""
        loop = self.loops.get(node) or self.parked.get(node)
        if loop is not None:
            return encoded_progress(loop.progress())
        generation, attempts = self.generations.get(node, 0), self.attempts_start.get(node, 0)
        return self.attempt_progress(node, -1, attempt, generation, attempts)

    def attempt_progress(
        self,
        node: int,
        index: int,
        attempt: Attempt | None,
        generation: int = 0,
        attempts: int = 0,
    ) -> Raw | None:
        """Return the progress of the attempts of a node or an iteration, for its row; None without any."""
        late: Sequence[int] = ()
        if self.late:
            late = self.late.get((node, index), ())
        is_repeated = attempt is not None and attempt.has_progress
        webhook_at = None
        if self.webhook_times:
            webhook_at = self.webhook_times.get((node, index))
        if not (is_repeated or late or generation or attempts or webhook_at):
            return None
        progress = LoopProgress(
            generation, attempts=attempts, late=tuple(late), webhook_at=webhook_at
        )
        if attempt is not None and is_repeated:
            progress = structs.replace(
                progress,
                calls=attempt.calls,
                is_merging=attempt.is_merging,
                is_exhausted=attempt.is_exhausted,
                page_meta=attempt.page_meta or NULL,
                end_meta=attempt.end_meta or NULL,
                backoff_seconds=attempt.backoff_seconds,
                patch=attempt.patch,
                rate_limits=attempt.rate_limits,
                rate_limited_at=attempt.rate_limited_at,
            )
        return encoded_progress(progress)

    def has_late_attempts(self, node: int) -> bool:
        """Whether an attempt of the node or of one of its iterations was closed without a result."""
        return any(late_node == node for late_node, _ in self.late)

    def unfinished_nodes(self) -> Sequence[int]:
        """Return the nodes that have not ended, in topological order."""
        return [node for node, state in enumerate(self.states) if state not in _FINAL_BYTES]


def encoded_progress(progress: LoopProgress) -> Raw:
    return Raw(msgspec.json.encode(progress))
