"""Submits: one job, or many in a batch."""

import msgspec
from msgspec import UNSET, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, json_response, request_id_of, route
from windlass.api.policy import Policy
from windlass.api.problems import invalid, problem_details
from windlass.api.requests import header, quoted, read_json, reject_query
from windlass.api.state import ApiState
from windlass.core.errors import WindlassError
from windlass.ports.store.jobs import SubmitResult
from windlass.wire import BatchItemView, BatchRequest, BatchView, Key, SubmitRequest, SubmittedView

TAG = "jobs"
EXAMPLE = {"workflow_id": "hello", "input_data": {"message": "hello"}}

_one = msgspec.json.Decoder(SubmitRequest)
_many = msgspec.json.Decoder(BatchRequest)


class SubmitHeaders(Struct):
    """The header that may carry the idempotency key instead of the field."""

    idempotency_key: Key | UnsetType = field(default=UNSET, name="Idempotency-Key")


class SubmitRoutes:
    """Handlers of submits."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    async def submit(self, request: Request) -> Response:
        """Start a job."""
        reject_query(request)
        body = _with_header(await read_json(request, _one), header(request, b"idempotency-key"))
        return submitted_response(await self._state.control.jobs.submit(body))

    async def batch(self, request: Request) -> Response:
        """Start jobs in one transaction, each with its own result."""
        reject_query(request)
        answers = await self._state.control.jobs.submit_each((await read_json(request, _many)).jobs)
        request_id = request_id_of(request.scope)
        return json_response(BatchView([_batch_item(answer, request_id) for answer in answers]))


def submitted_response(result: SubmitResult) -> Response:
    """Return the response to a submit: 201 for a new job, 200 for the job of a repeated request."""
    job_id = result.job.spec.job_id
    status = 201 if result.created else 200
    view = SubmittedView(job_id, result.job.state.status)
    return json_response(view, status, {"location": f"/api/v1/jobs/{job_id}"})


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


def _batch_item(answer: SubmitResult | WindlassError, request_id: str | None) -> BatchItemView:
    if isinstance(answer, WindlassError):
        return BatchItemView(error=problem_details(answer, request_id))
    return BatchItemView(answer.job.spec.job_id, answer.job.state.status)


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
