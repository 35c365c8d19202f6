"""DBOS on a private PostgreSQL with fsync: the same shapes of work as `benchmarks.distributed`.

From the top folder: `python -m benchmarks.dbos_peer`. The last line is JSON.
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
    """A no-op node."""
    return 0


@DBOS.workflow()
def chained(length: int) -> int:
    """Nodes one after another."""
    return sum(echo() for _ in range(length))


@DBOS.workflow()
def one() -> int:
    """A node of a fan, which runs beside others only as a workflow of its own."""
    return echo()


@DBOS.workflow()
def fanned(width: int) -> int:
    """One node, then many side by side, then one."""
    echo()
    handles = [DBOS.enqueue_workflow(QUEUE, one) for _ in range(width)]
    return sum(handle.get_result() for handle in handles) + echo()


def many(count: int) -> None:
    """Small workflows at once."""
    for handle in [DBOS.enqueue_workflow(QUEUE, chained, 3) for _ in range(count)]:
        handle.get_result()


def seconds(act: Callable[[], object], repeats: int = REPEATS) -> float:
    """The median time of an act."""
    found: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        act()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def main() -> int:
    """Measure; JSON."""
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
        wide = "--wide" in sys.argv
        told = {
            "chain": seconds(lambda: chained(100)) / 100 * 1000,
            "fan": 1_002 / seconds(lambda: fanned(1_000)),
            "jobs": 3 * JOBS / seconds(lambda: many(JOBS)),
            **({"bigfan": (WIDE + 2) / seconds(lambda: fanned(WIDE), 1)} if wide else {}),
        }
        DBOS.destroy()
        print(json.dumps(told))
        return 0
    finally:
        postgres.kill(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
