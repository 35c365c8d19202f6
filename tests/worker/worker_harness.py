"""A worker on an in-memory broker that records all calls."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.defaults import worker_options
from windlass.core.changes import Task
from windlass.core.messages import Failed, Message, Succeeded, TaskError, TaskFinished
from windlass.ports.broker import QueueInfo, TaskClaim, TaskReport, WorkerInfo
from windlass.ports.handler import Handler, LogLine
from windlass.ports.handler_declaration import declared
from windlass.worker.worker import Worker

PATIENCE_SECONDS = 20.0


class LoopClock:
    def now(self) -> int:
        return time.time_ns() // 1000

    def wall(self) -> int:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RecordingBroker:
    def __init__(self) -> None:
        self.queued: deque[TaskClaim] = deque()
        self.finished: dict[str, TaskFinished] = {}
        self.finish_calls = 0
        self.reports: list[TaskReport] = []
        self.sent: list[Message] = []
        self.extended: list[list[str]] = []
        self.returned: list[str] = []
        self.deregistered: list[str] = []
        self.cancels_received = 0
        # The handlers of the last claim.
        self.claimed_handlers: Sequence[str] | None = None
        self.to_stop_on_extend: list[str] = []
        self.failures: dict[str, int] = {}
        # What a call waits for before it responds.
        self.delays: dict[str, Callable[[], Awaitable[None]]] = {}
        self.changed = asyncio.Condition()
        self._queue_changed = asyncio.Event()
        self._cancel_changed = asyncio.Event()
        self._cancels: list[str] = []

    async def close(self) -> None:
        """Do nothing."""

    def _fail_on_request(self, call: str) -> None:
        if self.failures.get(call, 0) > 0:
            self.failures[call] -= 1
            raise ConnectionError(f"{call} failed on request")

    async def _respond(self, call: str) -> None:
        """Suspend as a call over a network does, while the worker continues; then fail on request."""
        await asyncio.sleep(0)
        if call in self.delays:
            await self.delays[call]()
        self._fail_on_request(call)

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def incarnation(self) -> str:
        return "only"

    async def register_owner(self, shard: int, epoch: int) -> None:
        """Do nothing."""

    async def tasks_of(self, shard: int) -> Sequence[str]:
        return [claim.task.task_id for claim in self.queued]

    async def publish(self, tasks: Sequence[Task], epoch: int = 0) -> None:
        self.queued.extend(TaskClaim(task) for task in tasks)
        self._queue_changed.set()

    async def claim(
        self,
        worker_id: str,
        queues: Sequence[str],
        limit: int,
        wait_seconds: float,
        *,
        handlers: Sequence[str] | None = None,
    ) -> Sequence[TaskClaim]:
        self.claimed_handlers = handlers
        self._fail_on_request("claim")
        if not self.queued:
            self._queue_changed.clear()
            try:
                await asyncio.wait_for(self._queue_changed.wait(), wait_seconds)
            except TimeoutError:
                return []
        return [self.queued.popleft() for _ in range(min(limit, len(self.queued)))]

    async def extend(self, worker_id: str, task_ids: Sequence[str]) -> Sequence[str]:
        self._fail_on_request("extend")
        self.extended.append(list(task_ids))
        await self._notify()
        answer, self.to_stop_on_extend = self.to_stop_on_extend, []
        return answer

    async def finish(self, worker_id: str, reports: Sequence[TaskReport]) -> None:
        reports = list(reports)
        await self._respond("finish")
        self.finish_calls += 1
        self.reports.extend(reports)
        for report in reports:
            self.finished[report.task_id] = report.message
        await self._notify()

    async def return_tasks(self, worker_id: str, task_ids: Sequence[str]) -> None:
        task_ids = list(task_ids)
        await self._respond("return_tasks")
        self.returned.extend(task_ids)
        await self._notify()

    async def cancel(self, task_ids: Sequence[str]) -> None:
        self._cancels.extend(task_ids)
        self._cancel_changed.set()

    async def receive_cancellations(self, worker_id: str, wait_seconds: float) -> Sequence[str]:
        if not self._cancels:
            self._cancel_changed.clear()
            try:
                await asyncio.wait_for(self._cancel_changed.wait(), wait_seconds)
            except TimeoutError:
                return []
        answer, self._cancels = self._cancels, []
        self.cancels_received += len(answer)
        await self._notify()
        return answer

    async def send(self, shard: int, messages: Sequence[Message]) -> None:
        messages = list(messages)
        await self._respond("send")
        self.sent.extend(messages)
        await self._notify()

    async def reclaim(self, timeout_seconds: float) -> int:
        return 0

    async def forget_workers(self, silent_seconds: float) -> None: ...

    async def deregister(self, worker_id: str) -> None:
        await self._respond("deregister")
        self.deregistered.append(worker_id)

    async def missing(self, task_ids: Sequence[str]) -> Sequence[str]:
        return []

    async def workers(self) -> Sequence[WorkerInfo]:
        return []

    async def queues(self) -> Sequence[QueueInfo]:
        return []

    async def receive(self, shard: int, limit: int, wait_seconds: float) -> Sequence[Message]:
        return []

    async def acknowledge(self, shard: int, count: int) -> None: ...

    async def rewind(self, shard: int) -> None: ...

    def notify_done(self, ids: Sequence[str]) -> None: ...

    def subscribe_done(self, callback: Callable[[Sequence[str]], None]) -> None: ...


def task(handler: str, params: object = None, task_id: str = "job_node_1", **rest: Any) -> Task:
    job_id, node_id, attempt = task_id.rsplit("_", 2)
    encoded = msgspec.json.encode({} if params is None else params)
    return Task(
        task_id, job_id, node_id, rest.pop("attempt", int(attempt)), handler, encoded, **rest
    )


def registry(*functions: Callable[..., Any]) -> dict[str, Handler]:
    return {declared(function).name: declared(function) for function in functions}


class Bench:
    """A running worker and its recording broker."""

    def __init__(self, handlers: dict[str, Handler], **settings: Any) -> None:
        self.broker = RecordingBroker()
        self.lines: list[LogLine] = []
        self.patience_seconds: float = PATIENCE_SECONDS
        settings = {
            "grace_seconds": 0.3,
            "heartbeat_seconds": 0.05,
            "output_bytes_max": 16 * 1024 * 1024,
            **settings,
        }
        self.worker = Worker(
            self.broker,
            handlers,
            LoopClock(),
            worker_id="worker-1",
            log_sink=self.lines.append,
            **worker_options(**settings),
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(self.patience_seconds), self.broker.changed:
            await self.broker.changed.wait_for(condition)

    async def ended(self, task_id: str = "job_node_1") -> TaskFinished:
        await self.until(lambda: task_id in self.broker.finished)
        return self.broker.finished[task_id]

    async def run(self, work: Task) -> TaskFinished:
        await self.broker.publish([work])
        return await self.ended(work.task_id)

    async def output(self, work: Task) -> Any:
        outcome = (await self.run(work)).outcome
        assert isinstance(outcome, Succeeded), outcome
        return msgspec.json.decode(outcome.output)

    async def error(self, work: Task) -> TaskError:
        outcome = (await self.run(work)).outcome
        assert isinstance(outcome, Failed), outcome
        return outcome.error


@asynccontextmanager
async def working(
    *functions: Callable[..., Any], drain_seconds: float = 0.0, **settings: Any
) -> AsyncIterator[Bench]:
    bench = Bench(registry(*functions), **settings)
    run = asyncio.create_task(bench.worker.run())
    # The first heartbeat shows that the background duties run.
    await bench.until(lambda: bool(bench.broker.extended))
    try:
        yield bench
    finally:
        await bench.worker.stop(drain_seconds)
        await run
