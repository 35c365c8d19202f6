"""The state of one attempt while it runs, and what it needs of its worker."""

import asyncio
import math
from collections.abc import Callable
from enum import Enum, unique
from random import Random
from typing import Protocol

from msgspec import Struct

from windlass.core.changes import Task
from windlass.core.messages import Failed, Succeeded, TaskError, TaskStarted
from windlass.ports.broker import TaskReport
from windlass.ports.clock import Clock
from windlass.ports.handler import Handler, Registry
from windlass.ports.sink import Sinks
from windlass.worker.context import AttemptContext, AttemptLog, LogSink, SharedResources
from windlass.worker.large_values import LargeValues

Outcome = Succeeded | Failed


@unique
class StopMode(Enum):
    """What is reported about a stopped attempt. One that succeeds nevertheless is always reported."""

    REPORT = 1  # that it was stopped, and why
    HAND_BACK = (
        2  # nothing: another worker runs it, and a report could be taken for that worker's result
    )


class RunningAttempt:
    """One attempt. `started_at` is wall clock time; attributes ending in `_time` are monotonic event loop times."""

    __slots__ = (
        "abandon_time",
        "begun_time",
        "context",
        "deadline_time",
        "handler",
        "is_abandoned",
        "is_start_reported",
        "log",
        "process_groups",
        "runner",
        "started_at",
        "stop_error",
        "stop_mode",
        "task",
    )

    def __init__(self, task: Task, handler: Handler, started_at: int) -> None:
        self.task = task
        self.handler = handler
        self.started_at = started_at
        self.begun_time = math.inf
        self.deadline_time = math.inf
        self.abandon_time = math.inf
        self.is_abandoned = False
        self.is_start_reported = handler.reports_start
        self.stop_mode = StopMode.REPORT
        self.stop_error: TaskError | None = None
        self.runner: asyncio.Task[None] | None = None
        self.context: AttemptContext | None = None
        self.log: AttemptLog | None = None
        self.process_groups: list[int] = []

    @property
    def has_begun(self) -> bool:
        """Whether its handler has been called."""
        return self.begun_time < math.inf

    @property
    def is_stopped(self) -> bool:
        """Whether it is reported as stopped, whatever its outcome."""
        return self.stop_error is not None and self.stop_mode is StopMode.REPORT


class Isolation(Protocol):
    """Where handlers run that need their own process."""

    async def run(self, attempt: RunningAttempt, begin: Callable[[], None]) -> Outcome:
        """Run the attempt in a child process. Cancelling this kills the child and everything it started."""
        ...

    def adopt(self, process_group: int) -> None:
        """Have the process group killed when this worker dies."""
        ...

    def disown(self, process_group: int) -> None:
        """Kill what is left of the process group and forget it."""
        ...

    async def aclose(self) -> None:
        """End all child processes."""
        ...


class ExecutorContext(Struct, frozen=True, kw_only=True):
    """What attempts need of the worker in which they run."""

    worker_id: str
    registry: Registry
    clock: Clock
    random: Random
    resources: SharedResources
    isolation: Isolation
    on_finished: Callable[[TaskReport], None]
    on_started: Callable[[list[tuple[int, TaskStarted]]], None]
    on_handed_back: Callable[[str], None]
    large_values: LargeValues
    sinks: Sinks
    output_bytes_max: int
    threads_max: int
    log_sink: LogSink | None = None
    started_after_seconds: float = 0.25
    grace_seconds: float = 5.0
