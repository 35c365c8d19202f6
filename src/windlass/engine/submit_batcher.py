"""Combines concurrent submits into few transactions."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from windlass.core.jobs import JobSpec
from windlass.ports.store.jobs import SubmitResult

INTAKE_MAX = 1_000
# Transactions at once. While one is written, the next ones already wait at the store, which may combine them.
UNDERWAY_MAX = 4

Storing = Callable[[Sequence[JobSpec]], Awaitable[Sequence[SubmitResult]]]


class SubmitBatcher:
    """Groups concurrent submits into few transactions."""

    def __init__(self, store: Storing) -> None:
        self._store = store
        self._waiting: list[tuple[JobSpec, asyncio.Future[SubmitResult]]] = []
        self._underway: set[asyncio.Task[None]] = set()
        # Whether a task has been started that has not taken its first group yet: it will include submits until then.
        self._is_one_starting = False

    async def submit(self, job: JobSpec) -> SubmitResult:
        """Store a job, together with those that are submitted at the same time."""
        future: asyncio.Future[SubmitResult] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        if not self._is_one_starting and len(self._underway) < UNDERWAY_MAX:
            self._is_one_starting = True
            task = asyncio.ensure_future(self._store_all())
            self._underway.add(task)
            task.add_done_callback(self._underway.discard)
        return await future

    async def _store_all(self) -> None:
        self._is_one_starting = False
        while self._waiting:
            group, self._waiting = self._waiting[:INTAKE_MAX], self._waiting[INTAKE_MAX:]
            try:
                answers = await self._store([job for job, _ in group])
            except Exception as error:
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), answer in zip(group, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
