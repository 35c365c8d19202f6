"""`make bench-distributed`: engine and worker as processes of their own on PostgreSQL and Redis, peers beside them.

From the top folder: `python -m benchmarks.distributed`. Servers are private ones: PostgreSQL with fsync, Redis with its
log flushed every second. `--profile` tells where the engine's time goes.
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
    """Return once the ends of all jobs can be read. This process is told of them: looking takes from those measured."""
    async with asyncio.timeout(ENDS_SECONDS_MAX):
        await asyncio.gather(*(engine.wait_end(job_id) for job_id in job_ids))


async def check_ends(engine: Embedded, job_ids: Sequence[str]) -> None:
    """Every job must have completed."""
    statuses = Counter(one.status for one in await engine.store.jobs.positions(job_ids))
    assert statuses == {"completed": len(job_ids)}, statuses


async def one_job(engine: Embedded, document: Document) -> float:
    """Seconds of one job, from its submit to its durable end."""
    began = time.perf_counter()
    job = await engine.submit(document["workflow_id"], NO_INPUT)
    await ended(engine, [job.spec.job_id])
    seconds = time.perf_counter() - began
    await check_ends(engine, [job.spec.job_id])
    return seconds


async def many_jobs(engine: Embedded, document: Document) -> float:
    """Seconds of many jobs, from the submits to the last durable end."""
    began = time.perf_counter()
    jobs = await engine.submit_all(document["workflow_id"], [NO_INPUT] * JOBS)
    job_ids = [job.spec.job_id for job in jobs]
    await ended(engine, job_ids)
    seconds = time.perf_counter() - began
    await check_ends(engine, job_ids)
    return seconds


def cpu_seconds(pid: int) -> float:
    """The processor time of a process and of its children so far: unlike the clock it knows no busy neighbours."""
    if pid == os.getpid():
        return time.process_time()
    total = 0.0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(folder.name) == pid or int(fields[1]) == pid:
                total += sum(map(int, fields[11:15])) if int(folder.name) == pid else sum(map(int, fields[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


async def figures(
    engine: Embedded, broker: str, groups: Sequence[str], repeats: int, pids: Mapping[str, int]
) -> list[Measurement]:
    """The figures of one deployment."""
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
        run: Callable[[Embedded, Document], Awaitable[float]] = many_jobs if group == "jobs" else one_job
        await run(engine, document)
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        seconds = [await run(engine, document) for _ in range(repeats)]
        spent = {name: (cpu_seconds(pid) - before[name]) / nodes / repeats * 1e6 for name, pid in pids.items()}
        costs = ", ".join(f"{name} {value:.0f}" for name, value in spent.items())
        print(f"  {names[group]}: processor time a node in µs: {costs}")
        goal = GOALS[broker].get(group, "")
        if group == "chain":
            values = [1000 * one / nodes for one in seconds]
            found.append(Measurement(names[group], "ms/node", statistics.median(values), min(values), repeats, goal))
        else:
            values = [nodes / one for one in seconds]
            found.append(Measurement(names[group], "nodes/s", statistics.median(values), max(values), repeats, goal))
    return found


async def measure(
    folder: Path, broker: str, groups: Sequence[str], repeats: int, shards: int, profiled: str | None
) -> list[Measurement]:
    """One engine, one worker, and this process, which submits."""
    for name in ("postgres", "redis", "processes"):
        (folder / name).mkdir(parents=True)
    postgres, redis = durable_postgres(folder / "postgres"), durable_redis(folder / "redis")
    postgres.wait()
    redis.wait()
    try:
        url = new_database(postgres.url, "bench")
        redis_url = redis.url if broker == "redis" else None
        environment = {"WINDLASS_DATABASE_URL": url, **({"WINDLASS_REDIS_URL": redis_url} if redis_url else {})}
        fleet = Fleet(folder / "processes", {**environment, "WINDLASS_ENGINE__SHARDS": str(shards)})
        try:
            pids = {"postgres": postgres.pid, "redis": redis.pid, "submitter": os.getpid()}
            for kind in ("engine", "worker"):
                prefix = ("-m", "cProfile", "-o", str(folder / "profile")) if profiled == kind else ()
                process = await fleet.spawn(kind, kind, python=prefix)
                await process.up()
                pids[kind] = process.pid
            settings = Settings(database_url=url, redis_url=redis_url, engine=EngineSettings(shards=shards))
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
    stats.sort_stats("cumulative").print_stats("shard.py|engine.py|postgres.py|redis|codec|worker.py|execute.py")
    return text.getvalue()


def windlass(broker: str, groups: Sequence[str], repeats: int, shards: int, profiled: str | None) -> list[Measurement]:
    """Windlass in three processes on servers of its own."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-bench-"))
    try:
        return asyncio.run(measure(folder, broker, groups, repeats, shards, profiled))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_met(goal: str, value: float) -> bool:
    """Whether a value reaches a goal such as `>= 4,000`."""
    how, bound = goal.split()
    wanted = float(bound.replace(",", ""))
    return value >= wanted if how == ">=" else value <= wanted


def overview(
    groups: Sequence[str], found: Mapping[str, Sequence[Measurement]], peers: Mapping[str, Mapping[str, float]]
) -> str:
    """All medians side by side, with the goals."""
    lines = [["workload", "unit", *(part for broker in found for part in (f"Windlass, {broker}", "goal")), *peers]]
    for place, group in enumerate(groups):
        first = next(iter(found.values()))[place]
        line = [first.workload, first.unit]
        for figures_of in found.values():
            one = figures_of[place]
            met = "" if not one.goal else " met" if is_met(one.goal, one.median) else " MISSED"
            line += [f"{one.median:,.2f}", f"{one.goal}{met}"]
        lines.append([*line, *(f"{told[group]:,.2f}" if group in told else "-" for told in peers.values())])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines)


def main() -> int:
    """Measure all; tables for people, then one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distributed", description=__doc__)
    parser.add_argument("groups", nargs="*", help=f"some of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--shards", type=int, default=EngineSettings().shards)
    parser.add_argument("--broker", choices=["redis", "postgres"], help="one of the two; both by default")
    parser.add_argument("--no-peers", action="store_true", help="measure Windlass alone")
    parser.add_argument("--profile", choices=["engine", "worker"], help="profile a process; figures suffer")
    wanted = parser.parse_args()
    groups = wanted.groups or list(GROUPS)
    told: dict[str, Any] = {}
    found: dict[str, list[Measurement]] = {}
    for broker in [wanted.broker] if wanted.broker else ["redis", "postgres"]:
        found[broker] = windlass(broker, groups, wanted.repeats, wanted.shards, wanted.profile)
        print(f"\nWindlass, PostgreSQL with fsync, tasks on {broker}; engine and worker are one process each:")
        print(format_table(found[broker]))
        told[broker] = [structs.asdict(one) for one in found[broker]]
    peers: dict[str, dict[str, float]] = {}
    if not wanted.no_peers and not wanted.groups:
        with peer():
            peers["Celery + Redis"] = measure_celery(PEER_REPEATS)
        peers["DBOS + PostgreSQL"] = _dbos()
    print("\nAll together (medians; Celery with 2 processes and late acks, PostgreSQL with fsync everywhere):")
    print(overview(groups, found, peers))
    told.update(peers)
    print(json.dumps(told))
    return 0


def _dbos() -> dict[str, float]:
    """The figures of DBOS, which wants a process to itself."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.dbos_peer"], capture_output=True, check=False)
    if done.returncode:
        print(f"\nDBOS could not be measured: {done.stderr.decode()[-300:]}")
        return {}
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=dict[str, float])


if __name__ == "__main__":
    sys.exit(main())
