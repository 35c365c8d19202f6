"""One loop of one job, compact in memory: what is recorded of its collection, and where each iteration stands."""

from array import array
from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from windlass.core.changes import IterationRow
from windlass.core.plan import LoopPlan
from windlass.core.states import NODE_STATES, NodeStatus

# Elements of one block of a recorded collection: what is decoded to read one of them.
BLOCK_ELEMENTS = 1_000
COLLECTION_BYTES_MAX = 256 * 1024 * 1024
# Iterations that wait for their next attempt beside those in flight; a loop with more holds back what it has not begun.
WAITING_MAX = 10_000

IN_FLIGHT = frozenset({NodeStatus.DISPATCHED, NodeStatus.RUNNING})
# The same by state number, for the hot path.
IS_OUT = bytes(state in IN_FLIGHT for state in NodeStatus)
_COMPLETED, _FAILED, _SKIPPED = int(NodeStatus.COMPLETED), int(NodeStatus.FAILED), int(NodeStatus.SKIPPED)
NOTHING = Raw(b"null")


class Attempt(Struct, gc=False):
    """The present attempt of a node, or of one iteration of it, from the first dispatch to the end."""

    node: int
    number: int
    # Attempts made before an operator's retry or in earlier calls: they do not count against the author's limit.
    attempts_before: int = 0
    losses: int = 0
    first_seq: int | None = None
    dispatched_at: int | None = None
    started_at: int | None = None
    due_at: int | None = None
    worker_id: str | None = None
    # The iteration, if it is an attempt of one and not of the node itself.
    index: int = -1
    is_iteration: bool = False
    # Calls of a series that succeeded so far, and what they added to the params of the next.
    calls: int = 0
    patch: Raw = NOTHING
    # All calls are made, and their outputs are being merged.
    is_merging: bool = False

    @property
    def attempts_made(self) -> int:
        """How many attempts count against the author's limit, this one included."""
        return self.number - self.attempts_before

    def begin_next(self) -> None:
        """Become the next attempt of the same work."""
        self.number += 1
        self.started_at = None
        self.due_at = None
        self.worker_id = None

    @property
    def is_repeat(self) -> bool:
        """Whether it follows an earlier attempt or call of the same work."""
        return self.calls > 0 or self.number - self.attempts_before > 1

    @property
    def parent_seq(self) -> int | None:
        """The event that a repeat links to: the start of the first attempt."""
        if self.calls or self.number - self.attempts_before > 1:
            return self.first_seq
        return None


class LoopProgress(Struct, frozen=True, omit_defaults=True, gc=False):
    """What the row of a node or an iteration says about its loop or its series of calls."""

    generation: int = 0
    # Tasks of the loop; -1 while there is no loop.
    total: int = -1
    # Tasks that were begun: those from 0 to this number.
    begun: int = 0
    # Attempts that iterations had in earlier generations, at most; those of a loop that completed count too.
    attempts: int = 0
    deadline_at: int | None = None
    calls: int = 0
    is_merging: bool = False
    patch: Raw = NOTHING


decode_progress = msgspec.json.Decoder(LoopProgress).decode


class LoopRows(Struct, frozen=True):
    """The rows of one loop: its collection, its iterations that completed at the first attempt, and all others."""

    number: int
    generation: int
    blocks: list[bytes]
    completed: "array[int]"
    others: list[IterationRow]


class Collection:
    """The recorded elements of a loop, encoded in blocks; one block at a time is decoded."""

    __slots__ = ("_decoded", "_number", "blocks", "count")

    def __init__(self, blocks: Sequence[bytes]) -> None:
        self.blocks = list(blocks)
        self._number = -1
        self._decoded: list[object] = []
        last = len(self._block(len(self.blocks) - 1)) if self.blocks else 0
        self.count = max(0, len(self.blocks) - 1) * BLOCK_ELEMENTS + last

    @classmethod
    def of(cls, elements: Sequence[object]) -> "Collection":
        """Record a collection as it is now."""
        starts = range(0, len(elements), BLOCK_ELEMENTS)
        return cls([msgspec.json.encode(elements[start : start + BLOCK_ELEMENTS]) for start in starts])

    @property
    def size(self) -> int:
        """The bytes that the elements take."""
        return sum(map(len, self.blocks))

    def element(self, place: int) -> object:
        """One element."""
        return self._block(place // BLOCK_ELEMENTS)[place % BLOCK_ELEMENTS]

    def elements(self, start: int, stop: int) -> list[object]:
        """Some elements."""
        return [self.element(place) for place in range(start, min(stop, self.count))]

    def _block(self, number: int) -> list[object]:
        if number != self._number:
            self._decoded, self._number = msgspec.json.decode(self.blocks[number]), number
        return self._decoded


class Loop:
    """Where a loop stands. A byte and a few bits for each iteration; only those in flight or waiting cost more."""

    __slots__ = (
        "attempts",
        "attempts_before",
        "attempts_start",
        "begun",
        "busy",
        "collection",
        "completed",
        "deadline_at",
        "failed",
        "generation",
        "is_merging",
        "last_attempts",
        "node_attempt",
        "plan",
        "queued",
        "skipped",
        "states",
        "total",
    )

    def __init__(
        self, plan: LoopPlan, collection: Collection, generation: int, attempt: Attempt, attempts_start: int = 0
    ) -> None:
        self.plan = plan
        self.collection = collection
        self.generation = generation
        # The node's own.
        self.node_attempt = attempt
        size = plan.chunk_size
        self.total = collection.count if size is None else -(-collection.count // size)
        self.states = bytearray(self.total)
        # Iterations from 0 to this number were begun.
        self.begun = 0
        # Begun earlier, and to be dispatched (again) as soon as there is room; in this order.
        self.queued: dict[int, None] = {}
        self.attempts: dict[int, Attempt] = {}
        self.busy = 0
        self.completed = self.failed = self.skipped = 0
        # Attempts go on from here: no two of one iteration, in whatever generation, have the same number.
        self.attempts_start = attempts_start
        # Sparse: the last attempt of an iteration that is not in flight, where it is not the first, and those before
        # a retry.
        self.last_attempts: dict[int, int] = {}
        self.attempts_before: dict[int, int] = {}
        self.deadline_at: int | None = None
        self.is_merging = False

    @property
    def is_over(self) -> bool:
        """Whether every iteration has ended in a way that lets the loop end."""
        return self.completed + self.failed + self.skipped == self.total

    @property
    def awaits_outputs(self) -> bool:
        """Whether all iterations have ended and their outputs are being merged."""
        return self.is_merging and self.is_over

    def element(self, index: int) -> object:
        """What the iteration is about: an element, or a list of them."""
        size = self.plan.chunk_size
        if size is None:
            return self.collection.element(index)
        return self.collection.elements(index * size, (index + 1) * size)

    def next_index(self) -> int | None:
        """The iteration to dispatch now, taken out of those that wait; None when there is no room, or none."""
        if self.busy >= self.plan.window or (self.plan.mode == "sequential" and self._is_one_waiting()):
            return None
        if self.queued:
            # In order, the one iteration that has begun comes before those that wait for their turn.
            index = next(iter(self.attempts if self.attempts and self.plan.mode == "sequential" else self.queued))
            del self.queued[index]
            return index
        if self.begun < self.total and len(self.attempts) < self.plan.window + WAITING_MAX:
            self.begun += 1
            return self.begun - 1
        return None

    def _is_one_waiting(self) -> bool:
        """In order means that an iteration between two attempts holds up those after it."""
        return any(index not in self.queued for index in self.attempts)

    @property
    def wants_more(self) -> bool:
        """Whether something could be dispatched, or the loop ended, without anything else happening first."""
        if self.is_over:
            return not self.is_merging
        room = self.busy < self.plan.window
        return room and (bool(self.queued) or self.begun < self.total)

    def attempt_of(self, index: int) -> int:
        """The last attempt made of an iteration; 0 when there was none."""
        attempt = self.attempts.get(index)
        if attempt is not None:
            return attempt.number
        is_first = self.states[index] in (_COMPLETED, _FAILED)
        return self.last_attempts.get(index, self.attempts_start + is_first)

    @property
    def attempts_made(self) -> int:
        """The highest number that an attempt of any iteration had so far."""
        flying = [attempt.number for attempt in self.attempts.values()]
        return max([self.attempts_start + (self.begun > 0), *self.last_attempts.values(), *flying])

    def remember_attempt(self, index: int, attempt: int, before: int) -> None:
        """Keep the attempts of an iteration that is not in flight, where they cannot be told from its state."""
        self.last_attempts.pop(index, None)
        if attempt != self.attempt_of(index):
            self.last_attempts[index] = attempt
        if before != self.attempts_start:
            self.attempts_before[index] = before

    def meta(self) -> dict[str, object]:
        """The counts of a loop that ended."""
        rate = self.completed / self.total if self.total else 1.0
        counts: dict[str, object] = {
            "total": self.total,
            "succeeded": self.completed,
            "failed": self.failed,
            "success_rate": rate,
        }
        return {**counts, "skipped": self.skipped} if self.skipped else counts

    def restore(self, rows: LoopRows, begun: int) -> None:
        """Take the iterations over from their rows."""
        self.begun = begun
        for index in rows.completed:
            self.states[index] = _COMPLETED
        self.completed = len(rows.completed)
        # By index, as they were queued.
        for row in sorted(rows.others, key=lambda row: row.index):
            self._restore_row(row)
        for index in range(begun):
            if not self.states[index] and index not in self.queued:
                self.states[index] = NodeStatus.DISPATCHED
                start, at = self.attempts_start, self.node_attempt.dispatched_at
                self.attempts[index] = Attempt(
                    self.node_attempt.node, start + 1, start, dispatched_at=at, index=index, is_iteration=True
                )
        self.busy = sum(self.states[index] in IN_FLIGHT for index in self.attempts)

    def _restore_row(self, row: IterationRow) -> None:
        state = NODE_STATES[row.status]
        index = row.index
        self.states[index] = state
        if state in IN_FLIGHT or state is NodeStatus.WAITING:
            progress = LoopProgress() if row.progress is None else decode_progress(row.progress)
            self.attempts[index] = Attempt(
                node=self.node_attempt.node,
                number=row.attempt,
                attempts_before=row.attempts_before,
                losses=row.losses,
                first_seq=row.first_seq,
                dispatched_at=row.dispatched_at,
                started_at=row.started_at,
                due_at=row.due_at,
                worker_id=row.worker_id,
                index=index,
                is_iteration=True,
                calls=progress.calls,
                patch=progress.patch,
                is_merging=progress.is_merging,
            )
            return
        self.remember_attempt(index, row.attempt, row.attempts_before)
        if state is NodeStatus.PENDING:
            self.queued[index] = None
        self.completed += state is NodeStatus.COMPLETED
        self.failed += state is NodeStatus.FAILED
        self.skipped += state is NodeStatus.SKIPPED
