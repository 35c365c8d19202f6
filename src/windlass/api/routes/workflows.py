"""Workflows: documents are checked and stored as versions, listed, named by aliases, and taken off."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter
from msgspec import UNSET, Meta, Struct, UnsetType, structs
from starlette.requests import Request
from starlette.responses import Response

from windlass.api.operations import JSON, YAML, Operation, answer, declare
from windlass.api.pagination import cut, place_of
from windlass.api.policy import Policy
from windlass.api.problems import Refusal, invalid, item_of
from windlass.api.requests import (
    Cursor,
    Flag,
    Limit,
    body_of,
    id_of,
    media_type,
    no_query,
    number_of,
    query_of,
    read_body,
)
from windlass.api.state import ApiState
from windlass.api.versions import LATEST, check_alias
from windlass.core.errors import DefinitionInvalid, NotFound, Problem
from windlass.ports.store.workflows import AliasTarget, StoredWorkflow, WorkflowFilter
from windlass.spec import Definition, definition_json, definition_text, digest, read_definition
from windlass.views.jobs import recent_shape, warned, workflow_shape
from windlass.wire import AliasRequest, Page, RecentJob, Validation, Workflow

TAG = "workflows"
PAGE = 50
RECENT_MAX = 50
# Larger documents are checked in a thread, a few at a time, so that they hold nobody else up.
CHECKED_AT_ONCE_BYTES_MAX = 16 << 10
THREADS_MAX = 2
EXAMPLE = {
    "workflow_id": "hello",
    "nodes": {"start": {"type": "start", "next": ["greet"]}, "greet": {"handler": "echo"},
              "end": {"type": "end", "dependencies": ["greet"]}},
}  # fmt: skip
DOCUMENT = """\
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

T = TypeVar("T")
_alias = msgspec.json.Decoder(AliasRequest)


class WorkflowsQuery(Struct, forbid_unknown_fields=True):
    """A part of a list, and how many jobs of each workflow are told with it."""

    cursor: Cursor | UnsetType = UNSET
    limit: Limit = PAGE
    recent: Annotated[int, Meta(ge=0, le=RECENT_MAX)] = 0


class DeleteQuery(Struct, forbid_unknown_fields=True):
    """Whether unfinished jobs keep a workflow from being deleted."""

    force: Flag = "false"


class Workflows:
    """The routes' functions."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._threads = asyncio.Semaphore(THREADS_MAX)

    async def deploy(self, request: Request) -> Response:
        """Store a document as a version, unless it is the newest one already."""
        no_query(request)
        definition, warnings = await self._read(request)
        encoded = definition_json(definition)
        now = self._state.clock.now()
        stored = await self._state.store.workflows.put(definition.workflow_id, encoded, digest(encoded), now)
        shape = workflow_shape(stored, await self._aliases(stored), warnings)
        return answer(shape, 201 if stored.is_new else 200)

    async def validate(self, request: Request) -> Response:
        """Check a document and store nothing."""
        no_query(request)
        try:
            definition, warnings = await self._read(request)
        except DefinitionInvalid as error:
            wrong = [item_of(problem) for problem in error.problems if not problem.warning]
            return answer(Validation(False, None, wrong, [warned(one) for one in error.problems if one.warning]))
        return answer(Validation(True, definition.workflow_id, [], [warned(one) for one in warnings]))

    async def _read(self, request: Request) -> tuple[Definition, list[Problem]]:
        kind = media_type(request)
        if kind != JSON and kind not in YAML:
            raise Refusal(415, "unsupported-media-type", f"send the document as {JSON} or {YAML[0]}, not {kind!r}")
        body = await read_body(request)
        form = "json" if kind == JSON else "yaml"
        return await self._apart(len(body), read_definition, body, format=form, handlers=self._state.handlers)

    async def list(self, request: Request) -> Response:
        """Workflows by id, each in its newest version."""
        query = query_of(request, WorkflowsQuery)
        after: str | None = None if query.cursor is UNSET else place_of(query.cursor, str)
        found = await self._state.store.workflows.list(WorkflowFilter(after, query.limit + 1))
        page, following = cut(found, query.limit, lambda workflow: workflow.workflow_id)
        items = [workflow_shape(one, await self._aliases(one), whole=False) for one in page]
        return answer(Page(await _with_recent(self._state, items, query.recent), following))

    async def show(self, request: Request) -> Response:
        """The newest version of a workflow."""
        no_query(request)
        stored = await self._state.store.workflows.get(id_of(request, "workflow_id"))
        return answer(workflow_shape(stored, await self._aliases(stored)))

    async def versions(self, request: Request) -> Response:
        """Every version, newest first."""
        no_query(request)
        found = await self._state.store.workflows.versions(id_of(request, "workflow_id"))
        return answer(Page([workflow_shape(one, whole=False) for one in found]))

    async def version(self, request: Request) -> Response:
        """One version."""
        no_query(request)
        workflow_id, number = id_of(request, "workflow_id"), number_of(request, "version")
        return answer(workflow_shape(await self._state.store.workflows.get(workflow_id, number)))

    async def document(self, request: Request) -> Response:
        """One version as a document that people read."""
        no_query(request)
        workflow_id, number = id_of(request, "workflow_id"), number_of(request, "version")
        stored = await self._state.store.workflows.get(workflow_id, number)
        text = await self._apart(len(memoryview(stored.definition)), definition_text, stored.definition)
        return Response(text, media_type=YAML[0])

    async def _apart(self, size: int, work: Callable[..., T], *given: Any, **options: Any) -> T:
        """Do something with a document; in a thread if it is large."""
        if size <= CHECKED_AT_ONCE_BYTES_MAX:
            return work(*given, **options)
        async with self._threads:
            return await asyncio.to_thread(work, *given, **options)

    async def delete(self, request: Request) -> Response:
        """Take a workflow off the lists and refuse its submits."""
        query = query_of(request, DeleteQuery)
        workflow_id = id_of(request, "workflow_id")
        await self._state.store.workflows.delete(workflow_id, self._state.clock.now(), force=query.force == "true")
        return Response(status_code=204)

    async def put_alias(self, request: Request) -> Response:
        """Point an alias at a version, or at several by weight."""
        no_query(request)
        workflow_id, alias = id_of(request, "workflow_id"), id_of(request, "alias")
        check_alias(alias)
        targets = _targets(await body_of(request, _alias))
        stored = await self._state.store.workflows.get(workflow_id)
        await self._state.store.workflows.put_alias(workflow_id, alias, targets, self._state.clock.now())
        return answer(workflow_shape(stored, await self._aliases(stored)))

    async def delete_alias(self, request: Request) -> Response:
        """Remove an alias."""
        no_query(request)
        workflow_id, alias = id_of(request, "workflow_id"), id_of(request, "alias")
        check_alias(alias)
        await self._state.store.workflows.get(workflow_id)
        if alias not in await self._state.store.workflows.aliases(workflow_id):
            raise NotFound(f"workflow {workflow_id} has no alias {alias!r}")
        await self._state.store.workflows.put_alias(workflow_id, alias, (), self._state.clock.now())
        return Response(status_code=204)

    async def _aliases(self, stored: StoredWorkflow) -> Mapping[str, Sequence[AliasTarget]]:
        """The aliases of a workflow in its newest version, the automatic one first."""
        return {LATEST: [AliasTarget(stored.version)], **await self._state.store.workflows.aliases(stored.workflow_id)}


async def _with_recent(state: ApiState, items: list[Workflow], each: int) -> list[Workflow]:
    if not (each and items):
        return items
    recent: dict[str, list[RecentJob]] = {}
    for job in await state.store.overview.recent_jobs([one.workflow_id for one in items], each):
        recent.setdefault(job.workflow_id, []).append(recent_shape(job))
    return [structs.replace(one, recent=recent.get(one.workflow_id, [])) for one in items]


def _targets(wanted: AliasRequest) -> list[AliasTarget]:
    if (wanted.version is None) == (not wanted.targets):
        raise invalid("version", "give either `version` or `targets`", "an alias points at one version, or splits")
    if wanted.version is not None:
        return [AliasTarget(wanted.version)]
    versions = [target.version for target in wanted.targets]
    if len(set(versions)) < len(versions):
        raise invalid("targets", "a version is named twice", "give it one weight")
    return [AliasTarget(target.version, target.weight) for target in wanted.targets]


def router(state: ApiState) -> APIRouter:
    """`/workflows` and what is below it."""
    routes = APIRouter()
    calls = Workflows(state)
    one = "/workflows/{workflow_id}"
    document = Operation(
        policy=Policy.ADMIN, tag=TAG, summary="Deploy a workflow: a new version, unless nothing changed",
        body=dict, body_types=(JSON, *YAML), example=EXAMPLE, answers={200: Workflow, 201: Workflow}, refusals=(422,),
    )  # fmt: skip
    declare(routes, "POST", "/workflows", calls.deploy, document)
    declare(routes, "POST", "/workflows/validate", calls.validate, msgspec.structs.replace(
        document, policy=Policy.READ, summary="Check a document without storing it",
        body=Any, answers={200: Validation},
    ))  # fmt: skip
    declare(routes, "GET", "/workflows", calls.list, Operation(
        policy=Policy.READ, tag=TAG, summary="List workflows by id, each in its newest version, without definitions",
        query=WorkflowsQuery, answers={200: Page[Workflow]}, refusals=(422,),
    ))  # fmt: skip
    declare(routes, "GET", one, calls.show, Operation(
        policy=Policy.READ, tag=TAG, summary="Show the newest version of a workflow",
        answers={200: Workflow}, refusals=(404, 422),
    ))  # fmt: skip
    declare(routes, "GET", one + "/versions", calls.versions, Operation(
        policy=Policy.READ, tag=TAG, summary="List the versions of a workflow, newest first, without definitions",
        answers={200: Page[Workflow]}, refusals=(404, 422),
    ))  # fmt: skip
    declare(routes, "GET", one + "/versions/{version}", calls.version, Operation(
        policy=Policy.READ, tag=TAG, summary="Show one version of a workflow",
        answers={200: Workflow}, refusals=(404, 422),
    ))  # fmt: skip
    declare(routes, "GET", one + "/versions/{version}/document", calls.document, Operation(
        policy=Policy.READ, tag=TAG, summary="One version as a YAML document, which deploys as the same version",
        answers={200: str}, answer_type=YAML[0], answer_example=DOCUMENT, refusals=(404, 422),
    ))  # fmt: skip
    declare(routes, "DELETE", one, calls.delete, Operation(
        policy=Policy.ADMIN, tag=TAG, summary="Take a workflow off the lists and refuse its submits; its history stays",
        query=DeleteQuery, answers={204: None}, refusals=(404, 409, 422),
    ))  # fmt: skip
    declare(routes, "PUT", one + "/aliases/{alias}", calls.put_alias, Operation(
        policy=Policy.ADMIN, tag=TAG, summary="Point an alias at a version, or split submits by weight",
        body=AliasRequest, example={"targets": [{"version": 1, "weight": 90}, {"version": 2, "weight": 10}]},
        answers={200: Workflow}, refusals=(404, 422),
    ))  # fmt: skip
    declare(routes, "DELETE", one + "/aliases/{alias}", calls.delete_alias, Operation(
        policy=Policy.ADMIN, tag=TAG, summary="Remove an alias", answers={204: None}, refusals=(404, 422),
    ))  # fmt: skip
    return routes
