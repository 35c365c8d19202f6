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
from typing import Any

from windlass.brokers.redis.protocol import Argument, Dial, Wire
from windlass.core.errors import BrokerUnavailable

# A call waits so long for its answer, over all its tries, before it fails.
CALL_SECONDS_MAX = 5.0
RETRY_SECONDS_MIN = 0.02
RETRY_SECONDS_MAX = 0.5
# How long a command that nobody waits for waits for others to go with.
RIDE_SECONDS_MAX = 0.005
# Commands that one write covers at most.
WRITE_MAX = 1_000
# Answers of a server that will soon be able to do what was asked.
_PASSING = ("LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN", "UNBLOCKED", "BUSY ")

# A cancelled caller waits so long for an answer that must be dealt with.
SALVAGE_SECONDS_MAX = 1.0

Salvage = Callable[[Any], Awaitable[None]]
log = logging.getLogger("windlass.brokers")


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
    return sorted((files("windlass.brokers.redis") / "lua").iterdir(), key=lambda path: path.name)


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
        self._wire: Wire | None = None
        self._is_writing = False
        self._driving: asyncio.TimerHandle | None = None
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

    def _begin(self, command: Sequence[Argument]) -> "asyncio.Future[Any]":
        """Have a command sent once; its answer, or one of the dial's failures."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if self._is_closed:
            raise BrokerUnavailable("this broker was closed; open another one")
        self._queued.append(_Call(command, answer))
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())
        elif not self._is_writing:
            # Those of other callers that are about to ask too go with it.
            self._is_writing = True
            loop.call_soon(self._write)
        return answer

    def ride(self, *command: Argument) -> None:
        """Have a command sent with the next one, or soon. Nobody waits for it; it is sent again if the connection
        fails."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        answer.add_done_callback(lambda _: self._ridden(command, answer))
        self._queued.append(_Call(command, answer))
        if self._driving is None:
            self._driving = loop.call_later(RIDE_SECONDS_MAX, self._drive)

    def _drive(self) -> None:
        self._driving = None
        # Without a connection they wait for the next one: nothing depends on them.
        self._write()

    def _ridden(self, command: Sequence[Argument], answer: "asyncio.Future[Any]") -> None:
        if self._is_lost(command, answer):
            self.ride(*command)

    def hint(self, *command: Argument) -> None:
        """Have a command sent at once. Nobody waits for it, and it is lost if the connection fails."""
        if not self._is_closed:
            answer = self._begin(command)
            answer.add_done_callback(lambda _: self._is_lost(command, answer))

    def _is_lost(self, command: Sequence[Argument], answer: "asyncio.Future[Any]") -> bool:
        """Whether a command that nobody waits for may not have got through; one that was refused has."""
        failure = None if answer.cancelled() else answer.exception()
        if failure is None or self._is_closed:
            return False
        if isinstance(failure, self._dial.refused):
            log.warning("Redis at %s refused %s: %s", self._dial.place, command[0], failure)
            return False
        return True

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
        failure: Exception = ConnectionError("the connection was lost")
        wire: Wire | None = None
        try:
            wire = await self._dial.connect(self._hear)
            wire.on_room = self._write
            self.connections += 1
            self._wire = wire
            self._write()
            await wire.lost
        except self._dial.failures as error:
            failure = error
        finally:
            # At once, and before anything else is awaited: a call begun from here on needs another connection.
            self._wire = None
            self._fail_all(failure)
            self._running = None
            if wire is not None:
                await wire.aclose()

    def _write(self) -> None:
        """Send what waits, as long as the server takes it."""
        self._is_writing = False
        wire = self._wire
        while wire is not None and self._queued and not wire.is_full:
            batch: list[_Call] = []
            while self._queued and len(batch) < WRITE_MAX:
                one = self._queued.popleft()
                # Whoever asked may be gone already.
                if not one.answer.done():
                    batch.append(one)
            if batch:
                self._sent.extend(batch)
                wire.send([one.command for one in batch])

    def _hear(self, answer: Any) -> None:
        asked = self._sent.popleft().answer
        if asked.done():
            return
        if isinstance(answer, Exception):
            asked.set_exception(answer)
        else:
            asked.set_result(answer)

    def _fail_all(self, failure: Exception) -> None:
        failed = [*self._sent, *self._queued]
        self._sent.clear()
        self._queued.clear()
        for one in failed:
            if not one.answer.done():
                one.answer.set_exception(failure)

    async def aclose(self) -> None:
        """End the connection; calls under way fail, but what needs no answer is sent."""
        if self._wire is not None and self._queued:
            with suppress(BrokerUnavailable, TimeoutError):
                async with asyncio.timeout(SALVAGE_SECONDS_MAX):
                    await self.call("PING")
        self._is_closed = True
        if self._driving is not None:
            self._driving.cancel()
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
    return str(error).startswith(beginnings)


def _told(failure: Exception) -> str:
    return str(failure) or type(failure).__name__
