"""Threads for handlers that block. A thread that does not finish is abandoned and never delays the worker's exit."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

# Runs in the thread; returns false if the thread was abandoned and must end.
Work = Callable[[], bool]


class ThreadPool:
    """A pool that starts threads on demand. Its counters are changed only on the event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._in_use = 0
        self._waiting: SimpleQueue[Work | None] = SimpleQueue()

    def submit(self, work: Work) -> bool:
        """Run `work` in a thread; return false if it must wait for one."""
        self._in_use += 1
        self._waiting.put(work)
        self._grow()
        return self._in_use <= self._count

    def release(self) -> None:
        """Count a thread as free again."""
        self._in_use -= 1

    def abandon(self) -> None:
        """Stop counting a thread that runs user code which does not end."""
        self._in_use -= 1
        self._count -= 1
        self._grow()

    def close(self) -> None:
        """End idle threads; busy ones are daemons and end with the process."""
        for _ in range(self._count):
            self._waiting.put(None)
        self._count = 0

    def _grow(self) -> None:
        if self._count < min(self._in_use, self._limit):
            self._count += 1
            # concurrent.futures joins its threads at exit, so a handler that never returns would hang the process.
            threading.Thread(target=self._serve, name="windlass-handler", daemon=True).start()

    def _serve(self) -> None:
        while (work := self._waiting.get()) is not None:
            if not work():
                return
