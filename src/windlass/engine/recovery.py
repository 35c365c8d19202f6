"""The steps of taking over a shard after its jobs are loaded: timers, messages, and tasks to publish again."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from windlass.core.changes import Task, Timer
from windlass.core.errors import TemplateFailed
from windlass.core.ids import TaskId
from windlass.core.job import Job
from windlass.core.loop_state import Attempt
from windlass.core.messages import (
    CancelRequested,
    Continue,
    JobMessage,
    Message,
    RetryRequested,
    Submitted,
    TaskLost,
    TimerKind,
)
from windlass.core.prefetch import request_for_attempt
from windlass.core.states import JobStatus, NodeStatus
from windlass.core.tasks import build_task
from windlass.core.timers import timer_of
from windlass.engine.job_table import JobTable
from windlass.engine.output_store import OutputStore
from windlass.ports.broker import Broker
from windlass.ports.store import Store
from windlass.ports.store.jobs import Request

# Task ids in one query of the broker.
TASK_IDS_MAX = 1_000
# Stored results that recovery applies at once; the sweeper finds the others.
RESULTS_MAX = 10_000
REQUESTS_MAX = 1_000

log = logging.getLogger("windlass.engine")

# The job, the number of the node, the iteration (or -1) and the attempt, which may have ended by the time of its use.
Place = tuple[str, int, int, int]


class Lost(Struct, frozen=True):
    """Attempts that are in flight by the rows and unknown to the broker: their places, and messages to their jobs."""

    places: list[Place]
    messages: list[TaskLost]


class Recovery:
    """Finds out what a reloaded shard has to do."""

    def __init__(self, store: Store, outputs: OutputStore, table: JobTable) -> None:
        self._store = store
        self._outputs = outputs
        self._table = table

    def timers(self, jobs: Iterable[Job]) -> list[Timer]:
        """Return the timers of jobs."""
        found: list[Timer] = []
        for job in jobs:
            if job.state.deadline_at is not None:
                found.append(
                    Timer(
                        job.state.deadline_at, job.id, TimerKind.JOB_TIMEOUT, round=job.state.round
                    )
                )
            for node, loop in job.loops.items():
                if loop.deadline_at is not None:
                    node_id = job.plan.nodes[node].id
                    number = loop.node_attempt.number
                    found.append(
                        Timer(loop.deadline_at, job.id, TimerKind.LOOP_TIMEOUT, node_id, number)
                    )
            timers = [timer_of(job, attempt) for attempt in job.current_attempts()]
            found.extend(filter(None, timers))
        return found

    def hints(self, jobs: Iterable[Job]) -> list[Message]:
        """Return messages for jobs that can continue at once."""
        found: list[Message] = []
        for job in jobs:
            if job.state.status is JobStatus.PENDING:
                found.append(Submitted(job.id))
            elif job.ready or job.filling or not job.unfinished:
                found.append(Continue(job.id))
        return found

    async def requests(self, shard: int, jobs: Mapping[str, Job]) -> list[Message]:
        """Return stored requests that are not applied."""
        stored = await self._store.jobs.requests(shard, REQUESTS_MAX)
        return [request_message(request) for request in stored if request.job_id in jobs]

    async def results(self, shard: int, jobs: Mapping[str, Job]) -> list[Message]:
        """Return stored results that are not applied: they precede the publishing of their tasks."""
        stored = await self._store.jobs.results(shard, RESULTS_MAX)
        return [result.message for result in stored if result.message.job_id in jobs]

    async def lost(self, jobs: Iterable[Job], broker: Broker) -> Lost:
        """Return attempts that are in flight by the rows and unknown to the broker; running ones lost their worker."""
        attempts: dict[str, tuple[Job, Attempt]] = {}
        for job in jobs:
            for attempt in job.attempts_in_flight():
                attempts[job.task_id(attempt)] = (job, attempt)
        lost = Lost([], [])
        for task_id in await missing(broker, list(attempts)):
            job, attempt = attempts[task_id]
            lost.places.append((job.id, attempt.node, attempt.index, attempt.number))
            if job.state_of(attempt) == NodeStatus.RUNNING:
                worker_id = attempt.worker_id or ""
                lost.messages.append(
                    TaskLost.of(TaskId.parse(task_id), worker_id, attempt.losses + 1)
                )
        return lost

    async def tasks(self, jobs: Mapping[str, Job], places: Sequence[Place]) -> list[Task]:
        """Return the tasks of attempts that are still in flight, rendered again with the same result."""
        found: list[Task] = []
        for job_id, node, index, number in places:
            job = jobs.get(job_id)
            if job is None:
                continue
            # Kept apart from the values of the job: its shard may be deciding about it.
            values = {key: await self._outputs.value(key) for key in _missing_values(job, node)}
            attempt = job.find_attempt(node, max(index, 0), number)
            if attempt is None or jobs.get(job_id) is not job:
                continue
            own_values, job.values = job.values, {**job.values, **values}
            try:
                found.append(build_task(job, attempt))
            except TemplateFailed:
                # It rendered before with the same values, so only another version of Windlass gets here.
                self._table.quarantined.add(job_id)
                log.exception("job %s cannot be resumed and is quarantined", job_id)
            finally:
                job.values = own_values
        return found


def _missing_values(job: Job, node: int) -> list[str]:
    """Return the keys of large values that an attempt of a node needs and its job does not have in memory."""
    if not job.large:
        return []
    wanted, job.wanted = job.wanted, {}
    request_for_attempt(job, node)
    missing_values, job.wanted = job.wanted, wanted
    return list(missing_values)


async def missing(broker: Broker, task_ids: Sequence[str]) -> list[str]:
    """Return those of the tasks that the broker does not know, in order."""
    found: list[str] = []
    for start in range(0, len(task_ids), TASK_IDS_MAX):
        found += await broker.missing(task_ids[start : start + TASK_IDS_MAX])
    return found


def request_message(request: Request) -> JobMessage:
    """Return the message of a stored request."""
    if request.kind == "cancel":
        return CancelRequested(request.job_id, request.request_id, request.reason, request.round)
    return RetryRequested(request.job_id, request.request_id, request.from_node, request.round)
