"""Measures DBOS on a private PostgreSQL with fsync, with the workloads of `benchmarks.distributed`.

Run `python -m benchmarks.dbos_peer` in the top folder. The last line is JSON.
"""

import json
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dbos import DBOS, DBOSConfig

from tests.servers import new_database
from tests.system.fleet import durable_postgres

REPEATS = 2
JOBS = 1_000
WIDE = 10_000
QUEUE = "bench"
POLL_SECONDS = 0.05


@DBOS.step()
def echo() -> int:
    """Do nothing, as one node."""
    return 0


@DBOS.workflow()
def chained(length: int) -> int:
    """Run nodes one after the other."""
    return sum(echo() for _ in range(length))


@DBOS.workflow()
def one() -> int:
    """Run one node of a fan; only workflows run in parallel."""
    return echo()


@DBOS.workflow()
def fanned(width: int) -> int:
    """Run one node, then many in parallel, then one."""
    echo()
    handles = [DBOS.enqueue_workflow(QUEUE, one) for _ in range(width)]
    return sum(handle.get_result() for handle in handles) + echo()


def many(count: int) -> None:
    """Run many small workflows at once."""
    for handle in [DBOS.enqueue_workflow(QUEUE, chained, 3) for _ in range(count)]:
        handle.get_result()


def seconds(workload: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the median time of a workload."""
    found: list[float] = []
    for _ in range(repeats):
        started = time.perf_counter()
        workload()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def main() -> int:
    """Measure, and print JSON."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-dbos-"))
    postgres = durable_postgres(folder)
    postgres.wait()
    try:
        url = new_database(postgres.url, "dbos")
        config: DBOSConfig = {"name": "bench", "system_database_url": url, "log_level": "ERROR"}
        DBOS(config=config)
        DBOS.launch()
        DBOS.register_queue(QUEUE, polling_interval_sec=POLL_SECONDS)
        chained(3)
        medians = {
            "chain": seconds(lambda: chained(100)) / 100 * 1000,
            "fan": 1_002 / seconds(lambda: fanned(1_000)),
            "jobs": 3 * JOBS / seconds(lambda: many(JOBS)),
        }
        if "--wide" in sys.argv:
            medians["bigfan"] = (WIDE + 2) / seconds(lambda: fanned(WIDE), 1)
        DBOS.destroy()
        print(json.dumps(medians))
        return 0
    finally:
        postgres.kill(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
