"""What databases answer instead of a result, in two kinds: what may pass, and what stays."""

from windlass.core.errors import FatalError, RetryableError


class DatabaseUnavailable(RetryableError):
    """The database cannot be reached or used at this moment. `code` is its own name for the reason."""

    type = "connection_failed"

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class QueryCanceled(RetryableError):
    """The server stopped a statement: its time was over, or somebody cancelled it."""

    type = "query_canceled"


class DatabaseRefused(FatalError):
    """The database refuses what was asked. `code` is its own name for the reason."""

    type = "query_refused"

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code
