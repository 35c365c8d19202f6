"""The handler that waits."""

import asyncio
from typing import Annotated

from msgspec import Meta

from windlass.core.durations import DAY_SECONDS, DURATION_RULE, parse_duration
from windlass.core.errors import FatalError
from windlass.ports.handler_declaration import handler

SECONDS_MAX = 7 * DAY_SECONDS


@handler("sleep")
async def sleep(
    seconds: Annotated[
        float | str,
        Meta(description="a [duration](language.md#durations); at most a week"),
    ],
) -> dict[str, float]:
    """Wait; return `{"slept": seconds}`."""
    duration = duration_seconds(seconds)
    await asyncio.sleep(duration)
    return {"slept": duration}


def duration_seconds(value: float | str) -> float:
    """Return a duration in seconds; raise FatalError if it is invalid or too long."""
    seconds = parse_duration(value)
    if seconds is None:
        raise FatalError(f"invalid duration: {value!r}; {DURATION_RULE}")
    if not 0 <= seconds <= SECONDS_MAX:
        raise FatalError(
            f"duration out of range: {value!r}; must be between 0 and {SECONDS_MAX:g} seconds"
        )
    return seconds
