"""Durable submits over HTTP, next to a bare Starlette endpoint that returns its body, in the same run.

Prints the throughput, and the CPU time of the server per request, which is less sensitive to other load.
"""

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
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
async def echo(request):
    return JSONResponse(await request.json())
app = Starlette(routes=[Route("/echo", echo, methods=["POST"])])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", access_log=False)
"""
# The worker inside the server runs the jobs of the first while they are submitted; no worker runs those of the second.
WORKFLOWS = {
    "served": {"workflow_id": "served", "nodes": {"only": {"handler": "echo"}}},
    "waiting": {"workflow_id": "waiting", "nodes": {"only": {"handler": "echo", "queue": "nobody"}}},
}
LABELS = {"served": "run by the worker in the process", "waiting": "left to other workers"}


class Measurements:
    """The rates and CPU times of repeated runs."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.cpu_microseconds: list[float] = []

    def measure(self, pid: int, port: int, path: str, body: bytes, count: int, status: int) -> None:
        """Send requests, and record requests per second and CPU time per request."""
        cpu = cpu_seconds(pid)
        self.rates.append(asyncio.run(load(port, path, body, count, status)))
        self.cpu_microseconds.append((cpu_seconds(pid) - cpu) / count * 1e6)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def cpu(self) -> float:
        return statistics.median(self.cpu_microseconds)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process; 0 on systems without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def submit_of(workflow_id: str) -> dict[str, object]:
    """Return the body of a submit."""
    return {"workflow_id": workflow_id, "input_data": {"n": 1}}


async def load(port: int, path: str, body: bytes, count: int, expected: int) -> float:
    """Send requests over persistent connections; return requests per second."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    remaining = iter(range(count))

    async def send_requests() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in remaining:
            writer.write(request)
            response = await reader.readuntil(b"\r\n\r\n")
            status = int(response[9:12])
            length = int(response.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            content = await reader.readexactly(length)
            assert status == expected, (status, content[:200])
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(send_requests() for _ in range(CONNECTIONS)))
    return count / (time.perf_counter() - started)


@contextlib.contextmanager
def server(command: list[str], port: int, folder: str) -> Iterator[int]:
    """Run a server in its own process until the block ends; yields its process id."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + START_SECONDS_MAX
    try:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"server did not start: {command[:3]}")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Measure the bare endpoint and both kinds of submit in turn, several times, and print the medians."""
    singles = {name: Measurements() for name in ("bare", *WORKFLOWS)}
    batches = {name: Measurements() for name in WORKFLOWS}
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        for name, workflow in WORKFLOWS.items():
            Path(folder, f"{name}.json").write_text(json.dumps(workflow), "utf-8")
        port, bare_port = free_port(), free_port()
        windlass = [sys.executable, "-m", "windlass", "dev", folder, "--port", str(port)]
        echo = [sys.executable, "-c", ECHO, str(bare_port)]
        with server(echo, bare_port, folder) as bare_pid, server(windlass, port, folder) as pid:
            for _ in range(REPEATS):
                body = json.dumps(submit_of("bare")).encode()
                singles["bare"].measure(bare_pid, bare_port, "/echo", body, REQUESTS, 200)
                for name in WORKFLOWS:
                    body = json.dumps(submit_of(name)).encode()
                    singles[name].measure(pid, port, "/api/v1/jobs", body, REQUESTS, 201)
            for name in WORKFLOWS:
                body = json.dumps({"jobs": [submit_of(name)] * BATCH}).encode()
                for _ in range(REPEATS):
                    batches[name].measure(pid, port, "/api/v1/jobs/batch", body, BATCHES, 200)
    report(singles, batches)
    return 0


def report(singles: dict[str, Measurements], batches: dict[str, Measurements]) -> None:
    """Print the medians, and all values as JSON."""
    bare = singles["bare"]
    print(f"{'bare Starlette endpoint':<50} {bare.rate:>8,.0f} requests/s  {bare.cpu:>5,.0f} us CPU")
    for name, label in LABELS.items():
        single = singles[name]
        share = single.rate / bare.rate
        print(f"{'durable submits, ' + label:<50} {single.rate:>8,.0f} jobs/s {single.cpu:>9,.0f} us CPU  {share:.0%}")
        print(f"{f'  in batches of {BATCH}':<50} {batches[name].rate * BATCH:>8,.0f} jobs/s (goal: 10,000)")
    values = {name: {"rates": one.rates, "cpu_microseconds": one.cpu_microseconds} for name, one in singles.items()}
    print(json.dumps(values))


if __name__ == "__main__":
    sys.exit(main())
