"""Rebuilding a shard's memory from its rows: jobs, waits, and the tasks that must go out again."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from windlass.core.attempts import NODE_TIMEOUT_GRACE_SECONDS
from windlass.core.changes import Task, Timer
from windlass.core.errors import JobNotFound, StoreUnavailable, TemplateFailed
from windlass.core.instants import MICROSECONDS
from windlass.core.job import Job
from windlass.core.loop_state import Attempt
from windlass.core.messages import Continue, Message, Submitted, TaskLost
from windlass.core.plan import Plan
from windlass.core.prefetch import want_node
from windlass.core.restoration import restore_job
from windlass.core.states import JobStatus, NodeStatus
from windlass.core.tasks import build_task
from windlass.engine.output_store import OutputStore
from windlass.engine.plan_cache import Plans
from windlass.ports.broker import Broker
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobSnapshot

# Task ids that one question to the broker names at most.
ASK_MAX = 1_000
# Stored results that recovery applies at once; the sweeper sees to the others.
RESULTS_MAX = 10_000
# Jobs that are asked for at once: their rows are in memory twice for a moment.
RESTORE_MAX = 200

log = logging.getLogger("windlass.engine")


def rebuild(plan: Plan, snapshot: JobSnapshot) -> Job:
    """Build a job in memory from its rows."""
    return restore_job(plan, snapshot.job, snapshot.nodes, snapshot.loops, snapshot.in_flight)


# A job's id, the number of a node, the iteration (or -1), and the attempt that is meant: by the time it matters it may
# be at another.
Place = tuple[str, int, int, int]


class Lost(Struct, frozen=True):
    """What the rows call in flight and the broker does not know: where it is, and what to tell the jobs of it."""

    places: list[Place]
    messages: list[TaskLost]


class Recovery:
    """The steps of taking a shard over. One bad row sets its job aside and stops nothing else."""

    def __init__(self, store: Store, plans: Plans, values: OutputStore, quarantined: set[str]) -> None:
        self._store = store
        self._plans = plans
        self._values = values
        self._quarantined = quarantined

    async def load(self, shard: int, admitted: AbstractSet[str] | None) -> dict[str, Job]:
        """The shard's unfinished jobs, oldest first; only those admitted, where not all are."""
        jobs: dict[str, Job] = {}
        wanted = [
            job_id
            for job_id in await self._store.jobs.unfinished(shard)
            if job_id not in self._quarantined and (admitted is None or job_id in admitted)
        ]
        for start in range(0, len(wanted), RESTORE_MAX):
            part = wanted[start : start + RESTORE_MAX]
            found = await self.restored(part)
            for job_id in part:
                try:
                    restored = found.get(job_id) or await self._store.jobs.restore(job_id)
                    plan = await self._plans.get(restored.job.spec.workflow_id, restored.job.spec.version)
                    jobs[job_id] = rebuild(plan, restored)
                except StoreUnavailable:
                    raise
                except JobNotFound:
                    continue
                except Exception:
                    self._quarantined.add(job_id)
                    log.exception("job %s cannot be loaded and is set aside", job_id)
        return jobs

    async def restored(self, job_ids: Sequence[str]) -> dict[str, JobSnapshot]:
        """Several jobs in few questions; nothing where one of them cannot be read: each is then asked for alone."""
        found: dict[str, JobSnapshot] = {}
        try:
            for start in range(0, len(job_ids), RESTORE_MAX):
                for restored in await self._store.jobs.restore_all(job_ids[start : start + RESTORE_MAX]):
                    found[restored.job.spec.job_id] = restored
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("some of %d jobs cannot be read; they are tried one by one", len(job_ids))
            found.clear()
        return found

    def timers(self, jobs: Iterable[Job]) -> list[Timer]:
        """The waits that the rows tell of."""
        found: list[Timer] = []
        for job in jobs:
            if job.state.deadline_at is not None:
                found.append(Timer(job.state.deadline_at, job.id, "job_timeout", round=job.state.round))
            found.extend(timer for attempt in job.attempts.values() if (timer := _timer_of(job, attempt)) is not None)
            for node, loop in job.loops.items():
                if loop.deadline_at is not None:
                    node_id = job.plan.nodes[node].id
                    found.append(Timer(loop.deadline_at, job.id, "loop_timeout", node_id, loop.node_attempt.number))
                timers = (_timer_of(job, attempt) for attempt in loop.attempts.values())
                found.extend(timer for timer in timers if timer is not None)
        return found

    def hints(self, jobs: Iterable[Job]) -> list[Message]:
        """Messages for jobs that have something to do at once."""
        found: list[Message] = []
        for job in jobs:
            if job.state.status is JobStatus.PENDING:
                found.append(Submitted(job.id))
            elif job.ready or job.filling or not job.unfinished:
                found.append(Continue(job.id))
        return found

    async def results(self, shard: int, jobs: Mapping[str, Job]) -> list[Message]:
        """Results that were stored and not applied: known before their tasks could go out again."""
        stored = await self._store.jobs.results(shard, RESULTS_MAX)
        return [result.message for result in stored if result.message.job_id in jobs]

    async def lost(self, jobs: Iterable[Job], broker: Broker) -> Lost:
        """What is in flight by the rows and unknown to the broker; what ran there counts as lost with its worker."""
        places: dict[str, tuple[Job, Attempt]] = {}
        for job in jobs:
            for attempt in job.out():
                places[job.task_id(attempt)] = (job, attempt)
        lost = Lost([], [])
        for task_id in await missing(broker, list(places)):
            job, attempt = places[task_id]
            lost.places.append((job.id, attempt.node, attempt.index, attempt.number))
            if job.state_of(attempt) == NodeStatus.RUNNING:
                node_id, index = job.plan.nodes[attempt.node].id, max(attempt.index, 0)
                losses, worker_id = attempt.losses + 1, attempt.worker_id or ""
                lost.messages.append(TaskLost(job.id, node_id, attempt.number, worker_id, losses, index))
        return lost

    async def tasks(self, jobs: Mapping[str, Job], places: Sequence[Place]) -> list[Task]:
        """The tasks of attempts that are still in flight, rendered again: the same as the first time."""
        found: list[Task] = []
        for job_id, node, index, number in places:
            job = jobs.get(job_id)
            if job is None:
                continue
            # Fetched beside the job: its shard may be deciding about it, on values of its own.
            values = {key: await self._values.value(key) for key in _lacking(job, node)}
            attempt = job.find_attempt(node, max(index, 0), number)
            if attempt is None or jobs.get(job_id) is not job:
                continue
            held, job.values = job.values, {**job.values, **values}
            try:
                found.append(build_task(job, attempt))
            except TemplateFailed:
                # It rendered once, from the same values: only a changed Windlass can get here.
                self._quarantined.add(job_id)
                log.exception("job %s cannot be taken up and is set aside", job_id)
            finally:
                job.values = held
        return found


def _lacking(job: Job, node: int) -> list[str]:
    """The keys of large values that an attempt of a node needs and its job does not have in memory."""
    if not job.has_large:
        return []
    wanted, job.wanted = job.wanted, {}
    want_node(job, job.plan.nodes[node])
    lacking, job.wanted = job.wanted, wanted
    return list(lacking)


def _timer_of(job: Job, attempt: Attempt) -> Timer | None:
    """The wait that an attempt's row tells of."""
    plan = job.plan.nodes[attempt.node]
    index = max(attempt.index, 0)
    if attempt.due_at is not None:
        return Timer(attempt.due_at, job.id, "retry", plan.id, attempt.number, index)
    if attempt.started_at is None or attempt.is_merging:
        return None
    limit = round((plan.timeout_seconds + NODE_TIMEOUT_GRACE_SECONDS) * MICROSECONDS)
    return Timer(attempt.started_at + limit, job.id, "node_timeout", plan.id, attempt.number, index)


async def missing(broker: Broker, task_ids: Sequence[str]) -> list[str]:
    """Those of the tasks that the broker does not know, in their order."""
    found: list[str] = []
    for start in range(0, len(task_ids), ASK_MAX):
        found += await broker.missing(task_ids[start : start + ASK_MAX])
    return found
