"""Replays the events of a job from zero, by rules of its own, and notes every event that could not have happened.

The tables here are written down a second time on purpose: a mistake in the core's must not excuse itself.
"""

from typing import Any

from simulation.history import JobHistory, Violation
from simulation.replay import attempts, loops
from simulation.replay.state import OUT, UNFINISHED, Folded, FoldedNode, Notes, data_of, told
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.plan import NodeKind, Plan

# event -> the states that its node may leave, and the one it enters
_MOVES = {
    "node_ready": (frozenset({"pending", "waiting"}), "ready"),
    "node_dispatched": (frozenset({"ready"}), "dispatched"),
    "node_started": (frozenset({"dispatched"}), "running"),
    "node_completed": (frozenset({"running"}), "completed"),
    "node_retrying": (frozenset({"running"}), "waiting"),
    "retry_sequence_completed": (frozenset({"running"}), "waiting"),
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
# These are about a node, or about an iteration when they have an index.
_OF_BOTH = frozenset({"worker_lost", "retry_sequence_completed"})


class Fold:
    """A job as its events tell it, and what was wrong with them."""

    def __init__(self, history: JobHistory, *, clocks_steady: bool = True) -> None:
        self.plan: Plan = history.plan
        self.nodes = {node.id: FoldedNode(node) for node in self.plan.nodes}
        self._starts = [node for node in self.nodes.values() if node.plan.kind is NodeKind.START]
        self.status = "new"
        self.round = 0
        self.seq = 0
        self.started_at: int | None = None
        self.completed_at: int | None = None
        self.error: Any = None
        # When the present round began: its timeout runs from here, or from soon after the job was created.
        self.begun_at: int | None = None
        self._doomed_by: str | None = None
        self.notes = Notes(history.job.spec.job_id, clocks_steady=clocks_steady)
        for event in history.events:
            self._apply(event)

    @property
    def violations(self) -> list[Violation]:
        """What was found so far."""
        return self.notes.violations

    def blame(self, invariant: str, evidence: str) -> None:
        """Note a violation."""
        self.notes.blame(invariant, evidence)

    def _apply(self, event: Event) -> None:
        if event.seq != self.seq + 1:
            self.blame("I26", f"event {event.seq} ({event.type}) follows {self.seq}")
        self.seq = event.seq
        if self.begun_at is None:
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
            self.blame("I12", f"{told(event)} after the job was {self.status}")
        self._begin_start_nodes(event)
        if event.type.startswith("iteration_") or (event.type in _OF_BOTH and event.index is not None):
            loops.apply(self.notes, node, event)
        elif event.type == "iterator_started":
            loops.begin(self.notes, node, event)
        elif event.type == "iterator_completed":
            loops.close(self.notes, node, event)
        elif event.type == "worker_lost":
            attempts.lose(self.notes, node.own, event)
        elif event.type in _MOVES:
            self._move(node, event)
        else:
            self.blame("I1", f"event {event.seq} has an unknown type {event.type!r}")

    def _begin_start_nodes(self, event: Event) -> None:
        # START completes with the job's first step and has no event of its own, unless it is cut off before.
        if event.type in ("node_cancelled", "node_failed"):
            return
        for node in self._starts:
            if node.own.state == "pending":
                node.own.state = "completed"

    def _apply_to_job(self, event: Event) -> None:
        sources, target = _JOB_MOVES[event.type]
        if self.status not in sources:
            self.blame("I1", f"{told(event)} although the job is {self.status}")
        self.status = target
        data = data_of(event)
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
        self.completed_at = self.error = self._doomed_by = None
        self.started_at = self.started_at or event.at
        self.begun_at = event.at
        if data.get("round") != self.round:
            self.blame("I3", f"{told(event)} says round {data.get('round')}, it is {self.round}")
        named = set(data.get("nodes", ()))
        for node_id, node in self.nodes.items():
            state = node.own.state
            never_ran = state == "failed" and node.own.error.get("type") == "upstream_failed"
            failed = state == "cancelled" or (state == "failed" and not node.plan.allow_failure)
            if (failed or never_ran) and node_id not in named:
                self.blame("I1", f"{told(event)} leaves {node_id} {state}")
        for node_id in sorted(named):
            node = self.nodes[node_id]
            above = any(parent.plan.id in named for parent in self._parents(node.own))
            loops.reset(node, is_anew=above or node_id == data.get("from_node"))

    def _move(self, node: FoldedNode, event: Event) -> None:
        sources, target = _MOVES[event.type]
        own = node.own
        was_lost = event.type == "node_ready" and own.lost_just_now and own.state in OUT
        gathered = event.type == "node_completed" and (own.is_gathering or (node.loop is not None and own.state in OUT))
        if own.state not in sources and not was_lost and not gathered:
            self.blame("I1", f"{told(event)} although the node is {own.state}")
        if self._doomed_by is not None and target not in ("failed", "cancelled"):
            self.blame("I13", f"{told(event)} although {self._doomed_by} failed, which ends the job")
        before, own.state = own.state, target
        own.lost_just_now = False
        match event.type:
            case "node_ready":
                self._ready(own, event, before, was_lost=was_lost)
            case "node_dispatched":
                attempts.dispatch(self.notes, node, own, event)
                own.first_seq = own.first_seq or event.seq
            case "node_started":
                attempts.start(self.notes, own, event)
            case "node_completed":
                attempts.complete(self.notes, own, event)
            case "node_retrying":
                attempts.end_or_retry(self.notes, node, own, event)
            case "retry_sequence_completed":
                attempts.end_series(self.notes, own, event)
            case "node_failed":
                self._fail(node, event, before)
            case "node_skipped":
                self._skip(own, event)
            case "node_cancelled":
                own.error, own.is_gathering = None, False
            case _:
                pass
        if target not in UNFINISHED:
            own.completed_at, own.due_at = event.at, None
            if node.plan.loop is not None and target != "skipped":
                loops.check_end(self.notes, node, event)

    def _ready(self, node: Folded, event: Event, before: str, *, was_lost: bool) -> None:
        if before == "pending":
            self._check_entry(node, event)
        attempts.leave(self.notes, node, event, was_lost=was_lost)
        if node.plan.kind is NodeKind.END:
            node.state, node.completed_at = "completed", event.at

    def _check_entry(self, node: Folded, event: Event) -> None:
        parents = self._parents(node)
        waiting = [parent.plan.id for parent in parents if not parent.accepting]
        if waiting:
            self.blame("I8", f"{told(event)} before its dependencies {waiting} were met")
        must_skip = parents and all(parent.state == "skipped" for parent in parents)
        if must_skip and node.plan.kind is NodeKind.TASK and not node.plan.run_if_skipped:
            self.blame("I11", f"{told(event)} although every dependency was skipped")

    def _parents(self, node: Folded) -> list[Folded]:
        plan = self.plan
        return [self.nodes[plan.nodes[parent].id].own for parent in plan.parents[plan.index[node.plan.id]]]

    def _skip(self, node: Folded, event: Event) -> None:
        node.skip_reason = data_of(event).get("reason")
        parents = self._parents(node)
        if not all(parent.accepting for parent in parents):
            self.blame("I8", f"{told(event)} before its dependencies were met")
        if "condition" in (node.skip_reason or ""):
            if node.plan.when is None:
                self.blame("I11", f"{told(event)} for a condition that it does not have")
        elif node.plan.run_if_skipped or not parents or any(parent.state != "skipped" for parent in parents):
            self.blame("I11", f"{told(event)} although not every dependency was skipped")

    def _fail(self, node: FoldedNode, event: Event, before: str) -> None:
        own, data = node.own, data_of(event)
        own.error = data.get("error") or {}
        if own.error.get("type") == "upstream_failed":
            own.attempt = data.get("attempt_number", own.attempt)
            if before in ("dispatched", "running", "waiting"):
                self.blame("I8", f"{told(event)} although the node was {before} and so its dependencies were met")
            return
        if self.plan.fail_fast and not node.plan.allow_failure:
            self._doomed_by = node.plan.id
        if node.plan.loop is None:
            attempts.fail(self.notes, node, own, event)
        else:
            own.attempt = data.get("attempt_number", own.attempt)

    def _check_end(self, event: Event) -> None:
        """The end of a job is the declared function of the ends of its nodes."""
        nodes = {name: node.own for name, node in self.nodes.items()}
        left = sorted(name for name, node in nodes.items() if node.state in UNFINISHED)
        if event.type == "job_completed" or event.type == "job_failed":
            left = [name for name in left if nodes[name].plan.kind is not NodeKind.START]
        if left:
            self.blame("I13", f"{told(event)} while {left} have not ended")
        hard = {name for name, node in nodes.items() if node.state == "failed" and not node.plan.allow_failure}
        if event.type == "job_completed":
            bad = [name for name, node in nodes.items() if not node.accepting and node.state not in UNFINISHED]
            if bad:
                self.blame("I13", f"{told(event)} although {bad} did not complete")
        if event.type != "job_failed":
            return
        error: dict[str, Any] = self.error or {}
        by_node = error.get("node_id")
        if by_node is None and error.get("type") == "timeout" and self.plan.timeout_seconds is not None:
            due_at = (self.begun_at or 0) + round(self.plan.timeout_seconds * MICROSECONDS)
            self.notes.check_due(event, due_at, "the job's timeout")
            return
        if by_node not in hard:
            self.blame("I13", f"{told(event)} because of {by_node!r}, failed are {sorted(hard)}")
        cancelled = [name for name, node in nodes.items() if node.state == "cancelled"]
        if cancelled and not self.plan.fail_fast:
            self.blame("I13", f"{told(event)} and cancelled {cancelled}, though independent branches may finish")
        self._check_upstream(event, hard)

    def _check_upstream(self, event: Event, hard: set[str]) -> None:
        cause = {name for name in hard if self.nodes[name].own.error.get("type") != "upstream_failed"}
        below = _below(self.plan, cause)
        for name, folded in self.nodes.items():
            node = folded.own
            blamed = node.state == "failed" and node.error.get("type") == "upstream_failed"
            if blamed and name not in below:
                self.blame("I13", f"{told(event)}: {name} blames an upstream node, but none failed")
            if name in below and node.state == "cancelled":
                self.blame("I13", f"{told(event)}: {name} is cancelled, though a node before it failed")


def _below(plan: Plan, names: set[str]) -> set[str]:
    """The nodes after the named ones; plans are in topological order."""
    found: set[str] = set()
    for number, node in enumerate(plan.nodes):
        if any(plan.nodes[p].id in names or plan.nodes[p].id in found for p in plan.parents[number]):
            found.add(node.id)
    return found
