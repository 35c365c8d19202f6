"""Submits: requests for jobs become checked submits, one by one or many at once."""

import hashlib
from collections.abc import Sequence

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from windlass.api.operations import Operation, QuickAnswer, answer, declare, request_id_of
from windlass.api.policy import Policy
from windlass.api.problems import invalid, problem_of
from windlass.api.requests import body_of, header_of, instant_of, no_query, shown
from windlass.api.state import ApiState
from windlass.api.versions import Seen, Versions
from windlass.core.errors import IdempotencyConflict, WindlassError
from windlass.ports.control import Submit
from windlass.ports.store import SubmitResult
from windlass.spec import check_input
from windlass.wire import BatchAnswer, BatchItem, BatchRequest, Key, SubmitRequest, Submitted

TAG = "jobs"
EXAMPLE = {"workflow_id": "hello", "input_data": {"message": "hello"}}

_one = msgspec.json.Decoder(SubmitRequest)
_many = msgspec.json.Decoder(BatchRequest)
_canonical = msgspec.json.Encoder(order="deterministic")


class SubmitHeaders(Struct):
    """The key may also come as a header; then it stands for the field."""

    idempotency_key: Key | UnsetType = field(default=UNSET, name="Idempotency-Key")


class Submits:
    """The routes' functions."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._versions = Versions(state.store, state.chance)

    async def submit(self, request: Request) -> ASGIApp:
        """Start a job."""
        no_query(request)
        wanted = _with_header(await body_of(request, _one), header_of(request, b"idempotency-key"))
        made = await self._made(wanted, {})
        if made.idempotency_key is None:
            job, created = await self._state.control.submit(made), True
        else:
            submission = (await self._state.control.submit_all([made]))[0]
            if submission.conflict:
                raise conflict(submission)
            job, created = submission.job, submission.created
        location = f"/api/v1/jobs/{job.spec.job_id}"
        return QuickAnswer(Submitted(job.spec.job_id, job.state.status), 201 if created else 200, location)

    async def batch(self, request: Request) -> Response:
        """Start many jobs in one transaction; each gets its own answer."""
        no_query(request)
        wanted = (await body_of(request, _many)).jobs
        answers: list[BatchItem | None] = [None] * len(wanted)
        checked: list[Submit] = []
        places: list[int] = []
        seen: Seen = {}
        for place, one in enumerate(wanted):
            try:
                checked.append(await self._made(one, seen))
            except WindlassError as error:
                answers[place] = BatchItem(error=problem_of(error, request_id_of(request.scope)))
            else:
                places.append(place)
        submissions: Sequence[SubmitResult] = await self._state.control.submit_all(checked) if checked else ()
        for place, submission in zip(places, submissions, strict=True):
            answers[place] = _item(submission, request_id_of(request.scope))
        return answer(BatchAnswer([one for one in answers if one is not None]))

    async def _made(self, wanted: SubmitRequest, seen: Seen) -> Submit:
        """The submit that a request means; WorkflowNotFound, InputInvalid."""
        scheduled_at = None if wanted.scheduled_at is None else instant_of(wanted.scheduled_at, "scheduled_at")
        version = await self._versions.chosen(wanted.workflow_id, wanted.version, seen)
        plan = await self._state.control.plan(wanted.workflow_id, version)
        checked = check_input(plan.input_schema, wanted.input_data)
        key = wanted.idempotency_key
        asked = (wanted.workflow_id, wanted.version, wanted.input_data, wanted.priority, scheduled_at)
        body = None if key is None else digest_of(asked)
        return Submit(wanted.workflow_id, version, checked, wanted.priority, key, body, scheduled_at)


def _with_header(wanted: SubmitRequest, header: str | None) -> SubmitRequest:
    """The request with the key that its header holds; both and different is a mistake of the caller's."""
    if header is None or header == wanted.idempotency_key:
        return wanted
    if wanted.idempotency_key is not None:
        raise invalid(
            "idempotency_key",
            f"the header Idempotency-Key holds {shown(header)}, the field {shown(wanted.idempotency_key)}",
            "send one of them",
        )
    try:
        key = msgspec.convert(header, Key)
    except msgspec.ValidationError:
        hint = "a key has 1 to 255 printable ASCII characters without spaces"
        raise invalid("Idempotency-Key", f"{shown(header)} is no key", hint) from None
    return msgspec.structs.replace(wanted, idempotency_key=key)


def digest_of(asked: object) -> str:
    """What tells whether a key comes with the same request again: what was asked for, not what it was taken for.

    An alias that was moved, or a default that was filled in, makes no other request of it.
    """
    return hashlib.sha256(_canonical.encode(asked)).hexdigest()


def conflict(submission: SubmitResult) -> IdempotencyConflict:
    """A key that came before, with another request."""
    job = submission.job
    return IdempotencyConflict(
        f"the idempotency key {job.spec.idempotency_key!r} was used for job {job.spec.job_id} with another request; "
        "send the same request again, or use a new key"
    )


def _item(submission: SubmitResult, request_id: str | None) -> BatchItem:
    if submission.conflict:
        return BatchItem(error=problem_of(conflict(submission), request_id))
    return BatchItem(submission.job.spec.job_id, submission.job.state.status)


def router(state: ApiState) -> APIRouter:
    """`POST /jobs` and `POST /jobs/batch`."""
    routes = APIRouter()
    calls = Submits(state)
    declare(routes, "POST", "/jobs", calls.submit, Operation(
        policy=Policy.OPERATE, tag=TAG, summary="Start a job; it is durable when the answer comes",
        body=SubmitRequest, example=EXAMPLE, headers=SubmitHeaders,
        answers={200: Submitted, 201: Submitted}, refusals=(404, 409, 422, 503),
    ))  # fmt: skip
    declare(routes, "POST", "/jobs/batch", calls.batch, Operation(
        policy=Policy.OPERATE, tag=TAG, summary="Start many jobs in one transaction; an answer for each",
        body=BatchRequest, example={"jobs": [EXAMPLE, EXAMPLE]},
        answers={200: BatchAnswer}, refusals=(422, 503),
    ))  # fmt: skip
    return routes
