"""Statistics of the last jobs of a workflow, and of the activity over time."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from msgspec import Struct

from windlass.core.instants import MICROSECONDS
from windlass.core.plan import NodeKind, Plan
from windlass.ports.store.overview import JobBrief, NodeSpan
from windlass.wire import (
    ActivityBucketView,
    DurationsView,
    NodeStatisticsView,
    WorkflowStatisticsView,
    instant,
)

BUCKETS_MAX = 120
# Lengths of a chart's intervals in seconds; the shortest that suffices is used.
BUCKET_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 720)


class CriticalPath(Struct, frozen=True):
    """The chain of nodes that determined a job's duration, and the share of each."""

    node_ids: list[str]
    shares: Mapping[str, float]


def duration_percentiles(seconds: Iterable[float | None]) -> DurationsView | None:
    """Return percentiles of the known durations; None if there is none."""
    known = sorted(value for value in seconds if value is not None)
    if not known:
        return None
    return DurationsView(p50=_percentile(known, 0.5), p95=_percentile(known, 0.95), max=known[-1])


def _percentile(known: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile of sorted values."""
    return known[max(0, ceil(share * len(known)) - 1)]


def duration_seconds(span: JobBrief | NodeSpan) -> float | None:
    """Return the time from start to completion, of a node over all its attempts; None if either is missing."""
    started_at = span.started_at
    if isinstance(span, NodeSpan):
        started_at = span.first_started_at or started_at
    if started_at is None or span.completed_at is None:
        return None
    return max(0, span.completed_at - started_at) / MICROSECONDS


def median_job(jobs: Sequence[JobBrief]) -> JobBrief | None:
    """Return the job of median duration: of the completed jobs, or of all if none completed."""
    timed = [job for job in jobs if duration_seconds(job) is not None]
    candidates = [job for job in timed if job.status == "completed"] or timed
    if not candidates:
        return None
    candidates.sort(key=lambda job: (duration_seconds(job), job.job_id))
    return candidates[(len(candidates) - 1) // 2]


def critical_path(plan: Plan, spans: Iterable[NodeSpan], started_at: int) -> CriticalPath:
    """Return the path from the node that completed last back to the dependency that completed last, and so on.

    The part of a node is the time from the completion of the node before it to its own.
    """
    tasks = {node.id for node in plan.nodes if node.kind is NodeKind.TASK}
    ends: dict[int, int] = {}
    for span in spans:
        if span.completed_at is not None and span.node_id in tasks:
            ends[plan.index[span.node_id]] = span.completed_at
    chain: list[int] = []
    candidates = ends.keys()
    while candidates:
        # Of nodes that completed together, the one that is later in the graph.
        last = max(candidates, key=lambda number: (ends[number], number))
        chain.append(last)
        candidates = ends.keys() & plan.parents[last]
    chain.reverse()
    parts: dict[str, float] = {}
    before = started_at
    for number in chain:
        parts[plan.nodes[number].id] = max(0, ends[number] - before)
        before = max(before, ends[number])
    total = sum(parts.values()) or 1
    return CriticalPath(list(parts), {node_id: part / total for node_id, part in parts.items()})


def workflow_statistics(
    plan: Plan, jobs: Sequence[JobBrief], spans: Sequence[NodeSpan], path: CriticalPath
) -> WorkflowStatisticsView:
    """Return the statistics of finished jobs of a workflow."""
    statuses = Counter(job.status for job in jobs)
    return WorkflowStatisticsView(
        workflow_id=plan.workflow_id,
        jobs=len(jobs),
        completed=statuses["completed"],
        failed=statuses["failed"],
        cancelled=statuses["cancelled"],
        duration_seconds=duration_percentiles(map(duration_seconds, jobs)),
        nodes=node_statistics(plan, spans, path),
        critical_path=path.node_ids,
    )


def node_statistics(
    plan: Plan, spans: Iterable[NodeSpan], path: CriticalPath
) -> list[NodeStatisticsView]:
    """Return statistics of the nodes of the plan in order, then of nodes that only other versions have."""
    by_node: defaultdict[str, list[NodeSpan]] = defaultdict(list)
    for span in spans:
        # A node that failed without having been started failed because of an upstream node.
        if span.started_at is not None or span.status == "completed":
            by_node[span.node_id].append(span)
    node_ids = [node.id for node in plan.nodes if node.kind is NodeKind.TASK]
    others = sorted(by_node.keys() - plan.index.keys())
    # START and END have no duration.
    node_ids += [node_id for node_id in others if any(map(duration_seconds, by_node[node_id]))]
    return [_node(node_id, by_node[node_id], path.shares.get(node_id, 0.0)) for node_id in node_ids]


def _node(node_id: str, spans: Sequence[NodeSpan], share: float) -> NodeStatisticsView:
    return NodeStatisticsView(
        node_id=node_id,
        runs=len(spans),
        failed=sum(span.status == "failed" for span in spans),
        retried=sum(span.attempt > 1 for span in spans),
        duration_seconds=duration_percentiles(map(duration_seconds, spans)),
        share_of_critical_path=round(share, 4),
    )


def bucket_seconds(period_seconds: int) -> int:
    """Return the length of an interval for a chart of a period."""
    return next(seconds for seconds in BUCKET_SECONDS if period_seconds <= seconds * BUCKETS_MAX)


class _Bucket:
    """The counts of one interval."""

    def __init__(self) -> None:
        self.submitted = 0
        self.finished = {"completed": 0, "failed": 0, "cancelled": 0}
        self.durations: list[float | None] = []

    def add_finished(self, job: JobBrief) -> None:
        """Count a finished job."""
        if job.status not in self.finished:
            return
        self.finished[job.status] += 1
        # The duration of a cancelled job is not typical of the workflow.
        if job.status != "cancelled":
            self.durations.append(duration_seconds(job))

    def view(self, at: int) -> ActivityBucketView:
        """Return the counts as a view."""
        durations = duration_percentiles(self.durations)
        p50_seconds = p95_seconds = None
        if durations is not None:
            p50_seconds, p95_seconds = durations.p50, durations.p95
        return ActivityBucketView(
            at=instant(at),
            submitted=self.submitted,
            completed=self.finished["completed"],
            failed=self.finished["failed"],
            cancelled=self.finished["cancelled"],
            p50_seconds=p50_seconds,
            p95_seconds=p95_seconds,
        )


def activity_buckets(
    jobs: Iterable[JobBrief], first_at: int, interval_seconds: int, count: int
) -> list[ActivityBucketView]:
    """Count the jobs submitted and finished in each interval, including empty ones."""
    interval = interval_seconds * MICROSECONDS
    # Jobs outside the period are counted in further buckets, which are not returned.
    buckets: defaultdict[int, _Bucket] = defaultdict(_Bucket)
    for job in jobs:
        buckets[(job.created_at - first_at) // interval].submitted += 1
        if job.completed_at is not None:
            buckets[(job.completed_at - first_at) // interval].add_finished(job)
    return [buckets[place].view(first_at + place * interval) for place in range(count)]
