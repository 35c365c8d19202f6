"""Combining concurrent calls into one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar, cast

from windlass.concurrency.futures import reject, resolve

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Runs calls that are made at the same time as one batch.

    A batch starts on a later turn of the event loop than the calls that it contains. Items are batched in the order of
    their calls and batches start in that order; up to `in_flight_max` of them run at a time and end in any order. Calls
    that find no free place wait, and form the next batch. A call that is cancelled before its batch starts is left out;
    afterwards only its result is lost.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        batch_max: int,
        in_flight_max: int,
    ) -> None:
        """`run` returns a result for each item, in order."""
        self._run = run
        self._batch_max = batch_max
        self._in_flight_max = in_flight_max
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._in_flight: set[asyncio.Task[None]] = set()
        # Whether a task was created that has not yet taken its first batch, which later calls can still join.
        self._is_starting = False

    async def call(self, item: Item) -> Result:
        """Return the result for an item; raises what `run` raised for its batch."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if not self._is_starting and len(self._in_flight) < self._in_flight_max:
            self._is_starting = True
            task = asyncio.ensure_future(self._run_waiting())
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)
        return await future

    async def _run_waiting(self) -> None:
        self._is_starting = False
        while batch := self._next_batch():
            await self._run_batch(batch)
        # At once: a caller that has just got its result may call again before the callbacks of this task run.
        self._in_flight.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _next_batch(self) -> "list[tuple[Item, asyncio.Future[Result]]]":
        batch: list[tuple[Item, asyncio.Future[Result]]] = []
        while self._waiting and len(batch) < self._batch_max:
            call = self._waiting.popleft()
            _, future = call
            if not future.done():
                batch.append(call)
        return batch

    async def _run_batch(self, batch: "Sequence[tuple[Item, asyncio.Future[Result]]]") -> None:
        try:
            results = await self._run([item for item, _ in batch])
            if len(results) != len(batch):
                raise RuntimeError(
                    f"wrong number of results: {len(results)} for {len(batch)} items"
                )
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        except Exception as error:
            for _, future in batch:
                reject(future, error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            resolve(future, result)
