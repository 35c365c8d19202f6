"""Runs attempts: starts their handlers, watches their time, stops them, and turns their ends into reports."""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from contextlib import suppress
from enum import Enum, unique
from functools import partial
from random import Random
from typing import Any, Protocol, cast

from msgspec import Struct

from windlass.core.changes import Task
from windlass.core.instants import MICROSECONDS
from windlass.core.messages import Failed, Succeeded, TaskError, TaskFinished, TaskStarted
from windlass.ports.broker import TaskReport
from windlass.ports.clock import Clock
from windlass.ports.handler import Handler, Mode, Registry
from windlass.ports.sink import Sinks
from windlass.worker.context import AttemptContext, AttemptLog, LogSink, Resources
from windlass.worker.large_values import LargeValues
from windlass.worker.outcomes import (
    CANCELLED,
    cancelled,
    failed,
    handler_not_found,
    run_in_one_step,
    succeeded,
    timed_out,
)
from windlass.worker.sink_step import sink_failed, written
from windlass.worker.thread_pool import Threads

# A loop that answers so late is blocked by a handler, and the worker's heartbeat with it.
LOOP_BLOCKED_SECONDS = 0.5
# A child process is killed, so it needs no more than this beyond its grace.
KILL_SECONDS_MAX = 5.0

Outcome = Succeeded | Failed
log = logging.getLogger(__name__)


@unique
class StopMode(Enum):
    """What is said of an attempt that was stopped. One that succeeds all the same is always reported."""

    REPORT = 1  # that it was stopped, and why
    HAND_BACK = 2  # that another worker should run it; no report may pass for the result of its new owner


class Isolation(Protocol):
    """Where handlers run that need a process of their own."""

    async def run(self, attempt: "RunningAttempt", begin: Callable[[], None]) -> Outcome:
        """Run the attempt in a child process. Cancelling this kills the child and everything it started."""
        ...

    def adopt(self, process_group: int) -> None:
        """Have the group killed when this worker dies."""
        ...

    def disown(self, process_group: int) -> None:
        """Kill what is left of the group and forget it."""
        ...

    async def aclose(self) -> None:
        """End all child processes."""
        ...


class ExecutorContext(Struct, frozen=True):
    """What attempts need of the worker they run in."""

    worker_id: str
    registry: Registry
    clock: Clock
    random: Random
    resources: Resources
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


class RunningAttempt:
    """One delivery that runs. Instants without `_at` are the loop's, which never jump."""

    __slots__ = (
        "abandon_when",
        "abandoned",
        "afterwards",
        "announced",
        "begun_when",
        "context",
        "deadline",
        "groups",
        "handler",
        "log",
        "runner",
        "started_at",
        "stop_error",
        "task",
    )

    def __init__(self, task: Task, handler: Handler, started_at: int) -> None:
        self.task = task
        self.handler = handler
        self.started_at = started_at
        self.begun_when = math.inf
        self.deadline = math.inf
        self.abandon_when = math.inf
        self.abandoned = False
        self.announced = handler.tells_start
        self.afterwards = StopMode.REPORT
        self.stop_error: TaskError | None = None
        self.runner: asyncio.Task[None] | None = None
        self.context: AttemptContext | None = None
        self.log: AttemptLog | None = None
        self.groups: list[int] | None = None


class Executor:
    """The attempts that a worker runs at this moment."""

    def __init__(self, around: ExecutorContext) -> None:
        self.running: dict[str, RunningAttempt] = {}
        self._around = around
        self._inline_bytes_max = around.large_values.inline_bytes_max
        self._loop = asyncio.get_running_loop()
        self._threads: Threads | None = None
        self._abandoned: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._watch_when = math.inf
        self._watch_handle: asyncio.TimerHandle | None = None

    def start(self, task: Task) -> None:
        """Begin an attempt. One that already runs here is left alone."""
        if task.task_id in self.running:
            return
        handler = self._around.registry.get(task.handler)
        started_at = self._around.clock.now()
        if handler is None:
            outcome = handler_not_found(task.handler, self._around.registry)
            self._around.on_finished(self._report(task, started_at, outcome))
            return
        if handler.mode is Mode.ASYNC and not (handler.suspends or handler.takes_context or task.artifacts):
            self._start_at_once(task, handler, started_at)
            return
        attempt = self.running[task.task_id] = RunningAttempt(task, handler, started_at)
        if task.artifacts:
            attempt.runner = self._loop.create_task(self._prepare(attempt))
        else:
            self._launch(attempt)

    def _start_at_once(self, task: Task, handler: Handler, started_at: int) -> None:
        outcome = run_in_one_step(task, handler, self._around.output_bytes_max)
        if self._is_unsettled(task, outcome):
            attempt = self.running[task.task_id] = RunningAttempt(task, handler, started_at)
            self._begin(attempt)
            self._settle_later(attempt, outcome)
            return
        report = self._report(task, started_at, outcome)
        if report.message.finished_at - started_at > LOOP_BLOCKED_SECONDS * MICROSECONDS:
            self._warn_of_blocked_loop((report.message.finished_at - started_at) / MICROSECONDS, handler.name)
        self._around.on_finished(report)

    async def _prepare(self, attempt: RunningAttempt) -> None:
        """Fetch the large values of the params; the handler's own time starts later."""
        try:
            fetched = await self._around.large_values.fetch(attempt.task)
        except asyncio.CancelledError as error:
            fetched = failed(error)
        if isinstance(fetched, Failed):
            self._finish(attempt, fetched)
            return
        attempt.task, attempt.runner = fetched, None
        self._launch(attempt)

    def _launch(self, attempt: RunningAttempt) -> None:
        match attempt.handler.mode:
            case Mode.ASYNC:
                attempt.runner = self._loop.create_task(self._run_here(attempt))
            case Mode.THREAD:
                self._run_in_thread(attempt)
            case Mode.PROCESS:
                attempt.runner = self._loop.create_task(self._run_isolated(attempt))

    def cancel(self, task_id: str) -> bool:
        """Stop an attempt that its job no longer wants; false when it does not run here."""
        self._stop(task_id, cancelled())
        return task_id in self.running

    def refuse(self, task: Task) -> None:
        """Report a task as cancelled that was not even begun."""
        now = self._around.clock.now()
        self._around.on_finished(self._report(task, now, Failed(cancelled())))

    def hand_back(self, task_id: str) -> None:
        """Stop an attempt without a report: another worker runs it, or will."""
        self._stop(task_id, TaskError(CANCELLED, "the task goes to another worker"), StopMode.HAND_BACK)

    async def idle(self, seconds_max: float) -> bool:
        """Wait until nothing runs; false when that takes too long."""
        if not self.running:
            return True
        self._idle.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds_max)
        return not self.running

    def close(self) -> None:
        """Let go of everything, without a word about what still runs."""
        if self._watch_handle is not None:
            self._watch_handle.cancel()
        for attempt in list(self.running.values()):
            self._let_go(attempt)
        self.running.clear()
        if self._threads is not None:
            self._threads.close()

    async def _run_here(self, attempt: RunningAttempt) -> None:
        handler, meta = attempt.handler, None
        self._begin(attempt)
        try:
            params = handler.check(attempt.task.params)
            call = cast("Callable[..., Coroutine[Any, Any, object]]", handler.call)
            if handler.takes_context:
                context = self._context(attempt, self._around.log_sink)
                meta = context.meta
                outcome = succeeded(await call(context, **params), context.meta, self._around.output_bytes_max)
            else:
                outcome = succeeded(await call(**params), None, self._around.output_bytes_max)
        except GeneratorExit:
            raise
        except BaseException as error:  # user code: not even SystemExit may end the worker
            outcome = failed(error, meta)
        if self._is_unsettled(attempt.task, outcome):
            await self._settle(attempt, outcome)
        else:
            self._finish(attempt, outcome)

    def _run_in_thread(self, attempt: RunningAttempt) -> None:
        if self._threads is None:
            self._threads = Threads(self._around.threads_max)
        handler, loop, sink = attempt.handler, self._loop, self._around.log_sink
        bytes_max = self._around.output_bytes_max
        # The sink belongs to the loop; lines of a thread go there in their order.
        context = self._context(attempt, (lambda line: _tell(loop, sink, line)) if sink is not None else None)

        def work() -> bool:
            if attempt.stop_error is not None:  # stopped while it waited for this thread
                outcome: Outcome = Failed(attempt.stop_error)
            else:
                _tell(loop, self._begin, attempt)
                try:
                    params = handler.check(attempt.task.params)
                    output = handler.call(context, **params) if handler.takes_context else handler.call(**params)
                    outcome = succeeded(output, context.meta, bytes_max)
                except BaseException as error:  # user code
                    outcome = failed(error, context.meta)
            _tell(loop, self._end_of_thread, attempt, outcome)
            return not attempt.abandoned

        if self._threads.submit(work):
            self._begin(attempt)

    def _end_of_thread(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        if self._threads is not None and not attempt.abandoned:
            self._threads.release()
        if self._is_unsettled(attempt.task, outcome) and not attempt.abandoned:
            self._settle_later(attempt, outcome)
        else:
            self._finish(attempt, outcome)

    async def _run_isolated(self, attempt: RunningAttempt) -> None:
        attempt.log = AttemptLog(attempt.task, self._around.clock, self._around.log_sink)
        try:
            outcome = await self._around.isolation.run(attempt, lambda: self._begin(attempt))
        except GeneratorExit:
            raise
        except asyncio.CancelledError as error:
            outcome = failed(error)
        except OSError as error:
            outcome = Failed(TaskError(TaskError.WORKER_LOST, f"no child process could be used: {error}"))
        await self._settle(attempt, outcome)

    def _is_unsettled(self, task: Task, outcome: Outcome) -> bool:
        """Whether something is left to do before the outcome can be reported."""
        return isinstance(outcome, Succeeded) and (
            task.sink is not None or len(memoryview(outcome.output)) > self._inline_bytes_max
        )

    def _settle_later(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        attempt.runner = runner = self._loop.create_task(self._settle(attempt, outcome))
        # Cancelled before its first step, it would run no code and end nothing.
        runner.add_done_callback(lambda _: self._finish(attempt, Failed(attempt.stop_error or cancelled())))

    async def _settle(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        """Do what is left to do, within the attempt's own time, and end it."""
        # What was stopped meanwhile is reported as stopped, whatever came of it.
        is_stopped = attempt.stop_error is not None and attempt.afterwards is StopMode.REPORT
        if isinstance(outcome, Succeeded) and not is_stopped and attempt.task.sink is not None:
            outcome = await self._written(attempt, outcome)
        if (
            isinstance(outcome, Succeeded)
            and not is_stopped
            and len(memoryview(outcome.output)) > self._inline_bytes_max
        ):
            try:
                outcome = await self._around.large_values.put_away(attempt.task.job_id, outcome)
            except asyncio.CancelledError as error:
                outcome = failed(error)
        self._finish(attempt, outcome)

    async def _written(self, attempt: RunningAttempt, outcome: Succeeded) -> Outcome:
        """The outcome once its output is in the task's sink; without that the attempt did not succeed."""
        if attempt.stop_error is not None:
            # A handler that went on to its end while its task was handed back: the next worker writes.
            return Failed(attempt.stop_error, outcome.meta)
        try:
            return await written(self._around.sinks, attempt.task, outcome)
        except GeneratorExit:
            raise
        except BaseException as error:  # a sink's surprise must end the attempt, not the worker
            return sink_failed(error, outcome.meta)

    def _context(self, attempt: RunningAttempt, sink: LogSink | None) -> AttemptContext:
        around, task = self._around, attempt.task
        attempt.log = AttemptLog(task, around.clock, sink)

        def adopt(process_group: int) -> None:
            attempt.groups = [*(attempt.groups or ()), process_group]
            around.isolation.adopt(process_group)

        started = partial(_tell, self._loop, self._start_told, attempt)
        attempt.context = AttemptContext(task, around.worker_id, attempt.log, around.resources, adopt, started)
        return attempt.context

    def _begin(self, attempt: RunningAttempt) -> None:
        """The handler's own time starts: it may have waited for a thread or a process before."""
        if attempt.begun_when < math.inf or self.running.get(attempt.task.task_id) is not attempt:
            return
        attempt.begun_when = now = self._loop.time()
        if attempt.handler.mode is not Mode.ASYNC:
            attempt.started_at = self._around.clock.now()
        attempt.deadline = now + attempt.task.timeout_seconds
        self._watch_at(min(attempt.deadline, now + self._around.started_after_seconds))

    def _stop(self, task_id: str, error: TaskError, afterwards: StopMode = StopMode.REPORT) -> None:
        attempt = self.running.get(task_id)
        if attempt is None or attempt.stop_error is not None:
            return
        attempt.stop_error = error
        attempt.afterwards = afterwards
        waits = self._around.grace_seconds
        if attempt.handler.mode is Mode.PROCESS:
            waits += KILL_SECONDS_MAX
        attempt.abandon_when = self._loop.time() + waits
        self._watch_at(attempt.abandon_when)
        if attempt.context is not None:
            attempt.context.cancel(handed_back=afterwards is StopMode.HAND_BACK)
        if attempt.runner is not None:
            attempt.runner.cancel()
        # What never began cannot end by itself either: a task cancelled before its first step runs no code.
        if attempt.begun_when == math.inf:
            self._finish(attempt, Failed(error))

    def _finish(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        """The attempt is over. Whatever comes after the first end changes nothing."""
        task = attempt.task
        if self.running.get(task.task_id) is not attempt:
            return
        del self.running[task.task_id]
        if attempt.groups is not None:
            self._disown(attempt)
        if attempt.afterwards is StopMode.REPORT or isinstance(outcome, Succeeded):
            if attempt.stop_error is not None and attempt.afterwards is StopMode.REPORT:
                outcome = Failed(attempt.stop_error, outcome.meta)
            self._around.on_finished(self._report(task, attempt.started_at, outcome))
        else:
            # Also what another worker has by now: it may have been delivered here again while it was being stopped.
            self._around.on_handed_back(task.task_id)
        if not self.running:
            self._idle.set()

    def _report(self, task: Task, started_at: int, outcome: Outcome) -> TaskReport:
        around = self._around
        message = TaskFinished(
            task.job_id,
            task.node_id,
            task.attempt,
            around.worker_id,
            started_at,
            around.clock.now(),
            outcome,
            task.index,
            around.random.getrandbits(32),
        )
        return TaskReport(task.task_id, task.shard, message)

    def _watch_at(self, when: float) -> None:
        if when < self._watch_when:
            if self._watch_handle is not None:
                self._watch_handle.cancel()
            self._watch_when = when
            self._watch_handle = self._loop.call_at(when, self._watch)

    def _watch(self) -> None:
        """Look at everything that runs: announce what is slow, stop what is late, abandon what does not stop."""
        # The loop may wake us a clock tick early; for us the instant has come.
        now = max(self._loop.time(), self._watch_when)
        if now - self._watch_when > LOOP_BLOCKED_SECONDS:
            self._warn_of_blocked_loop(now - self._watch_when)
        self._watch_when, self._watch_handle = math.inf, None
        slow: list[RunningAttempt] = []
        next_when = math.inf
        for attempt in list(self.running.values()):
            if attempt.stop_error is None and now >= attempt.deadline:
                self._stop(attempt.task.task_id, timed_out(attempt.task))
            if attempt.stop_error is not None:
                if now >= attempt.abandon_when:
                    self._abandon(attempt)
                else:
                    next_when = min(next_when, attempt.abandon_when)
                continue
            slow_when = attempt.begun_when + self._around.started_after_seconds
            if now >= slow_when and not attempt.announced:
                attempt.announced = True
                slow.append(attempt)
            next_when = min(next_when, attempt.deadline, math.inf if attempt.announced else slow_when)
        if slow:
            self._announce(slow)
        if next_when < math.inf:
            self._watch_at(next_when)

    def _start_told(self, attempt: RunningAttempt) -> None:
        """The handler says that its work begins only now."""
        attempt.started_at = self._around.clock.now()
        self._announce([attempt])

    def _announce(self, slow: list[RunningAttempt]) -> None:
        worker_id = self._around.worker_id
        self._around.on_started(
            [
                (task.shard, TaskStarted(task.job_id, task.node_id, task.attempt, worker_id, started_at, task.index))
                for task, started_at in ((attempt.task, attempt.started_at) for attempt in slow)
            ]
        )

    def _abandon(self, attempt: RunningAttempt) -> None:
        task = attempt.task
        log.warning("task %s: handler %r did not stop when asked and is abandoned", task.task_id, task.handler)
        self._let_go(attempt)
        self._finish(attempt, Failed(attempt.stop_error or timed_out(task)))

    def _let_go(self, attempt: RunningAttempt) -> None:
        attempt.abandoned = True
        if attempt.runner is not None:
            # The loop holds tasks weakly; one that still runs must not vanish halfway.
            self._abandoned.add(attempt.runner)
            attempt.runner.add_done_callback(self._abandoned.discard)
            attempt.runner.cancel()
        elif self._threads is not None:
            self._threads.abandon()

    def _disown(self, attempt: RunningAttempt) -> None:
        for group in attempt.groups or ():
            self._around.isolation.disown(group)

    def _warn_of_blocked_loop(self, seconds: float, *names_known: str) -> None:
        running = {a.handler.name for a in self.running.values() if a.handler.mode is Mode.ASYNC}
        names = names_known or sorted(running)
        log.warning(
            "the worker's loop was blocked for %.1f s (async handlers running: %s): "
            "code that blocks belongs into a plain def, or mode='process'",
            seconds,
            ", ".join(names) or "none",
        )


def _tell(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: object) -> None:
    # A thread that outlives the loop has nobody left to tell.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)
