"""How long work stops when a process dies: until another engine dispatches its jobs, or another worker runs its task.

Also when Redis loses its contents at the same time. Run `python -m benchmarks.failover` in the top folder. It uses the
default settings unless `--fast` is given.
"""

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.chaos.handlers import FOLDER
from benchmarks.results import percentile
from tests.servers import new_database, send_redis
from tests.system.fleet import FAST, Fleet, durable_postgres, durable_redis, rows, until
from windlass.client import Client

KILLS = 20
WORKER_KILLS = 3
FLUSHES = 10
JOBS = 24
STEPS = 400
SETTLE_SECONDS = 2.0
WAIT_SECONDS_MAX = 60.0
HANDLERS = "benchmarks.chaos.handlers"
NEXT_DISPATCHES = """
select job_id, min(extract(epoch from at)) as at from event_list
 where job_id = any ($1::text[]) and event_type = 'node_dispatched' and at > to_timestamp($2) group by job_id
"""


def steady() -> dict[str, Any]:
    """Return a long chain of short nodes."""
    return {
        f"n{at}": {
            "handler": "work",
            "dependencies": [f"n{at - 1}"] if at else [],
            "params": {"seconds": 0.02},
        }
        for at in range(STEPS)
    }


async def engine_deaths(fleet: Fleet, client: Client, url: str, kills: int) -> list[float]:
    """Return the seconds from the kill to the next dispatch, for each job of the killed engine."""
    engines = [await fleet.engine("engine-1"), await fleet.engine("engine-2")]
    found: list[float] = []
    for at in range(kills):
        await asyncio.sleep(SETTLE_SECONDS)
        jobs = [(await client.jobs.submit("steady", {"kill": at})).job_id for _ in range(JOBS)]
        await asyncio.sleep(SETTLE_SECONDS)
        victim = engines[at % 2]
        query = "select job_id from jobs join shards using (shard) where owner = $1 and job_id = any ($2::text[])"
        held = [row["job_id"] for row in await rows(url, query, victim.id, jobs)]
        await victim.kill()
        killed_at = time.time()
        # Events of the killed engine have an earlier time.

        async def all_continue(
            held: list[str] = held, since: float = killed_at
        ) -> list[float] | None:
            seen = await rows(url, NEXT_DISPATCHES, held, since)
            return [float(row["at"]) - since for row in seen] if len(seen) == len(held) else None

        found += await until(
            all_continue, WAIT_SECONDS_MAX, "all jobs of the killed engine continue"
        )
        for job_id in jobs:
            await client.jobs.cancel(job_id)
        engines[at % 2] = await fleet.engine(victim.name)
    return found


async def worker_deaths(
    fleet: Fleet,
    client: Client,
    workers: dict[str, Any],
    kills: int,
    after_kill: Callable[[], object] = lambda: None,
) -> list[float]:
    """Return the seconds from the kill of a worker to the start of its task on another one."""
    found: list[float] = []
    for _ in range(kills):
        job = await client.jobs.submit("long")

        async def runs(job_id: str = job.job_id) -> list[dict[str, Any]]:
            return executions(fleet.folder / FOLDER, job_id)

        [first] = await until(runs, WAIT_SECONDS_MAX, "the task runs")
        victim = workers.pop(first["worker_id"])
        await victim.kill()
        after_kill()
        killed_at = time.time()

        async def runs_again(job_id: str = job.job_id) -> dict[str, Any] | None:
            seen = executions(fleet.folder / FOLDER, job_id)
            return max(seen, key=lambda run: run["started_at"]) if len(seen) > 1 else None

        second = await until(runs_again, WAIT_SECONDS_MAX, "the task runs elsewhere")
        found.append(second["started_at"] / 1_000_000 - killed_at)
        await client.jobs.cancel(job.job_id)
        process = await fleet.worker(victim.name, imports=HANDLERS)
        workers[process.id] = process
        await asyncio.sleep(SETTLE_SECONDS)
    return found


def executions(folder: Path, job_id: str) -> list[dict[str, Any]]:
    """Return the started executions of a job."""
    if not folder.exists():
        return []
    lines = [line for file in folder.iterdir() for line in file.read_bytes().splitlines()]
    return [record for record in map(msgspec.json.decode, lines) if record.get("job_id") == job_id]


async def measure(
    folder: Path, kills: int, worker_kills: int, *, fast: bool
) -> dict[str, list[float]]:
    """Measure deaths of engines and of workers in one deployment."""
    for name in ("postgres", "redis", "processes"):
        (folder / name).mkdir()
    postgres, redis = durable_postgres(folder / "postgres"), durable_redis(folder / "redis")
    postgres.wait()
    fleet = Fleet(folder / "processes", FAST if fast else {})
    try:
        url = new_database(postgres.url, "failover")
        fleet.environment |= {"WINDLASS_DATABASE_URL": url, "WINDLASS_REDIS_URL": redis.url}
        await fleet.server()
        async with Client(fleet.url) as client:
            long = {"a": {"handler": "work", "params": {"seconds": 600}}}
            for name, nodes in (("steady", steady()), ("long", long)):
                await client.workflows.deploy(
                    msgspec.json.encode({"workflow_id": name, "nodes": nodes}), format="json"
                )
            worker = await fleet.worker("worker", imports=HANDLERS)
            engines = await engine_deaths(fleet, client, url, kills)
            await worker.stop()
            workers = {}
            for name in ("worker-1", "worker-2"):
                process = await fleet.worker(name, imports=HANDLERS)
                workers[process.id] = process
            deaths = await worker_deaths(fleet, client, workers, worker_kills)
            flushes = await worker_deaths(
                fleet, client, workers, FLUSHES, lambda: send_redis(redis.url, b"FLUSHALL")
            )
        return {
            "engine killed": sorted(engines),
            "worker killed": sorted(deaths),
            "worker killed and Redis flushed": sorted(flushes),
        }
    finally:
        await fleet.aclose()
        redis.kill()
        postgres.kill(signal.SIGQUIT)


def main() -> int:
    """Measure; print a line for each kind of process, then JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.failover", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--worker-kills", type=int, default=WORKER_KILLS)
    parser.add_argument(
        "--fast", action="store_true", help="use short leases and heartbeat timeouts"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="windlass-failover-"))
    try:
        found = asyncio.run(measure(folder, options.kills, options.worker_kills, fast=options.fast))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    goals = {
        "engine killed": "p99 <= 5 s",
        "worker killed": "<= 3 s" if options.fast else "<= 16 s",
        "worker killed and Redis flushed": "p99 <= 5 s",
    }
    for name, values in found.items():
        p50, p99 = percentile(values, 0.5), percentile(values, 0.99)
        measured = f"p50 {p50:.2f} s, p99 {p99:.2f} s, max {values[-1]:.2f} s of {len(values)}"
        print(f"{name}: {measured} (goal: {goals[name]})")
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
