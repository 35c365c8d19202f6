"""Notices what other processes do: by their notifications, and by polling in case a notification is lost."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from windlass.concurrency.futures import reject, resolve
from windlass.core.report_verdict import ReportVerdict
from windlass.ports.broker import Broker
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobPosition, no_job

# How often to poll for lost notifications.
POLL_SECONDS = 0.2
# Jobs in one query.
QUERY_JOBS_MAX = 1_000

_Answer = asyncio.Future[JobPosition | None]


class RemoteListener(Protocol):
    """What wants to know of changes in other processes."""

    def job_changed(self, position: JobPosition) -> None:
        """Accept the new position of a job."""
        ...

    def request_applied(self, request_id: str) -> None:
        """Accept that a request was applied."""
        ...

    def report_applied(self, result_id: str, verdict: ReportVerdict | None) -> None:
        """Accept the verdict on a report; None if it must be read."""
        ...

    def done(self, ids: Sequence[str]) -> None:
        """Accept the ids of jobs that finished, and of requests and reports that were applied, in any process."""
        ...


class RemoteJobWatcher:
    """Watches jobs and requests that processes of this deployment wait for."""

    def __init__(self, store: Store, broker: Broker | None, listener: RemoteListener) -> None:
        self._store = store
        # None if no other process runs jobs.
        self._broker = broker
        self._listener = listener
        self._is_subscribed = False
        self._seen: dict[str, int] = {}
        # Callers that wait for the position of a job, by job.
        self._asked: dict[str, list[_Answer]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    def subscribe(self) -> None:
        """Subscribe to the notifications of other processes, once."""
        if not self._is_subscribed and self._broker is not None:
            self._is_subscribed = True
            self._broker.subscribe_done(self._listener.done)

    async def poll(
        self, job_ids: Sequence[str], request_ids: Sequence[str], result_ids: Sequence[str]
    ) -> None:
        """Read jobs, requests and reports, and notify the listener of what changed since the last call."""
        if job_ids:
            self.subscribe()
        await self._poll_jobs(job_ids)
        if request_ids:
            unapplied = set(await self._store.jobs.unapplied_requests(request_ids))
            for request_id in request_ids:
                if request_id not in unapplied:
                    self._listener.request_applied(request_id)
        if result_ids:
            for result_id, verdict in (await self._store.jobs.verdicts(result_ids)).items():
                self._listener.report_applied(result_id, verdict)

    async def _poll_jobs(self, job_ids: Sequence[str]) -> None:
        wanted = set(job_ids)
        self._seen = {job_id: seq for job_id, seq in self._seen.items() if job_id in wanted}
        for start in range(0, len(job_ids), QUERY_JOBS_MAX):
            for position in await self._store.jobs.positions(
                job_ids[start : start + QUERY_JOBS_MAX]
            ):
                if self._seen.get(position.job_id) != position.seq:
                    self._seen[position.job_id] = position.seq
                    self._listener.job_changed(position)

    async def position(self, job_id: str) -> JobPosition:
        """Return the position of a job; concurrent calls share a query. JobNotFound."""
        answer: _Answer = asyncio.get_running_loop().create_future()
        if not self._asked:
            # The query starts after all calls of this turn of the event loop.
            task = asyncio.ensure_future(self._answer_all())
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        self._asked.setdefault(job_id, []).append(answer)
        position = await answer
        if position is None:
            raise no_job(job_id)
        return position

    async def _answer_all(self) -> None:
        asked, self._asked = self._asked, {}
        job_ids = list(asked)
        for start in range(0, len(job_ids), QUERY_JOBS_MAX):
            part = job_ids[start : start + QUERY_JOBS_MAX]
            found: dict[str, JobPosition] = {}
            failure: Exception | None = None
            try:
                found = {
                    position.job_id: position for position in await self._store.jobs.positions(part)
                }
            except Exception as error:
                failure = error
            for job_id in part:
                _answer(asked[job_id], found.get(job_id), failure)


def _answer(
    answers: Sequence[_Answer], position: JobPosition | None, failure: Exception | None
) -> None:
    for answer in answers:
        if failure is None:
            resolve(answer, position)
        else:
            reject(answer, failure)
