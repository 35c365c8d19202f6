"""The benchmarks: an embedded engine with durable commits and events, in one process."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from windlass.cli.bench.child import LOOP_FAN, LOOP_SMALL
from windlass.cli.bench.engine import deploy, run_job, run_jobs, with_engine
from windlass.cli.bench.measurement import Measurement, highest, lowest, run_child, single
from windlass.cli.bench.workflows import (
    LARGE_DEPTH,
    LARGE_LANES,
    LARGE_NODES,
    Document,
    chain,
    fan,
    lanes,
)
from windlass.cli.runner import run_async
from windlass.embedded import Embedded

JOBS, JOB_NODES = 1_000, 3
MILLISECONDS = 1_000


def run_benchmarks(names: Sequence[str], repeats: int) -> list[Measurement]:
    """Return the measurements of the named benchmarks, in the order of the suite."""
    suite: dict[str, Callable[[], list[Measurement]]] = {
        "chain": lambda: [measure_chain(repeats)],
        "fan": lambda: [measure_fan("fan", 1_000, repeats, ">= 20,000")],
        "jobs": lambda: [measure_jobs(repeats)],
        "bigfan": lambda: [measure_fan("big fan", 10_000, repeats, ">= 25,000")],
        "idle": measure_idle,
        "cold": lambda: [measure_cold_start(repeats)],
        "large": measure_large,
        "loop": measure_loop,
        "million": measure_million,
    }
    measurements: list[Measurement] = []
    for name, measure in suite.items():
        if name in names:
            measurements += measure()
    return measurements


def measure_chain(repeats: int) -> Measurement:
    """Measure nodes in sequence."""
    seconds = _run_repeatedly(chain(100), repeats)
    costs = [one / 100 * MILLISECONDS for one in seconds]
    return lowest("chain: 100 nodes in sequence", "ms/node", costs, "<= 0.6")


def measure_fan(name: str, width: int, repeats: int, goal: str) -> Measurement:
    """Measure parallel nodes."""
    seconds = _run_repeatedly(fan(width), repeats)
    speeds = [(width + 2) / one for one in seconds]
    return highest(f"{name}: 1 -> {width:,} -> 1", "nodes/s", speeds, goal)


def _run_repeatedly(document: Document, repeats: int) -> list[float]:
    """Return the seconds of each job."""
    nodes = len(document["nodes"])

    async def measure(engine: Embedded) -> list[float]:
        workflow_id = await deploy(engine, document)
        return [await run_job(engine, workflow_id, nodes) for _ in range(repeats)]

    return run_async(with_engine(measure))


def measure_jobs(repeats: int) -> Measurement:
    """Measure many small jobs."""

    async def measure(engine: Embedded) -> list[float]:
        workflow_id = await deploy(engine, chain(JOB_NODES))
        return [
            JOB_NODES * JOBS / await run_jobs(engine, workflow_id, JOBS) for _ in range(repeats)
        ]

    speeds = run_async(with_engine(measure))
    return highest(f"jobs: {JOBS} jobs of {JOB_NODES} nodes", "nodes/s", speeds, ">= 20,000")


def measure_idle() -> list[Measurement]:
    """Measure an engine without work."""
    values = run_child("idle")
    return [
        single("idle: CPU", "% of a core", values["cpu_percent"], "< 0.5"),
        single("idle: memory", "MB", values["memory_mb"], "< 100"),
    ]


def measure_cold_start(repeats: int) -> Measurement:
    """Measure `windlass run` on a new database, including the start of the interpreter."""
    document = {"workflow_id": "cold", "nodes": {"only": {"handler": "echo"}}}
    seconds: list[float] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
            file = Path(folder) / "cold.json"
            file.write_text(json.dumps(document), "utf-8")
            command = [sys.executable, "-m", "windlass", "run", str(file), "--json"]
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, cwd=folder)
            seconds.append(time.perf_counter() - started)
    return lowest("cold start: windlass run of one node", "s", seconds, "< 1")


def measure_large() -> list[Measurement]:
    """Measure a workflow of 100,000 nodes."""
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        file = Path(folder) / "large.json"
        file.write_text(json.dumps(lanes(LARGE_LANES, LARGE_DEPTH)), "utf-8")
        values = run_child("large", str(file))
    name = f"{LARGE_NODES:,} nodes"
    return [
        single(f"{name}: validate (JSON)", "s", values["validate"], "< 3"),
        single(f"{name}: run", "nodes/s", values["speed"]),
        single(f"{name}: cost per node, compared with 1,000", "x", values["growth"], "<= 1.2"),
        single(f"{name}: peak memory", "MB", values["peak_mb"], "< 400"),
    ]


def measure_loop() -> list[Measurement]:
    """Measure a loop of 100,000 elements."""
    return _loop_measurements(
        100_000, share_goal=">= 60", growth_goal="<= 1.2", memory_goal="< 400"
    )


def measure_million() -> list[Measurement]:
    """Measure a loop of a million items, which takes minutes."""
    return _loop_measurements(1_000_000, share_goal="", growth_goal="", memory_goal="")


def _loop_measurements(
    items: int, *, share_goal: str, growth_goal: str, memory_goal: str
) -> list[Measurement]:
    values = run_child("loop", str(items))
    name = f"loop of {items:,}"
    speed = 1 / values["large"]
    share = speed / values["fan"] * 100
    growth = values["large"] / values["small"]
    return [
        single(f"{name}: run", "items/s", speed),
        single(f"{name}: speed, compared with a fan of {LOOP_FAN:,}", "%", share, share_goal),
        single(f"{name}: cost per item, compared with {LOOP_SMALL:,}", "x", growth, growth_goal),
        single(f"{name}: peak memory", "MB", values["peak_mb"], memory_goal),
    ]
