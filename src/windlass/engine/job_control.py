"""Requests about jobs: submit, cancel, retry, resume, report, wait. Rows first, then a hint to the shard."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager

from msgspec import structs

from windlass.concurrency.futures import resolve
from windlass.core.changes import Changes
from windlass.core.errors import BrokerUnavailable, NodeNotFound, RequestRefused, WindlassError
from windlass.core.ids import JobId
from windlass.core.jobs import JobRecord
from windlass.core.messages import CancelRequested, Message, RetryRequested, TaskFinished
from windlass.core.report_verdict import ReportVerdict
from windlass.core.states import JOB_FINAL, JobStatus
from windlass.core.submit_request import SubmitRequest
from windlass.engine.context import EngineContext
from windlass.engine.hints import HINT_SECONDS_MAX, send_hints
from windlass.engine.job_waiters import JobWaiters
from windlass.engine.remote_job_watcher import RemoteJobWatcher
from windlass.engine.shard_owner import ShardOwner
from windlass.engine.submit import Submitter
from windlass.ports.broker import TaskReport
from windlass.ports.prompt_calls import promptly
from windlass.ports.store.jobs import JobPosition, Request, StoredResult, SubmitResult

# How long a caller waits until its request or report is applied. It is durable, so a busy shard may apply it later.
APPLIED_SECONDS_MAX = 5.0
# The same while the broker is unavailable: the owner of the shard finds the request in the database.
UNNOTIFIED_SECONDS_MAX = 0.5

log = logging.getLogger("windlass.engine")


class EngineJobs:
    """The JobControl contract."""

    def __init__(
        self, context: EngineContext, shards: ShardOwner, submitter: Submitter, *, is_shared: bool
    ) -> None:
        self._store = context.store
        self._broker = context.broker
        self._clock = context.clock
        self._plans = context.plans
        self._ids = context.ids
        self._submitter = submitter
        self._shards = shards
        self._is_shared = is_shared
        self._waiters = JobWaiters(is_shared=is_shared)
        self._watcher = RemoteJobWatcher(context.store, context.broker if is_shared else None, self)
        # Requests and reports of this process that wait until they are applied.
        self._requests: dict[str, asyncio.Future[None]] = {}
        self._reports: dict[str, asyncio.Future[ReportVerdict | None]] = {}

    # Submitting

    async def submit(
        self, request: SubmitRequest, asked: object = None, *, repeats: JobId | None = None
    ) -> SubmitResult:
        return await self._submitter.submit(request, asked, repeats=repeats)

    async def submit_all(self, requests: Sequence[SubmitRequest]) -> Sequence[SubmitResult]:
        return await self._submitter.submit_all(requests)

    async def submit_each(
        self, requests: Sequence[SubmitRequest]
    ) -> Sequence[SubmitResult | WindlassError]:
        return await self._submitter.submit_each(requests)

    # Requests

    async def resume(self, job_id: str) -> JobRecord:
        """Continue one unfinished job in an engine that otherwise ignores old jobs. RequestRefused, JobNotFound."""
        job = await self._store.jobs.get(job_id)
        if job.state.is_final:
            raise RequestRefused(
                f"job {job_id} is {job.state.status}: only an unfinished job can be resumed"
            )
        [shard] = self._shards.shards
        await shard.resume(job_id)
        return job

    async def cancel(self, job_id: str, reason: str | None = None) -> bool:
        state = (await self._store.jobs.get(job_id)).state
        # A retry that is stored but not applied yet begins the next round; the cancellation comes after it.
        round = state.round + 1 if state.is_final else state.round
        now = self._clock.now()
        request = Request(self._ids.new(now), job_id, "cancel", now, reason=reason, round=round)
        return await self._request(
            request, CancelRequested(job_id, request.request_id, reason, round)
        )

    async def retry(self, job_id: str, from_node: str | None = None) -> bool:
        job = await self._store.jobs.get(job_id)
        status = job.state.status
        if status not in JOB_FINAL:
            raise RequestRefused(f"job {job_id} is {status}: only a finished job can be retried")
        if status is JobStatus.COMPLETED and from_node is None and not job.state.failures:
            raise RequestRefused(
                f"job {job_id} completed without failures: name the node to start again from (--from NODE, ?from=NODE)"
            )
        if from_node is not None:
            plan = await self._plans.get(job.spec.workflow_id, job.spec.version)
            if from_node not in plan.index:
                raise NodeNotFound(f"workflow {job.spec.workflow_id} has no node {from_node!r}")
        now = self._clock.now()
        round = job.state.round
        request = Request(
            self._ids.new(now), job_id, "retry", now, from_node=from_node, round=round
        )
        return await self._request(
            request, RetryRequested(job_id, request.request_id, from_node, round)
        )

    async def _request(self, request: Request, message: Message) -> bool:
        return await self.await_applied(
            request.request_id, lambda: self._store.jobs.put_request(request), message
        )

    async def await_applied(
        self, request_id: str, store: Callable[[], Awaitable[int]], message: Message
    ) -> bool:
        """Store a request, notify its shard and wait until it is applied, so that the next read shows the result.

        `store` returns the shard. Returns whether the request was applied in time; it will be in any case.
        """
        applied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests[request_id] = applied
        self._watcher.subscribe()
        try:
            shard = await store()
            is_notified = await send_hints(self._broker, shard, [message])
            seconds = APPLIED_SECONDS_MAX if is_notified else UNNOTIFIED_SECONDS_MAX
            await asyncio.wait((applied,), timeout=seconds)
        finally:
            del self._requests[request_id]
        return applied.done()

    async def report(self, task_id: str, shard: int, message: TaskFinished) -> ReportVerdict | None:
        result_id = self._ids.new(self._clock.now())
        is_held = await self._is_held(message.worker_id, task_id)
        message = structs.replace(message, result_id=result_id, is_held=is_held)
        applied: asyncio.Future[ReportVerdict | None] = asyncio.get_running_loop().create_future()
        self._reports[result_id] = applied
        self._watcher.subscribe()
        try:
            await self._store.jobs.put_result(
                StoredResult(result_id, shard, message, message.finished_at)
            )
            is_notified = await self._send_report(TaskReport(task_id, shard, message))
            seconds = APPLIED_SECONDS_MAX if is_notified else UNNOTIFIED_SECONDS_MAX
            await asyncio.wait((applied,), timeout=seconds)
        finally:
            del self._reports[result_id]
        if applied.done():
            verdict = applied.result()
            if verdict is not None:
                return verdict
        return (await self._store.jobs.verdicts([result_id])).get(result_id)

    async def _is_held(self, worker_id: str, task_id: str) -> bool:
        """Whether a worker holds a task. If the broker is unavailable, the core decides by the recorded claim."""
        try:
            extended = self._broker.extend(worker_id, [task_id])
            return not await promptly(extended, HINT_SECONDS_MAX)
        except BrokerUnavailable:
            return False

    async def _send_report(self, report: TaskReport) -> bool:
        """Send a stored report; return whether the broker has it. If not, the owner of the shard finds it.

        Only the task of a worker that holds it is removed here. The core judges all others first: a refused report
        leaves its task in the queue, and the task of an accepted one is cancelled after the commit.
        """
        message = report.message
        if not message.is_held:
            return await send_hints(self._broker, report.shard, [message])
        try:
            await promptly(self._broker.finish(message.worker_id, [report]), HINT_SECONDS_MAX)
        except BrokerUnavailable as error:
            log.warning(
                "shard %d was not notified of the report of %s: %s",
                report.shard,
                report.task_id,
                error,
            )
            return False
        return True

    # Waiting

    async def wait(self, job_id: str) -> None:
        if self._waiters.has_finished(job_id):
            return
        with self._waiters.wait_finished(job_id) as end:
            if not self._shards.has_job(job_id):
                self._watcher.subscribe()
                if JobStatus((await self._watcher.position(job_id)).status) in JOB_FINAL:
                    return
            await end

    def watch_other_processes(self) -> None:
        """Subscribe to the notifications of other processes. A process that owns shards does so when it first waits."""
        self._watcher.subscribe()

    def subscribe(self, job_id: str) -> AbstractContextManager[asyncio.Event]:
        if not self._shards.has_job(job_id):
            self._watcher.subscribe()
        return self._waiters.subscribe(job_id)

    # Changes, in this process and in others

    def committed(self, changes: Changes) -> None:
        """Notify waiters, here and in other processes, of a batch that was committed."""
        applied = changes.requests
        if changes.runs is not None:
            applied = [*changes.requests, *changes.runs.requests]
        for request_id in applied:
            self.request_applied(request_id)
        for result_id, verdict in changes.results.items():
            self.report_applied(result_id, verdict)
        self._waiters.notify_all(changes)
        if self._is_shared and (changes.finished or applied or changes.results):
            self._broker.notify_done([*changes.finished, *applied, *changes.results])

    async def poll(self) -> None:
        """Look for changes in other processes whose notifications were lost."""
        remote = [job_id for job_id in self._waiters.job_ids if not self._shards.has_job(job_id)]
        await self._watcher.poll(remote, list(self._requests), list(self._reports))

    def job_changed(self, position: JobPosition) -> None:
        """Notify the waiters of a job that changed in another process."""
        self._waiters.notify(position.job_id, has_finished=JobStatus(position.status) in JOB_FINAL)

    def request_applied(self, request_id: str) -> None:
        """Notify the caller that waits for a request."""
        applied = self._requests.get(request_id)
        if applied is not None:
            resolve(applied, None)

    def report_applied(self, result_id: str, verdict: ReportVerdict | None) -> None:
        """Notify the caller that waits for the verdict on a report; None if the verdict must be read."""
        applied = self._reports.get(result_id)
        if applied is not None:
            resolve(applied, verdict)

    def done(self, ids: Sequence[str]) -> None:
        """Notify waiters of jobs that finished, and of requests and reports that were applied, in other processes."""
        for done_id in ids:
            if done_id in self._requests:
                self.request_applied(done_id)
            elif done_id in self._reports:
                self.report_applied(done_id, None)
            elif self._waiters.has_waiter(done_id) and not self._shards.has_job(done_id):
                self._waiters.notify(done_id, has_finished=True)
