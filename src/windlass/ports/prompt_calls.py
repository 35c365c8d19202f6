"""Calls of the broker that a client of the API waits for: a broker that is down must not make it wait for long."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from windlass.core.errors import BrokerUnavailable

# Engines and workers wait longer, because they can do nothing else.
PROMPT_SECONDS = 1.0

Answer = TypeVar("Answer")


async def promptly(call: Awaitable[Answer], seconds: float = PROMPT_SECONDS) -> Answer:
    """Await a call of the broker for at most so many seconds. BrokerUnavailable."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError:
        raise BrokerUnavailable(
            f"the broker did not answer within {seconds:g} s; check that it is running and reachable"
        ) from None
