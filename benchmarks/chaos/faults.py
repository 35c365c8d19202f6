"""The deployment under chaos: what runs, what is done to it, and that it is always brought back."""

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import asyncpg
from msgspec import Struct

from benchmarks.chaos.work import TARGET
from tests.servers import new_database, tell_redis
from tests.system.fleet import UP_SECONDS_MAX, Fleet, Process, Restartable, durable_postgres, durable_redis, rows, until

ENGINES = ("engine-1", "engine-2")
WORKERS = ("worker-1", "worker-2")
SERVER = "server"
LOOK_SECONDS = 0.1
# A process that could not start (its database was away) is started again after this long.
START_PAUSE_SECONDS = 0.5
HANDLERS = "benchmarks.chaos.handlers"


class Pace(Struct, frozen=True):
    """How fast things go wrong, and how fast that is noticed."""

    # Between the end of one fault and the next.
    pause_seconds: tuple[float, float]
    # How long a server or process is away.
    away_seconds: tuple[float, float]
    lease_seconds: float
    silent_seconds: float
    # Nothing goes wrong: shows what the machine can do.
    calm: bool = False

    def environment(self) -> dict[str, str]:
        """The settings of the processes."""
        return {
            "WINDLASS_ENGINE__LEASE_SECONDS": f"{self.lease_seconds}",
            "WINDLASS_ENGINE__WORKER_TIMEOUT_SECONDS": f"{self.silent_seconds}",
            "WINDLASS_ENGINE__WORKER_CHECK_SECONDS": "0.5",
            "WINDLASS_ENGINE__IN_FLIGHT_CHECK_SECONDS": "3",
            "WINDLASS_WORKER__HEARTBEAT_SECONDS": f"{self.silent_seconds / 5:.2f}",
            "WINDLASS_WORKER__PROCESSES": "1",
            # The engines of a machine with two cores have enough to do.
            "WINDLASS_ENGINE__SHARDS": "8",
        }


FULL = Pace((2.0, 6.0), (0.5, 3.0), lease_seconds=3.0, silent_seconds=5.0)
BRIEF = Pace((0.7, 2.0), (0.3, 1.0), lease_seconds=1.5, silent_seconds=3.0)


class Site:
    """PostgreSQL, Redis, one server, two engines, two workers."""

    def __init__(self, folder: Path, pace: Pace, chance: Random) -> None:
        self.counts: Counter[str] = Counter()
        self.starts: Counter[str] = Counter()
        self.problems: list[str] = []
        self._pace = pace
        self._chance = chance
        for name in ("postgres", "redis", "processes"):
            (folder / name).mkdir()
        self.postgres: Restartable = durable_postgres(folder / "postgres")
        self.redis: Restartable = durable_redis(folder / "redis")
        self.folder = folder / "processes"
        self.fleet = Fleet(self.folder, {})
        self._slots: dict[str, Process] = {}
        # Slots whose process is not to be brought back at this moment.
        self._away: set[str] = set()
        self._killed: set[int] = set()
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Bring everything up."""
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
        self._keeping = asyncio.create_task(self._keep())

    async def _answers(self) -> bool:
        # It listens before it is ready.
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

    async def _keep(self) -> None:
        """Bring back whatever ended. What ended by itself after it was up is a finding."""
        while True:
            for name, process in list(self._slots.items()):
                if process.is_alive or name in self._away:
                    continue
                self._blame(name, process)
                self._slots[name] = await self._spawn(name)
                self._away.add(name)
                asyncio.get_running_loop().create_task(self._rise(name))
            await asyncio.sleep(LOOK_SECONDS)

    async def _rise(self, name: str) -> None:
        process = self._slots[name]
        try:
            await process.up()
            self.starts["processes started again"] += 1
        except AssertionError:
            # Without its servers it cannot start, and says so.
            self.starts["starts that failed while servers were away"] += 1
            await asyncio.sleep(START_PAUSE_SECONDS)
        finally:
            self._away.discard(name)

    # Faults

    async def wound(self) -> None:
        """One fault at random; the deployment is whole again afterwards, or on its way to it."""
        faults: dict[str, tuple[int, Callable[[], Awaitable[None]]]] = {
            "engine killed": (6, lambda: self._kill(self._chance.choice(ENGINES))),
            "engine paused past its lease": (4, self._pause_engine),
            "worker killed": (6, lambda: self._kill(self._chance.choice(WORKERS))),
            "worker paused past its silence": (3, self._pause_worker),
            "API server killed": (3, lambda: self._kill(SERVER)),
            "Redis killed": (3, self._kill_redis),
            "Redis emptied": (3, self._flush_redis),
            "PostgreSQL killed": (3, self._kill_postgres),
        }
        if self._pace.calm:
            return
        name = self._chance.choices(list(faults), [weight for weight, _ in faults.values()])[0]
        await faults[name][1]()
        self.counts[name] += 1

    async def rest(self) -> None:
        """The time between two faults."""
        await asyncio.sleep(self._chance.uniform(*self._pace.pause_seconds))

    async def _absence(self) -> None:
        await asyncio.sleep(self._chance.uniform(*self._pace.away_seconds))

    async def _is_up(self, name: str) -> bool:
        return name not in self._away

    async def _kill(self, name: str) -> None:
        # One that is on its way up: a kill that hits nothing would be counted as a fault.
        await until(lambda: self._is_up(name), UP_SECONDS_MAX, f"{name} is up")
        process = self._slots[name]
        self._away.add(name)
        if process.is_alive:
            self._killed.add(process.pid)
        await process.kill()
        await self._absence()
        self._away.discard(name)

    async def _pause(self, name: str, seconds: float) -> None:
        await until(lambda: self._is_up(name), UP_SECONDS_MAX, f"{name} is up")
        process = self._slots[name]
        process.send(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        process.send(signal.SIGCONT)

    async def _pause_engine(self) -> None:
        await self._pause(self._chance.choice(ENGINES), self._pace.lease_seconds * self._chance.uniform(1.2, 2.0))

    async def _pause_worker(self) -> None:
        await self._pause(self._chance.choice(WORKERS), self._pace.silent_seconds * self._chance.uniform(1.2, 1.6))

    async def _kill_redis(self) -> None:
        self.redis.kill()
        await self._absence()
        self.redis.start()

    async def _flush_redis(self) -> None:
        async def flushed() -> bool:
            with suppress(OSError):
                tell_redis(self.redis.url, b"FLUSHALL")
                return True
            return False

        # It may be on its way up, and a flush that hits nothing would be counted as a fault.
        await until(flushed, UP_SECONDS_MAX, "Redis is emptied")

    async def _kill_postgres(self) -> None:
        # Immediate shutdown: no checkpoint, and the log is recovered at the next start.
        self.postgres.kill(signal.SIGQUIT)
        await self._absence()
        self.postgres.start()

    def _blame(self, name: str, process: Process) -> None:
        """Note a process that was up and ended, and nobody had killed it."""
        if not process.id or process.pid in self._killed:
            return
        said = process.log.read_text(errors="replace")[-600:]
        self.problems.append(f"{name} ended by itself: {said}")

    async def stop(self) -> None:
        """End all processes in good order; the servers stay for those who look."""
        if self._keeping is not None:
            self._keeping.cancel()
        for name, process in self._slots.items():
            if not process.is_alive:
                self._blame(name, process)
        order = (*WORKERS, *ENGINES, SERVER)
        codes = await asyncio.gather(*(self._slots[name].stop() for name in order))
        self.problems += [f"{name} ended with {code}" for name, code in zip(order, codes, strict=True) if code]

    async def aclose(self) -> None:
        """End everything at once."""
        if self._keeping is not None:
            self._keeping.cancel()
        await self.fleet.aclose()
        self.redis.kill()
        self.postgres.kill(signal.SIGQUIT)
