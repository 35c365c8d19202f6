"""The deployment of a chaos run, and the faults that are injected."""

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TypeVar

import asyncpg
import redis
from msgspec import Struct

from benchmarks.chaos.work import TARGET
from tests.servers import new_database
from tests.system.fleet import (
    UP_SECONDS_MAX,
    Fleet,
    Process,
    Restartable,
    durable_postgres,
    durable_redis,
    rows,
    until,
)

ENGINES = ("engine-1", "engine-2")
WORKERS = ("worker-1", "worker-2")
SERVER = "server"
CHECK_SECONDS = 0.1
# Pause before starting a process again that could not start because a server was down.
START_PAUSE_SECONDS = 0.5
HANDLERS = "benchmarks.chaos.handlers"

Answer = TypeVar("Answer")


class Pace(Struct, frozen=True):
    """How often faults happen, and how fast they are detected."""

    # The pause between two faults.
    pause_seconds: tuple[float, float]
    # How long a server or process is down.
    down_seconds: tuple[float, float]
    lease_seconds: float
    worker_timeout_seconds: float
    has_faults: bool = True

    def environment(self) -> dict[str, str]:
        """Return the settings of the processes."""
        return {
            "WINDLASS_ENGINE__LEASE_SECONDS": f"{self.lease_seconds}",
            "WINDLASS_ENGINE__WORKER_TIMEOUT_SECONDS": f"{self.worker_timeout_seconds}",
            "WINDLASS_ENGINE__WORKER_CHECK_SECONDS": "0.5",
            "WINDLASS_ENGINE__IN_FLIGHT_CHECK_SECONDS": "3",
            "WINDLASS_WORKER__HEARTBEAT_SECONDS": f"{self.worker_timeout_seconds / 5:.2f}",
            "WINDLASS_WORKER__PROCESSES": "1",
            # Few shards, because the run should also work on a machine with two cores.
            "WINDLASS_ENGINE__SHARDS": "8",
        }


FULL = Pace((2.0, 6.0), (0.5, 3.0), lease_seconds=3.0, worker_timeout_seconds=5.0)
BRIEF = Pace((0.7, 2.0), (0.3, 1.0), lease_seconds=1.5, worker_timeout_seconds=3.0)


class Site:
    """A deployment: PostgreSQL, Redis, one API server, two engines and two workers."""

    def __init__(self, folder: Path, pace: Pace, random: Random) -> None:
        self.counts: Counter[str] = Counter()
        self.starts: Counter[str] = Counter()
        self.problems: list[str] = []
        self._pace = pace
        self._random = random
        for name in ("postgres", "redis", "processes"):
            (folder / name).mkdir()
        self.postgres: Restartable = durable_postgres(folder / "postgres")
        self.redis: Restartable = durable_redis(folder / "redis")
        self.folder = folder / "processes"
        self.fleet = Fleet(self.folder, {})
        self._slots: dict[str, Process] = {}
        # Slots whose process must not be restarted now.
        self._down: set[str] = set()
        self._killed: set[int] = set()
        self._restarting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start everything."""
        self.postgres.wait()
        await until(self._answers, UP_SECONDS_MAX, "PostgreSQL answers")
        self.database_url = new_database(self.postgres.url, "chaos")
        self.target_url = new_database(self.postgres.url, "target")
        environment = {
            **self._pace.environment(),
            "WINDLASS_DATABASE_URL": self.database_url,
            "WINDLASS_REDIS_URL": self.redis.url,
            f"WINDLASS_CONNECTIONS__{TARGET.upper()}": self.target_url,
        }
        self.fleet.environment.update(environment)
        for name in (SERVER, *ENGINES, *WORKERS):
            self._slots[name] = await self._spawn(name)
        await asyncio.gather(*(process.up() for process in self._slots.values()))
        self._restarting = asyncio.create_task(self._restart_processes())

    async def _answers(self) -> bool:
        # PostgreSQL listens before it is ready.
        with suppress(OSError, asyncpg.CannotConnectNowError):
            return bool(await rows(self.postgres.url, "select 1"))
        return False

    async def _spawn(self, name: str) -> Process:
        kind = name.partition("-")[0]
        arguments = {
            "server": ("server", "--port", str(self.fleet.port)),
            "engine": ("engine",),
            "worker": ("worker", "--import", HANDLERS, "--concurrency", "128"),
        }
        return await self.fleet.spawn(name, *arguments[kind])

    async def _restart_processes(self) -> None:
        """Restart processes that ended, and report those that ended without being killed."""
        while True:
            for name, process in list(self._slots.items()):
                if process.is_alive or name in self._down:
                    continue
                self._report_end(name, process)
                self._slots[name] = await self._spawn(name)
                self._down.add(name)
                asyncio.get_running_loop().create_task(self._wait_until_up(name))
            await asyncio.sleep(CHECK_SECONDS)

    async def _wait_until_up(self, name: str) -> None:
        process = self._slots[name]
        try:
            await process.up()
            self.starts["processes restarted"] += 1
        except AssertionError:
            # It cannot start while a server is down.
            self.starts["starts that failed while a server was down"] += 1
            await asyncio.sleep(START_PAUSE_SECONDS)
        finally:
            self._down.discard(name)

    # Faults

    async def inject_fault(self) -> None:
        """Inject one random fault; afterwards the deployment is complete again, or restarting."""
        faults: dict[str, tuple[int, Callable[[], Awaitable[None]]]] = {
            "engine killed": (6, lambda: self._kill(self._random.choice(ENGINES))),
            "engine paused beyond its lease": (4, self._pause_engine),
            "worker killed": (6, lambda: self._kill(self._random.choice(WORKERS))),
            "worker paused beyond its heartbeat timeout": (3, self._pause_worker),
            "API server killed": (3, lambda: self._kill(SERVER)),
            "Redis killed": (3, self._kill_redis),
            "Redis flushed": (4, self._flush_redis),
            "Redis restored to an older state": (4, self._restore_redis),
            "Redis lost a key": (4, self._delete_redis_key),
            "PostgreSQL killed": (3, self._kill_postgres),
        }
        if not self._pace.has_faults:
            return
        name = self._random.choices(list(faults), [weight for weight, _ in faults.values()])[0]
        await faults[name][1]()
        self.counts[name] += 1

    async def pause(self) -> None:
        """Wait between two faults."""
        await asyncio.sleep(self._random.uniform(*self._pace.pause_seconds))

    async def _wait_down(self) -> None:
        await asyncio.sleep(self._random.uniform(*self._pace.down_seconds))

    async def _is_up(self, name: str) -> bool:
        return name not in self._down

    async def _kill(self, name: str) -> None:
        # Wait for a process that is starting: killing nothing must not count as a fault.
        await until(lambda: self._is_up(name), UP_SECONDS_MAX, f"{name} is up")
        process = self._slots[name]
        self._down.add(name)
        if process.is_alive:
            self._killed.add(process.pid)
        await process.kill()
        await self._wait_down()
        self._down.discard(name)

    async def _pause(self, name: str, seconds: float) -> None:
        await until(lambda: self._is_up(name), UP_SECONDS_MAX, f"{name} is up")
        process = self._slots[name]
        process.send(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        process.send(signal.SIGCONT)

    async def _pause_engine(self) -> None:
        await self._pause(
            self._random.choice(ENGINES), self._pace.lease_seconds * self._random.uniform(1.2, 2.0)
        )

    async def _pause_worker(self) -> None:
        await self._pause(
            self._random.choice(WORKERS),
            self._pace.worker_timeout_seconds * self._random.uniform(1.2, 1.6),
        )

    async def _kill_redis(self) -> None:
        self.redis.kill()
        await self._wait_down()
        self.redis.start()

    async def _flush_redis(self) -> None:
        await self._with_redis("flushed", redis.Redis.flushall)

    async def _restore_redis(self) -> None:
        """Give the server the contents that it had some time before, without a restart."""

        def dump(client: redis.Redis) -> dict[bytes, bytes]:
            found = {key: client.dump(key) for key in client.scan_iter()}
            return {key: value for key, value in found.items() if value}

        def restore(client: redis.Redis) -> None:
            with client.pipeline(transaction=True) as pipeline:
                pipeline.flushall()
                for key, value in older.items():
                    pipeline.restore(key, 0, value)
                pipeline.execute()

        older = await self._with_redis("read", dump)
        await self._wait_down()
        await self._with_redis("restored", restore)

    async def _delete_redis_key(self) -> None:
        """Remove a random key, as an eviction does."""

        def delete(client: redis.Redis) -> None:
            keys = sorted(client.scan_iter())
            if keys:
                client.delete(self._random.choice(keys))

        await self._with_redis("changed", delete)

    async def _with_redis(self, done: str, action: Callable[[redis.Redis], Answer]) -> Answer:
        """Use the server; wait for one that is starting: a fault without an effect must not count."""

        def act() -> Answer:
            with redis.Redis.from_url(self.redis.url) as client:
                return action(client)

        async def acted() -> list[Answer]:
            with suppress(redis.ConnectionError, redis.BusyLoadingError):
                return [await asyncio.to_thread(act)]
            return []

        [answer] = await until(acted, UP_SECONDS_MAX, f"Redis is {done}")
        return answer

    async def _kill_postgres(self) -> None:
        # Immediate shutdown: no checkpoint, so the next start recovers from the log.
        self.postgres.kill(signal.SIGQUIT)
        await self._wait_down()
        self.postgres.start()

    def _report_end(self, name: str, process: Process) -> None:
        """Report a process that ended without being killed."""
        if not process.id or process.pid in self._killed:
            return
        output = process.log.read_text(errors="replace")[-600:]
        self.problems.append(f"{name} ended unexpectedly: {output}")

    async def stop(self) -> None:
        """Stop all processes gracefully; the servers keep running for the audit."""
        if self._restarting is not None:
            self._restarting.cancel()
        for name, process in self._slots.items():
            if not process.is_alive:
                self._report_end(name, process)
        order = (*WORKERS, *ENGINES, SERVER)
        codes = await asyncio.gather(*(self._slots[name].stop() for name in order))
        self.problems += [
            f"{name} ended with {code}" for name, code in zip(order, codes, strict=True) if code
        ]

    async def aclose(self) -> None:
        """Kill everything."""
        if self._restarting is not None:
            self._restarting.cancel()
        await self.fleet.aclose()
        self.redis.kill()
        self.postgres.kill(signal.SIGQUIT)
