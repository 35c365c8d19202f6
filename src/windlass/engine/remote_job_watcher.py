"""Finds out for those who wait what becomes of jobs that another process runs: it is told, and looks all the same."""

import asyncio
from collections.abc import Callable, Sequence

from windlass.ports.broker import Broker
from windlass.ports.store import JobPosition, Store, no_job

# What is told may get lost: nobody waits longer for that.
WATCH_SECONDS = 0.2
# Jobs asked for in one query.
ASK_MAX = 1_000

News = Callable[[JobPosition | None, str | None], None]
Hear = Callable[[Sequence[str]], None]
_Answer = asyncio.Future[JobPosition | None]


class RemoteJobWatcher:
    """Tells what changed since the last look, in one query for all that are waited for."""

    def __init__(self, store: Store, broker: Broker | None, news: News, hear: Hear) -> None:
        self._store = store
        # None where no other process runs jobs.
        self._broker = broker
        self._news = news
        self._hear = hear
        self._is_listening = False
        self._seen: dict[str, int] = {}
        # Those who asked for a job's standing and have no answer yet, by job.
        self._asked: dict[str, list[_Answer]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    def listen(self) -> None:
        """Begin to hear what other processes tell is done: somebody waits for it."""
        if not self._is_listening and self._broker is not None:
            self._is_listening = True
            self._broker.subscribe_done(self._hear)

    async def look(self, job_ids: Sequence[str], request_ids: Sequence[str]) -> None:
        """One look at jobs, and at requests that were made and not yet applied."""
        if job_ids:
            self.listen()
        wanted = set(job_ids)
        self._seen = {job_id: seq for job_id, seq in self._seen.items() if job_id in wanted}
        for start in range(0, len(job_ids), ASK_MAX):
            for standing in await self._store.job_positions(job_ids[start : start + ASK_MAX]):
                if self._seen.get(standing.job_id) != standing.seq:
                    self._seen[standing.job_id] = standing.seq
                    self._news(standing, None)
        if request_ids:
            waiting = set(await self._store.unapplied(request_ids))
            for request_id in request_ids:
                if request_id not in waiting:
                    self._news(None, request_id)

    async def standing(self, job_id: str) -> JobPosition:
        """How far a job is; those who ask at the same time share a query. JobNotFound."""
        answer: _Answer = asyncio.get_running_loop().create_future()
        if not self._asked:
            # It starts when those who are about to ask have done so.
            task = asyncio.ensure_future(self._answer_all())
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        self._asked.setdefault(job_id, []).append(answer)
        standing = await answer
        if standing is None:
            raise no_job(job_id)
        return standing

    async def _answer_all(self) -> None:
        asked, self._asked = self._asked, {}
        job_ids = list(asked)
        for start in range(0, len(job_ids), ASK_MAX):
            part = job_ids[start : start + ASK_MAX]
            found: dict[str, JobPosition] = {}
            failure: Exception | None = None
            try:
                found = {standing.job_id: standing for standing in await self._store.job_positions(part)}
            except Exception as error:
                failure = error
            for job_id in part:
                _settle(asked[job_id], found.get(job_id), failure)


def _settle(answers: Sequence[_Answer], standing: JobPosition | None, failure: Exception | None) -> None:
    for answer in answers:
        # Whoever asked may be gone.
        if answer.done():
            continue
        if failure is None:
            answer.set_result(standing)
        else:
            answer.set_exception(failure)
