"""Runs attempts: calls their handlers, stops them, and turns their outcomes into reports."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from windlass.core.changes import Task
from windlass.core.instants import MICROSECONDS
from windlass.core.messages import Failed, Succeeded, TaskError
from windlass.ports.handler import Handler, Mode
from windlass.worker.attempt_reports import AttemptReports
from windlass.worker.attempt_timers import LOOP_BLOCKED_SECONDS, AttemptTimers, warn_of_blocked_loop
from windlass.worker.context import AttemptContext, AttemptLog, LogSink
from windlass.worker.outcomes import (
    CANCELLED,
    call_handler,
    cancelled,
    failed,
    handler_not_found,
    run_in_one_step,
    succeeded,
    timed_out,
)
from windlass.worker.output_step import OutputStep
from windlass.worker.running_attempt import ExecutorContext, Outcome, RunningAttempt, StopMode
from windlass.worker.thread_pool import ThreadPool

# How long killing a child process may take beyond its grace period.
KILL_SECONDS_MAX = 5.0

log = logging.getLogger(__name__)


class Executor:
    """The attempts that a worker runs at the moment."""

    def __init__(self, context: ExecutorContext) -> None:
        self.running: dict[str, RunningAttempt] = {}
        self._context = context
        self._reports = AttemptReports(context)
        self._output_step = OutputStep(context.sinks, context.large_values)
        self._timers = AttemptTimers(
            self.running,
            context.started_after_seconds,
            on_slow=self._reports.started,
            on_timeout=lambda attempt: self._stop(attempt.task.task_id, timed_out(attempt.task)),
            on_abandon=self._abandon,
        )
        self._loop = asyncio.get_running_loop()
        self._threads: ThreadPool | None = None
        self._abandoned: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()

    def start(self, task: Task) -> None:
        """Start an attempt. An attempt that is already running is left alone."""
        if task.task_id in self.running:
            return
        handler = self._context.registry.get(task.handler)
        started_at = self._context.clock.now()
        if handler is None:
            outcome = handler_not_found(task.handler, self._context.registry)
            self._reports.finished(task, started_at, outcome)
            return
        if handler.mode is Mode.ASYNC and not (
            handler.suspends or handler.takes_context or task.artifacts
        ):
            self._run_at_once(task, handler, started_at)
            return
        attempt = self.running[task.task_id] = RunningAttempt(task, handler, started_at)
        if task.artifacts:
            attempt.runner = self._loop.create_task(self._prepare(attempt))
        else:
            self._launch(attempt)

    def cancel(self, task_id: str) -> bool:
        """Stop an attempt whose job no longer needs it; return false if it was not running here."""
        was_running = task_id in self.running
        self._stop(task_id, cancelled())
        return was_running

    def reject(self, task: Task) -> None:
        """Report a task as cancelled that was never started."""
        now = self._context.clock.now()
        self._reports.finished(task, now, Failed(cancelled()))

    def hand_back(self, task_id: str) -> None:
        """Stop an attempt without a report: another worker runs it."""
        self._stop(
            task_id,
            TaskError(CANCELLED, "the task was handed to another worker"),
            StopMode.HAND_BACK,
        )

    async def idle(self, seconds_max: float) -> bool:
        """Wait until nothing runs; return false on a timeout."""
        if not self.running:
            return True
        self._idle.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds_max)
        return not self.running

    def close(self) -> None:
        """Abandon everything that still runs, without reports."""
        self._timers.close()
        for attempt in list(self.running.values()):
            self._release(attempt)
        self.running.clear()
        if self._threads is not None:
            self._threads.close()

    # Calling handlers

    def _run_at_once(self, task: Task, handler: Handler, started_at: int) -> None:
        """Run a coroutine without `await`, which ends before this returns."""
        outcome = run_in_one_step(task, handler, self._context.output_bytes_max)
        if self._output_step.is_needed(task, outcome):
            attempt = self.running[task.task_id] = RunningAttempt(task, handler, started_at)
            self._begin(attempt)
            self._complete_later(attempt, outcome)
            return
        report = self._reports.finished(task, started_at, outcome)
        elapsed = report.message.finished_at - started_at
        if elapsed > LOOP_BLOCKED_SECONDS * MICROSECONDS:
            warn_of_blocked_loop(elapsed / MICROSECONDS, {handler.name})

    async def _prepare(self, attempt: RunningAttempt) -> None:
        """Fetch the large values of the params, before the timeout of the handler starts."""
        try:
            fetched = await self._context.large_values.fetch(attempt.task)
        except asyncio.CancelledError as error:
            fetched = failed(error)
        if isinstance(fetched, Failed):
            self._finish(attempt, fetched)
            return
        attempt.task = fetched
        attempt.runner = None
        self._launch(attempt)

    def _launch(self, attempt: RunningAttempt) -> None:
        match attempt.handler.mode:
            case Mode.ASYNC:
                attempt.runner = self._loop.create_task(self._run_on_loop(attempt))
            case Mode.THREAD:
                self._run_in_thread(attempt)
            case Mode.PROCESS:
                attempt.runner = self._loop.create_task(self._run_isolated(attempt))

    async def _run_on_loop(self, attempt: RunningAttempt) -> None:
        context = meta = None
        self._begin(attempt)
        if attempt.handler.takes_context:
            context = self._attempt_context(attempt, self._context.log_sink)
            meta = context.meta
        try:
            output = await call_handler(attempt.handler, attempt.task.params, context)
            outcome = succeeded(output, meta, self._context.output_bytes_max)
        except GeneratorExit:
            raise
        except BaseException as error:  # user code: not even SystemExit may end the worker
            outcome = failed(error, meta)
        await self._complete(attempt, outcome)

    def _run_in_thread(self, attempt: RunningAttempt) -> None:
        if self._threads is None:
            self._threads = ThreadPool(self._context.threads_max)
        sink = self._context.log_sink
        if sink is not None:
            # The sink belongs to the event loop; lines of a thread arrive there in order.
            sink = partial(_call_on_loop, self._loop, sink)
        context = self._attempt_context(attempt, sink)

        def work() -> bool:
            outcome = self._call_in_thread(attempt, context)
            _call_on_loop(self._loop, self._thread_ended, attempt, outcome)
            return not attempt.is_abandoned

        if self._threads.submit(work):
            self._begin(attempt)

    def _call_in_thread(self, attempt: RunningAttempt, context: AttemptContext) -> Outcome:
        if attempt.stop_error is not None:  # stopped while it waited for a thread
            return Failed(attempt.stop_error)
        _call_on_loop(self._loop, self._begin, attempt)
        try:
            output = call_handler(attempt.handler, attempt.task.params, context)
            return succeeded(output, context.meta, self._context.output_bytes_max)
        except BaseException as error:  # user code
            return failed(error, context.meta)

    def _thread_ended(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        if attempt.is_abandoned:
            return
        if self._threads is not None:
            self._threads.release()
        if self._output_step.is_needed(attempt.task, outcome):
            self._complete_later(attempt, outcome)
        else:
            self._finish(attempt, outcome)

    async def _run_isolated(self, attempt: RunningAttempt) -> None:
        attempt.log = AttemptLog(attempt.task, self._context.clock, self._context.log_sink)
        try:
            outcome = await self._context.isolation.run(attempt, lambda: self._begin(attempt))
        except asyncio.CancelledError as error:
            outcome = failed(error)
        except OSError as error:
            outcome = Failed(
                TaskError(TaskError.WORKER_LOST, f"no child process could be started: {error}")
            )
        await self._complete(attempt, outcome)

    def _attempt_context(self, attempt: RunningAttempt, sink: LogSink | None) -> AttemptContext:
        def adopt(process_group: int) -> None:
            attempt.process_groups.append(process_group)
            self._context.isolation.adopt(process_group)

        attempt.log = AttemptLog(attempt.task, self._context.clock, sink)
        attempt.context = AttemptContext(
            attempt.task,
            worker_id=self._context.worker_id,
            log=attempt.log,
            resources=self._context.resources,
            adopt=adopt,
            started=partial(_call_on_loop, self._loop, self._started, attempt),
        )
        return attempt.context

    # Ending attempts

    def _begin(self, attempt: RunningAttempt) -> None:
        """Start the timeout of the handler, which may have waited for a thread or a process before."""
        if attempt.has_begun or self.running.get(attempt.task.task_id) is not attempt:
            return
        if attempt.handler.mode is not Mode.ASYNC:
            attempt.started_at = self._context.clock.now()
        self._timers.begin(attempt)

    def _complete_later(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        attempt.runner = runner = self._loop.create_task(self._complete(attempt, outcome))
        # A task that is cancelled before its first step runs no code and would not finish the attempt.
        runner.add_done_callback(
            lambda _: self._finish(attempt, Failed(attempt.stop_error or cancelled()))
        )

    async def _complete(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        if self._output_step.is_needed(attempt.task, outcome):
            outcome = await self._output_step.run(attempt, outcome)
        self._finish(attempt, outcome)

    def _stop(self, task_id: str, error: TaskError, mode: StopMode = StopMode.REPORT) -> None:
        attempt = self.running.get(task_id)
        if attempt is None or attempt.stop_error is not None:
            return
        attempt.stop_error = error
        attempt.stop_mode = mode
        grace_seconds = self._context.grace_seconds
        if attempt.handler.mode is Mode.PROCESS:
            grace_seconds += KILL_SECONDS_MAX
        if attempt.context is not None and mode is StopMode.REPORT:
            grace_seconds += attempt.context.stop_seconds
        self._timers.abandon_after(attempt, grace_seconds)
        if attempt.context is not None:
            attempt.context.cancel(handed_back=mode is StopMode.HAND_BACK)
        if attempt.runner is not None:
            attempt.runner.cancel()
        # A task that is cancelled before its first step runs no code and would not finish the attempt.
        if not attempt.has_begun:
            self._finish(attempt, Failed(error))

    def _finish(self, attempt: RunningAttempt, outcome: Outcome) -> None:
        """Report the end of an attempt. Later outcomes of the same attempt change nothing."""
        task = attempt.task
        if self.running.get(task.task_id) is not attempt:
            return
        del self.running[task.task_id]
        for group in attempt.process_groups:
            self._context.isolation.disown(group)
        if attempt.stop_mode is StopMode.REPORT or isinstance(outcome, Succeeded):
            if attempt.is_stopped and attempt.stop_error is not None:
                outcome = Failed(attempt.stop_error, outcome.meta)
            self._reports.finished(task, attempt.started_at, outcome)
        else:
            # Also if another worker has the task: it may have been delivered here again while it was stopped.
            self._context.on_handed_back(task.task_id)
        if not self.running:
            self._idle.set()

    def _started(self, attempt: RunningAttempt) -> None:
        """Report a start that the handler itself announces."""
        attempt.started_at = self._context.clock.now()
        self._reports.started([attempt])

    def _abandon(self, attempt: RunningAttempt) -> None:
        task = attempt.task
        log.warning(
            "task %s: handler %r did not stop in time and is abandoned", task.task_id, task.handler
        )
        self._release(attempt)
        self._finish(attempt, Failed(attempt.stop_error or timed_out(task)))

    def _release(self, attempt: RunningAttempt) -> None:
        attempt.is_abandoned = True
        if attempt.runner is not None:
            # The event loop holds tasks weakly; one that still runs must not be collected.
            self._abandoned.add(attempt.runner)
            attempt.runner.add_done_callback(self._abandoned.discard)
            attempt.runner.cancel()
        elif self._threads is not None:
            self._threads.abandon()


def _call_on_loop(
    loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: object
) -> None:
    # A thread may outlive the event loop.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)
