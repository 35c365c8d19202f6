"""What a broker carries: tasks a second through publish, claim, finish, receive and acknowledge, and one at a time.

From the top folder: `python -m benchmarks.brokers [memory] [redis] [postgres]`. Servers are private ones without fsync.
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
    name = f"job-{number // 100}/node-{number}"
    return Task(f"{name}/1", f"job-{number // 100}", f"node-{number}", 1, "echo", b'{"value":1,"other":"abcdefgh"}')


def report(done: Task) -> TaskReport:
    message = TaskFinished(done.job_id, done.node_id, done.attempt, "w1", 1, 2, Succeeded(Raw(b'{"value":1}')))
    return TaskReport(done.task_id, done.shard, message)


async def worker(broker: Broker, count: int, limit: int) -> None:
    done = 0
    while done < count:
        taken = await broker.claim("w1", QUEUES, limit, WAIT_SECONDS)
        if taken:
            await broker.finish("w1", [report(delivery.task) for delivery in taken])
        done += len(taken)


async def owner(broker: Broker, count: int) -> None:
    seen = 0
    while seen < count:
        found = await broker.receive(0, BATCH, WAIT_SECONDS)
        if found:
            await broker.acknowledge(0, len(found))
        seen += len(found)


async def throughput(engine: Broker, workers: Broker) -> float:
    """Everything at once: batches are published while earlier ones are worked off and gathered."""
    count = BATCH * BATCHES
    tasks = [task(number) for number in range(count)]
    begun = time.perf_counter()
    running = [asyncio.ensure_future(worker(workers, count, BATCH)), asyncio.ensure_future(owner(engine, count))]
    for start in range(0, count, BATCH):
        await engine.publish(tasks[start : start + BATCH])
    await asyncio.gather(*running)
    return count / (time.perf_counter() - begun)


async def latency(engine: Broker, workers: Broker) -> list[float]:
    """A chain: each task is published when the result of the one before it was gathered."""
    running = asyncio.ensure_future(worker(workers, SINGLES, 1))
    times: list[float] = []
    for number in range(SINGLES):
        begun = time.perf_counter()
        await engine.publish([task(number)])
        await owner(engine, 1)
        times.append((time.perf_counter() - begun) * 1000)
    await running
    return times


async def measure(name: str, open_one: Callable[[], Awaitable[Broker]]) -> None:
    engine, workers = await open_one(), await open_one()
    rate = await throughput(engine, workers)
    times = sorted(await latency(engine, workers))
    print(
        json.dumps(
            {
                "broker": name,
                "tasks_per_second": round(rate),
                "round_trip_ms_median": round(statistics.median(times), 3),
                "round_trip_ms_p99": round(times[int(len(times) * 0.99)], 3),
            }
        )
    )
    for broker in (engine, workers):
        if not isinstance(broker, MemoryBroker):
            await broker.close()  # pyright: ignore[reportAttributeAccessIssue]


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
