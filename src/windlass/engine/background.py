"""Background duties: small loops that go on whatever happens to one of their turns."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from windlass.core.errors import StaleLease
from windlass.ports.clock import Clock

FAILURE_WAIT_SECONDS = 1.0
log = logging.getLogger("windlass.engine")


async def kept(name: str, duty: Callable[[], Awaitable[object]], clock: Clock) -> None:
    """Run a duty that never ends by itself, starting it again when it fails."""
    while True:
        try:
            await duty()
        except Exception:
            log.exception("%s failed and starts again", name)
        await clock.sleep(FAILURE_WAIT_SECONDS)


async def every(seconds: float, duty: Callable[[], Awaitable[object]], clock: Clock) -> None:
    """Run a short duty again and again."""
    while True:
        await clock.sleep(seconds)
        await duty()


async def settled(tasks: Sequence["asyncio.Future[None]"]) -> None:
    """Wait for all of them; the failure that says that the shard is lost is the one to act on, else the first."""
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for failure in sorted(failures, key=lambda one: not isinstance(one, StaleLease)):
        raise failure
