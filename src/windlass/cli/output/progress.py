"""The progress of a job, folded from its events. Small enough for a hundred thousand nodes."""

from collections import Counter

from msgspec import Struct

from windlass.cli.output.event_data import LoopCounts, decode_data, format_reason
from windlass.cli.output.times import elapsed_seconds
from windlass.core.events import Event, EventType, Subject
from windlass.core.plan import NodeKind, Plan
from windlass.core.states import FINAL_LABELS

LOOP_STARTED: str = EventType.LOOP_STARTED
ACTIVE = frozenset({"dispatched", "running", "waiting"})


def _statuses_after(subject: Subject) -> dict[str, str]:
    return {
        event: event.status
        for event in EventType
        if event.subject is subject and event.status is not None
    }


JOB_STATUS = _statuses_after(Subject.JOB)
NODE_STATUS = _statuses_after(Subject.NODE)
ITERATION_STATUS = _statuses_after(Subject.ITERATION)


class NodeProgress(Struct):
    """The state of one node."""

    status: str = "pending"
    attempt: int = 1
    started_at: int | None = None
    ended_at: int | None = None
    message: str = ""
    loop: LoopCounts | None = None

    def seconds(self, now: int) -> float | None:
        """Return how long the node has run since its first attempt, None if it has not started."""
        if self.started_at is None:
            return None
        return elapsed_seconds(self.started_at, self.ended_at or now)


class JobProgress:
    """The state of a job and of its task nodes, in topological order. START and END nodes are not counted."""

    def __init__(self, plan: Plan, job_id: str = "") -> None:
        tasks = [node for node in plan.nodes if node.kind is NodeKind.TASK]
        self.workflow_id = plan.workflow_id
        self.job_id = job_id
        self.status = "pending"
        self.started_at: int | None = None
        self.ended_at: int | None = None
        # Failures that a completed job tolerated.
        self.failures = 0
        self.nodes = {node.id: NodeProgress() for node in tasks}
        self.handlers = {node.id: node.handler for node in tasks}
        self.counts = Counter(pending=len(tasks))
        # Node ids in the order in which they became active or failed; dicts serve as ordered sets.
        self.active: dict[str, None] = {}
        self.failed: dict[str, None] = {}

    @property
    def total(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)

    @property
    def finished(self) -> int:
        """Return the number of finished nodes."""
        return sum(self.counts[status] for status in FINAL_LABELS)

    def seconds(self, now: int) -> float:
        """Return how long the job has run."""
        if self.started_at is None:
            return 0.0
        return elapsed_seconds(self.started_at, self.ended_at or now)

    def apply(self, event: Event) -> None:
        """Apply the next event."""
        if event.node_id is None:
            self._apply_to_job(event)
            return
        node = self.nodes.get(event.node_id)
        if node is None:
            return
        if event.index is not None or event.type == LOOP_STARTED:
            _apply_to_loop(event, node)
        elif event.type in NODE_STATUS:
            self._apply_to_node(event, event.node_id, node)

    def _apply_to_job(self, event: Event) -> None:
        if self.started_at is None:
            self.started_at = event.at
        self.status = JOB_STATUS.get(event.type, self.status)
        self.ended_at = event.at if self.status in FINAL_LABELS else None
        data = decode_data(event)
        self.failures = data.failures
        for node_id in data.nodes:
            if node_id in self.nodes:
                self._reset(node_id, self.nodes[node_id])

    def _reset(self, node_id: str, node: NodeProgress) -> None:
        """Return a node to its first status, as a retry of the job does. Its attempts keep counting."""
        self._set_status(node_id, node, "pending")
        node.message = ""
        node.started_at = node.ended_at = None

    def _apply_to_node(self, event: Event, node_id: str, node: NodeProgress) -> None:
        status = NODE_STATUS[event.type]
        data = decode_data(event)
        node.attempt = data.attempt_number or node.attempt
        node.message = format_reason(data)
        if status == "running" and node.started_at is None:
            node.started_at = event.at
        node.ended_at = event.at if status in FINAL_LABELS else None
        self._set_status(node_id, node, status)

    def _set_status(self, node_id: str, node: NodeProgress, status: str) -> None:
        self.counts[node.status] -= 1
        self.counts[status] += 1
        node.status = status
        _set_member(self.active, node_id, status in ACTIVE)
        _set_member(self.failed, node_id, status == "failed")


def _apply_to_loop(event: Event, node: NodeProgress) -> None:
    if node.loop is None:
        node.loop = LoopCounts()
    if event.type == LOOP_STARTED:
        node.loop.start(decode_data(event))
        return
    # Most events are about iterations, so their data is not decoded.
    status = ITERATION_STATUS.get(event.type)
    if status in FINAL_LABELS:
        node.loop.add(status)


def _set_member(members: dict[str, None], node_id: str, is_member: bool) -> None:
    if is_member:
        members.setdefault(node_id)
    else:
        members.pop(node_id, None)
