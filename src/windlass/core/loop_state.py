"""The state of a loop in memory: its recorded collection and the status of each iteration."""

from array import array
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw, Struct

from windlass.core.changes import IterationRow, NodeRow
from windlass.core.json_text import NULL
from windlass.core.plan import LoopPlan
from windlass.core.states import NODE_STATES, NodeStatus
from windlass.core.templates.json_values import encode_trusted

# Elements in one stored chunk of a collection, which is decoded as a whole. Unrelated to the chunks that tasks get.
CHUNK_ELEMENTS = 1_000
COLLECTION_BYTES_MAX = 256 * 1024 * 1024
# Iterations that wait for their next attempt besides those in flight; a loop with more begins no others.
WAITING_MAX = 10_000

IN_FLIGHT = frozenset({NodeStatus.DISPATCHED, NodeStatus.RUNNING})
# The states in which a node or an iteration has a current attempt.
HAS_ATTEMPT = IN_FLIGHT | {NodeStatus.WAITING}
# IN_FLIGHT by the number of the status: a lookup instead of a search in a set of enums.
IS_IN_FLIGHT = bytes(state in IN_FLIGHT for state in NodeStatus)
_COMPLETED, _FAILED, _SKIPPED = (
    int(NodeStatus.COMPLETED),
    int(NodeStatus.FAILED),
    int(NodeStatus.SKIPPED),
)


class Attempt(Struct, gc=False):
    """The current attempt of a node or of an iteration, from its first dispatch to its end."""

    node: int
    number: int
    # Attempts before the last retry of the job, for earlier pages, and without an answer of their own (lost or
    # rate-limited): they do not count against max_attempts.
    attempts_before: int = 0
    losses: int = 0
    # The first attempt of the work, and the event of its start: the events of all later attempts link to it.
    first_number: int = 1
    first_seq: int | None = None
    dispatched_at: int | None = None
    started_at: int | None = None
    due_at: int | None = None
    worker_id: str | None = None
    # The iteration, if it is an attempt of one and not of the node itself.
    index: int = -1
    is_iteration: bool = False
    # Pages that succeeded so far (a poll counts as a page), and the changes that they made to the params.
    calls: int = 0
    patch: Raw = NULL
    # Whether all pages are there and are being merged, and whether the server had more of them.
    is_merging: bool = False
    is_exhausted: bool = False
    # While the pages are merged: the worker's metadata of the last page, and the metadata of the event of its end.
    page_meta: Raw | None = None
    end_meta: Raw | None = None
    # The delay before this attempt, after an error.
    backoff_seconds: float = 0.0
    # The rate-limited answers so far, and the instant of the first one.
    rate_limits: int = 0
    rate_limited_at: int | None = None
    # The start of the first attempt since the job was started or retried.
    first_started_at: int | None = None

    @property
    def first_start_if_earlier(self) -> int | None:
        """Return the start of the first attempt, if this one did not start with it."""
        if self.first_started_at == self.started_at:
            return None
        return self.first_started_at

    @property
    def attempts_made(self) -> int:
        """Return the attempts that count against max_attempts, including this one."""
        return self.number - self.attempts_before

    @property
    def has_progress(self) -> bool:
        """Whether a row must hold more about the attempt than its columns do."""
        return bool(self.calls or self.is_merging or self.rate_limits or self.backoff_seconds)

    def begin_next(self) -> None:
        """Become the next attempt of the same work."""
        self.number += 1
        self.started_at = None
        self.due_at = None
        self.worker_id = None

    @property
    def parent_seq(self) -> int | None:
        """Return the event that a later attempt links to: the first start of its work."""
        if self.number > self.first_number:
            return self.first_seq
        return None


class LoopProgress(Struct, frozen=True, omit_defaults=True, gc=False):
    """The progress of a loop or a pagination in the row of its node or iteration."""

    generation: int = 0
    # The number of iterations; -1 if the node is not a loop in progress.
    total: int = -1
    # Iterations from 0 to this number were begun.
    begun: int = 0
    # The highest number of an attempt in earlier generations.
    attempts: int = 0
    deadline_at: int | None = None
    calls: int = 0
    is_merging: bool = False
    patch: Raw = NULL
    is_exhausted: bool = False
    # JSON null stands for None: msgspec decodes an optional Raw of null as a value.
    page_meta: Raw = NULL
    end_meta: Raw = NULL
    backoff_seconds: float = 0.0
    rate_limits: int = 0
    rate_limited_at: int | None = None
    # Of a loop that is or was rate-limited: its present window, and when it dispatches again.
    window: int | None = None
    paused_until: int | None = None
    first_failure: str | None = None
    # Of a loop: completed iterations whose pages were cut.
    exhausted: int = 0
    # Attempts that were closed without a result.
    late: tuple[int, ...] = ()
    # When a webhook was first dispatched.
    webhook_at: int | None = None


NO_PROGRESS = LoopProgress()
_decode_progress = msgspec.json.Decoder(LoopProgress).decode


def read_progress(raw: Raw | None) -> LoopProgress:
    """Return the progress in a row."""
    if raw is None:
        return NO_PROGRESS
    return _decode_progress(raw)


def attempt_of_row(
    node: int,
    row: NodeRow | IterationRow,
    progress: LoopProgress,
    index: int = -1,
    first_number: int = 1,
) -> Attempt:
    """Return the attempt that the row of a node, or of the iteration with this index, describes."""
    return Attempt(
        node=node,
        number=row.attempt,
        attempts_before=row.attempts_before,
        losses=row.losses,
        first_number=first_number,
        first_seq=row.first_seq,
        dispatched_at=row.dispatched_at,
        started_at=row.started_at,
        due_at=row.due_at,
        worker_id=row.worker_id,
        index=index,
        is_iteration=index >= 0,
        calls=progress.calls,
        patch=progress.patch,
        is_merging=progress.is_merging,
        is_exhausted=progress.is_exhausted,
        page_meta=_optional(progress.page_meta),
        end_meta=_optional(progress.end_meta),
        backoff_seconds=progress.backoff_seconds,
        rate_limits=progress.rate_limits,
        rate_limited_at=progress.rate_limited_at,
        first_started_at=row.first_started_at or row.started_at,
    )


def _optional(value: Raw) -> Raw | None:
    return None if bytes(value) == b"null" else value


class LoopRows(Struct, frozen=True):
    """The rows of a loop: its collection, the iterations that completed at the first attempt, and all others."""

    number: int
    generation: int
    chunks: list[bytes]
    completed: "array[int]"
    others: list[IterationRow]


class Collection:
    """The recorded elements of a loop, encoded in chunks; one chunk at a time is decoded."""

    __slots__ = ("_decoded", "_number", "chunks", "count")

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self.chunks = list(chunks)
        self._number = -1
        self._decoded: list[object] = []
        last = len(self._chunk(len(self.chunks) - 1)) if self.chunks else 0
        self.count = max(0, len(self.chunks) - 1) * CHUNK_ELEMENTS + last

    @classmethod
    def of(cls, elements: Sequence[object]) -> "Collection":
        """Encode a collection. TemplateFailed for elements that are not JSON or too large."""
        starts = range(0, len(elements), CHUNK_ELEMENTS)
        chunks = [elements[start : start + CHUNK_ELEMENTS] for start in starts]
        return cls([encode_trusted(chunk, COLLECTION_BYTES_MAX) for chunk in chunks])

    @property
    def size(self) -> int:
        """Return the size of the encoded elements in bytes."""
        return sum(map(len, self.chunks))

    def element(self, place: int) -> object:
        """Return an element."""
        return self._chunk(place // CHUNK_ELEMENTS)[place % CHUNK_ELEMENTS]

    def elements(self, start: int, stop: int) -> list[object]:
        """Return the elements from one index up to another."""
        return [self.element(place) for place in range(start, min(stop, self.count))]

    def _chunk(self, number: int) -> list[object]:
        if number != self._number:
            self._decoded, self._number = msgspec.json.decode(self.chunks[number]), number
        return self._decoded


class Loop:
    """The state of a loop: a byte for each iteration, and more only for those in flight or waiting."""

    __slots__ = (
        "attempts",
        "attempts_before",
        "attempts_start",
        "begun",
        "collection",
        "completed",
        "deadline_at",
        "exhausted",
        "failed",
        "first_failure",
        "first_seqs",
        "generation",
        "in_flight_count",
        "is_merging",
        "last_attempts",
        "node_attempt",
        "paused_until",
        "plan",
        "queued",
        "skipped",
        "states",
        "total",
        "window",
    )

    def __init__(
        self,
        plan: LoopPlan,
        collection: Collection,
        generation: int,
        attempt: Attempt,
        attempts_start: int = 0,
    ) -> None:
        self.plan = plan
        self.collection = collection
        self.generation = generation
        # The attempt of the node itself.
        self.node_attempt = attempt
        size = plan.chunk_size
        self.total = collection.count if size is None else -(-collection.count // size)
        self.states = bytearray(self.total)
        # Iterations from 0 to this number were begun.
        self.begun = 0
        # Iterations that were begun and wait for room in the window, in order.
        self.queued: dict[int, None] = {}
        self.attempts: dict[int, Attempt] = {}
        self.in_flight_count = 0
        self.completed = self.failed = self.skipped = 0
        # Completed iterations that had more pages than max_attempts.
        self.exhausted = 0
        # Attempts are counted from here: numbers are unique over all generations of an iteration.
        self.attempts_start = attempts_start
        # Sparse: the last attempt of an iteration that is not in flight, if it is not the first.
        self.last_attempts: dict[int, int] = {}
        # Sparse: the attempts before the last retry.
        self.attempts_before: dict[int, int] = {}
        # Sparse: the first start of an iteration that is not in flight and has not completed.
        self.first_seqs: dict[int, int] = {}
        self.deadline_at: int | None = None
        self.is_merging = False
        # The first failure since the loop began or was retried, for the error of the node.
        self.first_failure: str | None = None
        # Iterations in flight at most, now: fewer than the plan allows after a rate-limited answer.
        self.window = plan.window
        # Nothing is dispatched before this instant.
        self.paused_until: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether every iteration has completed, failed or been skipped."""
        return self.completed + self.failed + self.skipped == self.total

    @property
    def awaits_outputs(self) -> bool:
        """Whether all iterations have ended and their outputs are being merged."""
        return self.is_merging and self.is_over

    def element(self, index: int) -> object:
        """Return the element of an iteration, or the list of elements of its chunk."""
        size = self.plan.chunk_size
        if size is None:
            return self.collection.element(index)
        return self.collection.elements(index * size, (index + 1) * size)

    def next_index(self, now: int) -> int | None:
        """Return the next iteration to dispatch and remove it from the queue; None without room or iterations."""
        if self.in_flight_count >= self.window:
            return None
        if self._is_paused(now):
            return None
        is_sequential = self.plan.mode == "sequential"
        if is_sequential and self._is_one_waiting():
            return None
        if self.queued:
            candidates: Iterable[int] = self.queued
            if is_sequential and self.attempts:
                # An iteration that has begun comes before all others.
                candidates = self.attempts
            index = next(iter(candidates))
            del self.queued[index]
            return index
        if self.begun < self.total and len(self.attempts) < self.plan.window + WAITING_MAX:
            self.begun += 1
            return self.begun - 1
        return None

    def _is_paused(self, now: int) -> bool:
        """Whether the loop waits for a server, which the timer of an iteration ends.

        Without such an iteration, the pause is by the wall clock of an earlier engine and would have no end.
        """
        until = self.paused_until
        if until is None or now >= until:
            return False
        return any(
            (attempt.due_at or 0) >= until and index not in self.queued
            for index, attempt in self.attempts.items()
        )

    def _is_one_waiting(self) -> bool:
        """Whether an iteration waits for its next attempt, which in sequential mode delays those after it."""
        return any(index not in self.queued for index in self.attempts)

    @property
    def wants_more(self) -> bool:
        """Whether an iteration could be dispatched, or the loop ended, now."""
        if self.is_over:
            return not self.is_merging
        room = self.in_flight_count < self.window
        return room and (bool(self.queued) or self.begun < self.total)

    def slow_down(self, now: int, until: int) -> None:
        """Dispatch nothing before an instant, and then only half as many iterations at a time.

        Answers that arrive during the pause belong to the same burst and do not reduce the window again.
        """
        if self.paused_until is None or now >= self.paused_until:
            self.window = max(1, self.window // 2)
        self.paused_until = max(until, self.paused_until or 0)

    def exceeded_bound(self) -> str | None:
        """Return the bound on failures that the loop has exceeded, whatever its other iterations do; None within it."""
        plan = self.plan
        # Iterations that are skipped later only raise the rate.
        counted = self.total - self.skipped
        if plan.failed_max is not None and self.failed > plan.failed_max:
            return f"max_failed is {plan.failed_max}"
        if plan.failure_rate_max is not None and self.failed > 0:
            if self.failed / counted > plan.failure_rate_max:
                return f"max_failure_rate is {plan.failure_rate_max:g}"
            return None
        if plan.failed_max is None and 0 < self.failed == counted:
            return "none completed"
        return None

    def last_attempt_number(self, index: int) -> int:
        """Return the last attempt of an iteration; 0 without any."""
        attempt = self.attempts.get(index)
        if attempt is not None:
            return attempt.number
        is_first = self.states[index] in (_COMPLETED, _FAILED)
        return self.last_attempts.get(index, self.attempts_start + is_first)

    @property
    def attempts_made(self) -> int:
        """Return the highest number of an attempt so far."""
        in_flight = [attempt.number for attempt in self.attempts.values()]
        return max(
            [self.attempts_start + (self.begun > 0), *self.last_attempts.values(), *in_flight]
        )

    def remember_attempt(self, index: int, attempt: int, before: int) -> None:
        """Keep the attempts of an iteration that is not in flight, unless its status implies them."""
        self.last_attempts.pop(index, None)
        if attempt != self.last_attempt_number(index):
            self.last_attempts[index] = attempt
        if before != self.attempts_start:
            self.attempts_before[index] = before

    @property
    def success_rate(self) -> float:
        """Return the part of the iterations that completed, without those that were skipped; 1 if there are none."""
        counted = self.total - self.skipped
        if not counted:
            return 1.0
        return self.completed / counted

    def meta(self) -> dict[str, object]:
        """Return the counts of a loop that ended."""
        counts: dict[str, object] = {
            "total": self.total,
            "succeeded": self.completed,
            "failed": self.failed,
            "success_rate": self.success_rate,
        }
        if self.skipped:
            counts["skipped"] = self.skipped
        if self.exhausted:
            counts["exhausted"] = self.exhausted
        return counts

    def progress(self) -> LoopProgress:
        """Return the progress of the loop for the row of its node."""
        window = None if self.window == self.plan.window else self.window
        return LoopProgress(
            self.generation,
            self.total,
            self.begun,
            self.attempts_start,
            self.deadline_at,
            window=window,
            paused_until=self.paused_until,
            first_failure=self.first_failure,
            exhausted=self.exhausted,
        )

    def restore(self, rows: LoopRows, begun: int) -> None:
        """Restore the iterations from their rows."""
        self.begun = begun
        for index in rows.completed:
            self.states[index] = _COMPLETED
        self.completed = len(rows.completed)
        # In the order of the queue.
        for row in sorted(rows.others, key=lambda row: row.index):
            self._restore_row(row)
        for index in range(begun):
            if not self.states[index] and index not in self.queued:
                self.states[index] = NodeStatus.DISPATCHED
                start, at = self.attempts_start, self.node_attempt.dispatched_at
                self.attempts[index] = Attempt(
                    self.node_attempt.node,
                    start + 1,
                    start,
                    first_number=start + 1,
                    dispatched_at=at,
                    index=index,
                    is_iteration=True,
                )
        self.in_flight_count = sum(self.states[index] in IN_FLIGHT for index in self.attempts)

    def _restore_row(self, row: IterationRow) -> None:
        state = NODE_STATES[row.status]
        index = row.index
        self.states[index] = state
        if state in HAS_ATTEMPT:
            self.attempts[index] = attempt_of_row(
                self.node_attempt.node,
                row,
                read_progress(row.progress),
                index,
                self.attempts_start + 1,
            )
            return
        self.remember_attempt(index, row.attempt, row.attempts_before)
        if state is not NodeStatus.COMPLETED and row.first_seq is not None:
            self.first_seqs[index] = row.first_seq
        if state is NodeStatus.PENDING:
            self.queued[index] = None
        self.completed += state is NodeStatus.COMPLETED
        self.failed += state is NodeStatus.FAILED
        self.skipped += state is NodeStatus.SKIPPED
