"""The example worker in JavaScript, run by Node.js against a real server."""

import asyncio
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.api.worker_server import ENDS_SECONDS, Server, serving

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "node_worker"
PAUSE = """
workflow_id: pause
defaults: {queue: node}
nodes:
  wait: {handler: pause, params: {seconds: "{{ input.seconds }}"}}
"""

LOOP = """
workflow_id: titles
defaults: {queue: node}
nodes:
  slugs:
    handler: slugify
    loop: {collection: "{{ input.titles }}", element: title, concurrency: 8}
    params: {text: "{{ title }}"}
"""
SINK = """
workflow_id: kept
defaults: {queue: node}
nodes:
  slug: {handler: slugify, params: {text: A}, sink: {tool: file, path: slugs.jsonl}}
"""


class NodeWorker:
    """A worker process and its output."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def printed(self, text: str) -> str:
        """Wait for a line of output that contains the text and return it."""
        assert self.process.stdout is not None
        async with asyncio.timeout(ENDS_SECONDS):
            async for line in self.process.stdout:
                self.lines.append(line.decode().rstrip())
                if text in self.lines[-1]:
                    return self.lines[-1]
        raise AssertionError(f"no line contains {text!r}: {self.lines}")

    async def stopped(self) -> int:
        """Stop the process and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(ENDS_SECONDS):
            return await self.process.wait()


@asynccontextmanager
async def node_worker(
    url: str, worker_id: str = "js-1", **settings: object
) -> AsyncIterator[NodeWorker]:
    variables = {f"NODE_WORKER_{name.upper()}": str(value) for name, value in settings.items()}
    process = await asyncio.create_subprocess_exec(
        "node",
        str(EXAMPLE / "worker.mjs"),
        env={
            "PATH": os.environ["PATH"],
            "WINDLASS_SERVER": url,
            "NODE_WORKER_ID": worker_id,
            **variables,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield NodeWorker(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as server:
        await server.deploy((EXAMPLE / "workflow.yaml").read_text(encoding="utf-8"))
        await server.deploy(PAUSE)
        yield server


async def test_the_example_runs_as_documented(server: Server) -> None:
    async with node_worker(server.url):
        created = await server.post("/jobs", {"workflow_id": "article"}, 201)
        job = await server.get(f"/jobs/{created['job_id']}", wait="20s")

    assert job["status"] == "completed"
    assert job["result_data"] == {
        "slug": {"slug": "ein-schiff-wird-kommen-uber-das-meer"},
        "words": {
            "words": 7,
            "most": [
                {"word": "the", "count": 3},
                {"word": "sea", "count": 2},
                {"word": "and", "count": 1},
            ],
        },
        "page": {
            "echoed_params": {"path": "/articles/ein-schiff-wird-kommen-uber-das-meer", "words": 7}
        },
    }


async def test_bad_params_fail_the_node_without_another_attempt(server: Server) -> None:
    await server.deploy(
        "{workflow_id: bad, nodes: {words: {handler: wordcount, queue: node, params: {}, retry: 3}}}"
    )
    async with node_worker(server.url):
        job_id = await server.submit("bad")
        job = await server.ended(job_id)

    assert job.state.status == "failed"
    assert (await server.error(job_id, "words"))["type"] == "params_invalid"
    assert (await server.events(job_id)).count("node_started") == 1


async def test_an_unknown_handler_is_named_in_the_error(server: Server) -> None:
    await server.deploy(
        "{workflow_id: unknown, nodes: {odd: {handler: constructor, queue: node, params: {}}}}"
    )
    async with node_worker(server.url):
        job_id = await server.submit("unknown")
        await server.ended(job_id)

    assert "no handler is called 'constructor'" in (await server.error(job_id, "odd"))["message"]


async def test_a_loop_is_shared_by_two_workers_and_its_results_are_in_order(server: Server) -> None:
    await server.deploy(LOOP)
    async with node_worker(server.url, worker_id="js-1"), node_worker(server.url, worker_id="js-2"):
        job_id = await server.submit("titles", titles=[f"No {number}" for number in range(30)])
        job = await server.ended(job_id)

    assert job.state.status == "completed"
    assert await server.output(job_id, "slugs") == [
        {"slug": f"no-{number}"} for number in range(30)
    ]
    assert (await server.events(job_id)).count("iteration_started") == 30


async def test_an_unsupported_sink_fails_the_task(server: Server) -> None:
    await server.deploy(SINK)
    async with node_worker(server.url):
        job_id = await server.submit("kept")
        job = await server.ended(job_id)

    assert job.state.status == "failed"
    assert (await server.error(job_id, "slug"))["type"] == "sink_not_found"


async def test_many_tasks_are_shared_by_two_workers_and_each_runs_once(server: Server) -> None:
    async with node_worker(server.url, worker_id="js-1"), node_worker(server.url, worker_id="js-2"):
        jobs = [
            await server.submit("article", title=f"no {number}", body="a b") for number in range(40)
        ]
        statuses = [(await server.ended(job_id)).state.status for job_id in jobs]

    assert statuses == ["completed"] * 40
    for job_id in jobs:
        assert (await server.events(job_id)).count("node_started") == 3


async def test_a_cancelled_task_is_stopped(server: Server) -> None:
    async with node_worker(server.url, heartbeat_seconds=0.1, concurrency=1) as worker:
        job_id = await server.submit("pause", seconds=600)
        await worker.printed("claimed")
        await server.engine.jobs.cancel(job_id)
        await worker.printed("stopped")

        following = await server.submit("pause", seconds=0)
        assert (await server.ended(following)).state.status == "completed"

    assert (await server.store.jobs.get(job_id)).state.status == "cancelled"


async def test_heartbeats_adapt_to_the_timeout_of_the_engine(tmp_path: Path) -> None:
    async with serving(tmp_path, worker_timeout_seconds=3.0) as server:
        await server.deploy(PAUSE)
        async with node_worker(server.url, heartbeat_seconds=60) as worker:
            job_id = await server.submit("pause", seconds=5)
            await worker.printed("heartbeats every 1 s")
            await server.ended(job_id)

        assert "worker_lost" not in await server.events(job_id)


async def test_a_stop_lets_running_tasks_finish(server: Server) -> None:
    async with node_worker(server.url) as worker:
        job_id = await server.submit("pause", seconds=0.5)
        await worker.printed("claimed")

        assert await worker.stopped() == 0

    assert (await server.ended(job_id)).state.status == "completed"


async def test_an_immediate_stop_returns_tasks(server: Server) -> None:
    async with node_worker(server.url, grace_seconds=0.1) as worker:
        job_id = await server.submit("pause", seconds=600)
        await worker.printed("claimed")

        assert await worker.stopped() == 0

    (task,) = await server.claim("node", worker_id="another")
    assert (task["job_id"], task["attempt"], task["retry_count"]) == (job_id, 2, 0)


async def test_the_worker_waits_for_an_unreachable_server(tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    async with node_worker(f"http://127.0.0.1:{port}") as worker:
        await worker.printed("ECONNREFUSED")

        async with serving(tmp_path, port=port) as server:
            await server.deploy(PAUSE)
            job_id = await server.submit("pause", seconds=0)
            assert (await server.ended(job_id)).state.status == "completed"


async def test_a_result_is_reported_after_the_server_restarts(tmp_path: Path) -> None:
    async with serving(tmp_path) as before:
        await before.deploy(PAUSE)
        job_id = await before.submit("pause", seconds=1)
        port = int(before.url.rpartition(":")[2])
        stack = node_worker(before.url)
        worker = await stack.__aenter__()
        await worker.printed("claimed")
    try:
        await worker.printed("ECONNREFUSED")
        async with serving(tmp_path, port=port) as after:
            assert (await after.ended(job_id)).state.status == "completed"
            assert (await after.events(job_id)).count("node_completed") == 1
    finally:
        await stack.__aexit__(None, None, None)


def test_the_example_reads_no_settings_of_windlass() -> None:
    # The command line rejects variables with the prefix WINDLASS_ that are not settings.
    names = set(re.findall(r"process\.env\.(\w+)", (EXAMPLE / "worker.mjs").read_text()))

    assert {name for name in names if name.startswith("WINDLASS_")} == {"WINDLASS_SERVER"}
