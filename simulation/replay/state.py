"""The state that the replay of a job's events builds: nodes, loops, iterations, and the violations found."""

from typing import Any

import msgspec

from simulation.history import Violation
from windlass.core.events import Event
from windlass.core.plan import LoopPlan, NodePlan

UNFINISHED = frozenset({"pending", "ready", "dispatched", "running", "waiting"})
OUT = frozenset({"dispatched", "running"})

# An attempt of a node: the iteration (None outside of loops) and the attempt number.
AttemptKey = tuple[int | None, int]
# What an attempt works on: the iteration, the generation of its node, and the number of the page.
WorkUnit = tuple[int | None, int, int]


class Findings:
    """The violations found in a job's events."""

    def __init__(self, job_id: str, *, clocks_steady: bool) -> None:
        self.job_id = job_id
        # Whether all engines that ran the job had the same time.
        self.clocks_steady = clocks_steady
        self.violations: list[Violation] = []

    def report(self, invariant: str, evidence: str) -> None:
        """Add a violation."""
        self.violations.append(Violation(invariant, self.job_id, evidence))

    def check_due(self, event: Event, due_at: int | None, what: str) -> None:
        """Report an event that is earlier than `due_at`."""
        if self.clocks_steady and due_at is not None and event.at < due_at:
            self.report("I22", f"{describe(event)} is {due_at - event.at} µs before {what}")


class ReplayedUnit:
    """A node, or an iteration of one, as derived from its events."""

    def __init__(self, plan: NodePlan, index: int | None = None, attempts_before: int = 0) -> None:
        self.plan = plan
        self.index = index
        self.state = "pending"
        self.attempt = self.attempts_before = attempts_before
        # The number of the first attempt, and the event of the first start.
        self.attempt_first = attempts_before + 1
        self.first_seq: int | None = None
        self.losses = 0
        # Rate-limited answers so far, and the time of the first one.
        self.rate_limits = 0
        self.rate_limited_at: int | None = None
        self.dispatched_at: int | None = None
        self.started_at: int | None = None
        self.completed_at: int | None = None
        self.due_at: int | None = None
        self.worker_id: str | None = None
        self.error: Any = None
        # Whether the last event was the loss of its worker.
        self.was_just_lost = False
        self.skip_reason: str | None = None
        # The attempts whose outputs were accepted, one for each page so far.
        self.answers: list[int] = []
        # Whether all pages were requested, and whether their outputs are being merged.
        self.is_answered = False
        self.is_merging = False
        # Whether there were more pages than allowed.
        self.is_exhausted = False

    @property
    def is_accepting(self) -> bool:
        """Whether downstream nodes may run."""
        if self.state == "failed":
            return self.plan.allow_failure
        return self.state in ("completed", "skipped")

    @property
    def accepted(self) -> list[int]:
        """The attempts whose outputs make up the output of this unit."""
        if self.plan.on_success is None:
            return [self.attempt]
        return self.answers

    def finish(self, event: Event) -> None:
        """Record the end of the unit."""
        self.completed_at = event.at
        self.due_at = None

    def reset(self) -> None:
        """Return to the initial state, keeping the attempt number."""
        self.state = "pending"
        self.attempts_before = self.attempt or self.attempts_before
        self.losses = self.rate_limits = 0
        self.rate_limited_at = None
        self.dispatched_at = self.started_at = self.due_at = self.worker_id = None
        self.completed_at = self.error = self.skip_reason = None
        self.was_just_lost = self.is_merging = self.is_answered = self.is_exhausted = False
        self.answers = []


class ReplayedLoop:
    """The loop of a node, in one generation."""

    def __init__(self, plan: LoopPlan, total: int, attempts_before: int) -> None:
        self.plan = plan
        self.total = total
        # The number of attempts that iterations had in earlier generations.
        self.attempts_before = attempts_before
        # Iterations below this index have begun.
        self.begun = 0
        self.iterations: dict[int, ReplayedUnit] = {}
        # The iteration whose failure fails the node.
        self.failed_by: ReplayedUnit | None = None
        # Iterations in flight at most, and the instant before which nothing is dispatched: less after a rate limit.
        self.window = plan.window
        self.paused_until: int | None = None
        self.is_closed = False

    def count(self, *states: str) -> int:
        """Return how many iterations are in one of these states."""
        return sum(iteration.state in states for iteration in self.iterations.values())

    def count_exhausted(self) -> int:
        """Return how many iterations completed although pages were left."""
        return sum(
            one.state == "completed" and one.is_exhausted for one in self.iterations.values()
        )

    @property
    def has_too_many_failures(self) -> bool:
        """Whether the failures exceed the bound of a tolerant loop, however the other iterations end."""
        failed, counted = self.count("failed"), self.total - self.count("skipped")
        plan = self.plan
        if not plan.tolerant or not failed:
            return False
        if plan.failed_max is None and plan.failure_rate_max is None:
            return failed == counted
        is_over_count = plan.failed_max is not None and failed > plan.failed_max
        return is_over_count or (
            plan.failure_rate_max is not None and failed / counted > plan.failure_rate_max
        )

    @property
    def is_over(self) -> bool:
        """Whether every iteration has ended."""
        return self.count("completed", "failed", "skipped") == self.total


class ReplayedNode:
    """A node with its attempts and its loop."""

    def __init__(self, plan: NodePlan) -> None:
        self.plan = plan
        self.own = ReplayedUnit(plan)
        self.generation = 0
        self.loop: ReplayedLoop | None = None
        # The highest attempt number of any iteration so far.
        self.attempts_of_iterations = 0
        self.work_units: dict[AttemptKey, WorkUnit] = {}
        # For the attempt of a further call, the attempt whose output it follows.
        self.follows: dict[AttemptKey, int] = {}
        # Attempts that ended with an error of the handler.
        self.failed: set[AttemptKey] = set()

    @property
    def units(self) -> list[ReplayedUnit]:
        """What has attempts: the node itself, or the iterations of its loop."""
        if self.plan.loop is None:
            return [self.own]
        if self.loop is None:
            return []
        return list(self.loop.iterations.values())


def data_of(event: Event) -> dict[str, Any]:
    """Return the event's data."""
    if event.data is None:
        return {}
    return msgspec.json.decode(event.data)


def describe(event: Event) -> str:
    """Return the name of an event for evidence."""
    if event.node_id is None:
        return f"event {event.seq} ({event.type})"
    if event.index is None:
        return f"event {event.seq} ({event.type} of {event.node_id})"
    return f"event {event.seq} ({event.type} of {event.node_id}[{event.index}])"
