"""Background duties: loops that continue after a failure."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from windlass.core.errors import StaleLease
from windlass.ports.clock import Clock
from windlass.ports.outage_log import OutageLog

FAILURE_WAIT_SECONDS = 1.0
log = logging.getLogger("windlass.engine")


async def supervise(name: str, duty: Callable[[], Awaitable[object]], clock: Clock) -> None:
    """Run a duty forever, restarting it when it fails."""
    outages = OutageLog(log)
    while True:
        try:
            await duty()
        except Exception as error:
            outages.failed(f"{name} failed; restarting", error)
        await clock.sleep(FAILURE_WAIT_SECONDS)


async def periodic(seconds: float, duty: Callable[[], Awaitable[object]], clock: Clock) -> None:
    """Run a short duty periodically."""
    while True:
        await clock.sleep(seconds)
        await duty()


async def wait_all(tasks: Sequence["asyncio.Future[None]"]) -> None:
    """Wait for all tasks, then raise a failure: StaleLease if there is one, otherwise the first."""
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for failure in sorted(failures, key=lambda one: not isinstance(one, StaleLease)):
        raise failure
