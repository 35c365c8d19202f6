"""Refusals: which error gives which status, and how it is told as application/problem+json."""

import logging
from collections.abc import Iterable, Sequence

import msgspec
from starlette.responses import Response

from windlass.core.errors import (
    CommitUnknown,
    DatabaseInUse,
    IdempotencyConflict,
    JobNotFound,
    NodeNotFound,
    NotFound,
    Problem,
    ProblemsFound,
    RequestRefused,
    StaleLease,
    StoreUnavailable,
    WindlassError,
    WorkflowNotFound,
)
from windlass.wire import ProblemDetails, ProblemItem

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:windlass:problem:"
RETRY_AFTER_SECONDS = 1

logger = logging.getLogger("windlass.api")

# What a refusal is called, for programs (the end of `type`) and for people (`title`).
TITLES = {
    "bad-request": "The request cannot be read",
    "busy": "The server has no room for this now",
    "forbidden-host": "The request names a host that is not served here",
    "forbidden-origin": "Requests of other sites are refused",
    "idempotency-conflict": "The idempotency key was used for another request",
    "invalid": "The request is not valid",
    "internal": "The server failed",
    "method-not-allowed": "The method is not allowed here",
    "not-found": "There is nothing by this name",
    "refused": "The state of things does not allow this",
    "too-large": "The body is too large",
    "unsigned": "The webhook is not signed as it should be",
    "unavailable": "The database cannot be used now",
    "unsupported-media-type": "The content type is not supported",
}
# The first that fits counts.
_STATUSES: Sequence[tuple[type[WindlassError], int, str]] = (
    (ProblemsFound, 422, "invalid"),
    (WorkflowNotFound, 404, "not-found"),
    (JobNotFound, 404, "not-found"),
    (NodeNotFound, 404, "not-found"),
    (NotFound, 404, "not-found"),
    (IdempotencyConflict, 409, "idempotency-conflict"),
    (RequestRefused, 409, "refused"),
    (StoreUnavailable, 503, "unavailable"),
    (CommitUnknown, 503, "unavailable"),
    (StaleLease, 503, "unavailable"),
    (DatabaseInUse, 503, "unavailable"),
)


class Refusal(WindlassError):
    """A request that is refused for reasons of the API itself."""

    def __init__(self, status: int, kind: str, detail: str, errors: Iterable[ProblemItem] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.errors = list(errors)


def invalid(path: str, message: str, hint: str | None = None) -> Refusal:
    """One thing wrong with a request."""
    return Refusal(422, "invalid", message, [ProblemItem(path, message, hint)])


def item_of(problem: Problem) -> ProblemItem:
    """A problem of a document or an input, as the API tells it."""
    return ProblemItem(problem.path, problem.message, problem.hint, problem.line, problem.column)


def problem_of(error: Exception, request_id: str | None = None) -> ProblemDetails:
    """How an error is told. One that nobody expected is logged, and its text stays here."""
    if isinstance(error, Refusal):
        return made(error.status, error.kind, str(error), error.errors, request_id)
    for kind, status, name in _STATUSES:
        if isinstance(error, kind):
            errors = [item_of(problem) for problem in error.problems] if isinstance(error, ProblemsFound) else []
            detail = f"{len(errors)} problems were found" if len(errors) > 1 else str(error)
            return made(status, name, detail, errors, request_id)
    logger.error("a request failed", extra={"request_id": request_id}, exc_info=error)
    return made(500, "internal", "an unexpected error; the server's log has it under the request id", [], request_id)


def made(
    status: int, kind: str, detail: str, errors: Sequence[ProblemItem] = (), request_id: str | None = None
) -> ProblemDetails:
    """A refusal by its short name."""
    return ProblemDetails(TYPE_PREFIX + kind, TITLES[kind], status, detail, list(errors), request_id)


def problem_response(problem: ProblemDetails) -> Response:
    """The answer that tells a refusal."""
    headers = {"retry-after": str(RETRY_AFTER_SECONDS)} if problem.status == 503 else {}
    if problem.status == 413:
        # What was not read of the body must not be taken for the next request.
        headers["connection"] = "close"
    return Response(msgspec.json.encode(problem), problem.status, headers, MEDIA_TYPE)
