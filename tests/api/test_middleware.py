"""The request guard: sizes, hosts, origins, content types, request ids, headers and the access log."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tests.api.harness import API, System
from windlass.core.errors import CommitUnknown, StoreUnavailable

CHUNK = b"x" * 65_536
TRAVERSALS = [
    "..", "...", "..%2f..%2fetc%2fpasswd", "%2e%2e", "%2e%2e%2f", "..%5c..%5cwindows", "%252e%252e%252f", "..%c0%af",
    "..%ef%bc%8f", "%2fetc%2fpasswd", "~", "~root", "a%00", "a%00.json", "%00", "a%0a", "a%0d%0ax", "a%20", "%20a",
    "a%3bx", "a;x=1", "a.b", ".hidden", "a%2fb", "a%5cb", "C:", "C:%5cx", "file:%2f%2fx", "%25", "%3f", "%23", "*",
    "a*", "$(id)", "`id`", "a|b", "a&b", "%e2%80%ae", "\u202e", "%ff",
]  # fmt: skip


async def test_there_are_forty_traversals() -> None:
    assert len(set(TRAVERSALS)) == 40


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("spelling", TRAVERSALS)
async def test_an_id_is_not_used_as_a_path(system: System, tmp_path: Path, spelling: str) -> None:
    await system.deploy()
    before = names(tmp_path)

    answers = [
        await system.client.get(f"{API}/{path}".format(spelling))
        for path in (
            "jobs/{}",
            "jobs/{}/events",
            "jobs/x/nodes/{}",
            "workflows/{}",
            "workflows/chain/versions/{}",
        )
    ]

    # The client removes dot segments from the path, so the request reaches another route.
    allowed = (
        {200, 404, 405, 422} if set(spelling.replace("%2e", ".")) <= {"."} else {404, 405, 422}
    )
    assert {answer.status_code for answer in answers} <= allowed
    assert names(tmp_path) == before


@pytest.mark.parametrize("name", ["a" * 129, "a.b", "ä", "a b"])
async def test_an_id_out_of_bounds_is_refused(client: httpx2.AsyncClient, name: str) -> None:
    response = await client.get(f"{API}/jobs/{name}")

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "job_id"


# Bodies


async def test_an_endless_body_is_refused_at_the_limit(client: httpx2.AsyncClient) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(80_000):
            sent += len(CHUNK)
            yield CHUNK

    response = await client.post(
        f"{API}/jobs", content=endless(), headers={"content-type": "application/json"}
    )

    assert response.status_code == 413
    assert response.headers["connection"] == "close"
    assert sent <= (1 << 20) + 2 * len(CHUNK)


async def test_the_size_of_a_body_is_counted_whatever_length_is_declared(
    client: httpx2.AsyncClient,
) -> None:
    headers = {"content-type": "application/json", "content-length": "10"}

    response = await client.post(f"{API}/jobs", content=b"x" * (2 << 20), headers=headers)

    assert response.status_code == 413


async def test_a_length_over_the_limit_is_refused_unread(system: System) -> None:
    read = False

    async def receive() -> Any:
        nonlocal read
        read = True
        return {"type": "http.request", "body": b"", "more_body": False}

    status, _ = await raw(
        system,
        "POST",
        f"{API}/jobs",
        receive,
        content_type="application/json",
        content_length=str(5 << 30),
    )

    assert (status, read) == (413, False)


@pytest.mark.parametrize("length", ["x", "-1", "1,2", ""])
async def test_a_length_that_is_not_a_number_is_refused(system: System, length: str) -> None:
    status, _ = await raw(
        system, "POST", f"{API}/jobs", content_type="application/json", content_length=length
    )

    assert status == 400


@pytest.mark.parametrize(("extra", "status"), [(-1, 404), (0, 404), (1, 413)])
async def test_the_body_limit_is_exact(tmp_path: Path, extra: int, status: int) -> None:
    body = b'{"workflow_id": "absent"}'
    async with System.running(tmp_path, worker=False, body_bytes_max=1_000) as system:
        padded = body + b" " * (1_000 - len(body) + extra)

        response = await system.client.post(
            f"{API}/jobs", content=padded, headers={"content-type": "application/json"}
        )

    assert response.status_code == status


async def test_documents_have_their_own_limit(tmp_path: Path) -> None:
    async with System.running(
        tmp_path, worker=False, body_bytes_max=100, document_bytes_max=10_000
    ) as system:
        document = {
            "workflow_id": "j",
            "description": "x" * 1_000,
            "nodes": {"a": {"handler": "echo"}},
        }

        taken = await system.client.post(f"{API}/workflows", json=document)
        refused = await system.client.post(
            f"{API}/workflows", json={**document, "description": "x" * 10_000}
        )

    assert (taken.status_code, refused.status_code) == (201, 413)


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "text/plain; application/json",
        "",
        "*/*",
    ],
)
async def test_json_with_another_content_type_is_refused(system: System, content_type: str) -> None:
    await system.deploy()

    response = await system.client.post(
        f"{API}/jobs", content=b'{"workflow_id": "chain"}', headers={"content-type": content_type}
    )

    assert response.status_code == 415
    assert (await system.client.get(f"{API}/jobs")).json()["items"] == []


async def test_a_submit_in_yaml_is_refused(system: System) -> None:
    await system.deploy()

    response = await system.client.post(
        f"{API}/jobs", content=b"workflow_id: chain", headers={"content-type": "application/yaml"}
    )

    assert response.status_code == 415


# Hosts and origins


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8470", 200),
        ("127.0.0.1", 200),
        ("127.0.0.1:8470", 200),
        ("[::1]", 200),
        ("[::1]:8470", 200),
        ("evil.test", 421),
        ("evil.test:8470", 421),
        ("localhost.evil.test", 421),
        ("127.0.0.1.evil.test", 421),
        ("localhost@evil.test", 421),
        ("127.0.0.2", 421),
        ("0.0.0.0", 421),
        ("", 421),
        ("localhost,evil.test", 421),
    ],
)
async def test_only_known_hosts_are_served(system: System, host: str, status: int) -> None:
    assert (await raw(system, "GET", "/livez", host=host))[0] == status


async def test_a_repeated_host_header_is_refused(system: System) -> None:
    scope_headers = [(b"host", b"localhost"), (b"host", b"evil.test")]

    assert (await raw(system, "GET", "/livez", headers=scope_headers))[0] == 421


async def test_a_configured_host_is_served(tmp_path: Path) -> None:
    async with System.running(
        tmp_path, worker=False, allowed_hosts=("windlass.example",)
    ) as system:
        assert (await raw(system, "GET", "/livez", host="windlass.example:443"))[0] == 200
        assert (await raw(system, "GET", "/livez", host="localhost"))[0] == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 404),
        ({"origin": "http://localhost"}, 404),
        ({"origin": "http://localhost", "sec-fetch-site": "same-origin"}, 404),
        ({"sec-fetch-site": "none"}, 404),
        ({"origin": "http://evil.test"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "http://localhost.evil.test"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://localhost", "sec-fetch-site": "cross-site"}, 403),
    ],
)
async def test_cross_site_requests_are_refused(
    client: httpx2.AsyncClient, headers: dict[str, str], status: int
) -> None:
    assert (await client.post(f"{API}/jobs/absent/cancel", headers=headers)).status_code == status


async def test_cross_site_reads_are_allowed(client: httpx2.AsyncClient) -> None:
    response = await client.get(
        f"{API}/jobs", headers={"origin": "http://evil.test", "sec-fetch-site": "cross-site"}
    )

    assert response.status_code == 200
    assert "access-control-allow-origin" not in response.headers


async def test_websockets_are_refused(system: System) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    await system.app(
        {"type": "websocket", "path": "/", "headers": [], "query_string": b""}, receive, send
    )

    assert sent == [{"type": "websocket.close", "code": 1008}]


# Responses


@pytest.mark.parametrize("path", ["/livez", f"{API}/jobs", f"{API}/nowhere", f"{API}/jobs/..;"])
async def test_every_response_has_security_headers(client: httpx2.AsyncClient, path: str) -> None:
    headers = (await client.get(path)).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", f"{API}/jobs/", 404),
        ("DELETE", f"{API}/jobs", 405),
        ("PUT", "/livez", 405),
    ],
)
async def test_unknown_paths_and_methods_are_problems(
    client: httpx2.AsyncClient, method: str, path: str, status: int
) -> None:
    response = await client.request(method, path)

    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert ("allow" in response.headers) == (status == 405)


async def test_a_valid_request_id_is_kept(client: httpx2.AsyncClient) -> None:
    response = await client.get(f"{API}/jobs/absent", headers={"x-request-id": "abc-1.2_3"})

    assert response.headers["x-request-id"] == response.json()["request_id"] == "abc-1.2_3"


@pytest.mark.parametrize("given", [b"a\x1b[31m", b"a b", b"x" * 65, b"", b"\xff"])
async def test_an_invalid_request_id_is_replaced(client: httpx2.AsyncClient, given: bytes) -> None:
    response = await client.get("/livez", headers=[(b"x-request-id", given)])

    assert len(response.headers["x-request-id"]) == 16


@pytest.mark.parametrize(
    "error", [StoreUnavailable("the disk is full"), CommitUnknown("outcome unknown")]
)
async def test_an_unavailable_database_is_a_503(
    system: System, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def broken(_: object) -> None:
        raise error

    monkeypatch.setattr(system.store.jobs, "list", broken)

    response = await system.client.get(f"{API}/jobs")

    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"


async def test_an_unexpected_error_is_logged_and_not_returned(
    system: System, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_: object) -> None:
        raise ValueError("the secret is 42")

    monkeypatch.setattr(system.store.jobs, "list", broken)

    response = await system.client.get(f"{API}/jobs", headers={"x-request-id": "find-me"})

    assert response.status_code == 500
    assert "42" not in response.text
    assert "find-me" in caplog.text or any(
        getattr(one, "request_id", "") == "find-me" for one in caplog.records
    )
    assert "the secret is 42" in caplog.text


async def test_an_access_log_line_is_json(
    client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="windlass.access"):
        await client.get(f"{API}/jobs/absent", headers={"x-request-id": "r1"})

    line = msgspec.json.decode(caplog.messages[-1])
    assert {key: line[key] for key in ("method", "route", "status", "request_id")} == {
        "method": "GET",
        "route": f"{API}/jobs/{{job_id}}",
        "status": 404,
        "request_id": "r1",
    }
    assert line["duration_ms"] >= 0


@pytest.mark.parametrize(
    "path", ["/a%0a{}", "/a%0d%0aSet-Cookie:x", "/%1b[31mred", "/%c2%9b31m", "/%e2%80%a8x"]
)
async def test_requests_cannot_inject_log_lines(
    client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    with caplog.at_level(logging.INFO, logger="windlass.access"):
        await client.get(path)

    line = caplog.messages[-1]
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["route"] is None


async def raw(
    system: System,
    method: str,
    path: str,
    receive: Any = None,
    *,
    host: str = "localhost",
    headers: list[tuple[bytes, bytes]] | None = None,
    **fields: str,
) -> tuple[int, dict[str, Any]]:
    """Send a request to the application with headers that no client would send."""
    given = headers if headers is not None else [(b"host", host.encode())]
    given += [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    sent: list[Any] = []

    async def nothing() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": given, "query_string": b""}
    await asyncio.wait_for(system.app(scope, receive or nothing, send), 10.0)
    return sent[0]["status"], msgspec.json.decode(sent[1]["body"])
