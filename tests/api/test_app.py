"""The application: policies, probes, workers and the OpenAPI document."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, Router

from tests.api.harness import API, System
from windlass.api import app as application
from windlass.api.app import create_app
from windlass.api.openapi import openapi_document
from windlass.api.policy import Policy, PolicyMissing, policy_of
from windlass.api.state import ApiState
from windlass.core.errors import StoreUnavailable


def routes(system: System) -> list[Route]:
    return [route for route in system.app.routes if isinstance(route, Route)]


async def test_every_route_declares_a_policy(system: System) -> None:
    policies = {route.name: policy_of(route) for route in routes(system)}

    assert len(policies) == len(system.app.routes) > 25
    assert None not in policies.values()


async def test_only_probes_hooks_and_the_openapi_document_are_public(system: System) -> None:
    public = {route.path for route in routes(system) if policy_of(route) is Policy.PUBLIC}

    # Hooks are authenticated by their signature.
    assert public == {"/livez", "/readyz", f"{API}/openapi.json", f"{API}/hooks/{{workflow}}"}


async def test_routes_that_change_state_need_more_than_read(system: System) -> None:
    weak = {
        route.name
        for route in routes(system)
        if policy_of(route) in (Policy.READ, Policy.PUBLIC)
        and not (route.methods or set()) <= {"GET", "HEAD"}
    }

    assert weak == {f"POST {API}/workflows/validate", f"POST {API}/hooks/{{workflow}}"}


@pytest.mark.parametrize(
    "route", [Route("/forgotten", lambda _: Response()), Mount("/files", Router())]
)
async def test_an_application_with_a_route_without_policy_does_not_start(
    system: System, monkeypatch: pytest.MonkeyPatch, route: Route | Mount
) -> None:
    class UndeclaredRoutes:
        @staticmethod
        def routes(state: ApiState) -> list[BaseRoute]:
            return [route]

    monkeypatch.setattr(application, "RESOURCES", (*application.RESOURCES, UndeclaredRoutes))

    with pytest.raises(PolicyMissing, match=r"/forgotten|/files"):
        create_app(system.state)


async def test_probes_of_a_ready_process_answer_ok(client: httpx2.AsyncClient) -> None:
    for path in ("/livez", "/readyz"):
        response = await client.get(path)
        assert (response.status_code, response.json()["status"]) == (200, "ok")


async def test_health_lists_shards_and_workers(system: System, client: httpx2.AsyncClient) -> None:
    await system.deploy()
    await system.ended(await system.submit())

    health = (await client.get("/health")).json()

    epoch = await system.store.leases.epoch(0)
    assert health["shards"] == [
        {"shard": 0, "owner": "test", "epoch": epoch, "expired": False, "expires_at": None}
    ]
    assert [(worker["worker_id"], worker["alive"]) for worker in health["workers"]] == [
        ("inner", True)
    ]


async def test_a_closing_process_is_live_but_not_ready(tmp_path: Path) -> None:
    async with System.running(tmp_path) as system:
        system.state.closing.set()
        live, ready = await system.client.get("/livez"), await system.client.get("/readyz")

    assert (live.status_code, ready.status_code, ready.json()["status"]) == (200, 503, "degraded")


async def test_a_process_without_its_database_is_not_ready(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: object) -> None:
        raise StoreUnavailable("the disk is unavailable")

    monkeypatch.setattr(system.store.leases, "probe", broken)

    assert (await system.client.get("/readyz")).status_code == 503


async def test_workers_are_listed(system: System, client: httpx2.AsyncClient) -> None:
    await system.deploy()
    await system.ended(await system.submit())

    page = (await client.get(f"{API}/workers")).json()

    assert page["next_cursor"] is None
    assert [
        (worker["worker_id"], worker["queues"], worker["running"]) for worker in page["items"]
    ] == [("inner", ["*"], 0)]


async def test_the_openapi_document_lists_every_route_with_its_policy(
    system: System, client: httpx2.AsyncClient
) -> None:
    described = (await client.get(f"{API}/openapi.json")).json()

    found = {
        (method.upper(), path): operation
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    }
    declared = {
        (next(iter((route.methods or set()) - {"HEAD"})), route.path) for route in routes(system)
    }
    assert found.keys() == declared
    assert described["openapi"].startswith("3.1")
    assert all(operation["x-policy"] in set(Policy) for operation in found.values())
    assert all("example" in body for body in _bodies(found.values()))
    assert openapi_document(system.app.routes, "0.0.0") == described


async def test_patterns_in_the_openapi_document_have_only_syntax_of_json_schema(
    system: System,
) -> None:
    described = json.dumps(openapi_document(system.app.routes, "0.0.0"), separators=(",", ":"))

    assert '"pattern":"^[A-Za-z0-9_-]{1,128}$"' in described
    assert r"\\Z" not in described


async def test_every_reference_in_the_openapi_document_resolves(system: System) -> None:
    described = openapi_document(system.app.routes, "0.0.0")
    references = set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(described)))

    assert len(references) > 20
    assert [reference for reference in references if not _resolves(described, reference)] == []


def _resolves(document: Any, reference: str) -> bool:
    for key in reference.split("/"):
        if key not in document:
            return False
        document = document[key]
    return True


def _bodies(operations: Iterable[dict[str, Any]]) -> list[dict[str, object]]:
    contents = [
        operation["requestBody"]["content"]
        for operation in operations
        if "requestBody" in operation
    ]
    return [body for content in contents for body in content.values()]
