"""Incoming webhooks: a signed body starts a job, once per webhook id."""

import hashlib
import logging

import msgspec
from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import Operation, route
from windlass.api.policy import Policy
from windlass.api.problems import HttpProblem
from windlass.api.requests import decode_json, header, path_id, read_body, reject_query
from windlass.api.routes.submits import submitted_response
from windlass.api.state import ApiState
from windlass.connections.secrets import SecretUnknown
from windlass.core.errors import NotFound, SignatureInvalid
from windlass.core.instants import MICROSECONDS
from windlass.core.webhooks import ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, key_of, verify
from windlass.wire import SubmitRequest, SubmittedView

TAG = "hooks"
KEY_PREFIX = "hook:"

logger = logging.getLogger("windlass.api")
_any = msgspec.json.Decoder()


class HookHeaders(Struct):
    """The headers of the Standard Webhooks signature."""

    id: str = field(name=ID_HEADER)
    timestamp: str = field(name=TIMESTAMP_HEADER)
    signature: str = field(name=SIGNATURE_HEADER)


class HookRoutes:
    """Handler of incoming webhooks."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    async def receive(self, request: Request) -> Response:
        """Start a job with the body as its input, if the workflow's secret signed it."""
        reject_query(request)
        workflow_id = path_id(request, "workflow")
        stored = await self._state.store.workflows.get(workflow_id)
        plan = await self._state.control.plan(workflow_id, stored.version)
        if plan.hook_secret is None:
            raise NotFound(
                f"workflow {workflow_id!r} accepts no webhooks; add `hook: {{secret: name}}` to it"
            )
        body = await read_body(request)
        signing_key = self._signing_key(workflow_id, plan.hook_secret)
        names = (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER)
        headers = {name: header(request, name.encode()) or "" for name in names}
        try:
            webhook_id = verify(signing_key, headers, body, self._state.clock.wall() / MICROSECONDS)
        except SignatureInvalid as error:
            raise HttpProblem(401, "unsigned", str(error)) from None
        submit = SubmitRequest(
            workflow_id,
            decode_json(body, _any),
            # Webhook ids have any length; their digests fit into a key.
            idempotency_key=KEY_PREFIX + hashlib.sha256(webhook_id.encode()).hexdigest(),
        )
        return submitted_response(await self._state.control.jobs.submit(submit))

    def _signing_key(self, workflow_id: str, secret: str) -> bytes:
        try:
            return key_of(self._state.secrets.get(secret))
        except (SecretUnknown, SignatureInvalid) as error:
            # The caller cannot fix it and must not learn the names of secrets.
            logger.error(
                "webhook secret unusable", extra={"workflow_id": workflow_id, "reason": str(error)}
            )
            detail = f"no usable webhook secret for workflow {workflow_id!r}; see the server log"
            raise HttpProblem(503, "unavailable", detail) from None


def routes(state: ApiState) -> list[Route]:
    """Return the route of incoming webhooks."""
    operation = Operation(
        # Public, because the signature is checked before the body is parsed.
        policy=Policy.PUBLIC,
        tag=TAG,
        summary="Start a job by a signed webhook with the body as its input",
        body=dict,
        request_example={"type": "order.paid", "data": {"order": 7}},
        headers=HookHeaders,
        responses={200: SubmittedView, 201: SubmittedView},
        errors=(401, 404, 409, 422, 503),
    )
    return [route("POST", "/api/v1/hooks/{workflow}", HookRoutes(state).receive, operation)]
