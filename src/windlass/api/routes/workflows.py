"""Routes of workflows, their versions and aliases."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.api.operations import JSON, YAML, Operation, json_response, route
from windlass.api.optional_values import given
from windlass.api.policy import Policy
from windlass.api.problems import HttpProblem, invalid, problem_item
from windlass.api.requests import (
    Cursor,
    Flag,
    Limit,
    media_type,
    path_id,
    path_version,
    read_body,
    read_json,
    read_query,
    reject_query,
)
from windlass.api.state import ApiState
from windlass.api.versions import check_alias
from windlass.core.errors import DefinitionInvalid, NotFound, Problem
from windlass.ports.store.workflows import LATEST, AliasTarget, StoredWorkflow, WorkflowFilter
from windlass.spec import Definition, definition_json, definition_text, digest, read_definition
from windlass.views.deployment_warnings import deployment_warnings
from windlass.views.jobs import recent_job_view, warning_view, workflow_view
from windlass.views.pagination import decode_cursor, encode_cursor, paginate
from windlass.wire import AliasRequest, Page, RecentJobView, ValidationView, WorkflowView

TAG = "workflows"
PAGE = 50
RECENT_MAX = 50
# Larger documents are processed in one of a few threads, so that they do not block the event loop.
INLINE_BYTES_MAX = 16 << 10
THREADS_MAX = 2

T = TypeVar("T")
_alias = msgspec.json.Decoder(AliasRequest)


class WorkflowsQuery(Struct, forbid_unknown_fields=True):
    """The page of a list of workflows, and the number of recent jobs of each."""

    cursor: Cursor | UnsetType = UNSET
    limit: Limit = PAGE
    recent: Annotated[int, Meta(ge=0, le=RECENT_MAX)] = 0


class DeleteQuery(Struct, forbid_unknown_fields=True):
    """Whether to delete a workflow that has unfinished jobs."""

    force: Flag = "false"


class WorkflowRoutes:
    """Handlers of workflows."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._threads = asyncio.Semaphore(THREADS_MAX)

    async def deploy(self, request: Request) -> Response:
        """Store a document as a version, unless it equals the newest."""
        reject_query(request)
        definition, warnings = await self._read(request)
        encoded = definition_json(definition)
        now = self._state.clock.wall()
        workflows = self._state.store.workflows
        warnings += await deployment_warnings(definition, workflows, self._state.control.plan, now)
        stored = await workflows.put(definition.workflow_id, encoded, digest(encoded), now)
        view = workflow_view(stored, await self._aliases(stored), warnings)
        return json_response(view, 201 if stored.is_new else 200)

    async def validate(self, request: Request) -> Response:
        """Check a document without storing it."""
        reject_query(request)
        try:
            definition, found = await self._read(request)
        except DefinitionInvalid as error:
            errors = [problem_item(problem) for problem in error.problems if not problem.warning]
            warnings = [warning_view(problem) for problem in error.problems if problem.warning]
            return json_response(
                ValidationView(valid=False, workflow_id=None, errors=errors, warnings=warnings)
            )
        found += await deployment_warnings(
            definition,
            self._state.store.workflows,
            self._state.control.plan,
            self._state.clock.wall(),
        )
        warnings = [warning_view(problem) for problem in found]
        return json_response(
            ValidationView(valid=True, workflow_id=definition.workflow_id, warnings=warnings)
        )

    async def _read(self, request: Request) -> tuple[Definition, list[Problem]]:
        given = media_type(request)
        if given != JSON and given not in YAML:
            detail = f"unsupported content type: {given!r}; send {JSON} or {YAML[0]}"
            raise HttpProblem(415, "unsupported-media-type", detail)
        body = await read_body(request)
        format = "json" if given == JSON else "yaml"
        return await self._run(
            len(body), read_definition, body, format=format, handlers=self._state.handlers
        )

    async def list(self, request: Request) -> Response:
        """List workflows by id, each in its newest version."""
        query = read_query(request, WorkflowsQuery)
        after: str | None = decode_cursor(given(query.cursor), str)
        rows = await self._state.store.workflows.list(WorkflowFilter(after, query.limit + 1))
        page, next_cursor = paginate(rows, query.limit, lambda row: encode_cursor(row.workflow_id))
        views = [
            workflow_view(row, await self._aliases(row), with_definition=False) for row in page
        ]
        if query.recent and views:
            recent = await self._recent_jobs([view.workflow_id for view in views], query.recent)
            views = [structs.replace(view, recent=recent[view.workflow_id]) for view in views]
        return json_response(Page(views, next_cursor))

    async def _recent_jobs(
        self, workflow_ids: Sequence[str], count: int
    ) -> Mapping[str, Sequence[RecentJobView]]:
        recent: dict[str, list[RecentJobView]] = {workflow_id: [] for workflow_id in workflow_ids}
        for job in await self._state.store.overview.recent_jobs(workflow_ids, count):
            recent[job.workflow_id].append(recent_job_view(job))
        return recent

    async def show(self, request: Request) -> Response:
        """Show the newest version of a workflow."""
        reject_query(request)
        stored = await self._state.store.workflows.get(path_id(request, "workflow_id"))
        return json_response(workflow_view(stored, await self._aliases(stored)))

    async def versions(self, request: Request) -> Response:
        """List all versions, newest first."""
        reject_query(request)
        rows = await self._state.store.workflows.versions(path_id(request, "workflow_id"))
        return json_response(Page([workflow_view(row, with_definition=False) for row in rows]))

    async def version(self, request: Request) -> Response:
        """Show a version."""
        reject_query(request)
        return json_response(workflow_view(await self._version(request)))

    async def document(self, request: Request) -> Response:
        """Return a version as a YAML document."""
        reject_query(request)
        definition = (await self._version(request)).definition
        text = await self._run(len(memoryview(definition)), definition_text, definition)
        return Response(text, media_type=YAML[0])

    async def _version(self, request: Request) -> StoredWorkflow:
        workflow_id, number = path_id(request, "workflow_id"), path_version(request, "version")
        return await self._state.store.workflows.get(workflow_id, number)

    async def _run(self, size: int, function: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call a function on a document of a size, in a thread if it is large."""
        if size <= INLINE_BYTES_MAX:
            return function(*args, **options)
        async with self._threads:
            return await asyncio.to_thread(function, *args, **options)

    async def delete(self, request: Request) -> Response:
        """Delete a workflow."""
        query = read_query(request, DeleteQuery)
        workflow_id = path_id(request, "workflow_id")
        await self._state.store.workflows.delete(
            workflow_id, self._state.clock.wall(), force=query.force == "true"
        )
        return Response(status_code=204)

    async def put_alias(self, request: Request) -> Response:
        """Point an alias to a version, or to several by weight."""
        reject_query(request)
        workflow_id, alias = path_id(request, "workflow_id"), path_id(request, "alias")
        check_alias(alias)
        targets = _alias_targets(await read_json(request, _alias))
        stored = await self._state.store.workflows.get(workflow_id)
        await self._state.store.workflows.put_alias(
            workflow_id, alias, targets, self._state.clock.wall()
        )
        return json_response(workflow_view(stored, await self._aliases(stored)))

    async def delete_alias(self, request: Request) -> Response:
        """Delete an alias."""
        reject_query(request)
        workflow_id, alias = path_id(request, "workflow_id"), path_id(request, "alias")
        check_alias(alias)
        await self._state.store.workflows.get(workflow_id)
        if alias not in await self._state.store.workflows.aliases(workflow_id):
            raise NotFound(f"workflow {workflow_id} has no alias {alias!r}")
        await self._state.store.workflows.put_alias(
            workflow_id, alias, (), self._state.clock.wall()
        )
        return Response(status_code=204)

    async def _aliases(self, stored: StoredWorkflow) -> Mapping[str, Sequence[AliasTarget]]:
        """Return the aliases of a workflow, `latest` first."""
        return {
            LATEST: [AliasTarget(stored.version)],
            **await self._state.store.workflows.aliases(stored.workflow_id),
        }


def _alias_targets(body: AliasRequest) -> list[AliasTarget]:
    if (body.version is None) == (not body.targets):
        raise invalid(
            "version", "give either `version` or `targets`", "one version, or several with weights"
        )
    if body.version is not None:
        return [AliasTarget(body.version)]
    versions = [target.version for target in body.targets]
    if len(set(versions)) < len(versions):
        raise invalid("targets", "repeated version", "give each version one weight")
    return [AliasTarget(target.version, target.weight) for target in body.targets]


def routes(state: ApiState) -> list[Route]:
    """Return the routes of workflows."""
    handlers = WorkflowRoutes(state)
    return [
        route("POST", "/api/v1/workflows", handlers.deploy, Operation(
            policy=Policy.ADMIN, tag=TAG, summary="Deploy a workflow as a new version, unless nothing changed",
            body=dict, body_types=(JSON, *YAML), request_example=_DEFINITION,
            responses={200: WorkflowView, 201: WorkflowView}, errors=(422,),
        )),
        route("POST", "/api/v1/workflows/validate", handlers.validate, Operation(
            policy=Policy.READ, tag=TAG, summary="Validate a document without storing it",
            body=Any, body_types=(JSON, *YAML), request_example=_DEFINITION,
            responses={200: ValidationView}, errors=(422,),
        )),
        route("GET", "/api/v1/workflows", handlers.list, Operation(
            policy=Policy.READ, tag=TAG, summary="List workflows by id in their newest versions, without definitions",
            query=WorkflowsQuery, responses={200: Page[WorkflowView]}, errors=(422,),
        )),
        route("GET", "/api/v1/workflows/{workflow_id}", handlers.show, Operation(
            policy=Policy.READ, tag=TAG, summary="Show the newest version of a workflow",
            responses={200: WorkflowView}, errors=(404, 422),
        )),
        route("GET", "/api/v1/workflows/{workflow_id}/versions", handlers.versions, Operation(
            policy=Policy.READ, tag=TAG, summary="List the versions of a workflow, newest first, without definitions",
            responses={200: Page[WorkflowView]}, errors=(404, 422),
        )),
        route("GET", "/api/v1/workflows/{workflow_id}/versions/{version}", handlers.version, Operation(
            policy=Policy.READ, tag=TAG, summary="Show a version of a workflow",
            responses={200: WorkflowView}, errors=(404, 422),
        )),
        route("GET", "/api/v1/workflows/{workflow_id}/versions/{version}/document", handlers.document, Operation(
            policy=Policy.READ, tag=TAG, summary="Show a version as a YAML document that deploys as the same version",
            responses={200: str}, response_type=YAML[0], response_example=_DOCUMENT, errors=(404, 422),
        )),
        route("DELETE", "/api/v1/workflows/{workflow_id}", handlers.delete, Operation(
            policy=Policy.ADMIN, tag=TAG, summary="Delete a workflow and refuse submits of it; its history stays",
            query=DeleteQuery, responses={204: None}, errors=(404, 409, 422),
        )),
        route("PUT", "/api/v1/workflows/{workflow_id}/aliases/{alias}", handlers.put_alias, Operation(
            policy=Policy.ADMIN, tag=TAG, summary="Point an alias to a version, or split submits by weight",
            body=AliasRequest,
            request_example={"targets": [{"version": 1, "weight": 90}, {"version": 2, "weight": 10}]},
            responses={200: WorkflowView}, errors=(404, 422),
        )),
        route("DELETE", "/api/v1/workflows/{workflow_id}/aliases/{alias}", handlers.delete_alias, Operation(
            policy=Policy.ADMIN, tag=TAG, summary="Delete an alias", responses={204: None}, errors=(404, 422),
        )),
    ]  # fmt: skip


_DEFINITION = {
    "workflow_id": "hello",
    "nodes": {
        "start": {"type": "start", "next": ["greet"]},
        "greet": {"handler": "echo"},
        "end": {"type": "end", "dependencies": ["greet"]},
    },
}
_DOCUMENT = """\
workflow_id: hello
nodes:
  start:
    type: start
  greet:
    handler: echo
    dependencies:
      - start
  end:
    type: end
    dependencies:
      - greet
"""
