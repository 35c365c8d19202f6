"""Threads for handlers that block. One that does not come back is abandoned, and never delays the worker's end."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

# Runs in the thread; false when the thread was abandoned meanwhile and must end.
Work = Callable[[], bool]


class ThreadPool:
    """A pool that starts threads as they are needed. All of its accounting happens on the worker's loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._in_use = 0
        self._waiting: SimpleQueue[Work | None] = SimpleQueue()

    def submit(self, work: Work) -> bool:
        """Have `work` run; false when it must wait for a thread."""
        self._in_use += 1
        self._waiting.put(work)
        self._grow()
        return self._in_use <= self._count

    def release(self) -> None:
        """A piece of work has ended."""
        self._in_use -= 1

    def abandon(self) -> None:
        """Count on a thread no longer: it runs user code that does not end."""
        self._in_use -= 1
        self._count -= 1
        self._grow()

    def close(self) -> None:
        """Let idle threads end; busy ones are daemons and die with the process."""
        for _ in range(self._count):
            self._waiting.put(None)
        self._count = 0

    def _grow(self) -> None:
        if self._count < min(self._in_use, self._limit):
            self._count += 1
            # concurrent.futures joins its threads at exit, so one stuck handler would hang the whole process.
            threading.Thread(target=self._serve, name="windlass-handler", daemon=True).start()

    def _serve(self) -> None:
        while (work := self._waiting.get()) is not None:
            if not work():
                return
