"""Errors of databases: those that another attempt may not meet, and permanent ones."""

from windlass.core.errors import FatalError, RetryableError


class DatabaseUnavailable(RetryableError):
    """The database cannot be reached or used at the moment. `code` is the database's error code."""

    type = "connection_failed"

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class QueryCanceled(RetryableError):
    """A statement was canceled: by a timeout or by another client."""

    type = "query_canceled"


class DatabaseRefused(FatalError):
    """The database rejected the statement. `code` is the database's error code."""

    type = "query_refused"

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code
