"""Runs a command's coroutine, and lets Ctrl-C and SIGTERM stop it cleanly."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import TypeVar

Result = TypeVar("Result")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_async(work: Coroutine[object, object, Result]) -> Result:
    """Run to the end, on uvloop where it is installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(work)


async def stoppable(work: Coroutine[object, object, Result]) -> Result | None:
    """The work's result, or None when a signal stopped it. A second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    stopped = asyncio.Event()

    def restore() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    def stop() -> None:
        stopped.set()
        restore()
        task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        return await task
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
        return None
    finally:
        restore()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # optional: the extra `fast` brings it
    except ImportError:
        return None
    return uvloop.new_event_loop
