"""What the last jobs of a workflow tell about it, and when jobs came and ended: figures, computed from short rows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from msgspec import Struct

from windlass.core.instants import MICROSECONDS
from windlass.core.plan import NodeKind, Plan
from windlass.ports.store.overview import JobBrief, NodeSpan
from windlass.wire import ActivityBucket, Durations, NodeStatistics, instant

BUCKETS_MAX = 120
# A chart's steps, in seconds; the shortest that is enough is taken.
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 720)


class Path(Struct, frozen=True):
    """The chain of nodes that a job waited for, and the share of its time that each of them took."""

    node_ids: list[str]
    shares: Mapping[str, float]


def durations_of(seconds: Iterable[float]) -> Durations | None:
    """How long things took; None when there was nothing."""
    known = sorted(seconds)
    return Durations(_at(known, 0.5), _at(known, 0.95), known[-1]) if known else None


def _at(known: Sequence[float], share: float) -> float:
    """The least value that so large a share does not exceed: one that was measured, not one in between."""
    return known[max(0, ceil(share * len(known)) - 1)]


def seconds_of(one: JobBrief | NodeSpan) -> float | None:
    """How long a job or a node took from its start to its end."""
    if one.started_at is None or one.completed_at is None:
        return None
    return max(0, one.completed_at - one.started_at) / MICROSECONDS


def median_job(jobs: Sequence[JobBrief]) -> JobBrief | None:
    """The job in the middle, by the time it took: among those that completed, or else among all that ended."""
    timed = [(seconds, job) for job in jobs if (seconds := seconds_of(job)) is not None]
    known = [one for one in timed if one[1].status == "completed"] or timed
    if not known:
        return None
    return sorted(known, key=lambda one: (one[0], one[1].job_id))[(len(known) - 1) // 2][1]


def critical_path(plan: Plan, spans: Iterable[NodeSpan], started_at: int) -> Path:
    """From the node that ended last, always to the dependency that ended last: what the job waited for.

    A node's part is the time from the end of the one before it to its own.
    """
    ends: dict[int, int] = {}
    for span in spans:
        number = plan.index.get(span.node_id, -1)
        if number >= 0 and span.completed_at is not None and plan.nodes[number].kind is NodeKind.TASK:
            ends[number] = span.completed_at
    chain: list[int] = []
    near = ends.keys()
    while near:
        # Of those that ended together, the later in the graph.
        chain.append(max(near, key=lambda number: (ends[number], number)))
        near = {parent for parent in plan.parents[chain[-1]] if parent in ends}
    chain.reverse()
    parts: dict[str, float] = {}
    before = started_at
    for number in chain:
        parts[plan.nodes[number].id] = max(0, ends[number] - before)
        before = max(before, ends[number])
    whole = sum(parts.values()) or 1
    return Path(list(parts), {node_id: part / whole for node_id, part in parts.items()})


def node_statistics(plan: Plan, spans: Iterable[NodeSpan], path: Path) -> list[NodeStatistics]:
    """How the nodes did: those of the plan in its order, then those that only other versions have."""
    by_node: defaultdict[str, list[NodeSpan]] = defaultdict(list)
    for span in spans:
        # One that failed without having been started failed with what it depends on.
        if span.started_at is not None or span.status == "completed":
            by_node[span.node_id].append(span)
    ours = [node.id for node in plan.nodes if node.kind is NodeKind.TASK]
    # START and END complete without having been started.
    others = sorted(name for name in by_node.keys() - plan.index.keys() if any(map(seconds_of, by_node[name])))
    return [_node(node_id, by_node[node_id], path.shares.get(node_id, 0.0)) for node_id in (*ours, *others)]


def _node(node_id: str, spans: Sequence[NodeSpan], share: float) -> NodeStatistics:
    return NodeStatistics(
        node_id=node_id,
        runs=len(spans),
        failed=sum(span.status == "failed" for span in spans),
        retried=sum(span.attempt > 1 for span in spans),
        duration_seconds=durations_of(seconds for span in spans if (seconds := seconds_of(span)) is not None),
        share_of_critical_path=round(share, 4),
    )


def step_for(seconds: int) -> int:
    """How long each step of a chart is."""
    return next(step for step in STEPS if seconds <= step * BUCKETS_MAX)


def buckets_of(jobs: Iterable[JobBrief], first_at: int, step_seconds: int, count: int) -> list[ActivityBucket]:
    """What came and what ended in each step of time, those included in which nothing did."""
    step = step_seconds * MICROSECONDS
    submitted = [0] * count
    ended: dict[str, list[int]] = {status: [0] * count for status in ("completed", "failed", "cancelled")}
    took: list[list[float]] = [[] for _ in range(count)]
    for job in jobs:
        at = (job.created_at - first_at) // step
        if 0 <= at < count:
            submitted[at] += 1
        at = -1 if job.completed_at is None else (job.completed_at - first_at) // step
        if 0 <= at < count and job.status in ended:
            ended[job.status][at] += 1
            seconds = seconds_of(job)
            # One that was stopped says nothing about how long such jobs take.
            if seconds is not None and job.status != "cancelled":
                took[at].append(seconds)
    found: list[ActivityBucket] = []
    for at in range(count):
        known = durations_of(took[at])
        found.append(
            ActivityBucket(
                at=instant(first_at + at * step) or "",
                submitted=submitted[at],
                completed=ended["completed"][at],
                failed=ended["failed"][at],
                cancelled=ended["cancelled"][at],
                p50_seconds=None if known is None else known.p50,
                p95_seconds=None if known is None else known.p95,
            )
        )
    return found
