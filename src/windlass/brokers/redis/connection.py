"""One connection to a Redis server, shared by all calls of a process: commands are pipelined, answers come in order.

No command on it blocks, so a missing answer means that the server is unavailable or the connection is lost.
"""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any

from windlass.brokers.redis.protocol import Argument, RedisConnector, RedisProtocol
from windlass.concurrency.futures import reject, resolve
from windlass.core.errors import BrokerUnavailable

# The time limit of a call, including its retries.
CALL_SECONDS_MAX = 5.0
RETRY_SECONDS_MIN = 0.02
RETRY_SECONDS_MAX = 0.5
# How long a command without a waiting caller waits for other commands to be sent with.
DEFER_SECONDS_MAX = 0.005
# Commands per write.
WRITE_MAX = 1_000
# Error answers that are worth a retry: the server will soon be able to execute the command.
_TRANSIENT = ("LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN", "UNBLOCKED", "BUSY ")
# How long a cancelled caller waits for an answer that must be undone.
UNDO_SECONDS_MAX = 1.0

Undo = Callable[[Any], Awaitable[None]]
log = logging.getLogger("windlass.brokers")


class LuaScript:
    """A Lua script of this package, including the prelude that all scripts share."""

    __slots__ = ("name", "sha", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@cache
def scripts() -> dict[str, LuaScript]:
    """Return every script by name."""
    folder = files("windlass.brokers.redis") / "lua"
    texts = {path.name.removesuffix(".lua"): path.read_text("utf-8") for path in folder.iterdir()}
    prelude = texts.pop("prelude")
    return {name: LuaScript(name, f"{prelude}\n{text}") for name, text in texts.items()}


class _Call:
    """A command and the future of its answer."""

    __slots__ = ("answer", "command")

    def __init__(self, command: Sequence[Argument], answer: "asyncio.Future[Any]") -> None:
        self.command = command
        self.answer = answer


class RedisConnection:
    """Sends commands and runs scripts; keys start with `prefix`. It reconnects when the next call needs it."""

    def __init__(self, connector: RedisConnector, prefix: str) -> None:
        self._connector = connector
        self._prefix = prefix
        self._scripts = scripts()
        # How many connections were opened so far.
        self.connections = 0
        self._queued: deque[_Call] = deque()
        self._sent: deque[_Call] = deque()
        self._protocol: RedisProtocol | None = None
        self._is_write_scheduled = False
        self._deferred: asyncio.TimerHandle | None = None
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

    # Commands that a caller waits for

    async def call(self, *command: Argument) -> Any:
        """Send a command, again if the connection fails, and return its answer. Raises BrokerUnavailable."""
        return await self._call_with_retries(command, None)

    async def run(self, name: str, arguments: Sequence[Argument], undo: Undo | None = None) -> Any:
        """Run a script and return its answer; it may run twice if the connection fails. Raises BrokerUnavailable.

        If the caller is cancelled while the answer is under way, `undo` is called with the answer first.
        """
        script = self._scripts[name]
        keys_and_arguments: list[Argument] = [1, self._prefix, *arguments]
        try:
            return await self._call_with_retries(["EVALSHA", script.sha, *keys_and_arguments], undo)
        except self._connector.refused as error:
            if not _starts_with(error, "NOSCRIPT"):
                raise
        # A restarted server has no scripts. EVAL also loads the script for the following calls.
        return await self._call_with_retries(["EVAL", script.text, *keys_and_arguments], undo)

    async def run_batches(
        self, name: str, first: Sequence[Argument], batches: Iterable[Sequence[Argument]]
    ) -> list[Any]:
        """Run a script once for each batch, or once without one if there is no batch."""
        answers = [await self.run(name, [*first, *batch]) for batch in batches]
        if not answers:
            answers.append(await self.run(name, first))
        return answers

    async def _call_with_retries(self, command: Sequence[Argument], undo: Undo | None) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CALL_SECONDS_MAX
        pause = RETRY_SECONDS_MIN
        while True:
            answer = self._enqueue(command)
            timer = loop.call_at(deadline, self._time_out, answer)
            try:
                if undo is None:
                    return await answer
                return await _answer_or_undo(answer, undo)
            except self._connector.failures as failure:
                if self._is_permanent(failure):
                    if _starts_with(failure, "NOSCRIPT"):
                        raise
                    raise self._unavailable(failure) from failure
                if loop.time() + pause > deadline:
                    raise self._unavailable(failure) from failure
            finally:
                timer.cancel()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    def _is_permanent(self, failure: Exception) -> bool:
        return isinstance(failure, self._connector.refused) and not _starts_with(
            failure, *_TRANSIENT
        )

    def _unavailable(self, failure: Exception) -> BrokerUnavailable:
        reason = str(failure) or type(failure).__name__
        return BrokerUnavailable(
            f"Redis at {self._connector.address} did not execute a command: {reason}; "
            "check that it is running, reachable and not out of memory"
        )

    def _time_out(self, answer: "asyncio.Future[Any]") -> None:
        if not answer.done():
            answer.set_exception(TimeoutError(f"no answer within {CALL_SECONDS_MAX:g} s"))
            # The server hangs or the connection is dead: the next call opens a new one.
            if self._running is not None:
                self._running.cancel()

    # Commands without a waiting caller

    def defer(self, *command: Argument) -> None:
        """Send a command together with the next one, or soon. It is lost if the connection fails."""
        if self._protocol is None:
            return
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        answer.add_done_callback(lambda _: self._log_refusal(command, answer))
        self._queued.append(_Call(command, answer))
        if self._deferred is None:
            self._deferred = loop.call_later(DEFER_SECONDS_MAX, self._write_deferred)

    def _write_deferred(self) -> None:
        self._deferred = None
        self._write()

    def send_hint(self, *command: Argument) -> None:
        """Send a command at once. It is lost if the connection fails."""
        if not self._is_closed:
            answer = self._enqueue(command)
            answer.add_done_callback(lambda _: self._log_refusal(command, answer))

    def _log_refusal(self, command: Sequence[Argument], answer: "asyncio.Future[Any]") -> None:
        """Log that the server refused a command that no caller waits for."""
        failure = None if answer.cancelled() else answer.exception()
        if isinstance(failure, self._connector.refused):
            log.warning("Redis at %s refused %s: %s", self._connector.address, command[0], failure)

    # The connection

    def _enqueue(self, command: Sequence[Argument]) -> "asyncio.Future[Any]":
        """Have a command sent once; its future gets the answer or one of the connector's failures.

        Not a Batcher: commands are pipelined, and the next are sent before these are answered.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if self._is_closed:
            raise BrokerUnavailable("this broker was closed; open another one")
        self._queued.append(_Call(command, answer))
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
        elif not self._is_write_scheduled:
            # Commands of other callers in this turn of the event loop are sent with it.
            self._is_write_scheduled = True
            loop.call_soon(self._write)
        return answer

    async def _run(self) -> None:
        """Serve calls over one connection until it fails; the next call starts over."""
        failure: Exception = ConnectionError("the connection was lost")
        protocol: RedisProtocol | None = None
        try:
            protocol = await self._connector.connect(self._on_answer)
            protocol.on_writable = self._write
            self.connections += 1
            self._protocol = protocol
            self._write()
            await protocol.lost
        except self._connector.failures as error:
            failure = error
        finally:
            # Before anything is awaited: calls from here on need another connection.
            self._protocol = None
            self._fail_all(failure)
            self._running = None
            if protocol is not None:
                await protocol.aclose()

    def _write(self) -> None:
        """Send queued commands while the write buffer has room."""
        self._is_write_scheduled = False
        protocol = self._protocol
        if protocol is None:
            return
        while self._queued and not protocol.is_full:
            batch = self._next_batch()
            if batch:
                self._sent.extend(batch)
                protocol.send([call.command for call in batch])

    def _next_batch(self) -> list[_Call]:
        """Take queued commands whose callers are still waiting."""
        batch: list[_Call] = []
        while self._queued and len(batch) < WRITE_MAX:
            call = self._queued.popleft()
            if not call.answer.done():
                batch.append(call)
        return batch

    def _on_answer(self, answer: Any) -> None:
        future = self._sent.popleft().answer
        if isinstance(answer, Exception):
            reject(future, answer)
        else:
            resolve(future, answer)

    def _fail_all(self, failure: Exception) -> None:
        failed = [*self._sent, *self._queued]
        self._sent.clear()
        self._queued.clear()
        for call in failed:
            reject(call.answer, failure)

    async def aclose(self) -> None:
        """Close the connection. Calls under way fail; deferred commands are sent first."""
        if self._protocol is not None and self._queued:
            with suppress(BrokerUnavailable, TimeoutError):
                async with asyncio.timeout(UNDO_SECONDS_MAX):
                    await self.call("PING")
        self._is_closed = True
        if self._deferred is not None:
            self._deferred.cancel()
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running


async def _answer_or_undo(answer: "asyncio.Future[Any]", undo: Undo) -> Any:
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        await asyncio.wait([answer], timeout=UNDO_SECONDS_MAX)
        if not answer.done():
            answer.cancel()
        elif not answer.cancelled() and answer.exception() is None:
            await undo(answer.result())
        raise


def _starts_with(error: Exception, *beginnings: str) -> bool:
    return str(error).startswith(beginnings)
