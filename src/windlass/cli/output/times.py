"""Instants and durations."""

from datetime import UTC, datetime, timedelta

from windlass.core.instants import MICROSECONDS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def to_microseconds(instant: str) -> int:
    """Convert an ISO 8601 instant to microseconds since 1970."""
    return (datetime.fromisoformat(instant) - EPOCH) // MICROSECOND


def elapsed_seconds(started_at: int, ended_at: int) -> float:
    """Return the time between two instants, 0 if clocks disagree on their order."""
    return max(0, ended_at - started_at) / MICROSECONDS


def duration_seconds(started_at: str | None, completed_at: str | None) -> float | None:
    """Return the time between two ISO 8601 instants, None if one of them is unknown."""
    if started_at is None or completed_at is None:
        return None
    return (to_microseconds(completed_at) - to_microseconds(started_at)) / MICROSECONDS


def format_seconds(seconds: float) -> str:
    """Return a duration with the precision that fits its length."""
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s"


def format_duration(started_at: str | None, completed_at: str | None) -> str:
    """Return the time between two ISO 8601 instants as text, nothing if one of them is unknown."""
    seconds = duration_seconds(started_at, completed_at)
    if seconds is None:
        return ""
    return format_seconds(seconds)


def local_time(instant: str | None) -> str:
    """Return an instant in the local time zone as `ls` does: with the year if it is another one. Nothing for None."""
    if instant is None:
        return ""
    local = datetime.fromisoformat(instant).astimezone()
    if local.year != datetime.now(local.tzinfo).year:
        return f"{local:%Y-%m-%d %H:%M}"
    return f"{local:%b %d %H:%M:%S}"


def local_clock_time(instant: str) -> str:
    """Return an instant as time of day with milliseconds in the local time zone."""
    return f"{datetime.fromisoformat(instant).astimezone():%H:%M:%S.%f}"[:-3]
