"""Replays the events of a job from zero, by rules of its own, and notes every event that could not have happened.

The tables here are written down a second time on purpose: a mistake in the core's must not excuse itself.
"""

from typing import Any

import msgspec

from windlass.core.changes import Event
from windlass.core.plan import Backoff, NodeKind, NodePlan, Plan, RetryOnError
from windlass.core.retries import REDELIVERIES_MAX
from windlass.testing.history import JobHistory, Violation

UNFINISHED = frozenset({"pending", "ready", "dispatched", "running", "waiting"})
_DELAY_SLACK = 1e-6
_MICROSECONDS = 1_000_000

# event -> the states that its node may leave, and the one it enters
_MOVES = {
    "node_ready": (frozenset({"pending", "waiting"}), "ready"),
    "node_dispatched": (frozenset({"ready"}), "dispatched"),
    "node_started": (frozenset({"dispatched"}), "running"),
    "node_completed": (frozenset({"running"}), "completed"),
    "node_retrying": (frozenset({"running"}), "waiting"),
    "node_failed": (UNFINISHED, "failed"),
    "node_skipped": (frozenset({"pending"}), "skipped"),
    "node_cancelled": (UNFINISHED, "cancelled"),
}
_JOB_MOVES = {
    "job_created": (frozenset({"new"}), "pending"),
    "job_started": (frozenset({"pending"}), "running"),
    "job_completed": (frozenset({"running"}), "completed"),
    "job_failed": (frozenset({"running"}), "failed"),
    "job_cancelled": (frozenset({"pending", "running"}), "cancelled"),
    "job_retried": (frozenset({"completed", "failed", "cancelled"}), "running"),
}
# Failures that say nothing about the handler: the author's rule of retries does not apply to them.
_NOT_THE_HANDLERS = frozenset({"upstream_failed", "template_failed", "worker_lost"})
_NO_RESULT = frozenset({*_NOT_THE_HANDLERS, "timeout"})


class FoldedNode:
    """A node as its events tell it."""

    def __init__(self, plan: NodePlan) -> None:
        self.plan = plan
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
        self.touched = False
        self.skip_reason: str | None = None
        self.dispatched: set[int] = set()
        # Attempts that ended in an error of the handler's own.
        self.failed: set[int] = set()

    @property
    def accepting(self) -> bool:
        """Whether those that depend on the node may go on."""
        return self.state in ("completed", "skipped") or (self.state == "failed" and self.plan.allow_failure)

    def forget_flight(self) -> None:
        """What is known of an attempt goes when the node starts over."""
        self.losses = 0
        self.first_seq = self.dispatched_at = self.started_at = self.due_at = self.worker_id = None
        self.completed_at = self.error = self.skip_reason = None


class Fold:
    """A job as its events tell it, and what was wrong with them."""

    def __init__(self, history: JobHistory, *, clocks_steady: bool = True) -> None:
        self.plan: Plan = history.plan
        self.job_id = history.job.job_id
        self.nodes = {node.id: FoldedNode(node) for node in self.plan.nodes}
        self.status = "new"
        self.round = 0
        self.seq = 0
        self.started_at: int | None = None
        self.completed_at: int | None = None
        self.error: Any = None
        self.retried_at: list[int] = []
        # When the present round began: its timeout runs from here.
        self.begun_at: int | None = None
        self._doomed_by: str | None = None
        self.violations: list[Violation] = []
        self._steady = clocks_steady
        for event in history.events:
            self._apply(event)

    def blame(self, invariant: str, evidence: str) -> None:
        """Note a violation."""
        self.violations.append(Violation(invariant, self.job_id, evidence))

    def _apply(self, event: Event) -> None:
        if event.seq != self.seq + 1:
            self.blame("I26", f"event {event.seq} ({event.type}) follows {self.seq}")
        self.seq = event.seq
        if self.begun_at is None and event.type != "job_created":
            self.begun_at = event.at
        if event.type in _JOB_MOVES:
            self._apply_to_job(event)
            return
        node = self.nodes.get(event.node_id or "")
        if node is None:
            self.blame("I1", f"event {event.seq} ({event.type}) is about an unknown node {event.node_id!r}")
            return
        if event.type == "result_ignored":
            return
        if self.status in ("completed", "failed", "cancelled"):
            self.blame("I12", f"{_told(event)} after the job was {self.status}")
        self._begin_start_nodes(event)
        node.touched = True
        if event.type == "worker_lost":
            self._lose(node, event)
        elif event.type in _MOVES:
            self._move(node, event)
        else:
            self.blame("I1", f"event {event.seq} has an unknown type {event.type!r}")

    def _begin_start_nodes(self, event: Event) -> None:
        # START completes with the job's first step and has no event of its own, unless it is cut off before.
        if event.type in ("node_cancelled", "node_failed"):
            return
        for node in self.nodes.values():
            if node.plan.kind is NodeKind.START and node.state == "pending":
                node.state, node.touched = "completed", True

    def _apply_to_job(self, event: Event) -> None:
        sources, target = _JOB_MOVES[event.type]
        if self.status not in sources:
            self.blame("I1", f"{_told(event)} although the job is {self.status}")
        self.status = target
        data = _data(event)
        match event.type:
            case "job_started":
                self._begin_start_nodes(event)
                self.started_at = event.at
            case "job_retried":
                self._reset(event, data)
            case "job_completed" | "job_failed" | "job_cancelled":
                self.completed_at = event.at
                self.error = data.get("error")
                self._check_end(event)
            case _:
                pass

    def _reset(self, event: Event, data: dict[str, Any]) -> None:
        self.round += 1
        self.retried_at.append(event.at)
        self.completed_at = self.error = self._doomed_by = None
        self.started_at = self.started_at or event.at
        self.begun_at = event.at
        if data.get("round") != self.round:
            self.blame("I3", f"{_told(event)} says round {data.get('round')}, it is {self.round}")
        named = set(data.get("nodes", ()))
        for node_id, node in self.nodes.items():
            never_ran = node.state == "failed" and node.error.get("type") == "upstream_failed"
            failed = node.state == "cancelled" or (node.state == "failed" and not node.plan.allow_failure)
            if (failed or never_ran) and node_id not in named:
                self.blame("I1", f"{_told(event)} leaves {node_id} {node.state}")
        for node_id in named:
            node = self.nodes[node_id]
            node.state = "pending"
            node.attempts_before = node.attempt or node.attempts_before
            node.forget_flight()

    def _lose(self, node: FoldedNode, event: Event) -> None:
        losses = _data(event).get("losses", 0)
        if node.state not in ("dispatched", "running"):
            self.blame("I1", f"{_told(event)} although the node is {node.state}")
        if not node.losses < losses <= REDELIVERIES_MAX + 1:
            self.blame("I3", f"{_told(event)} counts {losses} losses after {node.losses}")
        node.losses = losses
        node.lost_just_now = True

    def _move(self, node: FoldedNode, event: Event) -> None:
        sources, target = _MOVES[event.type]
        again = event.type == "node_ready" and node.lost_just_now and node.state in ("dispatched", "running")
        if node.state not in sources and not again:
            self.blame("I1", f"{_told(event)} although the node is {node.state}")
        if again:
            node.attempts_before += 1
        if self._doomed_by is not None and target not in ("failed", "cancelled"):
            self.blame("I13", f"{_told(event)} although {self._doomed_by} failed, which ends the job")
        before, node.state = node.state, target
        node.lost_just_now = False
        match event.type:
            case "node_ready":
                self._ready(node, event, before)
            case "node_dispatched":
                self._dispatch(node, event)
            case "node_started":
                self._start(node, event)
            case "node_completed":
                self._check_attempt(node, event)
            case "node_retrying":
                self._retry(node, event)
            case "node_failed":
                self._fail(node, event, before)
            case "node_skipped":
                self._skip(node, event)
            case "node_cancelled":
                node.error = None
            case _:
                pass
        if target not in UNFINISHED:
            node.completed_at, node.due_at = event.at, None

    def _ready(self, node: FoldedNode, event: Event, before: str) -> None:
        if self._steady and node.due_at is not None and event.at < node.due_at:
            self.blame("I22", f"{_told(event)} comes {node.due_at - event.at} µs before its wait is over")
        if before == "pending":
            self._check_entry(node, event)
        node.error = node.due_at = node.started_at = node.worker_id = None
        if node.plan.kind is NodeKind.END:
            node.state, node.completed_at = "completed", event.at

    def _check_entry(self, node: FoldedNode, event: Event) -> None:
        parents = self._parents(node)
        waiting = [parent.plan.id for parent in parents if not parent.accepting]
        if waiting:
            self.blame("I8", f"{_told(event)} before its dependencies {waiting} were met")
        must_skip = parents and all(parent.state == "skipped" for parent in parents)
        if must_skip and node.plan.kind is NodeKind.TASK and not node.plan.run_if_skipped:
            self.blame("I11", f"{_told(event)} although every dependency was skipped")

    def _parents(self, node: FoldedNode) -> list[FoldedNode]:
        plan = self.plan
        return [self.nodes[plan.nodes[parent].id] for parent in plan.parents[plan.index[node.plan.id]]]

    def _skip(self, node: FoldedNode, event: Event) -> None:
        node.skip_reason = _data(event).get("reason")
        parents = self._parents(node)
        if not all(parent.accepting for parent in parents):
            self.blame("I8", f"{_told(event)} before its dependencies were met")
        if "condition" in (node.skip_reason or ""):
            if node.plan.when is None:
                self.blame("I11", f"{_told(event)} for a condition that it does not have")
        elif node.plan.run_if_skipped or not parents or any(parent.state != "skipped" for parent in parents):
            self.blame("I11", f"{_told(event)} although not every dependency was skipped")

    def _dispatch(self, node: FoldedNode, event: Event) -> None:
        attempt = _data(event).get("attempt_number", 0)
        if attempt != node.attempt + 1:
            self.blame("I3", f"{_told(event)} is attempt {attempt} after {node.attempt}")
        if event.parent_seq != node.first_seq:
            self.blame("I26", f"{_told(event)} links to event {event.parent_seq}, the first is {node.first_seq}")
        if attempt - node.attempts_before > node.plan.on_error.attempts_max:
            self.blame("I3", f"{_told(event)} is more than the {node.plan.on_error.attempts_max} attempts allowed")
        node.attempt = attempt
        node.dispatched.add(attempt)
        node.dispatched_at = event.at
        node.first_seq = event.seq if node.first_seq is None else node.first_seq

    def _start(self, node: FoldedNode, event: Event) -> None:
        self._check_attempt(node, event)
        node.started_at = event.at
        node.worker_id = _data(event).get("worker_id")

    def _retry(self, node: FoldedNode, event: Event) -> None:
        self._check_attempt(node, event)
        data = _data(event)
        rule = node.plan.on_error
        made = node.attempt - node.attempts_before
        if made >= rule.attempts_max:
            self.blame("I3", f"{_told(event)} after {made} of {rule.attempts_max} attempts")
        error, delay = data.get("error", {}), data.get("delay_seconds", -1.0)
        if error.get("type") not in _NO_RESULT:
            node.failed.add(node.attempt)
        least = _declared_delay(rule, made, error.get("retry_after_seconds") or 0.0)
        if not least - _DELAY_SLACK <= delay <= least * (1 + rule.jitter) + _DELAY_SLACK:
            self.blame("I23", f"{_told(event)} waits {delay} s, declared are {least} s and jitter {rule.jitter}")
        if rule.when is None and not error.get("retryable", True):
            self.blame("I3", f"{_told(event)} although its error can not get better")
        node.error, node.due_at = error, event.at + round(delay * _MICROSECONDS)

    def _fail(self, node: FoldedNode, event: Event, before: str) -> None:
        data = _data(event)
        error: dict[str, Any] = data.get("error") or {}
        attempt = data.get("attempt_number")
        if attempt is not None:
            node.attempt = attempt
        node.error = error
        kind = error.get("type")
        if kind == "upstream_failed":
            if before in ("dispatched", "running", "waiting"):
                self.blame("I8", f"{_told(event)} although the node was {before} and so its dependencies were met")
            return
        if self.plan.fail_fast and not node.plan.allow_failure:
            self._doomed_by = node.plan.id
        if kind not in _NO_RESULT:
            node.failed.add(node.attempt)
        made, rule = node.attempt - node.attempts_before, node.plan.on_error
        retryable = error.get("retryable", True) and kind not in _NOT_THE_HANDLERS
        if retryable and rule.when is None and made < rule.attempts_max:
            self.blame("I3", f"{_told(event)} after {made} of {rule.attempts_max} attempts")
        if kind == "worker_lost" and node.losses <= REDELIVERIES_MAX:
            self.blame("I3", f"{_told(event)} after {node.losses} losses of {REDELIVERIES_MAX} that are allowed")

    def _check_attempt(self, node: FoldedNode, event: Event) -> None:
        attempt = _data(event).get("attempt_number")
        if attempt != node.attempt:
            self.blame("I6", f"{_told(event)} is about attempt {attempt}, dispatched was {node.attempt}")

    def _check_end(self, event: Event) -> None:
        """The end of a job is the declared function of the ends of its nodes."""
        left = sorted(name for name, node in self.nodes.items() if node.state in UNFINISHED)
        if event.type == "job_completed" or event.type == "job_failed":
            left = [name for name in left if self.nodes[name].plan.kind is not NodeKind.START]
        if left:
            self.blame("I13", f"{_told(event)} while {left} have not ended")
        hard = {name for name, node in self.nodes.items() if node.state == "failed" and not node.plan.allow_failure}
        if event.type == "job_completed":
            bad = [name for name, node in self.nodes.items() if not node.accepting and node.state not in UNFINISHED]
            if bad:
                self.blame("I13", f"{_told(event)} although {bad} did not complete")
        if event.type != "job_failed":
            return
        error: dict[str, Any] = self.error or {}
        by_node = error.get("node_id")
        if by_node is None and error.get("type") == "timeout" and self.plan.timeout_seconds is not None:
            due_at = (self.begun_at or 0) + round(self.plan.timeout_seconds * _MICROSECONDS)
            if self._steady and event.at < due_at:
                self.blame("I22", f"{_told(event)} comes {due_at - event.at} µs before the job's timeout")
            return
        if by_node not in hard:
            self.blame("I13", f"{_told(event)} because of {by_node!r}, failed are {sorted(hard)}")
        cancelled = [name for name, node in self.nodes.items() if node.state == "cancelled"]
        if cancelled and not self.plan.fail_fast:
            self.blame("I13", f"{_told(event)} and cancelled {cancelled}, though independent branches may finish")
        self._check_upstream(event, hard)

    def _check_upstream(self, event: Event, hard: set[str]) -> None:
        cause = {name for name in hard if self.nodes[name].error.get("type") != "upstream_failed"}
        below = _below(self.plan, cause)
        for name, node in self.nodes.items():
            blamed = node.state == "failed" and node.error.get("type") == "upstream_failed"
            if blamed and name not in below:
                self.blame("I13", f"{_told(event)}: {name} blames an upstream node, but none failed")
            if name in below and node.state == "cancelled":
                self.blame("I13", f"{_told(event)}: {name} is cancelled, though a node before it failed")


def _below(plan: Plan, names: set[str]) -> set[str]:
    """The nodes after the named ones; plans are in topological order."""
    found: set[str] = set()
    for number, node in enumerate(plan.nodes):
        if any(plan.nodes[p].id in names or plan.nodes[p].id in found for p in plan.parents[number]):
            found.add(node.id)
    return found


def _declared_delay(rule: RetryOnError, attempts_made: int, retry_after_seconds: float) -> float:
    growth = {
        Backoff.FIXED: 1.0,
        Backoff.LINEAR: float(attempts_made),
        Backoff.EXPONENTIAL: rule.multiplier ** (attempts_made - 1),
    }
    return min(max(rule.initial_delay_seconds * growth[rule.backoff], retry_after_seconds), rule.max_delay_seconds)


def _data(event: Event) -> dict[str, Any]:
    return {} if event.data is None else msgspec.json.decode(event.data)


def _told(event: Event) -> str:
    return f"event {event.seq} ({event.type}{f' of {event.node_id}' if event.node_id else ''})"
