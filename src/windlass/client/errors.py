"""Maps error responses of the server to Windlass errors."""

import httpx2
import msgspec
from msgspec import Struct

from windlass import wire
from windlass.core.errors import (
    ApiError,
    IdempotencyConflict,
    NotFound,
    Problem,
    ProblemsFound,
    RequestRefused,
    StoreUnavailable,
    WindlassError,
)


class ErrorTypes(Struct, frozen=True):
    """The errors that 404 and 422 stand for in one call."""

    not_found: type[NotFound] = NotFound
    invalid: type[ProblemsFound] | None = None


ANY = ErrorTypes()


def error_from(response: httpx2.Response, types: ErrorTypes) -> WindlassError:
    """Return the error that an error response stands for."""
    try:
        details = msgspec.json.decode(response.content, type=wire.ProblemDetails)
    except msgspec.MsgspecError:
        message = f"the server answered {response.status_code} {response.reason_phrase}"
        return ApiError(message, status=response.status_code)
    problems = [_problem(item) for item in details.errors]
    kind = details.type.rpartition(":")[2]
    if details.status == 404 and kind == "not-found":
        return types.not_found(details.detail)
    if details.status == 422 and types.invalid is not None and problems:
        return types.invalid(problems)
    if details.status == 409:
        error_type = IdempotencyConflict if kind == "idempotency-conflict" else RequestRefused
        return error_type(details.detail)
    if details.status == 503:
        return StoreUnavailable(details.detail)
    return ApiError(
        f"{details.title}: {details.detail}",
        status=details.status,
        problems=problems,
        request_id=details.request_id,
    )


def _problem(item: wire.ProblemItem) -> Problem:
    return Problem(
        path=item.path, message=item.message, hint=item.hint, line=item.line, column=item.column
    )
