"""Sends heartbeats from a thread with its own connection, since handlers may block the worker's event loop."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from windlass.core.heartbeats import heartbeat_seconds_max, is_often_enough
from windlass.ports.broker import Broker

# An event loop that has been blocked this long counts as dead: its tasks go to another worker.
BLOCKED_SECONDS_MAX = 60.0
# How often the event loop shows that it is running.
LOOP_RAN_SECONDS = 5.0
# How soon a shorter interval applies while the thread waits for the next heartbeat.
INTERVAL_CHECK_SECONDS = 0.5
# After a failure, the next heartbeat is sent soon.
FAILURE_PAUSE_SECONDS = 0.5
STOP_SECONDS_MAX = 10.0

log = logging.getLogger(__name__)


class HeartbeatInterval:
    """The interval of the settings, or a shorter one if the engines count workers as lost sooner."""

    def __init__(self, seconds: float, worker_timeout: Callable[[], float]) -> None:
        self._wanted = seconds
        self._worker_timeout = worker_timeout
        self._logged = seconds

    def seconds(self) -> float:
        """Return the interval to use now; a change is logged."""
        timeout = self._worker_timeout()
        seconds = self._wanted
        if not is_often_enough(seconds, timeout):
            seconds = heartbeat_seconds_max(timeout)
        if seconds != self._logged:
            self._logged = seconds
            log.warning(
                "heartbeats are sent every %g s: worker.heartbeat_seconds = %g, and the engines count workers as lost "
                "after engine.worker_timeout_seconds = %g",
                seconds,
                self._wanted,
                timeout,
            )
        return seconds


class Heartbeat:
    """Extends the tasks of the worker. Delayed too while a long call into C holds the interpreter."""

    def __init__(
        self, open_broker: Callable[[], Awaitable[Broker]], interval: HeartbeatInterval
    ) -> None:
        self._open_broker = open_broker
        self._interval = interval
        self._loop_ran_time = 0.0
        self._thread: threading.Thread | None = None
        # Set by the thread.
        self._stop: Callable[[], None] | None = None
        self._is_running = threading.Event()

    def start(
        self,
        worker_id: str,
        held: Callable[[], Sequence[str]],
        foreign: Callable[[Sequence[str]], None],
    ) -> None:
        """Start. `held` runs in the thread; `foreign` runs on the worker's loop with tasks that it no longer owns."""
        loop = asyncio.get_running_loop()

        def notify(task_ids: Sequence[str]) -> None:
            with suppress(RuntimeError):  # the worker's event loop is closed
                loop.call_soon_threadsafe(foreign, task_ids)

        self.loop_ran()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(worker_id, held, notify)),
            name="heartbeat",
            daemon=True,
        )
        self._thread.start()

    def loop_ran(self) -> None:
        """Record that the worker's event loop is running."""
        self._loop_ran_time = time.monotonic()

    async def stop(self) -> None:
        """Stop the thread and close its connection."""
        if self._thread is None:
            return
        await asyncio.to_thread(self._is_running.wait, STOP_SECONDS_MAX)
        if self._stop is not None:
            self._stop()
        await asyncio.to_thread(self._thread.join, STOP_SECONDS_MAX)
        self._thread = None

    async def _run(
        self,
        worker_id: str,
        held: Callable[[], Sequence[str]],
        notify: Callable[[Sequence[str]], None],
    ) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()

        def stop() -> None:
            with suppress(RuntimeError):  # the event loop of the thread is closed
                loop.call_soon_threadsafe(stopped.set)

        self._stop = stop
        self._is_running.set()
        broker: Broker | None = None
        try:
            while not stopped.is_set():
                has_failed = False
                try:
                    if broker is None:
                        broker = await self._open_broker()
                    if time.monotonic() - self._loop_ran_time < BLOCKED_SECONDS_MAX:
                        foreign = await broker.extend(worker_id, held())
                        if foreign:
                            notify(foreign)
                except Exception as error:
                    has_failed = True
                    log.warning("worker %s: heartbeat failed: %s", worker_id, error)
                await self._pause(stopped, has_failed=has_failed)
        finally:
            if broker is not None:
                await broker.close()

    async def _pause(self, stopped: asyncio.Event, *, has_failed: bool) -> None:
        """Wait for the time of the next heartbeat. An interval that becomes shorter meanwhile applies at once."""
        began = time.monotonic()
        while not stopped.is_set():
            seconds = self._interval.seconds()
            if has_failed:
                seconds = min(seconds, FAILURE_PAUSE_SECONDS)
            remaining = began + seconds - time.monotonic()
            if remaining <= 0:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(min(remaining, INTERVAL_CHECK_SECONDS)):
                    await stopped.wait()
