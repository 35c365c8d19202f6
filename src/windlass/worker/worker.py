"""The worker: takes tasks from the broker in batches, has them executed, and reports their ends in batches."""

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from random import Random

from windlass.core.messages import Message, Succeeded, TaskStarted
from windlass.ports.artifacts import Artifacts
from windlass.ports.broker import Broker, TaskClaim, TaskReport
from windlass.ports.clock import Clock
from windlass.ports.handler import Registry
from windlass.ports.sink import Sinks
from windlass.worker.child_processes import Children
from windlass.worker.context import LogSink, Resources
from windlass.worker.executor import KILL_SECONDS_MAX, Executor, ExecutorContext
from windlass.worker.heartbeat import Heartbeat
from windlass.worker.large_values import LargeValues

CONSUME_WAIT_SECONDS = 5.0
CANCELLED_WAIT_SECONDS = 5.0
# Results that could not be reported yet; when so many wait, no more tasks are taken.
REPORTS_MAX = 10_000
# Results kept to answer a second delivery of the same task without running it again.
REMEMBERED_MAX = 4096
REMEMBERED_BYTES_MAX = 32 * 1024 * 1024
# Cancels that overtook their tasks: the two travel on different ways.
CANCELLED_EARLY_MAX = 1024
# After a duty failed it waits, longer each time, before it goes on.
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 5.0
# Tasks started before others on the loop get their turn.
TAKE_MAX = 512
FLUSH_SECONDS_MAX = 10.0

log = logging.getLogger(__name__)


class ReportCache:
    """The latest reports by task id: at least as many as the bounds say, at most twice as many.

    Two halves, of which the older is dropped when the newer is full: dropping one after the other takes longer than
    all else that is done with a report here.
    """

    def __init__(self) -> None:
        self._newer: dict[str, TaskReport] = {}
        self._older: dict[str, TaskReport] = {}
        self._newer_bytes = 0

    def add(self, report: TaskReport) -> None:
        """Remember a report, and forget old ones beyond the bounds."""
        newer = self._newer
        newer[report.task_id] = report
        outcome = report.message.outcome
        if isinstance(outcome, Succeeded):
            self._newer_bytes += len(outcome.output)
        if len(newer) >= REMEMBERED_MAX or self._newer_bytes >= REMEMBERED_BYTES_MAX:
            self._older, self._newer, self._newer_bytes = newer, {}, 0

    def get(self, task_id: str) -> TaskReport | None:
        """The report of a task that ended here lately."""
        return self._newer.get(task_id) or self._older.get(task_id)


class Worker:
    """Serves queues until it is stopped. Every duty survives a broker that fails for a while."""

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
        pulse: Heartbeat | None = None,
    ) -> None:
        self._broker = broker
        # None: the worker's own loop says that it lives.
        self._pulse = pulse
        self._clock = clock
        self._worker_id = worker_id
        self._queues = tuple(queues)
        self._concurrency = concurrency
        self._heartbeat_seconds = heartbeat_seconds
        self._grace_seconds = grace_seconds
        self._resources = Resources()
        self._children = Children(
            processes, grace_seconds, worker_id, environment or {"PATH": os.defpath}, output_bytes_max
        )
        self._around = ExecutorContext(
            worker_id=worker_id,
            registry=registry,
            clock=clock,
            random=random or Random(),
            resources=self._resources,
            isolation=self._children,
            on_finished=self._finished,
            on_started=self._started,
            on_handed_back=self._handed_back,
            large_values=LargeValues(artifacts, output_bytes_max),
            output_bytes_max=output_bytes_max,
            log_sink=log_sink,
            sinks=sinks or {},
            threads_max=threads,
            started_after_seconds=started_after_seconds,
            grace_seconds=grace_seconds,
        )
        self._executor: Executor | None = None
        self._duties: list[asyncio.Task[None]] = []
        self._remembered = ReportCache()
        self._reports: list[TaskReport] = []
        self._reporting: list[TaskReport] = []
        self._announcements: list[tuple[int, TaskStarted]] = []
        self._returned: list[str] = []
        # Handed out to this worker and not begun yet.
        self._in_hand: Sequence[str] = ()
        self._cancelled_early: OrderedDict[str, None] = OrderedDict()
        self._news = asyncio.Event()
        self._slot = asyncio.Event()
        self._flushed = asyncio.Event()
        self._ended = asyncio.Event()
        self._stopping = False

    @property
    def running(self) -> int:
        """How many attempts run at this moment."""
        return len(self._executor.running) if self._executor is not None else 0

    async def run(self) -> None:
        """Work until `stop`. Cancelling this is a stop that waits for no handler."""
        if self._stopping:
            return
        self._executor = Executor(self._around)
        duties = {"take": self._take, "report": self._report, "beat": self._beat, "listen": self._listen}
        self._duties = [asyncio.create_task(self._lasting(duty), name=name) for name, duty in duties.items()]
        # Where everything is cancelled at once, it may end just after somebody began to wait for what it reports.
        self._duties[1].add_done_callback(lambda _: self._flushed.set())
        if self._pulse is not None:
            self._pulse.start(self._worker_id, self._to_extend, self._give_up)
        try:
            await self._ended.wait()
        finally:
            await self.stop(0.0)

    async def stop(self, drain_seconds: float = 30.0) -> None:
        """Take no more tasks, let running ones finish for a while, hand back the others, and let go of everything."""
        first, self._stopping = not self._stopping, True
        if self._executor is None:
            self._ended.set()
        if not first or self._executor is None:
            await self._ended.wait()
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
            log.warning("worker %s stops with %d results unreported", self._worker_id, self._unreported)
        finally:
            await self._close(others)

    def abort(self) -> None:
        """End at once without a word to the broker: what a crash looks like to the others."""
        self._stopping = True
        for duty in self._duties:
            duty.cancel()
        if self._executor is not None:
            self._executor.close()
        self._children.kill()
        self._ended.set()

    async def _close(self, duties: Sequence[asyncio.Task[None]]) -> None:
        for duty in duties:
            await _ended(duty)
        if self._pulse is not None:
            await self._pulse.stop()
        if self._executor is not None:
            self._executor.close()
        await self._children.aclose()
        await self._resources.aclose()
        self._ended.set()

    async def _lasting(self, duty: Callable[[], Awaitable[None]]) -> None:
        """Run one round of a duty after the other; a failure is logged and followed by a pause."""
        pause = PAUSE_SECONDS_MIN
        while True:
            try:
                await duty()
                pause = PAUSE_SECONDS_MIN
            except Exception:
                log.exception("worker %s: a duty failed and goes on in %.1f s", self._worker_id, pause)
                await self._clock.sleep(pause)
                pause = min(pause * 2, PAUSE_SECONDS_MAX)

    async def _take(self) -> None:
        free = min(self._concurrency - self.running, REPORTS_MAX - self._unreported)
        if free <= 0:
            self._slot.clear()
            await self._slot.wait()
            return
        taken, wait_seconds = 0, CONSUME_WAIT_SECONDS
        while free > 0 and taken < TAKE_MAX:
            deliveries = await self._broker.claim(self._worker_id, self._queues, free, wait_seconds)
            self._in_hand = [delivery.task.task_id for delivery in deliveries]
            for delivery in deliveries:
                self._start(delivery)
            self._in_hand = ()
            if not deliveries:
                break
            # Handlers that keep the loop busy do so now, not while tasks that nobody extends yet are on their way here.
            await asyncio.sleep(0)
            if len(deliveries) < free:
                # There is no more for now: whoever waits for it is told when there is.
                break
            # Handlers that end at once have freed their slots: what waits is taken too, and reported with the rest.
            taken, wait_seconds = taken + len(deliveries), 0.0
            free = self._concurrency - self.running
        await asyncio.sleep(0)

    def _start(self, delivery: TaskClaim) -> None:
        task = delivery.task
        earlier = self._remembered.get(task.task_id)
        if earlier is not None:
            self._queue_report(earlier)
        elif self._executor is None:
            return
        elif self._cancelled_early and task.task_id in self._cancelled_early:
            self._executor.refuse(task)
        else:
            self._executor.start(task)

    async def _report(self) -> None:
        if not (self._reporting or self._reports or self._announcements or self._returned):
            self._flushed.set()
            self._news.clear()
            await self._news.wait()
        if self._announcements:
            await self._announce()
        if self._returned:
            await self._broker.return_tasks(self._worker_id, self._returned)
            self._returned = []
        if not self._reporting:
            self._reporting, self._reports = self._reports, []
        if self._reporting:
            await self._broker.finish(self._worker_id, self._reporting)
            self._reporting = []

    async def _announce(self) -> None:
        announcements, self._announcements = self._announcements, []
        by_shard: dict[int, list[Message]] = {}
        for shard, message in announcements:
            by_shard.setdefault(shard, []).append(message)
        for shard, messages in by_shard.items():
            await self._broker.send(shard, messages)

    async def _beat(self) -> None:
        if self._pulse is None:
            self._give_up(await self._broker.extend(self._worker_id, self._to_extend()))
        else:
            self._pulse.moved()
        await self._clock.sleep(self._heartbeat_seconds)

    def _to_extend(self) -> list[str]:
        """All that this worker has; also asked by another thread, so each part is copied at once."""
        unreported = [report.task_id for report in (*self._reporting, *self._reports)]
        return [*self._held(), *self._in_hand, *unreported]

    def _give_up(self, task_ids: Sequence[str]) -> None:
        for task_id in task_ids:
            if self._executor is not None:
                self._executor.hand_back(task_id)

    async def _listen(self) -> None:
        for task_id in await self._broker.receive_cancellations(self._worker_id, CANCELLED_WAIT_SECONDS):
            if self._executor is not None and not self._executor.cancel(task_id):
                self._cancelled_early[task_id] = None
                if len(self._cancelled_early) > CANCELLED_EARLY_MAX:
                    self._cancelled_early.popitem(last=False)

    async def _flush(self) -> None:
        report = self._duties[1]
        # Where everything was cancelled at once, nobody is left to report.
        while (self._unreported or self._returned) and not report.done():
            self._flushed.clear()
            self._news.set()
            await self._flushed.wait()

    @property
    def _unreported(self) -> int:
        return len(self._reports) + len(self._reporting)

    def _held(self) -> list[str]:
        return list(self._executor.running) if self._executor is not None else []

    def _finished(self, report: TaskReport) -> None:
        self._remembered.add(report)
        self._queue_report(report)

    def _queue_report(self, report: TaskReport) -> None:
        self._reports.append(report)
        self._news.set()
        self._slot.set()

    def _started(self, announcements: list[tuple[int, TaskStarted]]) -> None:
        self._announcements.extend(announcements)
        self._news.set()

    def _handed_back(self, task_id: str) -> None:
        self._returned.append(task_id)
        self._news.set()
        self._slot.set()


async def _ended(duty: asyncio.Task[None]) -> None:
    duty.cancel()
    with suppress(asyncio.CancelledError):
        await duty
