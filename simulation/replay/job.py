"""Replays the events of a job from zero, by its own rules, and reports every event that could not have happened.

The tables are written a second time on purpose, so that a mistake in the tables of the core is detected.
"""

from collections.abc import Sequence
from typing import Any

from simulation.history import JobHistory, Violation
from simulation.replay import attempts, loops
from simulation.replay.state import (
    OUT,
    UNFINISHED,
    Findings,
    ReplayedNode,
    ReplayedUnit,
    data_of,
    describe,
)
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.plan import NodeKind, Plan

# event -> the states that its node may leave, and the state it enters
_MOVES = {
    "node_ready": (frozenset({"pending", "waiting"}), "ready"),
    "node_dispatched": (frozenset({"ready"}), "dispatched"),
    "node_started": (frozenset({"dispatched"}), "running"),
    "node_completed": (frozenset({"running"}), "completed"),
    "node_retrying": (frozenset({"running"}), "waiting"),
    "retry_sequence_completed": (frozenset({"running"}), "waiting"),
    "task_redelivered": (frozenset({"running"}), "dispatched"),
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
# Events of a node, or of an iteration if they have an index.
_OF_BOTH = frozenset({"worker_lost", "task_redelivered", "retry_sequence_completed"})
_OF_LOOPS = frozenset({"iterator_started", "iterator_completed"})
# Events that may happen in any state and change nothing.
_WITHOUT_EFFECT = frozenset({"result_ignored"})
# The event types that the replay has a rule for.
REPLAYED = frozenset({*_JOB_MOVES, *_MOVES, *loops.MOVES, *_OF_LOOPS, *_WITHOUT_EFFECT})


class ReplayedJob:
    """A job as derived from its events, and the violations found in them."""

    def __init__(self, history: JobHistory, *, clocks_steady: bool = True) -> None:
        self.plan: Plan = history.plan
        self.nodes = {node.id: ReplayedNode(node) for node in self.plan.nodes}
        self._start_nodes = [
            node for node in self.nodes.values() if node.plan.kind is NodeKind.START
        ]
        self.status = "new"
        self.round = 0
        self.seq = 0
        self.started_at: int | None = None
        self.completed_at: int | None = None
        self.error: Any = None
        # The earliest time from which the timeout of the present round may count.
        self.begun_at: int | None = None
        # The node whose failure fails the job.
        self._failed_by: str | None = None
        self.findings = Findings(history.job.spec.job_id, clocks_steady=clocks_steady)
        for event in history.events:
            self._apply(event)

    @property
    def violations(self) -> list[Violation]:
        """The violations found so far."""
        return self.findings.violations

    @property
    def failures(self) -> int:
        """The failures that the job tolerates."""
        return sum(map(_failures, self.nodes.values()))

    def report(self, invariant: str, evidence: str) -> None:
        """Add a violation."""
        self.findings.report(invariant, evidence)

    def _apply(self, event: Event) -> None:
        if event.seq != self.seq + 1:
            self.report("I26", f"event {event.seq} ({event.type}) follows {self.seq}")
        self.seq = event.seq
        if self.begun_at is None:
            self.begun_at = event.at
        if event.type not in REPLAYED:
            self.report(
                "I1",
                f"{describe(event)} has no rule in the replay; add its type to simulation/replay/job.py",
            )
            return
        if event.type in _JOB_MOVES:
            self._apply_to_job(event)
            return
        node = self.nodes.get(event.node_id or "")
        if node is None:
            self.report(
                "I1", f"event {event.seq} ({event.type}) is about an unknown node {event.node_id!r}"
            )
        elif event.type not in _WITHOUT_EFFECT:
            self._apply_to_node(node, event)

    def _apply_to_node(self, node: ReplayedNode, event: Event) -> None:
        if self.status in ("completed", "failed", "cancelled"):
            self.report("I12", f"{describe(event)} after the job was {self.status}")
        self._complete_start_nodes(event)
        if event.type.startswith("iteration_") or (
            event.type in _OF_BOTH and event.index is not None
        ):
            loops.apply(self.findings, node, event)
        elif event.type == "iterator_started":
            loops.begin(self.findings, node, event)
        elif event.type == "iterator_completed":
            loops.close(self.findings, node, event)
        elif event.type == "worker_lost":
            attempts.check_link(self.findings, node.own, event)
            attempts.lose(self.findings, node.own, event)
        else:
            self._move(node, event)

    def _complete_start_nodes(self, event: Event) -> None:
        # START completes with the job's first step and has no event of its own, unless the job ends before.
        if event.type in ("node_cancelled", "node_failed"):
            return
        for node in self._start_nodes:
            if node.own.state == "pending":
                node.own.state = "completed"

    def _apply_to_job(self, event: Event) -> None:
        sources, target = _JOB_MOVES[event.type]
        if self.status not in sources:
            self.report("I1", f"{describe(event)} although the job is {self.status}")
        before, self.status = self.status, target
        data = data_of(event)
        match event.type:
            case "job_started":
                self._complete_start_nodes(event)
                self.started_at = event.at
            case "job_retried":
                self._reset(event, data, had_completed=before == "completed")
            case "job_completed" | "job_failed" | "job_cancelled":
                self.completed_at = event.at
                self.error = data.get("error")
                self._check_end(event)
            case _:
                pass

    def _reset(self, event: Event, data: dict[str, Any], *, had_completed: bool) -> None:
        self.round += 1
        self.completed_at = self.error = self._failed_by = None
        self.started_at = self.started_at or event.at
        self.begun_at = event.at
        if data.get("round") != self.round:
            self.report(
                "I3", f"{describe(event)} says round {data.get('round')}, it is {self.round}"
            )
        retried = set(data.get("nodes", ()))
        for node_id, node in self.nodes.items():
            has_failed = had_completed and data.get("from_node") is None and _failures(node) > 0
            if (has_failed or _must_be_retried(node)) and node_id not in retried:
                self.report("I1", f"{describe(event)} leaves {node_id} {node.own.state}")
        for node_id in sorted(retried):
            node = self.nodes[node_id]
            is_below_retried = any(parent.plan.id in retried for parent in self._parents(node.own))
            loops.reset(node, is_new=is_below_retried or node_id == data.get("from_node"))

    def _move(self, node: ReplayedNode, event: Event) -> None:
        own, before = node.own, node.own.state
        was_lost = event.type == "node_ready" and own.was_just_lost and own.state in OUT
        if not was_lost:
            self._check_source(node, event)
        if event.type not in attempts.WITHOUT_LINK:
            attempts.check_link(self.findings, own, event)
        _, own.state = _MOVES[event.type]
        if self._failed_by is not None and own.state not in ("failed", "cancelled"):
            self.report("I13", f"{describe(event)} although {self._failed_by} failed the job")
        own.was_just_lost = False
        match event.type:
            case "node_ready":
                self._ready(own, event, before, was_lost=was_lost)
            case "node_dispatched":
                attempts.dispatch(self.findings, node, own, event)
            case "node_started":
                attempts.start(self.findings, own, event)
            case "node_completed":
                attempts.complete(self.findings, own, event)
            case "node_retrying":
                attempts.retry_or_request_next(self.findings, node, own, event)
            case "retry_sequence_completed":
                attempts.end_pagination(self.findings, own, event)
            case "task_redelivered":
                attempts.check_attempt(self.findings, own, event)
            case "node_failed":
                self._fail(node, event, before)
            case "node_skipped":
                self._skip(own, event)
            case _:
                own.error, own.is_merging = None, False
        if _MOVES[event.type][1] not in UNFINISHED:
            self._finish(node, event)

    def _check_source(self, node: ReplayedNode, event: Event) -> None:
        own = node.own
        # The end of a merge completes a waiting node; the end of a loop completes a dispatched one.
        is_merged = own.is_merging or (node.loop is not None and own.state in OUT)
        if event.type == "node_completed" and is_merged:
            return
        if own.state not in _MOVES[event.type][0]:
            self.report("I1", f"{describe(event)} in state {own.state}")

    def _finish(self, node: ReplayedNode, event: Event) -> None:
        node.own.finish(event)
        if node.plan.loop is not None and node.own.state != "skipped":
            loops.check_end(self.findings, node, event)

    def _ready(self, node: ReplayedUnit, event: Event, before: str, *, was_lost: bool) -> None:
        if before == "pending":
            self._check_dependencies(node, event)
        attempts.end_wait(self.findings, node, event, was_lost=was_lost)
        if node.plan.kind is NodeKind.END:
            node.state, node.completed_at = "completed", event.at

    def _check_dependencies(self, node: ReplayedUnit, event: Event) -> None:
        parents = self._parents(node)
        unmet = [parent.plan.id for parent in parents if not parent.is_accepting]
        if unmet:
            self.report("I8", f"{describe(event)} before its dependencies {unmet} were met")
        if (
            node.plan.kind is NodeKind.TASK
            and not node.plan.run_if_skipped
            and _all_skipped(parents)
        ):
            self.report("I11", f"{describe(event)} although every dependency was skipped")

    def _parents(self, node: ReplayedUnit) -> list[ReplayedUnit]:
        plan = self.plan
        return [
            self.nodes[plan.nodes[parent].id].own
            for parent in plan.parents[plan.index[node.plan.id]]
        ]

    def _skip(self, node: ReplayedUnit, event: Event) -> None:
        node.skip_reason = data_of(event).get("reason")
        parents = self._parents(node)
        if not all(parent.is_accepting for parent in parents):
            self.report("I8", f"{describe(event)} before its dependencies were met")
        if "condition" in (node.skip_reason or ""):
            if node.plan.when is None:
                self.report("I11", f"{describe(event)} for a condition that it does not have")
        elif node.plan.run_if_skipped or not _all_skipped(parents):
            self.report("I11", f"{describe(event)} although not every dependency was skipped")

    def _fail(self, node: ReplayedNode, event: Event, before: str) -> None:
        own, data = node.own, data_of(event)
        own.error = data.get("error") or {}
        if own.error.get("type") == "upstream_failed":
            own.attempt = data.get("attempt_number", own.attempt)
            if before in ("dispatched", "running", "waiting"):
                self.report(
                    "I8", f"{describe(event)} in state {before}, when its dependencies were met"
                )
            return
        if self.plan.fail_fast and not node.plan.allow_failure:
            self._failed_by = node.plan.id
        if node.plan.loop is None:
            attempts.fail(self.findings, node, own, event)
        else:
            own.attempt = data.get("attempt_number", own.attempt)

    def _check_end(self, event: Event) -> None:
        """Check that the end of the job follows from the ends of its nodes."""
        unfinished = sorted(
            name for name, node in self.nodes.items() if node.own.state in UNFINISHED
        )
        if event.type != "job_cancelled":
            unfinished = [
                name for name in unfinished if self.nodes[name].plan.kind is not NodeKind.START
            ]
        if unfinished:
            self.report("I13", f"{describe(event)} while {unfinished} have not ended")
        if event.type == "job_completed":
            self._check_completion(event)
        elif event.type == "job_failed":
            self._check_failure(event)

    def _check_completion(self, event: Event) -> None:
        ended = {
            name: node.own for name, node in self.nodes.items() if node.own.state not in UNFINISHED
        }
        not_completed = [name for name, node in ended.items() if not node.is_accepting]
        if not_completed:
            self.report("I13", f"{describe(event)} although {not_completed} did not complete")
        failures, stated = self.failures, data_of(event).get("failures", 0)
        if failures != stated:
            self.report("I13", f"{describe(event)} with {stated} failures, there were {failures}")

    def _check_failure(self, event: Event) -> None:
        error: dict[str, Any] = self.error or {}
        cause = error.get("node_id")
        if (
            cause is None
            and error.get("type") == "timeout"
            and self.plan.timeout_seconds is not None
        ):
            due_at = (self.begun_at or 0) + round(self.plan.timeout_seconds * MICROSECONDS)
            self.findings.check_due(event, due_at, "the job's timeout")
            return
        failed = {name for name, node in self.nodes.items() if _failed_hard(node)}
        if cause not in failed:
            self.report(
                "I13", f"{describe(event)} because of {cause!r}, failed are {sorted(failed)}"
            )
        cancelled = [name for name, node in self.nodes.items() if node.own.state == "cancelled"]
        if cancelled and not self.plan.fail_fast:
            self.report(
                "I13", f"{describe(event)} and cancelled {cancelled}, although fail_fast is off"
            )
        self._check_downstream(event, failed)

    def _check_downstream(self, event: Event, failed: set[str]) -> None:
        causes = {name for name in failed if not _is_upstream_failure(self.nodes[name])}
        downstream = _downstream(self.plan, causes)
        for name, node in self.nodes.items():
            if _is_upstream_failure(node) and name not in downstream:
                self.report(
                    "I13",
                    f"{describe(event)}: {name} is upstream_failed, but no upstream node failed",
                )
            if name in downstream and node.own.state == "cancelled":
                self.report(
                    "I13",
                    f"{describe(event)}: {name} is cancelled, although an upstream node failed",
                )


def _failed_hard(node: ReplayedNode) -> bool:
    return node.own.state == "failed" and not node.plan.allow_failure


def _is_upstream_failure(node: ReplayedNode) -> bool:
    return node.own.state == "failed" and node.own.error.get("type") == "upstream_failed"


def _failures(node: ReplayedNode) -> int:
    """Return how many failures of a node its job tolerates."""
    if node.own.state == "failed" and not _is_upstream_failure(node):
        return int(node.plan.allow_failure)
    if node.own.state == "completed" and node.loop is not None:
        return node.loop.count("failed")
    return 0


def _must_be_retried(node: ReplayedNode) -> bool:
    return node.own.state == "cancelled" or _failed_hard(node) or _is_upstream_failure(node)


def _all_skipped(parents: Sequence[ReplayedUnit]) -> bool:
    return bool(parents) and all(parent.state == "skipped" for parent in parents)


def _downstream(plan: Plan, names: set[str]) -> set[str]:
    """Return the nodes downstream of the named ones; plans are in topological order."""
    found: set[str] = set()
    for number, node in enumerate(plan.nodes):
        parents = {plan.nodes[parent].id for parent in plan.parents[number]}
        if parents & (names | found):
            found.add(node.id)
    return found
