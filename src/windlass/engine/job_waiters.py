"""Those in this process who wait for jobs: for their ends, or for anything that is stored about them."""

import asyncio
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

from windlass.core.changes import Changes

ENDED_MAX = 10_000


class JobWaiters:
    """Who waits for which job."""

    def __init__(self) -> None:
        self._ends: dict[str, list[asyncio.Future[None]]] = {}
        self._watched: dict[str, list[asyncio.Event]] = {}
        # Jobs that this process brought to their ends lately: those who ask for them need no look at the database.
        self._ended: OrderedDict[str, None] = OrderedDict()

    @property
    def job_ids(self) -> set[str]:
        """The jobs that somebody waits for."""
        return self._ends.keys() | self._watched.keys()

    def is_for(self, job_id: str) -> bool:
        """Whether somebody waits for the job."""
        return job_id in self._ends or job_id in self._watched

    def is_over(self, job_id: str) -> bool:
        """Whether the job is known to have ended."""
        return job_id in self._ended

    @contextmanager
    def end(self, job_id: str) -> Generator["asyncio.Future[None]"]:
        """A future that is done once the job has ended, until the block ends."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.setdefault(job_id, []).append(future)
        try:
            yield future
        finally:
            waiting = self._ends.get(job_id, [])
            if future in waiting:
                waiting.remove(future)
                if not waiting:
                    del self._ends[job_id]

    @contextmanager
    def news(self, job_id: str) -> Generator[asyncio.Event]:
        """An event that is set whenever something was stored about the job, until the block ends."""
        event = asyncio.Event()
        self._watched.setdefault(job_id, []).append(event)
        try:
            yield event
        finally:
            self._watched[job_id].remove(event)
            if not self._watched[job_id]:
                del self._watched[job_id]

    def tell(self, job_id: str, *, has_ended: bool) -> None:
        """Something was stored about a job, perhaps its end."""
        for event in self._watched.get(job_id, ()):
            event.set()
        if has_ended:
            self._tell_end(job_id)

    def tell_all(self, changes: Changes) -> None:
        """This process has committed changes."""
        if self._watched:
            for job_id in changes.events.keys() & self._watched.keys():
                self.tell(job_id, has_ended=False)
        for job_id, row in changes.jobs.items():
            if row.status == "running":
                self._ended.pop(job_id, None)
        for job_id in changes.finished:
            self._ended[job_id] = None
            self._tell_end(job_id)
        while len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)

    def _tell_end(self, job_id: str) -> None:
        for future in self._ends.pop(job_id, ()):
            if not future.done():
                future.set_result(None)
