"""The handler that waits."""

import asyncio
import re

from windlass.core.errors import FatalError
from windlass.ports.handler_declaration import handler

SECONDS_MAX = 7 * 86_400.0
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", re.ASCII)
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, None: 1.0}


@handler("sleep")
async def sleep(seconds: float | str) -> dict[str, float]:
    """Wait for a number of seconds or a duration such as '500ms', '10s', '5m'; return `{"slept": seconds}`."""
    wanted = duration_seconds(seconds)
    await asyncio.sleep(wanted)
    return {"slept": wanted}


def duration_seconds(value: float | str) -> float:
    """A duration in seconds; FatalError for what is none, or is longer than a sleep may be."""
    if isinstance(value, str):
        read = _DURATION.fullmatch(value)
        if read is None:
            raise FatalError(f"{value!r} is no duration: write seconds, or '500ms', '10s', '5m', '2h', '1d'")
        seconds = float(read[1]) * _UNIT_SECONDS[read[2]]
    else:
        seconds = float(value)
    if not 0 <= seconds <= SECONDS_MAX:
        raise FatalError(f"a sleep of {value!r} is not between 0 and {SECONDS_MAX:g} seconds")
    return seconds
