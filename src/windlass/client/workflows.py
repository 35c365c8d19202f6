"""Workflows of a server: `client.workflows`."""

from collections.abc import AsyncIterator, Sequence
from typing import Literal

from msgspec import Struct

from windlass import wire
from windlass.client.connection import JSON, YAML, ApiConnection, decode, query, segment
from windlass.client.errors import ErrorTypes
from windlass.core.errors import DefinitionInvalid, WorkflowNotFound

_WORKFLOW = ErrorTypes(not_found=WorkflowNotFound)
_DOCUMENT = ErrorTypes(invalid=DefinitionInvalid)

Format = Literal["yaml", "json"]


class DeployedWorkflow(Struct, frozen=True):
    """The stored version of a workflow, and whether this call created it."""

    workflow: wire.WorkflowView
    is_new: bool


class Workflows:
    """Deploys, validates and reads workflows."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    async def deploy(
        self, document: str | bytes, *, format: Format | None = None
    ) -> DeployedWorkflow:
        """Store a document as a new version, unless it equals the newest; DefinitionInvalid."""
        response = await self._connection.send(
            "POST", "/workflows", _DOCUMENT, content=document, media_type=_media_type(format)
        )
        return DeployedWorkflow(decode(response, wire.WorkflowView), response.status_code == 201)

    async def validate(
        self, document: str | bytes, *, format: Format | None = None
    ) -> wire.ValidationView:
        """Check a document without storing it."""
        response = await self._connection.send(
            "POST",
            "/workflows/validate",
            _DOCUMENT,
            content=document,
            media_type=_media_type(format),
        )
        return decode(response, wire.ValidationView)

    def list(self, *, recent: int | None = None) -> AsyncIterator[wire.WorkflowView]:
        """Iterate over the newest versions of all workflows by id, each with up to `recent` jobs."""
        return self._connection.pages(
            wire.Page[wire.WorkflowView], "/workflows", query(recent=recent)
        )

    async def get(self, workflow_id: str, version: int | None = None) -> wire.WorkflowView:
        """Return a version of a workflow, the newest by default; WorkflowNotFound."""
        path = _path(workflow_id)
        if version is not None:
            path += f"/versions/{version}"
        return await self._connection.call("GET", path, wire.WorkflowView, _WORKFLOW)

    def versions(self, workflow_id: str) -> AsyncIterator[wire.WorkflowView]:
        """Iterate over all versions, newest first; WorkflowNotFound."""
        path = f"{_path(workflow_id)}/versions"
        return self._connection.pages(wire.Page[wire.WorkflowView], path, errors=_WORKFLOW)

    async def document(self, workflow_id: str, version: int) -> str:
        """Return a version as a YAML document; WorkflowNotFound."""
        path = f"{_path(workflow_id)}/versions/{version}/document"
        return (await self._connection.send("GET", path, _WORKFLOW)).text

    async def statistics(
        self, workflow_id: str, *, jobs: int | None = None, version: int | None = None
    ) -> wire.WorkflowStatisticsView:
        """Return statistics of the last jobs of a workflow; WorkflowNotFound."""
        return await self._connection.call(
            "GET",
            f"{_path(workflow_id)}/statistics",
            wire.WorkflowStatisticsView,
            _WORKFLOW,
            params=query(jobs=jobs, version=version),
        )

    async def set_alias(
        self, workflow_id: str, alias: str, targets: int | Sequence[wire.WeightedVersion]
    ) -> None:
        """Point an alias to a version, or to several by weight; WorkflowNotFound."""
        if isinstance(targets, int):
            targets = [wire.WeightedVersion(targets)]
        body = wire.AliasRequest(targets=[*targets])
        await self._connection.send("PUT", _alias_path(workflow_id, alias), _WORKFLOW, body=body)

    async def delete_alias(self, workflow_id: str, alias: str) -> None:
        """Delete an alias; WorkflowNotFound."""
        await self._connection.send("DELETE", _alias_path(workflow_id, alias), _WORKFLOW)

    async def delete(self, workflow_id: str, *, force: bool = False) -> None:
        """Delete a workflow, keeping its history; RequestRefused while it has unfinished jobs, unless forced."""
        params = {"force": "true"} if force else {}
        await self._connection.send("DELETE", _path(workflow_id), _WORKFLOW, params=params)


def _path(workflow_id: str) -> str:
    return f"/workflows/{segment(workflow_id)}"


def _alias_path(workflow_id: str, alias: str) -> str:
    return f"{_path(workflow_id)}/aliases/{segment(alias)}"


def _media_type(format: Format | None) -> str:
    return JSON if format == "json" else YAML
