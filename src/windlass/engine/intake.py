"""Submits: those that arrive together are stored together, and each is acknowledged once it is a row."""

import asyncio

from windlass.ports.store import NewJob, Store, Submission

INTAKE_MAX = 1_000


class Intake:
    """Groups concurrent submits into few transactions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[NewJob, asyncio.Future[Submission]]] = []
        self._storing: asyncio.Task[None] | None = None

    async def submit(self, job: NewJob) -> Submission:
        """Store a job, together with those that others submit meanwhile."""
        future: asyncio.Future[Submission] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        if self._storing is None or self._storing.done():
            self._storing = asyncio.ensure_future(self._store_all())
        return await future

    async def _store_all(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting[:INTAKE_MAX], self._waiting[INTAKE_MAX:]
            try:
                answers = await self._store.submit([job for job, _ in group])
            except Exception as error:
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), answer in zip(group, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
