"""`make bench-shortcuts`: what each shortcut on the path of a node saves, by running without it.

A shortcut is removed by changing the package in a process of its own. Both variants run alternately. The figures are
the CPU time of the process per node, and for a chain the time from start to end per node.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import force_setattr, replace

import windlass.core.turn
import windlass.handlers
import windlass.stores.sqlite.bulk_statement
import windlass.stores.sqlite.commits
from benchmarks.results import aligned
from windlass.cli.bench.engine import deploy, run_job, run_jobs, with_engine
from windlass.cli.bench.workflows import chain, fan
from windlass.cli.runner import run_async
from windlass.core.plan import NodePlan
from windlass.embedded import Embedded
from windlass.engine.new_job_cache import NewJobCache

REPEATS = 5
JOBS, JOB_NODES = 1_000, 3
FAN_WIDTH, CHAIN_LENGTH = 1_000, 100
MICROSECONDS = 1_000_000
NONE = "none"


class Shortcut(Struct, frozen=True):
    """A shortcut: the workload that shows it, and how to remove it."""

    name: str
    adr: int
    workload: str
    remove: Callable[[], None]


def _commit_on_the_thread() -> None:
    windlass.stores.sqlite.commits.SMALL_VALUES = -1


def _write_rows_one_by_one() -> None:
    windlass.stores.sqlite.bulk_statement.SIZES = (1,)


def _check_all_guards() -> None:
    NodePlan.__post_init__ = lambda plan: force_setattr(plan, "is_plain", False)


def _write_a_row_for_each_dispatch() -> None:
    windlass.core.turn.IN_FLIGHT_ENTRIES_MAX = 0


def _read_new_jobs() -> None:
    NewJobCache.add_stored = lambda cache, spec: None


def _create_a_task_for_each_attempt() -> None:
    inject = windlass.handlers.inject
    windlass.handlers.inject = lambda declaration, available: replace(
        inject(declaration, available), suspends=True
    )


SHORTCUTS = (
    Shortcut("multi-row statements on SQLite", 4, "fan", _write_rows_one_by_one),
    Shortcut("small commits on the event loop", 17, "chain", _commit_on_the_thread),
    Shortcut("plain nodes skip guards", 18, "fan", _check_all_guards),
    Shortcut("no row for a first dispatch", 19, "jobs", _write_a_row_for_each_dispatch),
    Shortcut("new jobs start without a read", 21, "jobs", _read_new_jobs),
    Shortcut("handlers without await run in one step", 25, "fan", _create_a_task_for_each_attempt),
)


async def measure_chain(engine: Embedded) -> float:
    """Return the microseconds from start to end per node of a chain."""
    workflow_id = await deploy(engine, chain(CHAIN_LENGTH))
    seconds = [await run_job(engine, workflow_id, CHAIN_LENGTH) for _ in range(REPEATS)]
    return min(seconds) / CHAIN_LENGTH * MICROSECONDS


async def measure_fan(engine: Embedded) -> float:
    """Return the CPU time per node of a fan-out."""
    workflow_id = await deploy(engine, fan(FAN_WIDTH))
    costs: list[float] = []
    for _ in range(REPEATS):
        started = time.process_time()
        await run_job(engine, workflow_id, FAN_WIDTH + 2)
        costs.append((time.process_time() - started) / FAN_WIDTH)
    return min(costs) * MICROSECONDS


async def measure_jobs(engine: Embedded) -> float:
    """Return the CPU time per node of many small jobs."""
    workflow_id = await deploy(engine, chain(JOB_NODES))
    costs: list[float] = []
    for _ in range(REPEATS):
        started = time.process_time()
        await run_jobs(engine, workflow_id, JOBS)
        costs.append((time.process_time() - started) / (JOBS * JOB_NODES))
    return min(costs) * MICROSECONDS


WORKLOADS = {"chain": measure_chain, "fan": measure_fan, "jobs": measure_jobs}


def measure_here(removed: str, workload: str) -> float:
    """Measure a workload in this process, without the named shortcut."""
    for shortcut in SHORTCUTS:
        if shortcut.name == removed:
            shortcut.remove()
    return run_async(with_engine(WORKLOADS[workload]))


def measure_in_child(removed: str, workload: str) -> float:
    """Measure a workload in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.shortcuts", "--child", removed, workload]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    """Measure every shortcut with and without it, alternately; print a table and a JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", nargs=2, metavar=("REMOVED", "WORKLOAD"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        print(measure_here(*options.child))
        return
    rows = [["shortcut", "ADR", "workload", "with, us/node", "without", "factor"]]
    figures: dict[str, dict[str, float]] = {}
    for shortcut in SHORTCUTS:
        kept: list[float] = []
        removed: list[float] = []
        for _ in range(options.rounds):
            kept.append(measure_in_child(NONE, shortcut.workload))
            removed.append(measure_in_child(shortcut.name, shortcut.workload))
        before, after = statistics.median(kept), statistics.median(removed)
        figures[shortcut.name] = {"with": before, "without": after}
        cells = [f"{before:.1f}", f"{after:.1f}", f"{after / before:.2f} x"]
        rows.append([shortcut.name, str(shortcut.adr), shortcut.workload, *cells])
    print(aligned(rows))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
