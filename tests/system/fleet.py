"""A deployment of real processes: servers that can be killed and brought back, APIs, engines, workers."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.servers import Server, free_port, start_postgres, start_redis

ROOT = Path(__file__).resolve().parents[2]
UP_SECONDS_MAX = 60
STOP_SECONDS_MAX = 60
LOOK_SECONDS = 0.05
# A process whose parent was killed must not outlive it.
PARENT_DEATH = ("setpriv", "--pdeathsig", "KILL", "--")

# Failures are noticed in fractions of a second, not in seconds.
FAST = {
    "WINDLASS_ENGINE__LEASE_SECONDS": "1.5",
    "WINDLASS_ENGINE__WORKER_TIMEOUT_SECONDS": "2",
    "WINDLASS_ENGINE__WORKER_CHECK_SECONDS": "0.25",
    "WINDLASS_ENGINE__IN_FLIGHT_CHECK_SECONDS": "2",
    "WINDLASS_ENGINE__SHARDS": "8",
    "WINDLASS_WORKER__HEARTBEAT_SECONDS": "0.4",
}


class Restartable:
    """A server that keeps its port and its data when it is started again."""

    def __init__(self, server: Server, replaced: Mapping[str, str]) -> None:
        arguments = server.process.args
        assert isinstance(arguments, list)
        self.url = server.url
        self._command = [replaced.get(str(part), str(part)) for part in arguments]
        # PostgreSQL refuses root: where no namespace makes root somebody else, it runs as nobody.
        is_other = os.geteuid() != 0 or "unshare" in self._command or "postgres" not in server.url
        self._user = None if is_other else "nobody"
        self._process: subprocess.Popen[bytes] = server.process
        server.stop()
        self.start()

    def wait(self) -> None:
        """Wait until somebody listens."""
        port, deadline = urlsplit(self.url).port or 0, time.monotonic() + UP_SECONDS_MAX
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            assert time.monotonic() < deadline, f"nobody listens at {self.url}"
            time.sleep(LOOK_SECONDS)

    def start(self) -> None:
        """Start it again, without waiting until it answers."""
        # From the thread that stays: the kernel ends the server with the thread that started it.
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, user=self._user, cwd="/",
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it at once; PostgreSQL takes SIGQUIT for that, which leaves it to its log to recover from."""
        self._process.send_signal(how)
        self._process.wait(STOP_SECONDS_MAX)


def durable_postgres(folder: Path) -> Restartable:
    """A PostgreSQL that keeps what it acknowledged, whatever kills it."""
    on = {f"{name}=off": f"{name}=on" for name in ("fsync", "synchronous_commit", "full_page_writes")}
    return Restartable(start_postgres(folder), on)


def durable_redis(folder: Path) -> Restartable:
    """A Redis whose log is flushed every second."""
    server = start_redis(folder)
    assert isinstance(server.process.args, list)
    place = server.process.args.index("--appendonly") + 1
    server.process.args[place] = "(log)"
    return Restartable(server, {"(log)": "yes"})


class Process:
    """One process of Windlass."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        # The name that it gives itself, once it is up.
        self.id = ""
        self._process = process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    async def up(self) -> None:
        """Wait until it says that it is up; AssertionError with its log when it ends instead."""
        assert self._process.stdout is not None
        async with asyncio.timeout(UP_SECONDS_MAX):
            while line := await self._process.stdout.readline():
                words = line.decode().split()
                if "ready" in words or "listening" in words:
                    self.id = words[-3] if "ready" in words else words[-1]
                    return
        raise AssertionError(f"{self.name} did not come up: {self.log.read_text()[-3000:]}")

    def send(self, what: signal.Signals) -> None:
        """Send a signal; one that has ended takes none."""
        with suppress(ProcessLookupError):
            self._process.send_signal(what)

    async def ended(self) -> int:
        """Wait for its end; its exit code."""
        async with asyncio.timeout(STOP_SECONDS_MAX):
            return await self._process.wait()

    async def kill(self) -> None:
        """End it at once."""
        self.send(signal.SIGKILL)
        await self.ended()

    async def stop(self) -> int:
        """Ask it to end, and wait."""
        self.send(signal.SIGTERM)
        return await self.ended()


class Fleet:
    """Processes of Windlass on one database; all of them end with the block that opened it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {**without_settings(), **environment, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
        self.processes: list[Process] = []

    async def spawn(
        self,
        name: str,
        *arguments: str,
        settings: Mapping[str, str] | None = None,
        python: Sequence[str] = (),
    ) -> Process:
        """Start a process without waiting for it; `python` are flags of the interpreter."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *PARENT_DEATH, sys.executable, *python, "-m", "windlass", *arguments,
                cwd=self.folder, env={**self.environment, **(settings or {})},
                stdin=subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=output,
            )  # fmt: skip
        started = Process(name, process, log)
        self.processes = [one for one in self.processes if one.is_alive]
        self.processes.append(started)
        return started

    async def server(self, *arguments: str, settings: Mapping[str, str] | None = None) -> Process:
        """An API server, up."""
        return await self._up("server", "server", "--port", str(self.port), *arguments, settings=settings)

    async def engine(self, name: str = "engine", settings: Mapping[str, str] | None = None) -> Process:
        """An engine, up."""
        return await self._up(name, "engine", settings=settings)

    async def worker(
        self, name: str = "worker", settings: Mapping[str, str] | None = None, imports: str = "steps"
    ) -> Process:
        """A worker with the handlers of a module, which may lie in the folder, up."""
        return await self._up(name, "worker", "--import", imports, settings=settings)

    async def _up(self, name: str, *arguments: str, settings: Mapping[str, str] | None) -> Process:
        process = await self.spawn(name, *arguments, settings=settings)
        await process.up()
        return process

    async def aclose(self) -> None:
        """End everything at once."""
        for process in self.processes:
            process.send(signal.SIGKILL)
        for process in self.processes:
            await process.ended()


def without_settings() -> dict[str, str]:
    """The environment, without what would change the processes."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}


@asynccontextmanager
async def fleet(folder: Path, environment: Mapping[str, str]) -> AsyncGenerator[Fleet]:
    """Processes that end with the block."""
    opened = Fleet(folder, environment)
    try:
        yield opened
    finally:
        await opened.aclose()


async def rows(url: str, statement: str, *arguments: object) -> Sequence[Any]:
    """What a query finds, over a connection of its own."""
    # The driver is an extra.
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(statement, *arguments)
    finally:
        await connection.close()


async def until(ask: Any, seconds: float, what: str) -> Any:
    """Ask again and again until the answer is true; the answer. AssertionError after so long."""
    deadline = time.monotonic() + seconds
    while True:
        if answer := await ask():
            return answer
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(LOOK_SECONDS)
