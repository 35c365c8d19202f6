"""Interrupted and resumed runs, and two processes on one database."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.cli.conftest import ENDS_SECONDS, CommandResult

Windlass = Callable[..., CommandResult]
Spawn = Callable[..., "subprocess.Popen[str]"]
READ_BYTES = 65_536

GATED = ("run", "gated.yaml", "--import", "gates")


def started(spawn: Spawn) -> "subprocess.Popen[str]":
    """Start the gated workflow and wait until its gate is reached."""
    process = spawn(*GATED)
    assert process.stdout is not None
    for line in process.stdout:
        if "gate" in line and "started" in line:
            return process
    raise AssertionError(f"the gate was never reached: {process.communicate()[1]}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_stops_cleanly_and_explains_how_to_resume(
    spawn: Spawn, number: int
) -> None:
    process = started(spawn)

    process.send_signal(number)

    _, err = process.communicate(timeout=ENDS_SECONDS)
    assert process.returncode == 130
    assert "to resume it: windlass run gated.yaml --resume" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_resumed_job_does_not_repeat_completed_nodes(
    spawn: Spawn, windlass: Windlass, folder: Path, number: int
) -> None:
    process = started(spawn)
    process.send_signal(number)
    process.communicate(timeout=ENDS_SECONDS)
    (folder / "gate.open").touch()

    result = windlass(*GATED, "--resume", "--json")

    assert result.code == 0
    assert result.json["result_data"]["last"] == {"echoed_params": {"done": True}}
    assert (folder / "tally.txt").read_text() == "x"


def test_an_interrupted_json_run_prints_the_unfinished_job(spawn: Spawn, folder: Path) -> None:
    process = spawn(*GATED, "--json")
    while not (folder / "tally.txt").exists():
        assert process.poll() is None

    process.send_signal(signal.SIGINT)

    out, _ = process.communicate(timeout=ENDS_SECONDS)
    assert process.returncode == 130
    assert msgspec.json.decode(out)["status"] == "running"


def test_jobs_can_be_read_while_another_process_runs_them(spawn: Spawn, windlass: Windlass) -> None:
    started(spawn)

    listed = windlass("jobs", "list", "--json").json

    assert [(job["workflow_id"], job["status"]) for job in listed["items"]] == [
        ("gated", "running")
    ]


def test_a_database_in_use_is_rejected(spawn: Spawn, windlass: Windlass) -> None:
    started(spawn)

    result = windlass("run", "echo.yaml")

    assert result.code == 2
    assert "in use by another" in result.err


def test_a_run_does_not_resume_other_unfinished_jobs(
    spawn: Spawn, windlass: Windlass, folder: Path
) -> None:
    process = started(spawn)
    process.kill()
    process.communicate(timeout=ENDS_SECONDS)
    (folder / "gate.open").touch()

    windlass("run", "echo.yaml")

    statuses = {
        job["workflow_id"]: job["status"]
        for job in windlass("jobs", "list", "--json").json["items"]
    }
    assert statuses == {"gated": "running", "echo_test": "completed"}


def test_a_terminal_displays_the_nodes_live(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "windlass", "run", "echo.yaml", "-i", "message=hello"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(
        command, cwd=folder, stdout=theirs, stderr=theirs, stdin=theirs, env=environment
    )
    os.close(theirs)

    shown = _read_all(ours)

    assert process.wait(timeout=ENDS_SECONDS) == 0
    assert "✓" in shown
    assert "1 of 1 nodes" in shown
    assert "\x1b[" in shown
    assert '"message": "hello"' in shown


def test_a_job_resumes_on_the_version_it_started_with(
    spawn: Spawn, windlass: Windlass, folder: Path
) -> None:
    process = started(spawn)
    process.kill()
    process.communicate(timeout=ENDS_SECONDS)
    (folder / "gated.yaml").write_text("workflow_id: gated\nnodes:\n  other: {handler: echo}\n")
    (folder / "gate.open").touch()

    result = windlass(*GATED, "--resume", "--json")

    assert result.code == 0
    assert sorted(result.json["result_data"]) == ["gate", "last", "tally"]


def test_a_closed_pipe_is_not_an_error(spawn: Spawn, windlass: Windlass) -> None:
    windlass("run", "echo.yaml")
    process = spawn("jobs", "events")
    assert process.stdout is not None

    process.stdout.close()

    assert process.stderr is not None
    assert process.stderr.read() == ""


def _read_all(terminal: int) -> str:
    """Read until the other side closes, which Linux reports as an error."""
    chunks: list[bytes] = []
    try:
        while chunk := os.read(terminal, READ_BYTES):
            chunks.append(chunk)
    except OSError:
        pass
    finally:
        os.close(terminal)
    return b"".join(chunks).decode()
