"""Problem responses (application/problem+json): the status and type of each error."""

import logging
from collections.abc import Iterable, Sequence

import msgspec
from starlette.responses import Response

from windlass.core.errors import (
    BrokerUnavailable,
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

# The kind of a problem (the end of `type`) and its title.
TITLES = {
    "bad-request": "Malformed request",
    "busy": "Server busy",
    "forbidden-host": "Unknown host",
    "forbidden-origin": "Cross-site request refused",
    "idempotency-conflict": "Idempotency key already used for another request",
    "invalid": "Invalid request",
    "internal": "Internal server error",
    "method-not-allowed": "Method not allowed",
    "not-found": "Not found",
    "refused": "Not allowed in the current state",
    "too-large": "Body too large",
    "unsigned": "Invalid webhook signature",
    "unavailable": "Temporarily unavailable",
    "unsupported-media-type": "Unsupported content type",
}
# The first entry that matches applies.
_STATUSES: Sequence[tuple[type[WindlassError], int, str]] = (
    (ProblemsFound, 422, "invalid"),
    (WorkflowNotFound, 404, "not-found"),
    (JobNotFound, 404, "not-found"),
    (NodeNotFound, 404, "not-found"),
    (NotFound, 404, "not-found"),
    (IdempotencyConflict, 409, "idempotency-conflict"),
    (RequestRefused, 409, "refused"),
    (StoreUnavailable, 503, "unavailable"),
    (BrokerUnavailable, 503, "unavailable"),
    (CommitUnknown, 503, "unavailable"),
    (StaleLease, 503, "unavailable"),
    (DatabaseInUse, 503, "unavailable"),
)


class HttpProblem(WindlassError):
    """An error of the API itself, with its status and kind."""

    def __init__(
        self, status: int, kind: str, detail: str, errors: Iterable[ProblemItem] = ()
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.errors = list(errors)


def invalid(path: str, message: str, hint: str | None = None) -> HttpProblem:
    """Return a 422 problem with one error."""
    return HttpProblem(422, "invalid", message, [ProblemItem(path, message, hint)])


def problem_item(problem: Problem) -> ProblemItem:
    """Return a problem of a document or an input as an item of a response."""
    return ProblemItem(problem.path, problem.message, problem.hint, problem.line, problem.column)


def problem_details(error: Exception, request_id: str | None = None) -> ProblemDetails:
    """Return the problem of an error. An unexpected error is logged, and its text is not returned."""
    if isinstance(error, HttpProblem):
        return build_problem(
            error.status, error.kind, str(error), error.errors, request_id=request_id
        )
    for error_type, status, kind in _STATUSES:
        if isinstance(error, error_type):
            items: list[ProblemItem] = []
            if isinstance(error, ProblemsFound):
                items = [problem_item(problem) for problem in error.problems]
            detail = str(error)
            if len(items) > 1:
                detail = f"{len(items)} errors found"
            return build_problem(status, kind, detail, items, request_id=request_id)
    logger.error("unhandled error in a request", extra={"request_id": request_id}, exc_info=error)
    detail = "unexpected error; the server log has the details under the request id"
    return build_problem(500, "internal", detail, request_id=request_id)


def build_problem(
    status: int,
    kind: str,
    detail: str,
    errors: Sequence[ProblemItem] = (),
    *,
    request_id: str | None = None,
) -> ProblemDetails:
    """Return a problem of a kind listed in TITLES."""
    return ProblemDetails(
        type=TYPE_PREFIX + kind,
        title=TITLES[kind],
        status=status,
        detail=detail,
        errors=list(errors),
        request_id=request_id,
    )


def problem_response(problem: ProblemDetails) -> Response:
    """Return the response of a problem."""
    headers: dict[str, str] = {}
    if problem.status == 503:
        headers["retry-after"] = str(RETRY_AFTER_SECONDS)
    if problem.status == 413:
        # The unread rest of the body must not be parsed as the next request.
        headers["connection"] = "close"
    return Response(msgspec.json.encode(problem), problem.status, headers, MEDIA_TYPE)
