"""Windlass runs workflows that finish correctly whatever crashes. These are the names that handlers need."""

from windlass.core.errors import FatalError, RetryableError
from windlass.ports.declare import handler
from windlass.ports.handler import Context

__version__ = "0.1.0"

__all__ = ["Context", "FatalError", "RetryableError", "__version__", "handler"]
