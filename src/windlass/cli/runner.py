"""Runs a command's coroutine, and lets Ctrl-C and SIGTERM stop it cleanly."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CANCEL_SECONDS_MAX = 1.0


def run_async(work: Coroutine[object, object, Result]) -> Result:
    """Run to the end, on uvloop where it is installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(work)


@contextmanager
def stop_signals() -> Generator[asyncio.Event]:
    """An event that the first signal sets. A second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def restore() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    def heed() -> None:
        stop.set()
        restore()

    for number in SIGNALS:
        loop.add_signal_handler(number, heed)
    try:
        yield stop
    finally:
        restore()


async def unless(stop: asyncio.Event, work: Coroutine[object, object, None]) -> bool:
    """Do the work, unless told to stop before its end; whether it came to its end."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
    if working.done():
        working.result()
        return True
    working.cancel()
    await asyncio.wait({working}, timeout=CANCEL_SECONDS_MAX)
    return False


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # optional: the extra `fast` brings it
    except ImportError:
        return None
    return uvloop.new_event_loop
