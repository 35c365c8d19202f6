"""`windlass run`: results, exit codes and inputs."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.cli.conftest import ENDS_SECONDS, CommandResult

Windlass = Callable[..., CommandResult]

BROKEN = """\
workflow_id: broken
nodes:
  first:
    handler: echo
    dependencies: [secnd]
    parms: {a: 1}
  second: {handler: echo}
"""
STRICT = """\
workflow_id: strict
input:
  type: object
  properties: {count: {type: integer, minimum: 1}}
  required: [count]
nodes:
  only: {handler: echo, params: {count: "{{ input.count }}"}}
"""


def test_a_completed_job_exits_with_0_and_prints_its_result(windlass: Windlass) -> None:
    result = windlass("run", "echo.yaml", "-i", "message=hello")

    assert result.code == 0
    assert '"message": "hello"' in result.out


def test_without_a_terminal_transitions_are_lines_with_timestamps(windlass: Windlass) -> None:
    lines = windlass("run", "echo.yaml").out.splitlines()

    stamped = [line for line in lines if re.match(r"\d\d:\d\d:\d\d\.\d{3}  ", line)]
    assert any("echo_handler  completed in" in line for line in stamped)
    assert any("job completed after" in line for line in stamped)


def test_a_failed_job_exits_with_1_and_prints_the_error(windlass: Windlass) -> None:
    result = windlass("run", "failing.yaml")

    assert result.code == 1
    assert "failed: node boom: broken: it is broken" in result.err


@pytest.mark.parametrize(
    ("file", "code", "status"), [("echo.yaml", 0, "completed"), ("failing.yaml", 1, "failed")]
)
def test_json_prints_exactly_one_object_on_standard_output(
    folder: Path, file: str, code: int, status: str
) -> None:
    command = [sys.executable, "-m", "windlass", "run", file, "--json", "-i", "n=1"]

    ran = subprocess.run(
        command, capture_output=True, cwd=folder, timeout=ENDS_SECONDS, check=False
    )

    printed = msgspec.json.decode(ran.stdout)
    assert ran.returncode == code
    assert ran.stdout.count(b"\n") == 1
    assert list(printed) == [
        "job_id",
        "status",
        "failures",
        "result_data",
        "error",
        "nodes",
        "duration_seconds",
    ]
    assert printed["status"] == status


def test_json_contains_every_node_and_the_outputs(windlass: Windlass) -> None:
    printed = windlass("run", "echo.yaml", "--json", "-i", "n=1").json

    assert printed["result_data"] == {"echo_handler": {"echoed_params": {"n": 1}}}
    assert printed["error"] is None
    assert {node_id: node["status"] for node_id, node in printed["nodes"].items()} == {
        "start": "completed",
        "echo_handler": "completed",
        "end": "completed",
    }
    assert printed["nodes"]["echo_handler"]["attempt"] == 1
    assert printed["duration_seconds"] >= 0


def test_json_of_a_failed_job_has_the_errors(windlass: Windlass) -> None:
    printed = windlass("run", "failing.yaml", "--json").json

    assert printed["error"]["node_id"] == "boom"
    assert printed["nodes"]["boom"]["error"]["type"] == "broken"
    assert printed["nodes"]["after"]["error"]["type"] == "upstream_failed"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("n=3", 3),
        ("n=true", True),
        ("n=[1, 2]", [1, 2]),
        ("n=three", "three"),
        ("n=", ""),
        ('n="3"', "3"),
        ("n=a=b", "a=b"),
    ],
)
def test_an_input_value_is_parsed_as_json_if_possible(
    windlass: Windlass, given: str, read: object
) -> None:
    printed = windlass("run", "echo.yaml", "--json", "-i", given).json

    assert printed["result_data"]["echo_handler"]["echoed_params"] == {"n": read}


@pytest.mark.parametrize(
    ("name", "content"), [("in.json", '{"a": 1, "b": 2}'), ("in.yaml", "a: 1\nb: 2\n")]
)
def test_pairs_override_the_input_file(
    windlass: Windlass, folder: Path, name: str, content: str
) -> None:
    (folder / name).write_text(content)

    printed = windlass("run", "echo.yaml", "--json", "--input", name, "-i", "b=3").json

    assert printed["result_data"]["echo_handler"]["echoed_params"] == {"a": 1, "b": 3}


@pytest.mark.parametrize("content", ["[1, 2]", "a: [", "just text"])
def test_an_input_file_without_an_object_is_rejected(
    windlass: Windlass, folder: Path, content: str
) -> None:
    (folder / "in.yaml").write_text(content)

    result = windlass("run", "echo.yaml", "--input", "in.yaml")

    assert result.code == 2
    assert result.err.startswith("in.yaml:")


def test_an_input_without_a_value_is_rejected(windlass: Windlass) -> None:
    result = windlass("run", "echo.yaml", "-i", "lonely")

    assert result.code == 2
    assert "expected KEY=VALUE: 'lonely'" in result.err


def test_an_invalid_document_exits_with_2_and_lists_all_problems(
    windlass: Windlass, folder: Path
) -> None:
    (folder / "broken.yaml").write_text(BROKEN)

    result = windlass("run", "broken.yaml")

    places = [line.split(": ")[0] for line in result.err.splitlines()]
    assert result.code == 2
    assert result.out == ""
    assert {"broken.yaml:5:20", "broken.yaml:6:5"} <= set(places)
    assert "parms" in result.err


def test_an_invalid_document_creates_no_database(windlass: Windlass, folder: Path) -> None:
    (folder / "broken.yaml").write_text(BROKEN)

    windlass("run", "broken.yaml")

    assert not (folder / ".windlass").exists()


def test_contradictory_settings_exit_with_2_before_anything_starts(
    windlass: Windlass, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_WORKER__HEARTBEAT_SECONDS", "20")

    result = windlass("run", "echo.yaml", "-i", "x=1")

    assert result.code == 2
    assert "worker.heartbeat_seconds = 20, engine.worker_timeout_seconds = 15;" in result.err
    assert not (folder / ".windlass").exists()


def test_an_unknown_handler_is_reported_before_the_job_starts(
    windlass: Windlass, folder: Path
) -> None:
    (folder / "odd.yaml").write_text("workflow_id: odd\nnodes:\n  a: {handler: ecko}\n")

    result = windlass("run", "odd.yaml")

    assert "ecko" in result.err
    assert result.code != 0


@pytest.mark.parametrize("pair", ["count=0", "count=many", "other=1"])
def test_an_input_that_does_not_match_the_schema_is_rejected(
    windlass: Windlass, folder: Path, pair: str
) -> None:
    (folder / "strict.yaml").write_text(STRICT)

    result = windlass("run", "strict.yaml", "-i", pair)

    assert result.code == 2
    assert "count" in result.err


def test_handlers_are_imported_from_the_current_directory(windlass: Windlass, folder: Path) -> None:
    (folder / "gate.open").touch()

    result = windlass("run", "gated.yaml", "--import", "gates", "--json")

    assert result.code == 0
    assert result.json["result_data"]["gate"] == {"open": True}


@pytest.mark.parametrize("content", ["raise ValueError('not today')", "import nothing_like_it"])
def test_an_import_error_is_reported(windlass: Windlass, folder: Path, content: str) -> None:
    (folder / "unusable_module.py").write_text(content)

    result = windlass("run", "echo.yaml", "--import", "unusable_module")

    assert result.code == 2
    assert "cannot import module unusable_module" in result.err


def test_the_database_flag_selects_the_database(windlass: Windlass, folder: Path) -> None:
    windlass("run", "echo.yaml", "--database", "sqlite:///elsewhere/jobs.db")

    assert (folder / "elsewhere" / "jobs.db").exists()
    assert not (folder / ".windlass").exists()


def test_resume_without_an_unfinished_job_is_reported(windlass: Windlass) -> None:
    windlass("run", "echo.yaml")

    result = windlass("run", "echo.yaml", "--resume")

    assert result.code == 2
    assert "no unfinished job of echo_test" in result.err


def test_resume_rejects_an_input(windlass: Windlass) -> None:
    result = windlass("run", "echo.yaml", "--resume", "-i", "a=1")

    assert result.code == 2
    assert "--resume continues a job that already has an input" in result.err
