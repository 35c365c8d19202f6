"""Background duties: small loops that go on whatever happens to one of their turns."""

import logging
from collections.abc import Awaitable, Callable

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
