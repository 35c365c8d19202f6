"""Every example runs as described in its README."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
ENDS_SECONDS = 60


def run(folder: Path, *command: str) -> tuple[int, dict]:
    """Run a command in an empty folder; return the exit code and the printed JSON."""
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        capture_output=True,
        timeout=ENDS_SECONDS,
        check=False,
    )
    assert ran.stdout, ran.stderr.decode()
    return ran.returncode, msgspec.json.decode(ran.stdout)


def run_file(folder: Path, name: str, *flags: str) -> tuple[int, dict]:
    return run(folder, "-m", "windlass", "run", str(EXAMPLES / name), "--json", *flags)


def test_echo_returns_its_input(tmp_path: Path) -> None:
    code, printed = run_file(tmp_path, "echo.yaml", "-i", "message=hello")

    assert code == 0
    assert printed["result_data"] == {"echo_handler": {"echoed_params": {"message": "hello"}}}


@pytest.mark.parametrize(
    ("flags", "greeting"), [((), "Hello, world!"), (("-i", "name=Ada"), "Hello, Ada!")]
)
def test_the_diamond_joins_its_branches(
    tmp_path: Path, flags: tuple[str, ...], greeting: str
) -> None:
    code, printed = run_file(tmp_path, "diamond.yaml", *flags)

    assert code == 0
    assert printed["result_data"]["join"]["echoed_params"] == {
        "greeting": greeting,
        "seconds_slept": 2.0,
    }
    assert printed["duration_seconds"] < 2.0


def test_the_flaky_call_succeeds_at_its_third_attempt(tmp_path: Path) -> None:
    code, printed = run_file(tmp_path, "flaky.yaml")

    assert code == 0
    assert printed["nodes"]["call"]["attempt"] == 3
    assert printed["result_data"]["report"] == {"echoed_params": {"answer": 42, "attempts": 3}}


def test_the_pulse_example_packs_every_order(tmp_path: Path) -> None:
    code, printed = run_file(tmp_path, "pulse.yaml", "-i", "orders=16")

    assert code == 0
    assert printed["result_data"]["report"] == {"echoed_params": {"packed": 16, "of": 16}}
    assert printed["nodes"]["price"]["attempt"] == 2


def test_the_failing_workflow_shows_the_status_of_all_nodes(tmp_path: Path) -> None:
    code, printed = run_file(tmp_path, "failing.yaml")

    assert code == 1
    assert printed["error"]["message"] == "the card was declined for rope"
    assert {node_id: node["status"] for node_id, node in printed["nodes"].items()} == {
        "order": "completed",
        "charge": "failed",
        "ship": "failed",
        "newsletter": "cancelled",
    }
    assert printed["nodes"]["charge"]["attempt"] == 1


def test_fetch_report_starts_its_own_server(tmp_path: Path) -> None:
    # run.py starts the server and runs workflow.yaml beside it.
    code, printed = run(tmp_path, str(EXAMPLES / "fetch_report" / "run.py"), "--json")

    assert code == 0
    assert printed["nodes"]["fetch"]["attempt"] == 2
    assert printed["result_data"]["report"]["echoed_params"] == {
        "title": "4 orders",
        "largest": [["Ada", 90], ["Grace", 75]],
    }


def test_the_nightly_report_can_be_run_manually(tmp_path: Path) -> None:
    code, printed = run_file(tmp_path, "nightly.yaml")

    assert code == 0
    assert printed["result_data"]["report"]["echoed_params"] == {"title": "Report of yesterday"}


def test_the_container_returns_its_count(tmp_path: Path) -> None:
    code, printed = run_file(tmp_path, "container.yaml", "-i", "text=one two three")

    assert code == 0
    assert printed["result_data"]["count"]["exit_code"] == 0
    assert printed["result_data"]["report"] == {"echoed_params": {"words": 3, "runtime": "process"}}


@pytest.mark.parametrize(("flags", "count"), [((), 1000), (("-i", "count=0"), 0)])
def test_squares_are_returned_in_order(tmp_path: Path, flags: tuple[str, ...], count: int) -> None:
    code, printed = run_file(tmp_path, "squares.yaml", *flags)

    squares = [number * number for number in range(count)]
    assert code == 0
    assert [
        echoed["echoed_params"]["square"] for echoed in printed["result_data"]["square"]
    ] == squares
    assert printed["result_data"]["report"]["echoed_params"] == {
        "iterations": count,
        "failed": 0,
        "largest": max(squares, default=None),
        "total": sum(squares),
    }


def test_pages_are_written_to_their_table_once(tmp_path: Path) -> None:
    code, printed = run(tmp_path, str(EXAMPLES / "pages_to_sqlite" / "run.py"), "--json")

    with closing(sqlite3.connect(tmp_path / "users.db")) as database:
        stored = database.execute("select id from users order by id").fetchall()
    assert code == 0
    assert stored == [(number,) for number in range(1, 96)]
    assert printed["result_data"]["report"]["echoed_params"] == {
        "fetched": 95,
        "teams": [
            {"team": "blue", "users": 31},
            {"team": "green", "users": 32},
            {"team": "red", "users": 32},
        ],
    }


def test_polling_ends_when_the_result_is_ready(tmp_path: Path) -> None:
    code, printed = run(tmp_path, str(EXAMPLES / "polling" / "run.py"), "--json")

    assert code == 0
    assert printed["result_data"]["report"]["echoed_params"] == {
        "order": "loaf-1",
        "bread": "rye",
        "asked": 4,
    }
