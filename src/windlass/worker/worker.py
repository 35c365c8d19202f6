"""The worker: receives tasks from the broker in batches, executes them, and reports their outcomes in batches."""

import asyncio
import logging
import os
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from random import Random

from windlass.core.errors import BrokerUnavailable
from windlass.core.messages import Message, TaskStarted
from windlass.ports.artifacts import Artifacts
from windlass.ports.broker import Broker, TaskClaim, TaskReport
from windlass.ports.clock import Clock
from windlass.ports.handler import Registry
from windlass.ports.outage_log import OutageLog
from windlass.ports.sink import Sinks
from windlass.worker.child_processes import ChildProcesses
from windlass.worker.context import LogSink, SharedResources
from windlass.worker.executor import KILL_SECONDS_MAX, Executor
from windlass.worker.heartbeat import LOOP_RAN_SECONDS, Heartbeat
from windlass.worker.large_values import LargeValues
from windlass.worker.outbox import Outbox
from windlass.worker.report_cache import ReportCache
from windlass.worker.running_attempt import ExecutorContext

CONSUME_WAIT_SECONDS = 5.0
CANCELLED_WAIT_SECONDS = 5.0
# Outcomes that are not reported yet; at this number, no more tasks are received.
REPORTS_MAX = 10_000
# Cancels that arrived before their tasks, which are delivered separately.
CANCELLED_EARLY_MAX = 1024
# Pauses of a background duty after failures.
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 5.0
# Tasks started before other tasks of the event loop may run.
TAKE_MAX = 512
FLUSH_SECONDS_MAX = 10.0

log = logging.getLogger(__name__)


class Worker:
    """Serves queues until it is stopped. Failures of the broker are retried."""

    def __init__(
        self,
        broker: Broker,
        registry: Registry,
        clock: Clock,
        *,
        worker_id: str,
        queues: Sequence[str],
        concurrency: int,
        threads: int,
        processes: int,
        heartbeat_seconds: float,
        output_bytes_max: int,
        started_after_seconds: float = 0.25,
        grace_seconds: float = 5.0,
        log_sink: LogSink | None = None,
        random: Random | None = None,
        environment: Mapping[str, str] | None = None,
        artifacts: Artifacts | None = None,
        sinks: Sinks | None = None,
        heartbeat: Heartbeat | None = None,
        is_only_worker: bool = False,
    ) -> None:
        self._broker = broker
        # Where no other worker can join, a task without a handler fails here instead of waiting forever.
        self._is_only_worker = is_only_worker
        self._registry = registry
        # None: the worker's own event loop sends heartbeats.
        self._heartbeat = heartbeat
        self._clock = clock
        self._worker_id = worker_id
        self._queues = tuple(queues)
        self._concurrency = concurrency
        self._heartbeat_seconds = heartbeat_seconds
        self._grace_seconds = grace_seconds
        self._resources = SharedResources()
        self._children = ChildProcesses(
            processes,
            grace_seconds=grace_seconds,
            worker_id=worker_id,
            environment=environment or {"PATH": os.defpath},
            output_bytes_max=output_bytes_max,
        )
        large_values = LargeValues(artifacts, output_bytes_max)
        self._outputs = large_values.outputs
        self._context = ExecutorContext(
            worker_id=worker_id,
            registry=registry,
            clock=clock,
            random=random or Random(),
            resources=self._resources,
            isolation=self._children,
            on_finished=self._finished,
            on_started=self._started,
            on_handed_back=self._handed_back,
            large_values=large_values,
            output_bytes_max=output_bytes_max,
            log_sink=log_sink,
            sinks=sinks or {},
            threads_max=threads,
            started_after_seconds=started_after_seconds,
            grace_seconds=grace_seconds,
        )
        self._executor = Executor(self._context)
        self._duties: list[asyncio.Task[None]] = []
        self._report_cache = ReportCache()
        self._reports = Outbox[TaskReport]()
        self._started_messages = Outbox[tuple[int, TaskStarted]]()
        self._handed_back_ids = Outbox[str]()
        # Claimed by this worker and not started yet.
        self._claimed_ids: Sequence[str] = ()
        self._cancelled_early: OrderedDict[str, None] = OrderedDict()
        self._has_reports = asyncio.Event()
        self._has_slot = asyncio.Event()
        self._flushed = asyncio.Event()
        self._ended = asyncio.Event()
        self._stopping = False

    @property
    def running(self) -> int:
        """The number of running attempts."""
        return len(self._executor.running)

    @property
    def problem(self) -> str | None:
        """Why this worker takes no tasks at the moment, if something is wrong."""
        return None if self._outputs is None else self._outputs.problem

    async def run(self) -> None:
        """Work until `stop`. A cancel stops without waiting for handlers."""
        if self._stopping:
            return
        duties = {
            "take": self._take,
            "report": self._report,
            "heartbeat": self._beat,
            "listen": self._listen,
        }
        self._duties = [
            asyncio.create_task(self._repeat(duty), name=name) for name, duty in duties.items()
        ]
        # When all tasks are cancelled at once, it may end just after `_flush` began to wait for it.
        self._duties[1].add_done_callback(lambda _: self._flushed.set())
        if self._heartbeat is not None:
            self._heartbeat.start(self._worker_id, self._task_ids, self._hand_back)
        try:
            await self._ended.wait()
        finally:
            await self.stop(0.0)

    async def stop(self, drain_seconds: float) -> None:
        """Stop receiving tasks, wait up to `drain_seconds` for running ones, and hand back the others."""
        if self._stopping:
            await self._ended.wait()
            return
        self._stopping = True
        if not self._duties:
            self._ended.set()
            return
        take, *others = self._duties
        await _ended(take)
        if not await self._executor.idle(drain_seconds):
            for task_id in list(self._executor.running):
                self._executor.hand_back(task_id)
            await self._executor.idle(self._grace_seconds + 2 * KILL_SECONDS_MAX)
        try:
            async with asyncio.timeout(FLUSH_SECONDS_MAX):
                await self._flush()
        except TimeoutError:
            log.warning(
                "worker %s stops with %d unreported outcomes", self._worker_id, len(self._reports)
            )
        finally:
            await self._close(others)

    def abort(self) -> None:
        """End at once without notifying the broker, as in a crash."""
        self._stopping = True
        for duty in self._duties:
            duty.cancel()
        self._executor.close()
        self._close_outputs()
        self._children.kill()
        self._ended.set()

    async def _close(self, duties: Sequence[asyncio.Task[None]]) -> None:
        for duty in duties:
            await _ended(duty)
        if self._heartbeat is not None:
            await self._heartbeat.stop()
        await self._deregister()
        self._executor.close()
        self._close_outputs()
        await self._children.aclose()
        await self._resources.aclose()
        self._ended.set()

    def _close_outputs(self) -> None:
        if self._outputs is not None:
            self._outputs.close()

    async def _deregister(self) -> None:
        try:
            await self._broker.deregister(self._worker_id)
        except BrokerUnavailable as error:
            log.warning("worker %s stays listed as stale: %s", self._worker_id, error)

    async def _repeat(self, duty: Callable[[], Awaitable[None]]) -> None:
        """Run a duty repeatedly; a failure is logged and followed by a pause."""
        pause = PAUSE_SECONDS_MIN
        outages = OutageLog(log)
        while True:
            try:
                await duty()
                pause = PAUSE_SECONDS_MIN
                outages.succeeded()
            except Exception as error:
                outages.failed(f"worker {self._worker_id}: background duty failed; retrying", error)
                await self._clock.sleep(pause)
                pause = min(pause * 2, PAUSE_SECONDS_MAX)

    async def _take(self) -> None:
        if self.problem is not None and self._outputs is not None:
            # More results could not be stored either.
            await self._outputs.wait_available()
        free = min(self._concurrency - self.running, REPORTS_MAX - len(self._reports))
        if free <= 0:
            self._has_slot.clear()
            await self._has_slot.wait()
            return
        taken, wait_seconds = 0, CONSUME_WAIT_SECONDS
        while free > 0 and taken < TAKE_MAX:
            claims = await self._broker.claim(
                self._worker_id, self._queues, free, wait_seconds, handlers=self._handlers()
            )
            self._claimed_ids = [claim.task.task_id for claim in claims]
            for claim in claims:
                self._start(claim)
            self._claimed_ids = ()
            if not claims:
                break
            # Handlers that block the event loop run now, not while tasks of the next claim lack a heartbeat.
            await asyncio.sleep(0)
            if len(claims) < free:
                # The queues are empty; the next call waits for tasks.
                break
            # Handlers that ended at once have freed their slots: receive more tasks and report them together.
            taken, wait_seconds = taken + len(claims), 0.0
            free = self._concurrency - self.running
        await asyncio.sleep(0)

    def _handlers(self) -> Sequence[str] | None:
        """Return the handlers of the tasks to claim. They may change while the worker runs."""
        return None if self._is_only_worker else tuple(self._registry)

    def _start(self, claim: TaskClaim) -> None:
        task = claim.task
        earlier = self._report_cache.get(task.task_id)
        if earlier is not None:
            self._queue_report(earlier)
        elif task.task_id in self._cancelled_early:
            self._executor.reject(task)
        else:
            self._executor.start(task)

    async def _report(self) -> None:
        if not (self._reports or self._started_messages or self._handed_back_ids):
            self._flushed.set()
            self._has_reports.clear()
            await self._has_reports.wait()
        if self._started_messages:
            await self._send_started()
        if self._handed_back_ids:
            await self._broker.return_tasks(self._worker_id, self._handed_back_ids.next_batch())
            self._handed_back_ids.sent()
        if self._reports:
            await self._broker.finish(self._worker_id, self._reports.next_batch())
            self._reports.sent()

    async def _send_started(self) -> None:
        by_shard: defaultdict[int, list[Message]] = defaultdict(list)
        for shard, message in self._started_messages.next_batch():
            by_shard[shard].append(message)
        for shard, messages in by_shard.items():
            await self._broker.send(shard, messages)
        self._started_messages.sent()

    async def _beat(self) -> None:
        if self._heartbeat is None:
            self._hand_back(await self._broker.extend(self._worker_id, self._task_ids()))
            await self._clock.sleep(self._heartbeat_seconds)
        else:
            self._heartbeat.loop_ran()
            await self._clock.sleep(LOOP_RAN_SECONDS)

    def _task_ids(self) -> list[str]:
        """Return the ids of all tasks of this worker; each part is copied at once for the heartbeat thread."""
        # In this order: a report that moves to the batch meanwhile is listed twice instead of not at all.
        unreported = [report.task_id for report in (*self._reports.waiting, *self._reports.sending)]
        return [*list(self._executor.running), *self._claimed_ids, *unreported]

    def _hand_back(self, task_ids: Sequence[str]) -> None:
        for task_id in task_ids:
            self._executor.hand_back(task_id)

    async def _listen(self) -> None:
        for task_id in await self._broker.receive_cancellations(
            self._worker_id, CANCELLED_WAIT_SECONDS
        ):
            if not self._executor.cancel(task_id):
                self._cancelled_early[task_id] = None
        while len(self._cancelled_early) > CANCELLED_EARLY_MAX:
            self._cancelled_early.popitem(last=False)

    async def _flush(self) -> None:
        report = self._duties[1]
        # When all tasks were cancelled at once, the reporting task has ended too.
        while (self._reports or self._handed_back_ids) and not report.done():
            self._flushed.clear()
            self._has_reports.set()
            await self._flushed.wait()

    def _finished(self, report: TaskReport) -> None:
        self._report_cache.add(report)
        self._queue_report(report)

    def _queue_report(self, report: TaskReport) -> None:
        self._reports.waiting.append(report)
        self._has_reports.set()
        self._has_slot.set()

    def _started(self, messages: list[tuple[int, TaskStarted]]) -> None:
        self._started_messages.waiting.extend(messages)
        self._has_reports.set()

    def _handed_back(self, task_id: str) -> None:
        self._handed_back_ids.waiting.append(task_id)
        self._has_reports.set()
        self._has_slot.set()


async def _ended(duty: asyncio.Task[None]) -> None:
    duty.cancel()
    with suppress(asyncio.CancelledError):
        await duty
