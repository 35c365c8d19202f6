"""Runs the coroutine of a command; Ctrl-C and SIGTERM stop it cleanly."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import TypeVar

Result = TypeVar("Result")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CANCEL_SECONDS_MAX = 1.0


def run_async(work: Coroutine[object, object, Result]) -> Result:
    """Run a coroutine until it returns, on uvloop if that is installed."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(work)


@contextmanager
def stop_signals() -> Generator[asyncio.Event]:
    """Return an event that the first signal sets. A second signal ends the process immediately."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def restore() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    def on_signal() -> None:
        stop.set()
        restore()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield stop
    finally:
        restore()


async def run_until_stopped(stop: asyncio.Event, work: Coroutine[object, object, None]) -> bool:
    """Run `work` until it returns or `stop` is set, which cancels it; return whether it returned."""
    work_task = asyncio.ensure_future(work)
    stop_task = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({work_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop_task.cancel()
    if work_task.done():
        work_task.result()
        return True
    work_task.cancel()
    await asyncio.wait({work_task}, timeout=CANCEL_SECONDS_MAX)
    return False


@asynccontextmanager
async def start_until_stopped(
    stop: asyncio.Event, starting: AbstractAsyncContextManager[Result]
) -> AsyncGenerator[Result | None]:
    """Enter a context and leave it at the end. Yield None if `stop` is set first, which cancels the entering."""
    async with AsyncExitStack() as stack:
        entering = asyncio.ensure_future(_enter(starting, stack))
        stop_task = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({entering, stop_task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop_task.cancel()
        if not entering.done():
            entering.cancel()
            # What was started is stopped in order. A second signal ends the process.
            await asyncio.wait({entering})
        yield None if entering.cancelled() else entering.result()


async def _enter(starting: AbstractAsyncContextManager[Result], stack: AsyncExitStack) -> Result:
    return await stack.enter_async_context(starting)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # optional: part of the extra `fast`
    except ImportError:
        return None
    return uvloop.new_event_loop
