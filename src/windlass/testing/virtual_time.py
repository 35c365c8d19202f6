"""Virtual time for tests: an asyncio event loop whose clock jumps to the next timer when nothing is left to do.

`run(main())` runs a coroutine on it: `asyncio.sleep`, `asyncio.timeout` and `VirtualClock` take no real time, every run
sees the same times, and an endless wait raises Deadlock. There is no network, and threads cannot wake the loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from selectors import SelectorKey
from typing import Any, TypeVar, cast

from windlass.core.instants import MICROSECONDS

# 2025-01-01T00:00:00Z, the default start of virtual clocks.
START_AT = 1_735_689_600_000_000
# Iterations of the event loop without any time passing. Only a coroutine that never waits reaches this.
ROUNDS_MAX = 200_000

T = TypeVar("T")


class Deadlock(Exception):
    """Nothing is ready and no timer is set, so the program can never continue."""


class Livelock(Exception):
    """The event loop ran too many iterations without any time passing: a coroutine never waits."""


class _Selector:
    """The selector of the event loop. Where a real one waits for IO, it advances the time."""

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
            raise Livelock(
                f"{ROUNDS_MAX} iterations of the event loop at {self.now:.6f} s without a wait"
            )
        if timeout is not None and timeout <= 0:
            self._shuffle()
            return []
        if self._on_idle is not None and self._woken_by(self._on_idle):
            return []
        if timeout is None:
            raise Deadlock(f"nothing is ready and no timer is set at {self.now:.6f} s")
        self.now += timeout
        self._rounds = 0
        return []

    def _woken_by(self, on_idle: Callable[[], None]) -> bool:
        """Call `on_idle`; return whether it made something ready."""
        on_idle()
        return bool(_ready(self.loop))

    def _shuffle(self) -> None:
        """Bring the callbacks that are ready into a random order."""
        if self._random is None:
            return
        ready = _ready(self.loop)
        handles = list(ready)
        self._random.shuffle(handles)
        ready.clear()
        ready.extend(handles)

    # The loop registers its self-pipe; nothing is ever read from it.

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        number = _descriptor(fileobj)
        key = self._keys[number] = SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: Any) -> SelectorKey:
        return self._keys.pop(_descriptor(fileobj))

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        return self.register(fileobj, events, data)

    def get_key(self, fileobj: Any) -> SelectorKey:
        return self._keys[_descriptor(fileobj)]

    def get_map(self) -> Mapping[int, SelectorKey]:
        return self._keys

    def close(self) -> None:
        self._keys.clear()


def _descriptor(file: Any) -> int:
    if isinstance(file, int):
        return file
    return file.fileno()


def _ready(loop: Any) -> "deque[asyncio.Handle]":
    # A private attribute of all CPython loops, and the only way to change their first-in first-out order.
    return loop._ready


def virtual_loop(
    random: Random | None = None, on_idle: Callable[[], None] | None = None
) -> asyncio.AbstractEventLoop:
    """Return an event loop on virtual time that starts at 0.

    With `random`, callbacks that are ready together run in a random order. `on_idle` is called whenever nothing is left
    to do, before the time advances.
    """
    selector = _Selector(random, on_idle)
    loop = asyncio.SelectorEventLoop(cast("Any", selector))
    selector.loop = loop
    vars(loop)["time"] = lambda: selector.now
    # Timers closer together than this fire together; a real loop uses the resolution of its clock.
    vars(loop)["_clock_resolution"] = 1e-9
    return loop


def run(main: Coroutine[Any, Any, T], *, random: Random | None = None) -> T:
    """Run a coroutine on virtual time and return its result. Raises Deadlock when it can never end."""
    loop = virtual_loop(random)
    try:
        return loop.run_until_complete(main)
    finally:
        close(loop)


def close(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the remaining tasks of a loop and close it."""
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
    """The Clock contract on the time of an event loop. Setting its wall time affects neither waits nor `now`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop | None = None, start_at: int = START_AT
    ) -> None:
        self._loop = loop
        self._start_at = start_at
        # How far the wall clock is ahead of `now`.
        self._ahead = 0

    def now(self) -> int:
        """Return the current time in microseconds since the epoch, UTC."""
        loop = self._loop or asyncio.get_running_loop()
        return self._start_at + round(loop.time() * MICROSECONDS)

    def wall(self) -> int:
        """Return the wall time in microseconds since the epoch, UTC."""
        return self.now() + self._ahead

    async def sleep(self, seconds: float) -> None:
        """Wait, in virtual time."""
        await asyncio.sleep(seconds)

    @property
    def is_set(self) -> bool:
        """Whether the wall time differs from `now`."""
        return self._ahead != 0

    def of_new_process(self) -> "VirtualClock":
        """Return the clock of a process that starts now: its time begins with the wall time, and follows no jump."""
        return _ProcessClock(self)

    def jump(self, seconds: float) -> None:
        """Set the wall time forward or back, as an operator or a time server does."""
        self._ahead += round(seconds * MICROSECONDS)


class _ProcessClock(VirtualClock):
    """The clock of one process on a machine whose wall time may be set."""

    def __init__(self, machine: VirtualClock) -> None:
        super().__init__(machine._loop, machine._start_at + machine._ahead)
        self._machine = machine

    def wall(self) -> int:
        return self._machine.wall()

    def jump(self, seconds: float) -> None:
        self._machine.jump(seconds)
