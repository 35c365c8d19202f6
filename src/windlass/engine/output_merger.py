"""Merges the outputs of loops and paginated nodes in the background, beside the batches of the shard."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from windlass.core.changes import MergeOutputs
from windlass.core.messages import OutputsMerged
from windlass.engine.output_store import OutputStore


class OutputMerger:
    """Merges outputs; each result is a message for the next batch of the shard."""

    def __init__(
        self,
        outputs: OutputStore,
        deliver: Callable[[OutputsMerged], None],
        wake: Callable[[], Awaitable[None]],
    ) -> None:
        # Why outputs could not be read. The shard then reloads, and the rows say what is still to be merged.
        self.failure: Exception | None = None
        self._outputs = outputs
        self._deliver = deliver
        self._wake = wake
        self._running: set[asyncio.Future[None]] = set()

    def start(self, requests: Sequence[MergeOutputs]) -> None:
        """Merge outputs in the background."""
        for request in requests:
            task = asyncio.ensure_future(self._merge(request))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def cancel(self) -> None:
        """Stop all merges and forget their failure: the shard reloads."""
        for task in self._running:
            task.cancel()
        self.failure = None

    async def _merge(self, request: MergeOutputs) -> None:
        try:
            self._deliver(await self._outputs.merge(request))
        except Exception as failure:
            self.failure = failure
        await self._wake()
