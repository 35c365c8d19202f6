"""Repeats requests while the API server is unavailable, or denies access as it does for a moment after its start."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass.handlers.container.errors import OUTAGES, AccessDenied, Outage

PAUSE_SECONDS_MIN = 0.25
PAUSE_SECONDS_MAX = 15.0
# An API server that denies a request for longer is not starting: the worker's account lacks the permission.
DENIED_SECONDS_MAX = 30.0

Result = TypeVar("Result")
OnOutage = Callable[[Outage, float], None]


async def patiently(
    request: Callable[[], Awaitable[Result]],
    on_outage: OnOutage,
    denied_seconds_max: float | None = None,
) -> Result:
    """Return the result of a request, repeated until the API server answers; callers bound it with a timeout.

    A denial is raised once it has lasted for `denied_seconds_max`, if that is given.
    """
    loop = asyncio.get_running_loop()
    pause = PAUSE_SECONDS_MIN
    denied_time: float | None = None
    while True:
        try:
            return await request()
        except OUTAGES as error:
            if not isinstance(error, AccessDenied):
                denied_time = None
            elif denied_time is None:
                denied_time = loop.time()
            elif denied_seconds_max is not None and loop.time() - denied_time >= denied_seconds_max:
                raise
            on_outage(error, pause)
        await asyncio.sleep(pause)
        pause = min(pause * 2, PAUSE_SECONDS_MAX)
