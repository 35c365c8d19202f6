"""Submits: one job, or many in a batch."""

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, json_response, request_id_of, route
from windlass.api.policy import Policy
from windlass.api.problems import invalid, problem_details
from windlass.api.requests import header, parse_instant, quoted, read_json, reject_query
from windlass.api.state import ApiState
from windlass.api.versions import VersionCache, VersionResolver
from windlass.core.errors import IdempotencyConflict, WindlassError
from windlass.ports.control import Submit
from windlass.ports.store.jobs import SubmitResult
from windlass.spec import check_input
from windlass.wire import BatchItemView, BatchRequest, BatchView, Key, SubmitRequest, SubmittedView

TAG = "jobs"
EXAMPLE = {"workflow_id": "hello", "input_data": {"message": "hello"}}

_one = msgspec.json.Decoder(SubmitRequest)
_many = msgspec.json.Decoder(BatchRequest)
_canonical = msgspec.json.Encoder(order="deterministic")


class SubmitHeaders(Struct):
    """The header that may carry the idempotency key instead of the field."""

    idempotency_key: Key | UnsetType = field(default=UNSET, name="Idempotency-Key")


class SubmitRoutes:
    """Handlers of submits."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._versions = VersionResolver(state.store, state.chance)

    async def submit(self, request: Request) -> Response:
        """Start a job."""
        reject_query(request)
        body = _with_header(await read_json(request, _one), header(request, b"idempotency-key"))
        submit = await self._checked_submit(body, {})
        if submit.idempotency_key is None:
            job, created = await self._state.control.submit(submit), True
        else:
            submission = (await self._state.control.submit_all([submit]))[0]
            if submission.conflict:
                raise conflict(submission)
            job, created = submission.job, submission.created
        location = {"location": f"/api/v1/jobs/{job.spec.job_id}"}
        return json_response(SubmittedView(job.spec.job_id, job.state.status), 201 if created else 200, location)

    async def batch(self, request: Request) -> Response:
        """Start jobs in one transaction, each with its own result."""
        reject_query(request)
        requests = (await read_json(request, _many)).jobs
        request_id = request_id_of(request.scope)
        items: list[BatchItemView | None] = [None] * len(requests)
        checked: list[Submit] = []
        places: list[int] = []
        cache: VersionCache = {}
        for place, body in enumerate(requests):
            try:
                checked.append(await self._checked_submit(body, cache))
            except WindlassError as error:
                items[place] = BatchItemView(error=problem_details(error, request_id))
            else:
                places.append(place)
        submissions: Sequence[SubmitResult] = ()
        if checked:
            submissions = await self._state.control.submit_all(checked)
        for place, submission in zip(places, submissions, strict=True):
            items[place] = _batch_item(submission, request_id)
        return json_response(BatchView([item for item in items if item is not None]))

    async def _checked_submit(self, body: SubmitRequest, cache: VersionCache) -> Submit:
        """Return the submit of a request, with its version resolved; WorkflowNotFound, InputInvalid."""
        scheduled_at = None if body.scheduled_at is None else parse_instant(body.scheduled_at, "scheduled_at")
        version = await self._versions.resolve(body.workflow_id, body.version, cache)
        plan = await self._state.control.plan(body.workflow_id, version)
        checked = check_input(plan.input_schema, body.input_data)
        key = body.idempotency_key
        requested = (body.workflow_id, body.version, body.input_data, body.priority, scheduled_at)
        digest = None if key is None else digest_of(requested)
        return Submit(
            body.workflow_id,
            version,
            checked,
            priority=body.priority,
            idempotency_key=key,
            request_digest=digest,
            scheduled_at=scheduled_at,
        )


def _with_header(body: SubmitRequest, key: str | None) -> SubmitRequest:
    """Return the request with the key of its header; HttpProblem if the field has another key."""
    if key is None or key == body.idempotency_key:
        return body
    if body.idempotency_key is not None:
        raise invalid(
            "idempotency_key",
            f"different idempotency keys: header {quoted(key)}, field {quoted(body.idempotency_key)}",
            "send one of them",
        )
    try:
        checked = msgspec.convert(key, Key)
    except msgspec.ValidationError:
        hint = "use 1 to 255 printable ASCII characters without spaces"
        raise invalid("Idempotency-Key", f"invalid key: {quoted(key)}", hint) from None
    return msgspec.structs.replace(body, idempotency_key=checked)


def digest_of(requested: object) -> str:
    """Return the digest by which a repeated request is recognized: of what was requested, not of what it resolves to.

    A moved alias or a new default therefore does not make it another request.
    """
    return hashlib.sha256(_canonical.encode(requested)).hexdigest()


def conflict(submission: SubmitResult) -> IdempotencyConflict:
    """Return the error of a key that was used for another request."""
    job = submission.job
    return IdempotencyConflict(
        f"idempotency key {job.spec.idempotency_key!r} was used for job {job.spec.job_id} with another request; "
        "send the same request again, or use a new key"
    )


def _batch_item(submission: SubmitResult, request_id: str | None) -> BatchItemView:
    if submission.conflict:
        return BatchItemView(error=problem_details(conflict(submission), request_id))
    return BatchItemView(submission.job.spec.job_id, submission.job.state.status)


def routes(state: ApiState) -> list[Route]:
    """Return the routes of submits."""
    handlers = SubmitRoutes(state)
    return [
        route("POST", "/api/v1/jobs", handlers.submit, Operation(
            policy=Policy.OPERATE, tag=TAG, summary="Start a job; it is durable when the response arrives",
            body=SubmitRequest, request_example=EXAMPLE, headers=SubmitHeaders,
            responses={200: SubmittedView, 201: SubmittedView}, errors=(404, 409, 422, 503),
        )),
        route("POST", "/api/v1/jobs/batch", handlers.batch, Operation(
            policy=Policy.OPERATE, tag=TAG, summary="Start jobs in one transaction, each with its own result",
            body=BatchRequest, request_example={"jobs": [EXAMPLE, EXAMPLE]},
            responses={200: BatchView}, errors=(422, 503),
        )),
    ]  # fmt: skip
