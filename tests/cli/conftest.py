"""Fixtures for the command line: a temporary directory, and the command in this process or in another one."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from windlass.cli.main import call

ENDS_SECONDS = 60

HANDLERS = """
import asyncio
from pathlib import Path
from windlass import handler

@handler("gate")
async def gate(path: str) -> dict:
    while not Path(path).exists():
        await asyncio.sleep(0.01)
    return {"open": True}

@handler("tally")
async def tally(path: str) -> dict:
    with Path(path).open("a") as file:
        file.write("x")
    return {"tallied": True}
"""

GATED = """
workflow_id: gated
nodes:
  tally: {handler: tally, params: {path: tally.txt}}
  gate: {handler: gate, dependencies: [tally], params: {path: gate.open}}
  last: {handler: echo, dependencies: [gate], params: {done: true}}
"""

ECHO = """
workflow_id: echo_test
nodes:
  start: {type: start, next: [echo_handler]}
  echo_handler: {type: task, handler: echo, next: [end]}
  end: {type: end}
"""

FAILING = """
workflow_id: failing
nodes:
  boom: {handler: fail, params: {message: it is broken, type: broken, retryable: false}}
  after: {handler: echo, dependencies: [boom]}
"""


class CommandResult(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return msgspec.json.decode(self.out)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with a few workflows, without WINDLASS_* variables."""
    for variable in [name for name in os.environ if name.startswith("WINDLASS_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "echo.yaml": ECHO,
        "failing.yaml": FAILING,
        "gated.yaml": GATED,
        "gates.py": HANDLERS,
    }.items():
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.fixture
def windlass(folder: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., CommandResult]:
    """Run the command in this process."""

    def windlass(*arguments: str) -> CommandResult:
        capfd.readouterr()
        code = call(arguments)
        captured = capfd.readouterr()
        return CommandResult(code, str(captured.out), str(captured.err))

    return windlass


@pytest.fixture
def spawn(folder: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start the command in another process, which is killed at the end of the test."""
    processes: list[subprocess.Popen[str]] = []

    def spawn(*arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "windlass", *arguments]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True)
        processes.append(process)
        return process

    yield spawn
    for process in processes:
        process.kill()
        process.communicate(timeout=ENDS_SECONDS)
