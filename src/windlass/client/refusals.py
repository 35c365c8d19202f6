"""Refusals of a server as our own errors."""

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


class Refusals(Struct, frozen=True):
    """Which errors a refusal means, where the status alone does not say."""

    missing: type[NotFound] = NotFound
    unfit: type[ProblemsFound] | None = None


def refusal_of(answer: httpx2.Response, refusals: Refusals) -> WindlassError:
    """The error that a refusal stands for."""
    try:
        told = msgspec.json.decode(answer.content, type=wire.ProblemDetails)
    except msgspec.MsgspecError:
        return ApiError(f"the server answered {answer.status_code} {answer.reason_phrase}", status=answer.status_code)
    problems = [
        Problem(path=one.path, message=one.message, hint=one.hint, line=one.line, column=one.column)
        for one in told.errors
    ]
    match told.status, told.type.rpartition(":")[2]:
        case 404, "not-found":
            return refusals.missing(told.detail)
        case 422, _ if refusals.unfit is not None and problems:
            return refusals.unfit(problems)
        case 409, "idempotency-conflict":
            return IdempotencyConflict(told.detail)
        case 409, _:
            return RequestRefused(told.detail)
        case 503, _:
            return StoreUnavailable(told.detail)
        case _:
            return ApiError(
                f"{told.title}: {told.detail}", status=told.status, problems=problems, request_id=told.request_id
            )
