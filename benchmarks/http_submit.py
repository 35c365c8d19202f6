"""Submits over HTTP: Windlass, durable, beside a bare FastAPI endpoint that gives its body back, in the same run."""

import asyncio
import contextlib
import json
import os
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
WORKFLOW = {"workflow_id": "bench", "nodes": {"only": {"handler": "echo", "queue": "nobody"}}}
SUBMIT = json.dumps({"workflow_id": "bench", "input_data": {"n": 1}}).encode()


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
    environment = {**os.environ, "WINDLASS_WORKER__QUEUES": '["none"]'}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
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
    """Measure both, several times in turn; the medians and their ratio."""
    ours: list[float] = []
    theirs: list[float] = []
    batch = json.dumps({"jobs": [json.loads(SUBMIT)] * BATCH}).encode()
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        Path(folder, "bench.json").write_text(json.dumps(WORKFLOW), "utf-8")
        a, b = free_port(), free_port()
        windlass = [sys.executable, "-m", "windlass", "dev", folder, "--port", str(a)]
        with served([sys.executable, "-c", ECHO, str(b)], b, folder), served(windlass, a, folder):
            for _ in range(REPEATS):
                theirs.append(asyncio.run(load(b, "/echo", SUBMIT, REQUESTS, 200)))
                ours.append(asyncio.run(load(a, "/api/v1/jobs", SUBMIT, REQUESTS, 201)))
            batches = [BATCH * asyncio.run(load(a, "/api/v1/jobs/batch", batch, BATCHES, 200)) for _ in range(REPEATS)]
    share = statistics.median(ours) / statistics.median(theirs)
    print(f"bare FastAPI endpoint   {statistics.median(theirs):>10,.0f} requests/s")
    print(f"durable single submits  {statistics.median(ours):>10,.0f} jobs/s     {share:.0%} of it (goal: 60 %)")
    best = f"best {max(batches):,.0f} (goal: 10,000)"
    print(f"batches of {BATCH}          {statistics.median(batches):>10,.0f} jobs/s     {best}")
    print(json.dumps({"bare": theirs, "single": ours, "batch": batches, "share": share}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
