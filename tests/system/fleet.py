"""Real processes: database servers that can be killed and restarted, API servers, engines and workers."""

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
POLL_SECONDS = 0.05
# A process whose parent was killed must not outlive it.
PARENT_DEATH = ("setpriv", "--pdeathsig", "KILL", "--")

# Short timeouts, so that failures are detected within a few seconds.
FAST = {
    "WINDLASS_ENGINE__LEASE_SECONDS": "1.5",
    "WINDLASS_ENGINE__WORKER_TIMEOUT_SECONDS": "2",
    "WINDLASS_ENGINE__WORKER_CHECK_SECONDS": "0.25",
    "WINDLASS_ENGINE__IN_FLIGHT_CHECK_SECONDS": "2",
    "WINDLASS_ENGINE__SHARDS": "8",
    "WINDLASS_WORKER__HEARTBEAT_SECONDS": "0.4",
}


class Restartable:
    """A server that keeps its port and its data across restarts."""

    def __init__(self, server: Server, replaced: Mapping[str, str]) -> None:
        arguments = server.process.args
        assert isinstance(arguments, list)
        self.url = server.url
        self._command = [replaced.get(str(part), str(part)) for part in arguments]
        # PostgreSQL refuses to run as root. Without a user namespace it runs as the user `nobody`.
        is_other = os.geteuid() != 0 or "unshare" in self._command or "postgres" not in server.url
        self._user = None if is_other else "nobody"
        self._process: subprocess.Popen[bytes] = server.process
        server.stop()
        self.start()

    def wait(self) -> None:
        """Wait until the server accepts connections."""
        port, deadline = urlsplit(self.url).port or 0, time.monotonic() + UP_SECONDS_MAX
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            assert time.monotonic() < deadline, f"no server listens at {self.url}"
            time.sleep(POLL_SECONDS)

    def start(self) -> None:
        """Start the server without waiting until it accepts connections."""
        # Call this in the main thread: the kernel ends the server together with the thread that started it.
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, user=self._user, cwd="/",
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Kill the server. PostgreSQL needs SIGQUIT, after which it recovers from its log."""
        self._process.send_signal(how)
        self._process.wait(STOP_SECONDS_MAX)


def durable_postgres(folder: Path) -> Restartable:
    """Start a PostgreSQL server whose commits survive a kill."""
    on = {
        f"{name}=off": f"{name}=on" for name in ("fsync", "synchronous_commit", "full_page_writes")
    }
    return Restartable(start_postgres(folder), on)


def durable_redis(folder: Path) -> Restartable:
    """Start a Redis server whose log is flushed every second."""
    server = start_redis(folder)
    assert isinstance(server.process.args, list)
    position = server.process.args.index("--appendonly") + 1
    server.process.args[position] = "(log)"
    return Restartable(server, {"(log)": "yes"})


class Process:
    """One process of Windlass."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        # The id of the process, known when it is ready.
        self.id = ""
        self._process = process

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.returncode is None

    async def up(self) -> None:
        """Wait until the process is ready; raise AssertionError with its log if it exits."""
        assert self._process.stdout is not None
        async with asyncio.timeout(UP_SECONDS_MAX):
            while line := await self._process.stdout.readline():
                words = line.decode().split()
                if "ready" in words or "listening" in words:
                    self.id = words[-3] if "ready" in words else words[-1]
                    return
        raise AssertionError(f"{self.name} did not start: {self.log.read_text()[-3000:]}")

    def send(self, what: signal.Signals) -> None:
        """Send a signal, unless the process has exited."""
        with suppress(ProcessLookupError):
            self._process.send_signal(what)

    async def ended(self) -> int:
        """Wait until the process exits and return its exit code."""
        async with asyncio.timeout(STOP_SECONDS_MAX):
            return await self._process.wait()

    async def kill(self) -> None:
        """Kill the process."""
        self.send(signal.SIGKILL)
        await self.ended()

    async def stop(self) -> int:
        """Stop the process and return its exit code."""
        self.send(signal.SIGTERM)
        return await self.ended()


class Fleet:
    """Windlass processes on one database."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **without_settings(),
            **environment,
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        }
        self.processes: list[Process] = []

    async def spawn(
        self,
        name: str,
        *arguments: str,
        settings: Mapping[str, str] | None = None,
        python: Sequence[str] = (),
    ) -> Process:
        """Start a process without waiting until it is ready; `python` are options of the interpreter."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *PARENT_DEATH, sys.executable, *python, "-m", "windlass", *arguments,
                cwd=self.folder, env={**self.environment, **(settings or {})},
                stdin=subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=output,
            )  # fmt: skip
        started = Process(name, process, log)
        self.processes = [earlier for earlier in self.processes if earlier.is_alive]
        self.processes.append(started)
        return started

    async def server(self, *arguments: str, settings: Mapping[str, str] | None = None) -> Process:
        """Start an API server."""
        return await self._up(
            "server", "server", "--port", str(self.port), *arguments, settings=settings
        )

    async def engine(
        self, name: str = "engine", settings: Mapping[str, str] | None = None
    ) -> Process:
        """Start an engine."""
        return await self._up(name, "engine", settings=settings)

    async def worker(
        self,
        name: str = "worker",
        settings: Mapping[str, str] | None = None,
        imports: str = "steps",
    ) -> Process:
        """Start a worker with the handlers of a module, which may be in the fleet's folder."""
        return await self._up(name, "worker", "--import", imports, settings=settings)

    async def _up(self, name: str, *arguments: str, settings: Mapping[str, str] | None) -> Process:
        process = await self.spawn(name, *arguments, settings=settings)
        await process.up()
        return process

    async def aclose(self) -> None:
        """Kill all processes."""
        for process in self.processes:
            process.send(signal.SIGKILL)
        for process in self.processes:
            await process.ended()


def without_settings() -> dict[str, str]:
    """Return the environment without WINDLASS_* variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}


@asynccontextmanager
async def fleet(folder: Path, environment: Mapping[str, str]) -> AsyncGenerator[Fleet]:
    """Start a fleet whose processes are killed at the end of the block."""
    opened = Fleet(folder, environment)
    try:
        yield opened
    finally:
        await opened.aclose()


async def rows(url: str, statement: str, *arguments: object) -> Sequence[Any]:
    """Return the rows of a query, read over a separate connection."""
    # The driver is an extra.
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(statement, *arguments)
    finally:
        await connection.close()


async def until(check: Any, seconds: float, what: str) -> Any:
    """Poll until the result of `check` is true and return it; raise AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        if result := await check():
            return result
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(POLL_SECONDS)
