"""Runs the engine inside a program: deploy, submit, wait, result."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Raw

from windlass.core.errors import Problem
from windlass.core.events import Event
from windlass.core.jobs import JobRecord
from windlass.core.plan import Plan
from windlass.core.states import JOB_FINAL, JobStatus
from windlass.core.submit_request import SubmitRequest
from windlass.ports.broker import ALL_QUEUES
from windlass.ports.store.jobs import JobFilter
from windlass.ports.store.workflows import StoredWorkflow
from windlass.process import ALL_ROLES, Process, open_process
from windlass.reader import RESULT_BYTES_MAX, JobResult, Reader
from windlass.settings import Settings, is_shared
from windlass.spec import Definition, definition_json, digest
from windlass.views.deployment_warnings import deployment_warnings

EVENTS_PAGE = 1_000
WATCH_SECONDS = 1.0
# After this many events at once, `watch` pauses before it reads again: each read takes time from the engine.
BUSY_EVENTS = 100
BUSY_SECONDS = 0.2


class Embedded:
    """The engine of this process, as a program uses it."""

    def __init__(self, process: Process) -> None:
        self.store = process.store
        self._jobs = process.engine.jobs
        self._plans = process.plans
        self._clock = process.clock
        self._reader = Reader(process.store, process.artifacts, process.plans)

    async def deploy(self, definition: Definition) -> StoredWorkflow:
        """Store a definition, as a new version if it differs from the newest one."""
        return await self.deploy_encoded(definition.workflow_id, definition_json(definition))

    async def deployment_warnings(self, definition: Definition) -> list[Problem]:
        """Return warnings about a definition that depend on what is deployed and on the time."""
        return await deployment_warnings(
            definition, self.store.workflows, self._plans.get, self._clock.wall()
        )

    async def deploy_encoded(self, workflow_id: str, encoded: Raw) -> StoredWorkflow:
        """Store a checked definition that is already encoded, which takes a fraction of the memory."""
        return await self.store.workflows.put(
            workflow_id, encoded, digest(encoded), self._clock.wall()
        )

    async def plan(self, workflow_id: str, version: int) -> Plan:
        """Return the plan of a version. WorkflowNotFound."""
        return await self._plans.get(workflow_id, version)

    async def submit(
        self,
        workflow_id: str,
        input: dict[str, Any],
        *,
        version: int | str | None = None,
        idempotency_key: str | None = None,
    ) -> JobRecord:
        """Check the input and start a job; durable on return. InputInvalid, WorkflowNotFound, IdempotencyConflict."""
        request = SubmitRequest(workflow_id, input, version, idempotency_key)
        return (await self._jobs.submit(request)).job

    async def submit_all(
        self, workflow_id: str, inputs: Sequence[dict[str, Any]]
    ) -> Sequence[JobRecord]:
        """Start many jobs of the newest version in one transaction. InputInvalid: none is stored."""
        requests = [SubmitRequest(workflow_id, input) for input in inputs]
        return [result.job for result in await self._jobs.submit_all(requests)]

    async def watch(self, job_id: str) -> AsyncGenerator[Event, None]:
        """Yield the events of a job from the first one, then live, until the job has finished."""
        last_seq, is_final = 0, False
        with self._jobs.subscribe(job_id) as changed:
            while not is_final:
                changed.clear()
                # Read the state before the events: an event stored after this line is read in the next round.
                is_final = JobStatus((await self.store.jobs.get(job_id)).state.status) in JOB_FINAL
                previous_seq = last_seq
                while events := await self.store.jobs.events(job_id, last_seq, EVENTS_PAGE):
                    for event in events:
                        last_seq = event.seq
                        yield event
                if is_final:
                    return
                if last_seq - previous_seq >= BUSY_EVENTS:
                    await asyncio.sleep(BUSY_SECONDS)
                await _wait_for(changed, WATCH_SECONDS)

    async def wait_end(self, job_id: str) -> None:
        """Wait until the job has finished."""
        await self._jobs.wait(job_id)

    async def wait(self, job_id: str) -> JobRecord:
        """Wait until the job has finished, and return it."""
        await self._jobs.wait(job_id)
        return await self.store.jobs.get(job_id)

    async def cancel(self, job_id: str, reason: str | None = None) -> None:
        """Cancel a job."""
        await self._jobs.cancel(job_id, reason)

    async def retry(self, job_id: str, from_node: str | None = None) -> None:
        """Run the failed and cancelled nodes of a finished job again, or `from_node` and everything downstream."""
        await self._jobs.retry(job_id, from_node)

    async def resume(self, job_id: str) -> JobRecord:
        """Continue an unfinished job."""
        return await self._jobs.resume(job_id)

    async def resumable(self, workflow_id: str) -> JobRecord | None:
        """Return the newest unfinished job of a workflow."""
        found: list[JobRecord] = []
        for status in (JobStatus.PENDING, JobStatus.RUNNING):
            found.extend(
                await self.store.jobs.list(
                    JobFilter(workflow_id=workflow_id, status=status, limit=1)
                )
            )
        return max(found, key=lambda job: (job.spec.created_at, job.spec.job_id), default=None)

    async def result(self, job_id: str, bytes_max: int = RESULT_BYTES_MAX) -> JobResult:
        """Return the job with its nodes and outputs; markers replace the outputs beyond `bytes_max`."""
        return await self._reader.result(job_id, bytes_max)


@asynccontextmanager
async def open_embedded(
    settings: Settings, *, only_new_jobs: bool = False
) -> AsyncGenerator[Embedded]:
    """Start an engine and the only worker, for all queues.

    With `only_new_jobs` the engine ignores unfinished jobs of earlier processes.
    """
    async with open_process(
        settings,
        ALL_ROLES,
        queues=(ALL_QUEUES,),
        only_new_jobs=only_new_jobs,
        is_only_worker=not is_shared(settings),
    ) as process:
        yield Embedded(process)


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    # Not asyncio.wait_for: in Python 3.11 it can lose a cancellation that arrives when its future is done.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
