"""Submits over HTTP: Windlass, durable, beside a bare FastAPI endpoint that gives its body back, in the same run."""

import asyncio
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CONNECTIONS = 32
REQUESTS = 4_000
BATCHES, BATCH = 20, 500
REPEATS = 3
START_SECONDS_MAX = 30.0

ECHO = """
import asyncio, sys
import uvicorn
from fastapi import FastAPI, Request
app = FastAPI()
@app.post("/echo")
async def echo(request: Request):
    return await request.json()
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", access_log=False)
"""
# The worker inside the server runs the jobs of the first while they are submitted; nobody runs those of the second.
WORKFLOWS = {
    "served": {"workflow_id": "served", "nodes": {"only": {"handler": "echo"}}},
    "waiting": {"workflow_id": "waiting", "nodes": {"only": {"handler": "echo", "queue": "nobody"}}},
}


def submit_of(workflow_id: str) -> dict[str, object]:
    """A job as a client sends it."""
    return {"workflow_id": workflow_id, "input_data": {"n": 1}}


async def load(port: int, path: str, body: bytes, count: int, expected: int) -> float:
    """Requests a second over kept-alive connections."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    left = iter(range(count))

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in left:
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            status = int(answer[9:12])
            length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            content = await reader.readexactly(length)
            assert status == expected, (status, content[:200])
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    return count / (time.perf_counter() - began)


@contextlib.contextmanager
def served(command: list[str], port: int, folder: str) -> Iterator[None]:
    """A server in a process of its own, until the block ends."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + START_SECONDS_MAX
    try:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"{command[:3]} did not start")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(20)


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Measure both kinds of job and the bare endpoint in turn, several times; the medians and their shares."""
    singles: dict[str, list[float]] = {name: [] for name in ("bare", *WORKFLOWS)}
    batches: dict[str, list[float]] = {name: [] for name in WORKFLOWS}
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        for name, workflow in WORKFLOWS.items():
            Path(folder, f"{name}.json").write_text(json.dumps(workflow), "utf-8")
        ours, bare = free_port(), free_port()
        windlass = [sys.executable, "-m", "windlass", "dev", folder, "--port", str(ours)]
        with served([sys.executable, "-c", ECHO, str(bare)], bare, folder), served(windlass, ours, folder):
            for _ in range(REPEATS):
                body = json.dumps(submit_of("bare")).encode()
                singles["bare"].append(asyncio.run(load(bare, "/echo", body, REQUESTS, 200)))
                for name in WORKFLOWS:
                    body = json.dumps(submit_of(name)).encode()
                    singles[name].append(asyncio.run(load(ours, "/api/v1/jobs", body, REQUESTS, 201)))
            for name in WORKFLOWS:
                body = json.dumps({"jobs": [submit_of(name)] * BATCH}).encode()
                rates = [asyncio.run(load(ours, "/api/v1/jobs/batch", body, BATCHES, 200)) for _ in range(REPEATS)]
                batches[name] = [BATCH * rate for rate in rates]
    median = {name: statistics.median(rates) for name, rates in singles.items()}
    print(f"bare FastAPI endpoint                          {median['bare']:>8,.0f} requests/s")
    for name, means in (("served", "the worker in the process runs them"), ("waiting", "left to other workers")):
        share = median[name] / median["bare"]
        print(f"durable submits, {means:<37} {median[name]:>6,.0f} jobs/s  {share:.0%} of it (goal: 60 %)")
        print(f"  in batches of {BATCH} {statistics.median(batches[name]):>29,.0f} jobs/s (goal: 10,000)")
    print(json.dumps({"single": singles, "batch": batches}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
