"""The web UI: files, compression, caching and content policy."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.api.harness import API, System
from windlass.api.ui import CONTENT_POLICY, read_ui

SCRIPT = "console.log('windlass');\n" * 100
PAGE = "<!doctype html><script type=module src=/assets/index-4f6c.js></script>"
PLAIN = {"accept-encoding": "identity"}


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "built"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "assets" / "index-4f6c.js").write_text(SCRIPT)
    (folder / "assets" / "font-90ab.woff2").write_bytes(b"\x00\x01")
    (tmp_path / "secret.txt").write_text("not for the web")
    return folder


@pytest.fixture
async def ui(tmp_path: Path, built: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with System.running(tmp_path, worker=False, ui_folder=built) as system:
        yield system.client


@pytest.mark.parametrize(
    "path", ["/", "/index.html", "/jobs", "/jobs/1m7gjrzmd8447yh6bp63mp70", "/a/b/c/", "/apix"]
)
async def test_every_path_of_the_ui_returns_its_page(ui: httpx2.AsyncClient, path: str) -> None:
    response = await ui.get(path, headers=PLAIN)

    assert (response.status_code, response.text) == (200, PAGE)
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"


async def test_the_content_policy_allows_own_resources_only(ui: httpx2.AsyncClient) -> None:
    headers = (await ui.get("/jobs")).headers

    assert headers.get_list("content-security-policy") == [CONTENT_POLICY]
    assert "unsafe" not in CONTENT_POLICY
    assert "http" not in CONTENT_POLICY
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == (
        "nosniff",
        "no-referrer",
    )


async def test_api_responses_keep_their_content_policy(ui: httpx2.AsyncClient) -> None:
    headers = (await ui.get(f"{API}/jobs")).headers

    assert headers.get_list("content-security-policy") == [
        "default-src 'none'; frame-ancestors 'none'"
    ]
    assert headers.get_list("cache-control") == ["no-store"]


async def test_files_with_hashed_names_are_immutable(ui: httpx2.AsyncClient) -> None:
    response = await ui.get("/assets/index-4f6c.js", headers=PLAIN)

    assert response.text == SCRIPT
    assert response.headers["content-type"] == "text/javascript; charset=utf-8"
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (await ui.get("/assets/font-90ab.woff2")).headers["content-type"] == "font/woff2"
    assert (await ui.get("/icon.svg")).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip, br", "gzip"),
        ("br;q=1, GZIP;q=0.5", "gzip"),
        ("*", "gzip"),
        ("gzip;q=0, br", None),
        ("br", None),
    ],
)
async def test_a_file_is_compressed_if_accepted(
    ui: httpx2.AsyncClient, accepted: str, coding: str | None
) -> None:
    async with ui.stream(
        "GET", "/assets/index-4f6c.js", headers={"accept-encoding": accepted}
    ) as response:
        raw = b"".join([chunk async for chunk in response.aiter_raw()])

    assert response.headers.get("content-encoding") == coding
    assert response.headers["vary"] == "accept-encoding"
    assert int(response.headers["content-length"]) == len(raw)
    assert (gzip.decompress(raw) if coding else raw) == SCRIPT.encode()


@pytest.mark.parametrize("path", ["/", "/jobs/x", "/assets/index-4f6c.js"])
async def test_a_head_has_the_headers_and_no_body(ui: httpx2.AsyncClient, path: str) -> None:
    whole, head = await ui.get(path, headers=PLAIN), await ui.head(path, headers=PLAIN)

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))


@pytest.mark.parametrize(
    "path",
    [
        "/secret.txt",
        "/assets/absent.js",
        "/..%2fsecret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "/assets/%2e%2e/x.js",
    ],
)
async def test_a_file_outside_the_ui_is_not_found(ui: httpx2.AsyncClient, path: str) -> None:
    response = await ui.get(path)

    assert (response.status_code, response.headers["content-type"]) == (
        404,
        "application/problem+json",
    )


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/v2/jobs", f"{API}/nothing"])
async def test_unknown_paths_of_the_api_are_problems(ui: httpx2.AsyncClient, path: str) -> None:
    response = await ui.get(path)

    assert (response.status_code, response.headers["content-type"]) == (
        404,
        "application/problem+json",
    )


async def test_nothing_can_be_posted_to_the_ui(ui: httpx2.AsyncClient) -> None:
    assert (await ui.post("/jobs", json={})).status_code == 404


async def test_the_ui_is_served_to_known_hosts_only(tmp_path: Path, built: Path) -> None:
    async with System.running(tmp_path, worker=False, ui_folder=built) as system:
        response = await system.new_client("http://evil.example").get("/")

    assert response.status_code == 421


async def test_routes_of_the_api_precede_the_ui(ui: httpx2.AsyncClient) -> None:
    assert (await ui.get("/livez")).json()["status"] == "ok"


async def test_the_openapi_document_does_not_list_the_ui(ui: httpx2.AsyncClient) -> None:
    paths = (await ui.get(f"{API}/openapi.json")).json()["paths"]

    assert {path for path in paths if not path.startswith(API)} == {
        "/livez",
        "/readyz",
        "/health",
        "/metrics",
    }


async def test_a_missing_ui_explains_how_to_build_it(client: httpx2.AsyncClient) -> None:
    response = await client.get("/")

    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert "no web UI" in response.text
    assert "make ui" in response.text
    assert API in response.text
    assert (await client.get("/jobs")).status_code == 404


def test_files_are_read_once(built: Path) -> None:
    ui = read_ui(built)
    (built / "index.html").unlink()

    assert ui.files["/"].body == PAGE.encode()
