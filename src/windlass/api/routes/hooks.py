"""Incoming webhooks: a signed body starts a job, once for each id."""

import hashlib
import logging

import msgspec
from fastapi import APIRouter
from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import Operation, answer, declare
from windlass.api.policy import Policy
from windlass.api.problems import Refusal
from windlass.api.requests import decoded, header_of, id_of, no_query, read_body
from windlass.api.routes.submits import conflict
from windlass.api.state import ApiState
from windlass.connections.secrets import SecretUnknown
from windlass.core.errors import NotFound, SignatureInvalid
from windlass.core.instants import MICROSECONDS
from windlass.core.webhooks import ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, key_of, verify
from windlass.ports.control import Submit
from windlass.spec import check_input
from windlass.wire import Submitted

TAG = "hooks"
KEY_PREFIX = "hook:"

logger = logging.getLogger("windlass.api")
_any = msgspec.json.Decoder()


class HookHeaders(Struct):
    """What proves where a message comes from, as Standard Webhooks has it."""

    id: str = field(name=ID_HEADER)
    timestamp: str = field(name=TIMESTAMP_HEADER)
    signature: str = field(name=SIGNATURE_HEADER)


class Hooks:
    """The route's function."""

    def __init__(self, state: ApiState) -> None:
        self._state = state

    async def take(self, request: Request) -> Response:
        """Start a job with the body as its input, if it is signed with the workflow's secret."""
        no_query(request)
        workflow_id = id_of(request, "workflow")
        stored = await self._state.store.workflow(workflow_id)
        plan = await self._state.control.plan(workflow_id, stored.version)
        if plan.hook_secret is None:
            raise NotFound(f"workflow {workflow_id!r} takes no webhooks; `hook: {{secret: name}}` makes it take them")
        body = await read_body(request)
        key = self._key(workflow_id, plan.hook_secret)
        names = (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER)
        headers = {name: header_of(request, name.encode()) or "" for name in names}
        try:
            webhook_id = verify(key, headers, body, self._state.clock.now() / MICROSECONDS)
        except SignatureInvalid as error:
            raise Refusal(401, "unsigned", str(error)) from None
        checked = check_input(plan.input_schema, decoded(body, _any))
        # Ids are as long as their senders like; their digests fit any key.
        known = KEY_PREFIX + hashlib.sha256(webhook_id.encode()).hexdigest()
        digest = hashlib.sha256(body).hexdigest()
        made = Submit(workflow_id, stored.version, checked, idempotency_key=known, request_digest=digest)
        submission = (await self._state.control.submit_all([made]))[0]
        if submission.conflict:
            raise conflict(submission)
        job = submission.job
        location = {"location": f"/api/v1/jobs/{job.spec.job_id}"}
        return answer(Submitted(job.spec.job_id, job.state.status), 201 if submission.created else 200, location)

    def _key(self, workflow_id: str, name: str) -> bytes:
        try:
            return key_of(self._state.secrets.get(name))
        except (SecretUnknown, SignatureInvalid) as error:
            # Whoever calls cannot help it, and need not know the names of secrets.
            logger.error("a webhook cannot be checked", extra={"workflow_id": workflow_id, "reason": str(error)})
            raise Refusal(503, "unavailable", f"the server has no usable secret for workflow {workflow_id!r}") from None


def router(state: ApiState) -> APIRouter:
    """`POST /hooks/{workflow}`."""
    routes = APIRouter()
    declare(routes, "POST", "/hooks/{workflow}", Hooks(state).take, Operation(
        # Anybody may call it; who has signed is checked before the body is read as anything but bytes.
        policy=Policy.PUBLIC, tag=TAG, summary="Start a job by a signed webhook; the body is its input",
        body=dict, example={"type": "order.paid", "data": {"order": 7}}, headers=HookHeaders,
        answers={200: Submitted, 201: Submitted}, refusals=(401, 404, 409, 422, 503),
    ))  # fmt: skip
    return routes
