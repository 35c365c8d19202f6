"""Windlass is a durable workflow engine. This module has the names that programs use."""

from typing import TYPE_CHECKING

from windlass.core.errors import FatalError, RetryableError
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler

if TYPE_CHECKING:
    from windlass.client import Client

__version__ = "0.1.0"

__all__ = ["Client", "Context", "FatalError", "RetryableError", "__version__", "handler"]


def __getattr__(name: str) -> object:
    if name == "Client":
        # Its HTTP library is slow to import, and handlers and most commands do not need it.
        from windlass.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
