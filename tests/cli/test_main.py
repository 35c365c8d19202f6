"""The command as a whole: start, help, errors and exit codes."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import CommandResult
from windlass import __version__
from windlass.cli import main

STARTS = 5
# The budget is 150 ms on an idle machine. Processor time hardly depends on what else runs, wall time does.
START_SECONDS_MAX = 0.25
HEAVY = {"apsw", "asyncio", "httpx2", "jinja2", "rich", "starlette", "uvicorn", "yaml"}

Windlass = Callable[..., CommandResult]


def test_the_version_is_printed(windlass: Windlass) -> None:
    assert windlass("--version") == (0, f"windlass {__version__}\n", "")


def test_the_version_is_printed_quickly() -> None:
    took: list[float] = []
    for _ in range(STARTS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "windlass", "--version"], check=True, capture_output=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert min(took) < START_SECONDS_MAX


def test_printing_the_version_imports_no_large_packages() -> None:
    code = f"import sys; from windlass.cli.main import call; call(['--version']); print({HEAVY!r} & set(sys.modules))"

    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert ran.stdout.splitlines()[-1] == "set()"


def test_every_command_has_help(windlass: Windlass) -> None:
    for command in main.COMMANDS:
        assert windlass(command, "--help").code == 0


def test_an_unknown_command_is_rejected(windlass: Windlass) -> None:
    result = windlass("rum")

    assert result.code == 2
    assert "rum" in result.err


def test_a_missing_file_is_reported(windlass: Windlass) -> None:
    result = windlass("run", "nowhere.yaml")

    assert result.code == 2
    assert "nowhere.yaml" in result.err


def test_all_invalid_settings_are_reported(
    windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_WORKER__THREDS", "3")
    monkeypatch.setenv("WINDLASS_WORKER__PROCESSES", "none")

    result = windlass("run", "echo.yaml")

    assert result.code == 2
    assert "did you mean WINDLASS_WORKER__THREADS?" in result.err
    assert "WINDLASS_WORKER__PROCESSES: invalid value 'none'" in result.err


def test_config_shows_values_and_origins(windlass: Windlass, folder: Path) -> None:
    (folder / "windlass.toml").write_text('database_url = "postgresql://me:secret@db/x"\n')

    shown = windlass("config", "--json").json

    assert shown["database_url"] == {"value": "postgresql://me:***@db/x", "origin": "windlass.toml"}
    assert shown["worker.concurrency"] == {"value": 64, "origin": "default"}


def test_config_lists_the_settings_although_some_are_invalid(
    windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SPEED", "9")

    result = windlass("config")

    assert result.code == 2
    assert "worker.concurrency" in result.out
    assert (
        result.err
        == "error: WINDLASS_SPEED: unknown setting 'speed' (`windlass config` lists all settings)\n"
    )


def test_an_internal_error_is_reported_with_its_traceback(
    windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("unexpected")

    monkeypatch.setattr(main.cli, "main", broken)

    result = windlass("config")

    assert result.code == 1
    assert "please report it" in result.err
    assert "Traceback" in result.err
