"""A worker with the built-in handlers on an in-memory broker, and an HTTP server that records requests."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.defaults import worker_options
from windlass.brokers.memory import MemoryBroker
from windlass.core.changes import Task
from windlass.core.messages import Failed, Message, Succeeded, TaskError, TaskFinished, TaskStarted
from windlass.handlers import builtin_handlers
from windlass.handlers.config import HandlerConfig
from windlass.ports.handler import LogLine
from windlass.worker.worker import Worker

PATIENCE_SECONDS = 30.0


class WallClock:
    def now(self) -> int:
        return time.time_ns() // 1000

    def wall(self) -> int:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Runner:
    """A worker with the built-in handlers."""

    def __init__(self, allow_private: bool, **defaults: Any) -> None:
        clock = WallClock()
        self.broker = MemoryBroker(clock)
        self.lines: list[LogLine] = []
        self.count = 0
        environment = dict(os.environ)
        self.worker = Worker(
            self.broker,
            builtin_handlers(
                HandlerConfig(allow_private=allow_private, environment=environment, **defaults)
            ),
            clock,
            worker_id="worker-1",
            grace_seconds=0.5,
            **worker_options(),
            log_sink=self.lines.append,
            environment=environment,
        )

    async def publish(self, handler: str, params: object, **rest: Any) -> Task:
        self.count += 1
        attempt = rest.pop("attempt", 1)
        job_id = f"j{self.count}"
        task = Task(
            f"{job_id}_n_{attempt}",
            job_id,
            "n",
            attempt,
            handler,
            msgspec.json.encode(params),
            **rest,
        )
        await self.broker.publish([task])
        return task

    async def finished(self, task: Task) -> TaskFinished:
        return (await self.finished_all([task]))[0]

    async def finished_all(self, tasks: Sequence[Task]) -> list[TaskFinished]:
        """Wait until all tasks have finished."""
        found: dict[str, TaskFinished] = {}
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not all(task.job_id in found for task in tasks):
                for message in await self.messages_for(1.0):
                    if isinstance(message, TaskFinished):
                        found.setdefault(message.job_id, message)
        return [found[task.job_id] for task in tasks]

    async def started(self, task: Task) -> TaskStarted:
        """Wait until the worker reports that the task has started."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for message in await self.messages_for(1.0):
                    if isinstance(message, TaskStarted) and message.job_id == task.job_id:
                        return message

    async def messages_for(self, seconds: float) -> list[Message]:
        """Return the next messages of the worker, or none after a number of seconds."""
        messages = list(await self.broker.receive(0, 100, seconds))
        await self.broker.acknowledge(0, len(messages))
        return messages

    async def run(self, handler: str, params: object, **rest: Any) -> TaskFinished:
        return await self.finished(await self.publish(handler, params, **rest))

    async def output(self, handler: str, params: object, **rest: Any) -> Any:
        return await self.output_of(await self.publish(handler, params, **rest))

    async def output_of(self, task: Task) -> Any:
        outcome = (await self.finished(task)).outcome
        assert isinstance(outcome, Succeeded), outcome
        return msgspec.json.decode(outcome.output)

    async def error(self, handler: str, params: object, **rest: Any) -> TaskError:
        return await self.error_of(await self.publish(handler, params, **rest))

    async def error_of(self, task: Task) -> TaskError:
        outcome = (await self.finished(task)).outcome
        assert isinstance(outcome, Failed), outcome
        return outcome.error

    async def logged(self, text: str) -> str:
        """Wait for a log line that contains `text` and return it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for line in self.lines:
                    if text in line.message:
                        return line.message
                await asyncio.sleep(0.005)


@asynccontextmanager
async def running(allow_private: bool = True, **defaults: Any) -> AsyncIterator[Runner]:
    runner = Runner(allow_private, **defaults)
    run = asyncio.create_task(runner.worker.run())
    try:
        yield runner
    finally:
        await runner.worker.stop(0.0)
        await run


class Request:
    """A request that the server received."""

    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body


Answer = Callable[[Request], bytes]


def answer(
    status: int, body: bytes | str = b"", kind: str = "application/json", **headers: str
) -> bytes:
    content = body.encode() if isinstance(body, str) else body
    lines = [
        f"HTTP/1.1 {status} Status",
        f"content-length: {len(content)}",
        f"content-type: {kind}",
    ]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


class Server:
    """An HTTP server on loopback with given responses; an empty response closes the connection."""

    def __init__(self, answers: Answer, hangs_up: bool) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self.url = ""
        self._answers = answers
        self._hangs_up = hangs_up

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *rest = head.decode("latin-1").strip().split("\r\n")
                method, target, _ = first.split(" ")
                headers = {
                    n.lower(): v for n, v in (line.split(": ", 1) for line in rest if ": " in line)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = Request(method, target, headers, body)
                self.requests.append(request)
                content = self._answers(request)
                if not content:
                    break
                writer.write(content)
                await writer.drain()
                if self._hangs_up:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(answers: Answer, *, hangs_up: bool = False) -> AsyncIterator[Server]:
    """Serve the responses; with `hangs_up`, close the connection after each one."""
    server = Server(answers, hangs_up)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
