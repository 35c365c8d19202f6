"""`make bench-distributed`: an engine and a worker process on PostgreSQL and Redis, and other systems for comparison.

Run `python -m benchmarks.distributed` in the top folder. It starts private servers: PostgreSQL with fsync, Redis with
its log flushed every second. `--profile` profiles one of the processes.
"""

import argparse
import asyncio
import io
import json
import os
import pstats
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from benchmarks.celery_peer import measure as measure_celery
from benchmarks.celery_peer import peer
from benchmarks.results import Goal, aligned
from tests.servers import new_database
from tests.system.fleet import Fleet, durable_postgres, durable_redis
from windlass.cli.bench.engine import NO_INPUT, deploy
from windlass.cli.bench.measurement import Measurement, format_table
from windlass.cli.bench.workflows import Document, chain, fan
from windlass.embedded import Embedded
from windlass.process import Roles
from windlass.server import open_server
from windlass.settings import EngineSettings, Settings

REPEATS = 5
JOBS = 1_000
ENDS_SECONDS_MAX = 300.0
PEER_REPEATS = 3
PROFILE_LINES = 45
GROUPS = ("chain", "fan", "jobs", "bigfan")
GOALS = {
    "redis": {"chain": "<= 2.5", "fan": ">= 6,000", "jobs": ">= 10,000", "bigfan": ">= 12,000"},
    "postgres": {"fan": ">= 4,000", "jobs": ">= 4,000", "bigfan": ">= 4,000"},
}


async def ended(engine: Embedded, job_ids: Sequence[str]) -> None:
    """Wait for the ends of all jobs. This process is notified: polling would slow down the measured processes."""
    async with asyncio.timeout(ENDS_SECONDS_MAX):
        await asyncio.gather(*(engine.wait_end(job_id) for job_id in job_ids))


async def check_ends(engine: Embedded, job_ids: Sequence[str]) -> None:
    """Check that every job completed."""
    statuses = Counter(one.status for one in await engine.store.jobs.positions(job_ids))
    assert statuses == {"completed": len(job_ids)}, statuses


async def one_job(engine: Embedded, document: Document) -> float:
    """Return the seconds from the submit of one job to its durable end."""
    started = time.perf_counter()
    job = await engine.submit(document["workflow_id"], NO_INPUT)
    await ended(engine, [job.spec.job_id])
    seconds = time.perf_counter() - started
    await check_ends(engine, [job.spec.job_id])
    return seconds


async def many_jobs(engine: Embedded, document: Document) -> float:
    """Return the seconds from the submit of many jobs to the last durable end."""
    started = time.perf_counter()
    jobs = await engine.submit_all(document["workflow_id"], [NO_INPUT] * JOBS)
    job_ids = [job.spec.job_id for job in jobs]
    await ended(engine, job_ids)
    seconds = time.perf_counter() - started
    await check_ends(engine, job_ids)
    return seconds


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and its children, which does not depend on the load of the machine."""
    if pid == os.getpid():
        return time.process_time()
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(folder.name) == pid:
                # User and system time, and those of children that have ended.
                total += sum(map(int, fields[11:15]))
            elif int(fields[1]) == pid:
                total += sum(map(int, fields[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


async def figures(
    engine: Embedded, broker: str, groups: Sequence[str], repeats: int, pids: Mapping[str, int]
) -> list[Measurement]:
    """Measure one deployment."""
    documents = {"chain": chain(100), "fan": fan(1_000), "jobs": chain(3), "bigfan": fan(10_000)}
    names = {
        "chain": "chain: 100 nodes one after another",
        "fan": "fan: 1 -> 1,000 -> 1",
        "jobs": f"jobs: {JOBS} jobs of 3 nodes",
        "bigfan": "big fan: 1 -> 10,000 -> 1",
    }
    found: list[Measurement] = []
    for group in groups:
        document = documents[group]
        await deploy(engine, document)
        nodes = len(document["nodes"]) * (JOBS if group == "jobs" else 1)
        run: Callable[[Embedded, Document], Awaitable[float]] = (
            many_jobs if group == "jobs" else one_job
        )
        await run(engine, document)
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        seconds = [await run(engine, document) for _ in range(repeats)]
        spent = {
            name: (cpu_seconds(pid) - before[name]) / nodes / repeats * 1e6
            for name, pid in pids.items()
        }
        costs = ", ".join(f"{name} {value:.0f}" for name, value in spent.items())
        print(f"  {names[group]}: processor time per node in µs: {costs}")
        goal = GOALS[broker].get(group, "")
        if group == "chain":
            unit, values = "ms/node", [1000 * duration / nodes for duration in seconds]
            best = min(values)
        else:
            unit, values = "nodes/s", [nodes / duration for duration in seconds]
            best = max(values)
        found.append(
            Measurement(
                workload=names[group],
                unit=unit,
                median=statistics.median(values),
                best=best,
                repeats=repeats,
                goal=goal,
            )
        )
    return found


async def measure(
    folder: Path,
    broker: str,
    groups: Sequence[str],
    repeats: int,
    shards: int,
    profiled: str | None,
) -> list[Measurement]:
    """Start one engine and one worker, and submit from this process."""
    for name in ("postgres", "redis", "processes"):
        (folder / name).mkdir(parents=True)
    postgres, redis = durable_postgres(folder / "postgres"), durable_redis(folder / "redis")
    postgres.wait()
    redis.wait()
    try:
        url = new_database(postgres.url, "bench")
        redis_url = redis.url if broker == "redis" else None
        environment = {"WINDLASS_DATABASE_URL": url, "WINDLASS_ENGINE__SHARDS": str(shards)}
        if redis_url is not None:
            environment["WINDLASS_REDIS_URL"] = redis_url
        fleet = Fleet(folder / "processes", environment)
        try:
            pids = {"postgres": postgres.pid, "redis": redis.pid, "submitter": os.getpid()}
            for kind in ("engine", "worker"):
                prefix = (
                    ("-m", "cProfile", "-o", str(folder / "profile")) if profiled == kind else ()
                )
                process = await fleet.spawn(kind, kind, python=prefix)
                await process.up()
                pids[kind] = process.pid
            settings = Settings(
                database_url=url, redis_url=redis_url, engine=EngineSettings(shards=shards)
            )
            async with open_server(settings, Roles()) as server:
                found = await figures(server.embedded, broker, groups, repeats, pids)
            for process in fleet.processes:
                await process.stop()
        finally:
            await fleet.aclose()
        if profiled is not None:
            print(_profile(folder / "profile"))
        return found
    finally:
        redis.kill()
        postgres.kill(signal.SIGQUIT)


def _profile(file: Path) -> str:
    text = io.StringIO()
    stats = pstats.Stats(str(file), stream=text).strip_dirs()
    stats.sort_stats("tottime").print_stats(PROFILE_LINES)
    stats.sort_stats("cumulative").print_stats(
        "shard.py|engine.py|postgres.py|redis|codec|worker.py|execute.py"
    )
    return text.getvalue()


def windlass(
    broker: str, groups: Sequence[str], repeats: int, shards: int, profiled: str | None
) -> list[Measurement]:
    """Measure Windlass in three processes on private servers."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-bench-"))
    try:
        return asyncio.run(measure(folder, broker, groups, repeats, shards, profiled))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def overview(
    groups: Sequence[str],
    found: Mapping[str, Sequence[Measurement]],
    peers: Mapping[str, Mapping[str, float]],
) -> str:
    """Return a table of all medians with their goals."""
    header = ["workload", "unit"]
    for broker in found:
        header += [f"Windlass, {broker}", "goal"]
    rows = [[*header, *peers]]
    for number, group in enumerate(groups):
        first = next(iter(found.values()))[number]
        row = [first.workload, first.unit]
        for figures_of_broker in found.values():
            figure = figures_of_broker[number]
            goal = Goal(figure.goal).shown(figure.median) if figure.goal else ""
            row += [f"{figure.median:,.2f}", goal]
        for medians in peers.values():
            row.append(f"{medians[group]:,.2f}" if group in medians else "-")
        rows.append(row)
    return aligned(rows)


def main() -> int:
    """Measure all systems; print tables, then one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distributed", description=__doc__)
    parser.add_argument("groups", nargs="*", help=f"some of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--shards", type=int, default=EngineSettings().shards)
    parser.add_argument(
        "--broker", choices=["redis", "postgres"], help="the broker to measure; both by default"
    )
    parser.add_argument("--no-peers", action="store_true", help="measure only Windlass")
    parser.add_argument(
        "--profile", choices=["engine", "worker"], help="profile a process, which slows it down"
    )
    options = parser.parse_args()
    groups = options.groups or list(GROUPS)
    printed: dict[str, Any] = {}
    found: dict[str, list[Measurement]] = {}
    for broker in [options.broker] if options.broker else ["redis", "postgres"]:
        found[broker] = windlass(broker, groups, options.repeats, options.shards, options.profile)
        print(
            f"\nWindlass, PostgreSQL with fsync, tasks on {broker}; one engine and one worker process:"
        )
        print(format_table(found[broker]))
        printed[broker] = [structs.asdict(figure) for figure in found[broker]]
    peers: dict[str, dict[str, float]] = {}
    if not options.no_peers and not options.groups:
        with peer():
            peers["Celery + Redis"] = measure_celery(PEER_REPEATS)
        peers["DBOS + PostgreSQL"] = _dbos()
    print(
        "\nAll together (medians; Celery with 2 processes and late acks, PostgreSQL with fsync everywhere):"
    )
    print(overview(groups, found, peers))
    printed.update(peers)
    print(json.dumps(printed))
    return 0


def _dbos() -> dict[str, float]:
    """Measure DBOS, which needs its own process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.dbos_peer"], capture_output=True, check=False
    )
    if done.returncode:
        print(f"\nDBOS could not be measured: {done.stderr.decode()[-300:]}")
        return {}
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=dict[str, float])


if __name__ == "__main__":
    sys.exit(main())
