"""Durable submits over HTTP, next to a bare Starlette endpoint that returns its body, in the same run.

`python benchmarks/http_submit.py SOURCES` compares this version with another one, whose package is in the folder
SOURCES: short bursts of submits alternate between the two servers, so that other load affects both alike.
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
START_SECONDS_MAX = 60.0
# A comparison: bursts per server, and requests per burst.
BURSTS, BURST = 60, 250

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
    "waiting": {
        "workflow_id": "waiting",
        "nodes": {"only": {"handler": "echo", "queue": "unserved"}},
    },
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
    nanoseconds = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        nanoseconds += int(path.read_text("utf-8").split()[0])
    return nanoseconds / 1e9


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
def server(command: list[str], port: int, folder: str, sources: str | None = None) -> Iterator[int]:
    """Run a server in its own process until the block ends; yields its process id."""
    environment = dict(os.environ)
    if sources is not None:
        environment["PYTHONPATH"] = sources
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


@contextlib.contextmanager
def windlass(sources: str | None = None) -> Iterator[tuple[int, int]]:
    """Run a Windlass server with the benchmark's workflows; yields its process id and its port."""
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        for name, workflow in WORKFLOWS.items():
            Path(folder, f"{name}.json").write_text(json.dumps(workflow), "utf-8")
        port = free_port()
        command = [sys.executable, "-m", "windlass", "dev", folder, "--port", str(port)]
        with server(command, port, folder, sources) as pid:
            yield pid, port


def measure() -> None:
    """Measure the bare endpoint and both kinds of submit in turn, several times, and print the medians."""
    singles = {name: Measurements() for name in ("bare", *WORKFLOWS)}
    batches = {name: Measurements() for name in WORKFLOWS}
    bare_port = free_port()
    echo = [sys.executable, "-c", ECHO, str(bare_port)]
    with server(echo, bare_port, tempfile.gettempdir()) as bare_pid, windlass() as (pid, port):
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


def compare(other: str) -> None:
    """Alternate bursts of submits between this version and another, and print the medians and their ratio."""
    body = json.dumps(submit_of("waiting")).encode()
    ours, theirs = Measurements(), Measurements()
    with windlass() as own_server, windlass(other) as other_server:
        for _ in range(BURSTS):
            for measurements, (pid, port) in ((ours, own_server), (theirs, other_server)):
                measurements.measure(pid, port, "/api/v1/jobs", body, BURST, 201)
    for label, one in (("this version", ours), (other, theirs)):
        print(f"{label:<50} {one.rate:>8,.0f} jobs/s {one.cpu:>9,.0f} us CPU")
    rates = statistics.median(
        own / their for own, their in zip(ours.rates, theirs.rates, strict=True)
    )
    cpu = ours.cpu / (theirs.cpu or 1.0)
    print(f"{'ratio':<50} {rates:>8.2f}        {cpu:>9.2f}")


def main() -> int:
    """Measure this version, or compare it with the one whose sources are given."""
    if len(sys.argv) > 1:
        compare(str(Path(sys.argv[1]).resolve()))
    else:
        measure()
    return 0


def report(singles: dict[str, Measurements], batches: dict[str, Measurements]) -> None:
    """Print the medians, and all values as JSON."""
    bare = singles["bare"]
    print(
        f"{'bare Starlette endpoint':<50} {bare.rate:>8,.0f} requests/s  {bare.cpu:>5,.0f} us CPU"
    )
    for name, label in LABELS.items():
        single = singles[name]
        share = single.rate / bare.rate
        print(
            f"{'durable submits, ' + label:<50} {single.rate:>8,.0f} jobs/s {single.cpu:>9,.0f} us CPU  {share:.0%}"
        )
        print(
            f"{f'  in batches of {BATCH}':<50} {batches[name].rate * BATCH:>8,.0f} jobs/s (goal: 10,000)"
        )
    values = {
        name: {"rates": one.rates, "cpu_microseconds": one.cpu_microseconds}
        for name, one in singles.items()
    }
    print(json.dumps(values))


if __name__ == "__main__":
    sys.exit(main())
