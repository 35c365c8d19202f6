"""The handler that waits."""

import asyncio
import re
from typing import Annotated

from msgspec import Meta

from windlass.core.errors import FatalError
from windlass.ports.handler_declaration import handler

SECONDS_MAX = 7 * 86_400.0
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", re.ASCII)
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, None: 1.0}


@handler("sleep")
async def sleep(
    seconds: Annotated[
        float | str,
        Meta(description="a number, or a duration such as `500ms`, `10s`, `5m`, `2h`, `1d`; at most a week"),
    ],
) -> dict[str, float]:
    """Wait; return `{"slept": seconds}`."""
    duration = duration_seconds(seconds)
    await asyncio.sleep(duration)
    return {"slept": duration}


def duration_seconds(value: float | str) -> float:
    """Return a duration in seconds; raise FatalError if it is invalid or too long."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None:
            raise FatalError(f"invalid duration: {value!r}; write seconds, or '500ms', '10s', '5m', '2h', '1d'")
        seconds = float(match[1]) * _UNIT_SECONDS[match[2]]
    else:
        seconds = float(value)
    if not 0 <= seconds <= SECONDS_MAX:
        raise FatalError(f"duration out of range: {value!r}; must be between 0 and {SECONDS_MAX:g} seconds")
    return seconds
