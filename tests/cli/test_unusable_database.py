"""Commands on a database that cannot be used: one line and exit code 2, and signals end the start."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tests.cli.conftest import ENDS_SECONDS, CommandResult
from tests.unprivileged import drop_file_privileges

Windlass = Callable[..., CommandResult]
Spawn = Callable[..., "subprocess.Popen[str]"]
COMMANDS = [("run", "echo.yaml"), ("dev", "--port", "0"), ("server", "--port", "0")]
DATABASE = Path(".windlass") / "windlass.db"


def refused(folder: Path, *arguments: str) -> str:
    """Run a command that permissions apply to; return the line that it prints before it exits with code 2."""
    process = subprocess.run(
        [sys.executable, "-m", "windlass", *arguments],
        cwd=folder,
        preexec_fn=drop_file_privileges,
        capture_output=True,
        text=True,
        timeout=ENDS_SECONDS,
        check=False,
    )
    lines = process.stderr.splitlines()
    assert (process.returncode, len(lines)) == (2, 1), process.stderr
    return lines[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_unwritable_database_is_refused(
    windlass: Windlass, folder: Path, command: tuple[str, ...]
) -> None:
    assert windlass("run", "echo.yaml").code == 0
    (folder / DATABASE).chmod(0o444)

    line = refused(folder, *command)

    assert "cannot use the database" in line
    assert "Permission denied" in line


@pytest.mark.parametrize("command", COMMANDS)
def test_damaged_database_is_refused(
    windlass: Windlass, folder: Path, command: tuple[str, ...]
) -> None:
    assert windlass("run", "echo.yaml").code == 0
    damage(folder / DATABASE, "shards")

    line = refused(folder, *command)

    assert line.startswith("error: cannot use the database")
    assert "malformed" in line


def damage(path: Path, table: str) -> None:
    """Overwrite the first page of a table."""
    connection = apsw.Connection(str(path))
    connection.execute("pragma wal_checkpoint(truncate)")
    [(page,)] = connection.execute("select rootpage from sqlite_schema where name = ?", (table,))
    [(size,)] = connection.execute("pragma page_size")
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_start_that_waits_for_the_database(
    windlass: Windlass, spawn: Spawn, folder: Path, command: tuple[str, ...], number: int
) -> None:
    assert windlass("run", "echo.yaml").code == 0
    # Another program writes to the database and does not finish: the start waits for it in a thread, then tries again.
    other = apsw.Connection(str(folder / DATABASE))
    other.execute("begin immediate")
    process = spawn(*command)
    wait_until_open(process, folder / DATABASE)

    process.send_signal(number)
    wait_until_handled(process, number)
    other.execute("rollback")

    _, err = process.communicate(timeout=ENDS_SECONDS)
    if command[0] == "run":
        assert process.returncode == 130
        assert err.startswith("interrupted during the start")
    else:
        # Nothing was started that had to be stopped.
        assert (process.returncode, err) == (0, "")


def wait_until_handled(process: "subprocess.Popen[str]", number: int) -> None:
    """Wait until the handler of a signal has run: it removes itself."""
    deadline = time.monotonic() + ENDS_SECONDS
    while time.monotonic() < deadline:
        status = Path(f"/proc/{process.pid}/status").read_text()
        [caught] = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")]
        if not int(caught, 16) >> (number - 1) & 1:
            return
        time.sleep(0.01)
    raise AssertionError("the signal was not handled")


def wait_until_open(process: "subprocess.Popen[str]", path: Path) -> None:
    """Wait until SQLite has the file open in the process: the file and its shared memory."""
    wanted = f"{path.resolve()}-shm"
    deadline = time.monotonic() + ENDS_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None
        folder = Path(f"/proc/{process.pid}/fd")
        for entry in list(folder.iterdir()):
            try:
                if os.readlink(entry) == wanted:
                    return
            except FileNotFoundError:
                continue
        time.sleep(0.02)
    raise AssertionError("the database was not opened")


@pytest.mark.parametrize("command", [("engine",), ("worker",), ("server", "--port", "0")])
def test_signal_ends_a_start_that_waits_for_a_server(
    spawn: Spawn, command: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(ENDS_SECONDS)
        port = silent.getsockname()[1]
        process = spawn(*command, "--database", f"postgresql://nobody@127.0.0.1:{port}/none")
        connection, _ = silent.accept()

        process.send_signal(signal.SIGTERM)

        _, err = process.communicate(timeout=ENDS_SECONDS)
        connection.close()
    assert (process.returncode, err) == (0, "")
