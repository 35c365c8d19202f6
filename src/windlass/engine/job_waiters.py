"""Callers in this process that wait for jobs: for their ends, or for any change."""

import asyncio
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

from windlass.concurrency.futures import resolve
from windlass.core.changes import Changes

FINISHED_MAX = 10_000

Waiter = TypeVar("Waiter")


class JobWaiters:
    """The waiters of each job."""

    def __init__(self, *, is_shared: bool) -> None:
        """With `is_shared`, other processes change jobs as well."""
        self._is_shared = is_shared
        self._ends: dict[str, list[asyncio.Future[None]]] = {}
        self._changes: dict[str, list[asyncio.Event]] = {}
        # Jobs that finished recently: waiters for them need no query. Empty if another process may retry a job.
        self._finished: OrderedDict[str, None] = OrderedDict()

    @property
    def job_ids(self) -> set[str]:
        """The jobs that have waiters."""
        return self._ends.keys() | self._changes.keys()

    def has_waiter(self, job_id: str) -> bool:
        """Whether a job has a waiter."""
        return job_id in self._ends or job_id in self._changes

    def has_finished(self, job_id: str) -> bool:
        """Whether a job is known to have finished."""
        return job_id in self._finished

    @contextmanager
    def wait_finished(self, job_id: str) -> Generator["asyncio.Future[None]"]:
        """Yield a future that is done once the job has finished."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with _registered(self._ends, job_id, future):
            yield future

    @contextmanager
    def subscribe(self, job_id: str) -> Generator[asyncio.Event]:
        """Yield an event that is set whenever the job changes, until the block ends."""
        event = asyncio.Event()
        with _registered(self._changes, job_id, event):
            yield event

    def notify(self, job_id: str, *, has_finished: bool) -> None:
        """Notify the waiters of a job that changed, perhaps for the last time."""
        for event in self._changes.get(job_id, ()):
            event.set()
        if has_finished:
            self._notify_end(job_id)

    def notify_all(self, changes: Changes) -> None:
        """Notify the waiters of all jobs in a batch that this process has committed."""
        if self._changes:
            for job_id in changes.events.keys() & self._changes.keys():
                self.notify(job_id, has_finished=False)
        for job_id, row in changes.jobs.items():
            if row.status == "running":
                self._finished.pop(job_id, None)
        for job_id in changes.finished:
            if not self._is_shared:
                self._finished[job_id] = None
            self._notify_end(job_id)
        while len(self._finished) > FINISHED_MAX:
            self._finished.popitem(last=False)

    def _notify_end(self, job_id: str) -> None:
        for future in self._ends.pop(job_id, ()):
            resolve(future, None)


@contextmanager
def _registered(waiters: dict[str, list[Waiter]], job_id: str, waiter: Waiter) -> Generator[None]:
    """Keep a waiter among those of its job, until the block ends."""
    waiters.setdefault(job_id, []).append(waiter)
    try:
        yield
    finally:
        others = waiters.get(job_id, [])
        if waiter in others:
            others.remove(waiter)
        if not others:
            waiters.pop(job_id, None)
