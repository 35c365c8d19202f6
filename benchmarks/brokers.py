"""Throughput and latency of brokers: publish, claim, finish, receive and acknowledge.

Run `python -m benchmarks.brokers [memory] [redis] [postgres]` in the top folder. It starts private servers without
fsync, and prints one JSON object per broker.
"""

import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Raw

from benchmarks.results import percentile
from tests.servers import Server, start_postgres, start_redis
from windlass.brokers.memory import MemoryBroker
from windlass.brokers.postgres.broker import PostgresBroker
from windlass.brokers.redis.broker import RedisBroker
from windlass.clock import SystemClock
from windlass.core.changes import Task
from windlass.core.messages import Succeeded, TaskFinished
from windlass.ports.broker import Broker, TaskReport

BATCH = 500
BATCHES = 40
SINGLES = 500
QUEUES = ("default",)
WAIT_SECONDS = 10.0


def task(number: int) -> Task:
    job_id, node_id = f"job-{number // 100}", f"node-{number}"
    return Task(
        task_id=f"{job_id}/{node_id}/1",
        job_id=job_id,
        node_id=node_id,
        attempt=1,
        handler="echo",
        params=b'{"value":1,"other":"abcdefgh"}',
    )


def report(done: Task) -> TaskReport:
    message = TaskFinished(
        job_id=done.job_id,
        node_id=done.node_id,
        attempt=done.attempt,
        worker_id="w1",
        started_at=1,
        finished_at=2,
        outcome=Succeeded(Raw(b'{"value":1}')),
    )
    return TaskReport(done.task_id, done.shard, message)


async def worker(broker: Broker, count: int, limit: int) -> None:
    done = 0
    while done < count:
        claims = await broker.claim("w1", QUEUES, limit, WAIT_SECONDS)
        if claims:
            await broker.finish("w1", [report(claim.task) for claim in claims])
        done += len(claims)


async def owner(broker: Broker, count: int) -> None:
    seen = 0
    while seen < count:
        found = await broker.receive(0, BATCH, WAIT_SECONDS)
        if found:
            await broker.acknowledge(0, len(found))
        seen += len(found)


async def throughput(engine: Broker, workers: Broker) -> float:
    """Return tasks per second while batches are published, claimed, finished and received at the same time."""
    count = BATCH * BATCHES
    tasks = [task(number) for number in range(count)]
    started = time.perf_counter()
    running = [
        asyncio.ensure_future(worker(workers, count, BATCH)),
        asyncio.ensure_future(owner(engine, count)),
    ]
    for start in range(0, count, BATCH):
        await engine.publish(tasks[start : start + BATCH])
    await asyncio.gather(*running)
    return count / (time.perf_counter() - started)


async def latency(engine: Broker, workers: Broker) -> list[float]:
    """Return the round trips in ms of tasks that are published one after the other, as in a chain."""
    running = asyncio.ensure_future(worker(workers, SINGLES, 1))
    times: list[float] = []
    for number in range(SINGLES):
        started = time.perf_counter()
        await engine.publish([task(number)])
        await owner(engine, 1)
        times.append((time.perf_counter() - started) * 1000)
    await running
    return times


async def measure(name: str, open_one: Callable[[], Awaitable[Broker]]) -> None:
    engine, workers = await open_one(), await open_one()
    rate = await throughput(engine, workers)
    times = sorted(await latency(engine, workers))
    result = {
        "broker": name,
        "tasks_per_second": round(rate),
        "round_trip_ms_median": round(statistics.median(times), 3),
        "round_trip_ms_p99": round(percentile(times, 0.99), 3),
    }
    print(json.dumps(result))
    for broker in (engine, workers):
        await broker.close()


async def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="windlass-bench-"))
    wanted = sys.argv[1:] or ["memory", "redis", "postgres"]
    servers: list[Server] = []
    try:
        if "memory" in wanted:
            shared = MemoryBroker(SystemClock())

            async def memory() -> Broker:
                return shared

            await measure("memory", memory)
        if "redis" in wanted:
            redis = start_redis(folder)
            servers.append(redis)
            await measure("redis", lambda: RedisBroker.open(redis.url))
        if "postgres" in wanted:
            postgres = start_postgres(folder)
            servers.append(postgres)
            await measure("postgres", lambda: PostgresBroker.open(postgres.url))
    finally:
        for server in servers:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    asyncio.run(main())
