"""What a running handler sees: its attempt, its log, and the resources that all attempts of a worker share."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from windlass.core.changes import Task
from windlass.ports.clock import Clock
from windlass.ports.handler import LogLine

LOG_LINES_MAX = 2000
LOG_LINE_CHARS_MAX = 8192
LEVELS = frozenset({"debug", "info", "warning", "error"})

Built = TypeVar("Built")
LogSink = Callable[[LogLine], None]
# Control characters in a log could forge lines or control a terminal.
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != ord("\t")}


class SharedResources:
    """Objects that attempts share for the life of a worker, built on first use."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}
        # Also used by handlers in threads, which must not build the same object twice.
        self._lock = threading.Lock()

    def get(self, key: str, build: Callable[[], Built]) -> Built:
        """Return the object called `key`."""
        with self._lock:
            if key not in self._built:
                self._built[key] = build()
            return cast("Built", self._built[key])

    async def aclose(self) -> None:
        """Close the objects that have `aclose`, the newest first."""
        while self._built:
            _, built = self._built.popitem()
            close = getattr(built, "aclose", None)
            if close is not None:
                await close()


class AttemptLog:
    """Writes the lines of one attempt to the sink, up to a limit."""

    __slots__ = ("_clock", "_left", "_sink", "_task")

    def __init__(self, task: Task, clock: Clock, sink: LogSink | None) -> None:
        self._task = task
        self._clock = clock
        self._sink = sink
        self._left = LOG_LINES_MAX

    def write(self, message: str, level: str = "info") -> None:
        """Write the lines of a message; lines beyond the limit are dropped, and the last one says so."""
        if self._sink is None:
            return
        if level not in LEVELS:
            level = "info"
        lines = str(message).splitlines() or [""]
        kept = lines[: self._left]
        self._left -= len(kept)
        if kept and self._left == 0:
            kept[-1] = f"(log truncated: at most {LOG_LINES_MAX} lines per attempt)"
        for text in kept:
            self._sink(self._line(text, level))

    def _line(self, text: str, level: str) -> LogLine:
        text = (
            text[:LOG_LINE_CHARS_MAX]
            .encode("utf-8", "backslashreplace")
            .decode()
            .translate(_ESCAPES)
        )
        task = self._task
        return LogLine(
            job_id=task.job_id,
            node_id=task.node_id,
            index=task.index,
            attempt=task.attempt,
            at=self._clock.now(),
            level=level,
            message=text,
        )


class AttemptContext:
    """The Context of handlers that run in the worker's own process."""

    __slots__ = (
        "_adopt",
        "_cancelled",
        "_handed_back",
        "_log",
        "_resources",
        "_started",
        "attempt",
        "idempotency_key",
        "index",
        "job_id",
        "meta",
        "node_id",
        "stop_seconds",
        "task_id",
        "timeout_seconds",
        "worker_id",
    )

    def __init__(
        self,
        task: Task,
        *,
        worker_id: str,
        log: AttemptLog,
        resources: SharedResources,
        adopt: Callable[[int], None],
        started: Callable[[], None],
    ) -> None:
        self.job_id = task.job_id
        self.node_id = task.node_id
        self.index = task.index
        self.attempt = task.attempt
        self.task_id = task.task_id
        self.idempotency_key = task.idempotency_key or task.task_id
        self.worker_id = worker_id
        self.timeout_seconds = task.timeout_seconds
        self.meta: dict[str, Any] = {}
        # How long the handler may take to stop, beside the worker's grace period.
        self.stop_seconds = 0.0
        self._cancelled = False
        self._handed_back = False
        self._log = log
        self._resources = resources
        self._adopt = adopt
        self._started = started

    @property
    def cancelled(self) -> bool:
        """Whether the attempt was cancelled."""
        return self._cancelled

    @property
    def handed_back(self) -> bool:
        """Whether another worker continues this attempt."""
        return self._handed_back

    def cancel(self, *, handed_back: bool = False) -> None:
        """Mark the attempt as cancelled."""
        self._cancelled = True
        self._handed_back = handed_back

    def stops_within(self, seconds: float) -> None:
        """Have this long to stop beside the worker's grace period."""
        self.stop_seconds = seconds

    def started(self) -> None:
        """Report that the work begins now."""
        self._started()

    def log(self, message: str, level: str = "info") -> None:
        """Write a line to the attempt's log."""
        self._log.write(message, level)

    def resource(self, key: str, build: Callable[[], Built]) -> Built:
        """Return an object shared by all attempts of this worker."""
        return self._resources.get(key, build)

    def adopt(self, process_group: int) -> None:
        """Have a process group killed when this attempt ends."""
        self._adopt(process_group)
