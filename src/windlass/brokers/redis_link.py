"""One connection to a Redis server that all calls of a process share: each is written at once, answers come in order.

No command on it blocks, so a call that gets no answer in time means that the server is gone.
"""

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from windlass.core.errors import BrokerUnavailable

# A call waits so long for its answer, over all its tries, before it fails.
CALL_SECONDS_MAX = 5.0
CONNECT_SECONDS_MAX = 3.0
RETRY_SECONDS_MIN = 0.02
RETRY_SECONDS_MAX = 0.5
# Commands that one write covers at most.
WRITE_MAX = 1_000
# Answers of a server that will soon be able to do what was asked.
_PASSING = ("LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN", "UNBLOCKED", "BUSY ")

# A cancelled caller waits so long for an answer that must be dealt with.
SALVAGE_SECONDS_MAX = 1.0

Argument = str | bytes | int | float
Salvage = Callable[[Any], Awaitable[None]]
log = logging.getLogger("windlass.brokers")


class Wire(Protocol):
    """What is used of a driver's connection."""

    async def connect(self) -> None: ...
    async def disconnect(self, nowait: bool = False) -> None: ...
    def pack_commands(self, commands: Sequence[Sequence[Argument]]) -> list[bytes]: ...
    async def send_packed_command(self, command: list[bytes], check_health: bool = True) -> None: ...
    async def read_response(self, *, disconnect_on_error: bool = True) -> Any: ...


class Dial:
    """Makes connections to the server of a URL."""

    def __init__(self, url: str) -> None:
        # The driver takes a third of a second to import: only those who use Redis pay for it.
        from redis.asyncio.connection import Connection, parse_url
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError, ResponseError

        options: dict[str, Any] = dict(parse_url(url))
        self._kind: Any = options.pop("connection_class", Connection)
        # Retries, time limits and health are the link's business: the driver's own would repeat a script unseen, and
        # its read limit would end every quiet subscription. RESP 2 has neither push messages nor maintenance ones.
        self._options = {**options, "protocol": 2, "socket_timeout": None, "retry": Retry(NoBackoff(), 0)}
        self._options["socket_connect_timeout"] = CONNECT_SECONDS_MAX
        self.refused: type[Exception] = ResponseError
        self.failures: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
        parts = urlsplit(url)
        self.place = f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path

    async def connect(self) -> Wire:
        """A new connection; one of `failures`."""
        wire = cast("Wire", self._kind(**self._options))
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                await wire.connect()
        except BaseException:
            await wire.disconnect(nowait=True)
            raise
        return wire


class Script:
    """A Lua script of this package, with the prelude that all share."""

    __slots__ = ("name", "sha", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@cache
def scripts() -> dict[str, Script]:
    """Every script, by name."""
    texts = {path.name.removesuffix(".lua"): path.read_text("utf-8") for path in _folder()}
    prelude = texts.pop("prelude")
    return {name: Script(name, f"{prelude}\n{text}") for name, text in texts.items()}


def _folder() -> list[Any]:
    return sorted((files("windlass.brokers") / "lua").iterdir(), key=lambda path: path.name)


class _Call:
    """A command on its way, and who waits for the answer."""

    __slots__ = ("answer", "command")

    def __init__(self, command: Sequence[Argument], answer: "asyncio.Future[Any]") -> None:
        self.command = command
        self.answer = answer


class Link:
    """Calls to the server. As many are under way as there are callers: each of them waits for its answer."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        # How many connections there were so far.
        self.connections = 0
        self._queued: deque[_Call] = deque()
        self._sent: deque[_Call] = deque()
        self._news = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

    def _begin(self, command: Sequence[Argument]) -> "asyncio.Future[Any]":
        """Have a command sent once; its answer, or one of the dial's failures."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            raise BrokerUnavailable("this broker was closed; open another one")
        self._queued.append(_Call(command, answer))
        self._news.set()
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
        return answer

    async def call(self, *command: Argument) -> Any:
        """Send a command, again if the connection fails, and return its answer. BrokerUnavailable."""
        return await self._persist(command, None)

    async def run(self, script: Script, key: str, arguments: Sequence[Argument], salvage: Salvage | None = None) -> Any:
        """Run a script, again if the connection fails: it may then take effect twice. BrokerUnavailable.

        A caller that is cancelled while the answer is under way waits until `salvage` has dealt with it.
        """
        told: list[Argument] = [1, key, *arguments]
        try:
            return await self._persist(["EVALSHA", script.sha, *told], salvage)
        except self._dial.refused as error:
            if not _says(error, "NOSCRIPT"):
                raise
        # A server that was restarted or told to forget its scripts gets the text, and knows it from then on.
        return await self._persist(["EVAL", script.text, *told], salvage)

    async def _persist(self, command: Sequence[Argument], salvage: Salvage | None) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CALL_SECONDS_MAX
        pause = RETRY_SECONDS_MIN
        while True:
            answer = self._begin(command)
            timer = loop.call_at(deadline, self._give_up, answer)
            try:
                return await (answer if salvage is None else asyncio.shield(answer))
            except asyncio.CancelledError:
                if salvage is not None:
                    await _salvaged(answer, salvage)
                raise
            except self._dial.failures as failure:
                is_final = isinstance(failure, self._dial.refused) and not _says(failure, *_PASSING)
                if is_final and _says(failure, "NOSCRIPT"):
                    raise
                if is_final or loop.time() + pause > deadline:
                    raise BrokerUnavailable(
                        f"Redis at {self._dial.place} did not do what it was asked: {_told(failure)}; "
                        "see that it runs, is reachable and has memory left"
                    ) from failure
            finally:
                timer.cancel()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)

    def _give_up(self, answer: "asyncio.Future[Any]") -> None:
        if not answer.done():
            answer.set_exception(TimeoutError(f"no answer within {CALL_SECONDS_MAX:g} s"))
            # A server that hangs, or a connection that leads nowhere: the next call makes a new one.
            if self._running is not None:
                self._running.cancel()

    async def _run(self) -> None:
        """Serve calls over one connection until it fails; the next call starts over."""
        failure: Exception = ConnectionError("the connection was closed")
        wire: Wire | None = None
        try:
            wire = await self._dial.connect()
            self.connections += 1
            reading = asyncio.ensure_future(self._read(wire))
            try:
                await self._write(wire, reading)
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError, *self._dial.failures):
                    await reading
        except self._dial.failures as error:
            failure = error
        finally:
            # At once, and before anything else is awaited: a call begun from here on needs another connection.
            self._fail_all(failure)
            self._running = None
            if wire is not None:
                await wire.disconnect(nowait=True)

    async def _write(self, wire: Wire, reading: "asyncio.Future[None]") -> None:
        reading.add_done_callback(lambda _: self._news.set())
        while not reading.done():
            if not self._queued:
                self._news.clear()
                await self._news.wait()
                continue
            batch: list[_Call] = []
            while self._queued and len(batch) < WRITE_MAX:
                one = self._queued.popleft()
                # Whoever asked may be gone already.
                if not one.answer.done():
                    batch.append(one)
            if batch:
                self._sent.extend(batch)
                await wire.send_packed_command(wire.pack_commands([one.command for one in batch]))
        await reading

    async def _read(self, wire: Wire) -> None:
        while True:
            try:
                answer = await wire.read_response(disconnect_on_error=False)
            except self._dial.refused as error:
                refused = self._sent.popleft().answer
                if not refused.done():
                    refused.set_exception(error)
                continue
            awaited = self._sent.popleft().answer
            if not awaited.done():
                awaited.set_result(answer)

    def _fail_all(self, failure: Exception) -> None:
        failed = [*self._sent, *self._queued]
        self._sent.clear()
        self._queued.clear()
        for one in failed:
            if not one.answer.done():
                one.answer.set_exception(failure)

    async def aclose(self) -> None:
        """End the connection; calls under way fail."""
        self._is_closed = True
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running


async def _salvaged(answer: "asyncio.Future[Any]", salvage: Salvage) -> None:
    await asyncio.wait([answer], timeout=SALVAGE_SECONDS_MAX)
    if not answer.done():
        answer.cancel()
    elif not answer.cancelled() and answer.exception() is None:
        await salvage(answer.result())


def _says(error: Exception, *beginnings: str) -> bool:
    kind = type(error).__name__
    # The driver turns some answers into classes and cuts off the word that named them.
    named = {"LOADING": "BusyLoadingError", "READONLY": "ReadOnlyError", "NOSCRIPT": "NoScriptError"}
    return any(str(error).startswith(word) or kind == named.get(word) for word in beginnings)


def _told(failure: Exception) -> str:
    return str(failure) or type(failure).__name__
