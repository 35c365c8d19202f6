"""Says that a worker lives, from a thread with a connection of its own: handlers may keep the worker's loop busy."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from windlass.ports.broker import Broker

# A loop that has not moved for so long will not: the worker counts as dead, and its tasks go to another.
BLOCKED_SECONDS_MAX = 60.0
# After a failure it is tried again soon: others wait for a sign of life.
FAILURE_PAUSE_SECONDS = 0.5
STOP_SECONDS_MAX = 10.0

log = logging.getLogger(__name__)


class Heartbeat:
    """Extends what the worker holds. Where the interpreter itself is held, by a long call into C, it is late too."""

    def __init__(self, open_broker: Callable[[], Awaitable[Broker]], seconds: float) -> None:
        self._open_broker = open_broker
        self._seconds = seconds
        self._moved_at = 0.0
        self._thread: threading.Thread | None = None
        # Made by the thread itself, which then waits for it.
        self._stop: Callable[[], None] | None = None
        self._is_up = threading.Event()

    def start(
        self, worker_id: str, held: Callable[[], Sequence[str]], foreign: Callable[[Sequence[str]], None]
    ) -> None:
        """Begin. `held` is asked in the thread; `foreign` is told, in the worker's loop, what is not its own."""
        loop = asyncio.get_running_loop()

        def tell(task_ids: Sequence[str]) -> None:
            with suppress(RuntimeError):  # the worker's loop is closed
                loop.call_soon_threadsafe(foreign, task_ids)

        self.moved()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(worker_id, held, tell)), name="heartbeat", daemon=True
        )
        self._thread.start()

    def moved(self) -> None:
        """The worker's loop moves."""
        self._moved_at = time.monotonic()

    async def stop(self) -> None:
        """End the thread and its connection."""
        if self._thread is None:
            return
        await asyncio.to_thread(self._is_up.wait, STOP_SECONDS_MAX)
        if self._stop is not None:
            self._stop()
        await asyncio.to_thread(self._thread.join, STOP_SECONDS_MAX)
        self._thread = None

    async def _run(
        self, worker_id: str, held: Callable[[], Sequence[str]], tell: Callable[[Sequence[str]], None]
    ) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()

        def stop() -> None:
            with suppress(RuntimeError):  # this loop is closed
                loop.call_soon_threadsafe(stopped.set)

        self._stop = stop
        self._is_up.set()
        broker: Broker | None = None
        try:
            while not stopped.is_set():
                pause = self._seconds
                try:
                    if broker is None:
                        broker = await self._open_broker()
                    if time.monotonic() - self._moved_at < BLOCKED_SECONDS_MAX:
                        foreign = await broker.extend(worker_id, held())
                        if foreign:
                            tell(foreign)
                except Exception as error:
                    pause = min(pause, FAILURE_PAUSE_SECONDS)
                    log.warning("worker %s cannot say that it lives: %s", worker_id, error)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await stopped.wait()
        finally:
            if broker is not None:
                await broker.close()
