"""Virtual time: an asyncio event loop whose clock jumps to the next timer as soon as nothing is left to do.

A run takes as long as its computing takes, sees the same instants every time, and ends with an error instead of
hanging when nothing can ever happen again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from selectors import SelectorKey
from typing import Any, TypeVar, cast

from windlass.core.instants import MICROSECONDS

# 2025-01-01T00:00:00Z: where virtual clocks begin unless told otherwise.
START_AT = 1_735_689_600_000_000
# Rounds of the loop without any time passing. A duty that spins reaches this; honest work does not.
ROUNDS_MAX = 200_000

T = TypeVar("T")


class Deadlock(Exception):
    """Nothing is ready and no timer is set: what the program waits for can never come."""


class Livelock(Exception):
    """The loop went round and round in one instant: something spins without waiting."""


class _Selector:
    """Where a loop would wait for the outside world; here it only lets time pass."""

    def __init__(self, random: Random | None, on_idle: Callable[[], None] | None) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.now = 0.0
        self._random = random
        self._on_idle = on_idle
        self._rounds = 0
        self._keys: dict[int, SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        self._rounds += 1
        if self._rounds > ROUNDS_MAX:
            raise Livelock(f"{ROUNDS_MAX} rounds at {self.now:.6f} s without a wait: a loop somewhere never sleeps")
        if timeout is not None and timeout <= 0:
            self._shuffle()
            return []
        if self._on_idle is not None and self._woke():
            return []
        if timeout is None:
            raise Deadlock(f"at {self.now:.6f} s nothing is ready and no timer is set")
        self.now += timeout
        self._rounds = 0
        return []

    def _woke(self) -> bool:
        """Whether the look at an idle moment made something ready."""
        assert self._on_idle is not None
        self._on_idle()
        return bool(_ready(self.loop))

    def _shuffle(self) -> None:
        if self._random is not None:
            ready = _ready(self.loop)
            if len(ready) > 1:
                handles = list(ready)
                self._random.shuffle(handles)
                ready.clear()
                ready.extend(handles)

    # The loop registers its self-pipe; nothing is ever read from it.

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[number] = SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: Any) -> SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        return self.register(fileobj, events, data)

    def get_key(self, fileobj: Any) -> SelectorKey:
        return self.get_map()[fileobj if isinstance(fileobj, int) else fileobj.fileno()]

    def get_map(self) -> Mapping[int, SelectorKey]:
        return self._keys

    def close(self) -> None:
        self._keys.clear()


def _ready(loop: Any) -> "deque[asyncio.Handle]":
    # Part of every CPython loop, and the only way to vary an order that asyncio keeps first-in first-out.
    return loop._ready


def virtual_loop(random: Random | None = None, on_idle: Callable[[], None] | None = None) -> asyncio.AbstractEventLoop:
    """A loop on virtual time that starts at 0.

    With `random`, callbacks that are ready together run in a random order. `on_idle` is called at each moment when
    nothing is left to do before time passes.
    """
    selector = _Selector(random, on_idle)
    loop = asyncio.SelectorEventLoop(cast("Any", selector))
    selector.loop = loop
    vars(loop)["time"] = lambda: selector.now
    # Timers closer together than this count as one instant; the real loop's is that of the machine's clock.
    vars(loop)["_clock_resolution"] = 1e-9
    return loop


def run(main: Coroutine[Any, Any, T], *, random: Random | None = None) -> T:
    """Run a coroutine to its end on virtual time; Deadlock when it cannot end."""
    loop = virtual_loop(random)
    try:
        return loop.run_until_complete(main)
    finally:
        close(loop)


def close(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left on a loop and close it."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    try:
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


class VirtualClock:
    """The Clock contract on a loop's own time. Its wall time can be set; waits are not touched by that."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, start_at: int = START_AT) -> None:
        self._loop = loop
        self._offset = start_at

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        loop = self._loop or asyncio.get_running_loop()
        return self._offset + round(loop.time() * MICROSECONDS)

    async def sleep(self, seconds: float) -> None:
        """Wait, in virtual time."""
        await asyncio.sleep(seconds)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator or a time server does."""
        self._offset += round(seconds * MICROSECONDS)
