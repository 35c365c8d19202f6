"""The handlers that come with Windlass."""

from windlass.handlers import echo, fail, sleep
from windlass.ports.declare import collect
from windlass.ports.handler import Handler


def builtin() -> dict[str, Handler]:
    """All of them, by name."""
    return {**collect(echo), **collect(sleep), **collect(fail)}
