"""What the replay of a job's events makes of its nodes, their loops and iterations, and the notes it takes."""

from typing import Any

import msgspec

from simulation.history import Violation
from windlass.core.events import Event
from windlass.core.plan import LoopPlan, NodePlan

UNFINISHED = frozenset({"pending", "ready", "dispatched", "running", "waiting"})
OUT = frozenset({"dispatched", "running"})

# An attempt of a node: the iteration, or None outside of loops, and its number.
Attempt = tuple[int | None, int]
# What an attempt works on: the iteration, the generation of its node, and the number of the call in its series.
Piece = tuple[int | None, int, int]


class Notes:
    """What was found wrong, and what may be asked of the instants of events."""

    def __init__(self, job_id: str, *, clocks_steady: bool) -> None:
        self.job_id = job_id
        # No clock was set while the job ran.
        self.clocks_steady = clocks_steady
        self.violations: list[Violation] = []

    def blame(self, invariant: str, evidence: str) -> None:
        """Note a violation."""
        self.violations.append(Violation(invariant, self.job_id, evidence))

    def check_due(self, event: Event, due_at: int | None, what: str) -> None:
        """Note an event that comes before its time."""
        if self.clocks_steady and due_at is not None and event.at < due_at:
            self.blame("I22", f"{told(event)} comes {due_at - event.at} µs before {what}")


class Folded:
    """A node, or an iteration of one, as its events tell it."""

    def __init__(self, plan: NodePlan, index: int | None = None) -> None:
        self.plan = plan
        self.index = index
        self.state = "pending"
        self.attempt = 0
        self.attempts_before = 0
        self.losses = 0
        self.first_seq: int | None = None
        self.dispatched_at: int | None = None
        self.started_at: int | None = None
        self.completed_at: int | None = None
        self.due_at: int | None = None
        self.worker_id: str | None = None
        self.error: Any = None
        self.lost_just_now = False
        self.skip_reason: str | None = None
        # The attempts whose outputs were taken, one for each call of the series so far.
        self.answers: list[int] = []
        # All calls were made; and what they brought is being put together.
        self.is_answered = False
        self.is_gathering = False

    @property
    def accepting(self) -> bool:
        """Whether those that depend on the node may go on."""
        return self.state in ("completed", "skipped") or (self.state == "failed" and self.plan.allow_failure)

    @property
    def accepted(self) -> list[int]:
        """The attempts whose outputs make up what the node or the iteration brought."""
        return self.answers if self.plan.on_success is not None else [self.attempt]

    def reset(self) -> None:
        """Start over: what is known of attempts goes, their number stays."""
        self.state = "pending"
        self.attempts_before = self.attempt or self.attempts_before
        self.losses = 0
        self.first_seq = self.dispatched_at = self.started_at = self.due_at = self.worker_id = None
        self.completed_at = self.error = self.skip_reason = None
        self.lost_just_now = self.is_gathering = self.is_answered = False
        self.answers = []


class FoldedLoop:
    """A loop of a node, in one generation."""

    def __init__(self, plan: LoopPlan, total: int, attempts_before: int) -> None:
        self.plan = plan
        self.total = total
        # Attempts that iterations had in earlier generations.
        self.attempts_before = attempts_before
        # Iterations from 0 to this number were begun.
        self.begun = 0
        self.iterations: dict[int, Folded] = {}
        # The iteration whose failure is the node's.
        self.doomed_by: Folded | None = None
        self.is_closed = False

    def count(self, *states: str) -> int:
        """How many iterations are in one of these states."""
        return sum(one.state in states for one in self.iterations.values())

    @property
    def is_over(self) -> bool:
        """Whether every iteration has ended."""
        return self.count("completed", "failed", "skipped") == self.total


class FoldedNode:
    """A node with what is told of all its attempts, and of its loop."""

    def __init__(self, plan: NodePlan) -> None:
        self.plan = plan
        self.own = Folded(plan)
        self.generation = 0
        self.loop: FoldedLoop | None = None
        # The highest attempt of any iteration so far.
        self.attempts_of_iterations = 0
        self.pieces: dict[Attempt, Piece] = {}
        # The attempt whose answer a further call follows.
        self.follows: dict[Attempt, int] = {}
        # Attempts that ended in an error of the handler's own.
        self.failed: set[Attempt] = set()

    @property
    def parts(self) -> list[Folded]:
        """What attempts are made of: the node itself, or the iterations of its loop."""
        if self.plan.loop is None:
            return [self.own]
        return [] if self.loop is None else list(self.loop.iterations.values())


def data_of(event: Event) -> dict[str, Any]:
    """The event's data."""
    return {} if event.data is None else msgspec.json.decode(event.data)


def told(event: Event) -> str:
    """How evidence names an event."""
    place = "" if event.node_id is None else f" of {event.node_id}"
    return f"event {event.seq} ({event.type}{place}{'' if event.index is None else f'[{event.index}]'})"
