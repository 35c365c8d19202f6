"""Combines concurrent submits into few transactions. Each is acknowledged once its job is stored."""

from collections.abc import Awaitable, Callable, Sequence

from windlass.concurrency.batcher import Batcher
from windlass.core.jobs import JobSpec
from windlass.ports.store.jobs import SubmitResult

BATCH_MAX = 1_000
# More than one, so that a batch waits at the store while another is written and no transaction starts without it.
IN_FLIGHT_MAX = 4

InsertJobs = Callable[[Sequence[JobSpec]], Awaitable[Sequence[SubmitResult]]]


class SubmitBatcher:
    """Stores jobs in batches."""

    def __init__(self, insert: InsertJobs) -> None:
        self._batcher = Batcher(insert, batch_max=BATCH_MAX, in_flight_max=IN_FLIGHT_MAX)

    async def submit(self, job: JobSpec) -> SubmitResult:
        """Store a job together with those that are submitted at the same time."""
        return await self._batcher.call(job)
