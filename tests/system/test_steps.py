"""Workflows in the steps dialect with loops, pagination and sinks, on a paginated API and a real PostgreSQL."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from tests.spec import steps

PAGES = 3
ENDS_SECONDS = 60


class Api(BaseHTTPRequestHandler):
    """A paginated list at any /…/data, which can also be polled; other paths return the number of the call."""

    calls: ClassVar[Counter[str]]
    counting: ClassVar[threading.Lock]

    def do_GET(self) -> None:
        """Return a page or the number of the call."""
        address = urlsplit(self.path)
        with self.counting:
            self.calls[address.path] += 1
            times = self.calls[address.path]
        if address.path.endswith("/data"):
            page = int(parse_qs(address.query).get("page", ["1"])[0])
            name = address.path.split("/")[1]
            paging = {"page": page, "hasMore": page < PAGES}
            response = {
                "data": [{"id": f"{name}-{page}"}],
                "paging": paging,
                "hasMore": times < PAGES,
            }
        else:
            response = {"id": times}
        body = json.dumps(response).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests."""


@pytest.fixture
def api() -> Iterator[str]:
    # A new class for each test, because the class counts the calls.
    handler = type("CountingApi", (Api,), {"calls": Counter(), "counting": threading.Lock()})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def run(folder: Path, step: str, given: dict[str, object], database: str | None = None) -> Any:
    """Run a workflow of one step and return the output of the step."""
    (folder / "workflow.yaml").write_text(f"workflow_id: written\nsteps:\n{step}")
    (folder / "input.json").write_text(json.dumps(given))
    environment = {
        **os.environ,
        **({} if database is None else {"WINDLASS_CONNECTIONS__MAIN_DB": database}),
    }
    command = [
        sys.executable,
        "-m",
        "windlass",
        "run",
        "workflow.yaml",
        "--input",
        "input.json",
        "--json",
    ]
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, timeout=ENDS_SECONDS, check=False
    )
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    return json.loads(ran.stdout)["result_data"][step.split()[2]]


def execute(url: str, sql: str) -> list[tuple[Any, ...]]:
    """Execute a statement and return its rows."""

    async def fetch() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    return asyncio.run(fetch())


def test_loop_runs_code_on_every_item(tmp_path: Path) -> None:
    assert run(tmp_path, steps.PROCESS_ITEMS, {"items": [1, 2.5, "ab"]}) == [2, 5.0, "abab"]


def test_pages_are_followed_to_the_last(tmp_path: Path, api: str) -> None:
    output = run(tmp_path, steps.FETCH_DATA, {"api_url": f"{api}/one"})

    assert (output["data"], output["paging"]) == ([{"id": "one-3"}], {"page": 3, "hasMore": False})


def test_every_item_of_a_loop_follows_its_own_pages(tmp_path: Path, api: str) -> None:
    output = run(tmp_path, steps.FETCH_MULTIPLE_APIS, {"endpoints": [f"{api}/one", f"{api}/two"]})

    assert [response["data"] for response in output] == [[{"id": "one-3"}], [{"id": "two-3"}]]


def test_every_iteration_is_written_once(tmp_path: Path, api: str, postgres_url: str) -> None:
    execute(postgres_url, "create table processed_users (id integer)")

    output = run(
        tmp_path,
        steps.PROCESS_USERS,
        {"api_url": api, "users": ["ada", "alan", "grace"]},
        postgres_url,
    )

    assert sorted(response["id"] for response in output) == [1, 2, 3]
    assert execute(postgres_url, "select id from processed_users order by id") == [(1,), (2,), (3,)]


def test_every_page_is_appended_and_written_once(
    tmp_path: Path, api: str, postgres_url: str
) -> None:
    execute(postgres_url, "create table raw_data (id text)")

    output = run(tmp_path, steps.FETCH_PAGINATED_DATA, {"api_url": f"{api}/one"}, postgres_url)

    assert output == [{"id": "one-1"}, {"id": "one-2"}, {"id": "one-3"}]
    assert execute(postgres_url, "select id from raw_data order by id") == [
        ("one-1",),
        ("one-2",),
        ("one-3",),
    ]


def test_scalar_outputs_of_a_loop_are_written(tmp_path: Path, postgres_url: str) -> None:
    execute(postgres_url, "create table results (value integer)")
    # The step does not define `transform`.
    step = steps.PROCESS_BATCH.replace('"def main', '"transform = abs\\ndef main')

    output = run(tmp_path, step, {"items": [-1, 2, -3]}, postgres_url)

    assert output == [1, 2, 3]
    assert execute(postgres_url, "select value from results order by value") == [(1,), (2,), (3,)]


def test_every_polled_response_is_written(tmp_path: Path, api: str, postgres_url: str) -> None:
    execute(postgres_url, 'create table raw_pages (data jsonb, paging jsonb, "hasMore" boolean)')

    output = run(tmp_path, steps.FETCH_PAGES, {"api": f"{api}/one"}, postgres_url)

    assert output["hasMore"] is False
    assert execute(
        postgres_url, "select data->0->>'id', \"hasMore\" from raw_pages order by 2 desc"
    ) == [
        ("one-1", True),
        ("one-1", True),
        ("one-1", False),
    ]


def test_every_polled_response_of_every_item_is_written(
    tmp_path: Path, api: str, postgres_url: str
) -> None:
    execute(postgres_url, 'create table api_data (data jsonb, paging jsonb, "hasMore" boolean)')

    output = run(
        tmp_path, steps.FETCH_ALL, {"endpoints": [f"{api}/one", f"{api}/two"]}, postgres_url
    )

    assert [response["hasMore"] for response in output] == [False, False]
    assert execute(
        postgres_url, "select data->0->>'id', count(*) from api_data group by 1 order by 1"
    ) == [
        ("one-1", 3),
        ("two-1", 3),
    ]
