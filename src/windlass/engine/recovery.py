"""Rebuilding a shard's memory from its rows: jobs, waits, and the tasks that must go out again."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from windlass.core.advance import NODE_TIMEOUT_GRACE_SECONDS
from windlass.core.changes import NodeRow, Task, Timer
from windlass.core.errors import StoreUnavailable, TemplateFailed
from windlass.core.job import IN_FLIGHT, Job, JobHead
from windlass.core.messages import Message, Proceeded, Submitted, TaskLost
from windlass.core.plan import Plan
from windlass.core.states import JOB_STATES, JobState, NodeState
from windlass.engine.plans import Plans
from windlass.ports.broker import Broker
from windlass.ports.store import Store, StoredJob

# Task ids that one question to the broker names at most.
ASK_MAX = 1_000
# Stored results that recovery applies at once; the sweeper sees to the others.
RESULTS_MAX = 10_000

_MICROSECONDS = 1_000_000
log = logging.getLogger("windlass.engine")


def rebuild(plan: Plan, stored: StoredJob, rows: Iterable[NodeRow]) -> Job:
    """A job in memory from its rows."""
    head = JobHead(
        job_id=stored.job_id,
        shard=stored.shard,
        status=JOB_STATES[stored.status],
        input=stored.input,
        seq=stored.seq,
        round=stored.round,
        created_at=stored.created_at,
        started_at=stored.started_at,
        completed_at=stored.completed_at,
        deadline_at=stored.deadline_at,
        error=stored.error,
        priority=stored.priority,
        scheduled_at=stored.scheduled_at,
    )
    return Job.restored(plan, head, rows)


# A job's id, the number of a node, and the attempt that is meant: by the time it matters the node may be at another.
Place = tuple[str, int, int]


class Lost(Struct, frozen=True):
    """What the rows call in flight and the broker does not know: where it is, and what to tell the jobs of it."""

    places: list[Place]
    messages: list[TaskLost]


class Recovery:
    """The steps of taking a shard over. One bad row sets its job aside and stops nothing else."""

    def __init__(self, store: Store, plans: Plans, quarantined: set[str]) -> None:
        self._store = store
        self._plans = plans
        self._quarantined = quarantined

    async def load(self, shard: int, admitted: AbstractSet[str] | None) -> dict[str, Job]:
        """The shard's unfinished jobs, oldest first; only those admitted, where not all are."""
        jobs: dict[str, Job] = {}
        for job_id in await self._store.unfinished(shard):
            if job_id in self._quarantined or (admitted is not None and job_id not in admitted):
                continue
            stored, rows = await self._store.restore(job_id)
            try:
                plan = await self._plans.get(stored.workflow_id, stored.version)
                jobs[stored.job_id] = rebuild(plan, stored, rows)
            except StoreUnavailable:
                raise
            except Exception:
                self._quarantined.add(stored.job_id)
                log.exception("job %s can not be loaded and is set aside", stored.job_id)
        return jobs

    def timers(self, jobs: Iterable[Job]) -> list[Timer]:
        """The waits that the rows tell of."""
        found: list[Timer] = []
        for job in jobs:
            if job.deadline_at is not None:
                found.append(Timer(job.deadline_at, job.id, "job_timeout", round=job.round))
            for node, flight in job.flights.items():
                plan = job.plan.nodes[node]
                if flight.due_at is not None:
                    found.append(Timer(flight.due_at, job.id, "retry", plan.id, flight.attempt))
                elif flight.started_at is not None:
                    limit = round((plan.timeout_seconds + NODE_TIMEOUT_GRACE_SECONDS) * _MICROSECONDS)
                    found.append(Timer(flight.started_at + limit, job.id, "node_timeout", plan.id, flight.attempt))
        return found

    def hints(self, jobs: Iterable[Job]) -> list[Message]:
        """Messages for jobs that have something to do at once."""
        found: list[Message] = []
        for job in jobs:
            if job.status is JobState.PENDING:
                found.append(Submitted(job.id))
            elif job.ready or not job.unfinished:
                found.append(Proceeded(job.id))
        return found

    async def results(self, shard: int, jobs: Mapping[str, Job]) -> list[Message]:
        """Results that were stored and not applied: known before their tasks could go out again."""
        stored = await self._store.results(shard, RESULTS_MAX)
        return [result.message for result in stored if result.message.job_id in jobs]

    async def lost(self, jobs: Iterable[Job], broker: Broker) -> Lost:
        """What is in flight by the rows and unknown to the broker; what ran there counts as lost with its worker."""
        places: dict[str, tuple[Job, int]] = {}
        for job in jobs:
            for node in job.flights:
                if job.states[node] in IN_FLIGHT:
                    places[job.task_id(node)] = (job, node)
        lost = Lost([], [])
        for task_id in await missing(broker, list(places)):
            job, node = places[task_id]
            flight = job.flights[node]
            lost.places.append((job.id, node, flight.attempt))
            if job.states[node] == NodeState.RUNNING:
                lost.messages.append(
                    TaskLost(job.id, job.plan.nodes[node].id, flight.attempt, flight.worker_id or "", flight.losses + 1)
                )
        return lost

    def tasks(self, jobs: Mapping[str, Job], places: Sequence[Place]) -> list[Task]:
        """The tasks of attempts that are still in flight, rendered again: the same as the first time."""
        found: list[Task] = []
        for job_id, node, attempt in places:
            job = jobs.get(job_id)
            if job is None or not job.awaits(node, attempt):
                continue
            try:
                found.append(job.task(node, job.params_of(node)))
            except TemplateFailed:
                # It rendered once, from the same values: only a changed Windlass can get here.
                self._quarantined.add(job_id)
                log.exception("job %s can not be taken up and is set aside", job_id)
            job.values.clear()
        return found


async def missing(broker: Broker, task_ids: Sequence[str]) -> list[str]:
    """Those of the tasks that the broker does not know, in their order."""
    found: list[str] = []
    for start in range(0, len(task_ids), ASK_MAX):
        found += await broker.missing(task_ids[start : start + ASK_MAX])
    return found
