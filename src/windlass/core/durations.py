"""Durations as documents and requests write them: a number of seconds, or a text such as `500ms` or `1.5h`."""

import math
import re
from typing import Annotated

from msgspec import Meta

from windlass.core.fields import whole

_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,6})?"
_UNIT = "ms|s|m|h|d"
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(f"({_NUMBER})({_UNIT})?")

DURATION_RULE = "write a number of seconds, or 500ms, 10s, 5m, 2h, 1d"
DAY_SECONDS = _UNIT_SECONDS["d"]

# The text of a duration in a request.
Duration = Annotated[str, Meta(pattern=whole(f"{_NUMBER}({_UNIT})?"), max_length=21)]


def parse_duration(value: object) -> float | None:
    """Return a duration in seconds; None if the value is not a duration. Only a number can be negative."""
    if isinstance(value, str):
        return _parse_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    if not math.isfinite(seconds):
        return None
    return seconds


def _parse_text(text: str) -> float | None:
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    return float(match[1]) * _UNIT_SECONDS[match[2] or "s"]


def format_duration(seconds: float) -> str:
    """Write a duration in the largest unit that divides it."""
    if seconds == 0:
        return "0s"
    for unit in ("d", "h", "m", "s"):
        if seconds % _UNIT_SECONDS[unit] == 0:
            return f"{seconds / _UNIT_SECONDS[unit]:g}{unit}"
    return f"{seconds / _UNIT_SECONDS['ms']:g}ms"
