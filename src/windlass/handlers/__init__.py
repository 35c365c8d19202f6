"""The handlers that come with Windlass."""

from collections.abc import Mapping

from windlass.handlers import echo, fail, python, sleep
from windlass.handlers.http import http_handler
from windlass.handlers.shell import shell_handler
from windlass.ports.declare import collect
from windlass.ports.handler import Handler


def builtin(*, allow_private: bool = False, environment: Mapping[str, str] | None = None) -> dict[str, Handler]:
    """All of them, by name. `environment` is the worker's own, of which commands see the harmless part."""
    http = http_handler(allow_private)
    return {
        **collect(echo),
        **collect(sleep),
        **collect(fail),
        **collect(python),
        "http": http,
        "call_external_service": http,
        "shell": shell_handler(environment or {}),
    }
