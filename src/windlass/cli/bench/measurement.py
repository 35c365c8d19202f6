"""Measured values, their table, and measurements in separate processes."""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct


class Measurement(Struct, frozen=True):
    """The median and the best of repeated measurements."""

    workload: str
    unit: str
    median: float
    best: float
    repeats: int
    goal: str = ""


def lowest(workload: str, unit: str, values: Sequence[float], goal: str) -> Measurement:
    """Return a measurement for which lower values are better."""
    return Measurement(
        workload, unit, statistics.median(values), min(values), repeats=len(values), goal=goal
    )


def highest(workload: str, unit: str, values: Sequence[float], goal: str) -> Measurement:
    """Return a measurement for which higher values are better."""
    return Measurement(
        workload, unit, statistics.median(values), max(values), repeats=len(values), goal=goal
    )


def single(workload: str, unit: str, value: float, goal: str = "") -> Measurement:
    """Return a measurement that was made once."""
    return Measurement(workload, unit, value, value, repeats=1, goal=goal)


def format_table(measurements: Sequence[Measurement]) -> str:
    """Return the measurements as a table."""
    width = max(len(one.workload) for one in measurements)
    lines = [f"{'workload':<{width}}  {'median':>10}  {'best':>10}  {'unit':<11}  goal"]
    lines += [
        f"{one.workload:<{width}}  {one.median:>10,.2f}  {one.best:>10,.2f}  {one.unit:<11}  {one.goal}"
        for one in measurements
    ]
    return "\n".join(lines)


def run_child(name: str, argument: str = "") -> dict[str, float]:
    """Run a measurement in a separate process, so that its memory and CPU time are its own."""
    command = [sys.executable, "-m", "windlass.cli.bench.child", name, argument]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def resident_mb() -> float:
    """Return the memory of this process."""
    return _memory_mb("VmRSS")


def peak_mb() -> float:
    """Return the peak memory of this process."""
    return _memory_mb("VmHWM")


def _memory_mb(field: str) -> float:
    # Not getrusage: there, the peak of a child is at least that of its parent.
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)
