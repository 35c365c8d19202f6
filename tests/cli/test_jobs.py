"""`windlass jobs` on a database."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import CommandResult

Windlass = Callable[..., CommandResult]


@pytest.fixture
def ran(windlass: Windlass) -> list[str]:
    """Three jobs, oldest first."""
    files = ("echo.yaml", "failing.yaml", "echo.yaml")
    return [windlass("run", file, "--json", "-i", "n=1").json["job_id"] for file in files]


@pytest.mark.parametrize("command", ["list", "show", "events", "logs"])
def test_a_missing_database_is_reported(windlass: Windlass, command: str) -> None:
    result = windlass("jobs", command)

    assert result.code == 2
    assert ".windlass/windlass.db" in result.err


def test_jobs_are_listed_newest_first(windlass: Windlass, ran: list[str]) -> None:
    listed = windlass("jobs", "list", "--json").json

    assert [job["job_id"] for job in listed["items"]] == ran[::-1]
    assert listed["next_cursor"] is None


def test_a_list_can_be_read_page_by_page(windlass: Windlass, ran: list[str]) -> None:
    first = windlass("jobs", "list", "--json", "--limit", "2").json

    second = windlass(
        "jobs", "list", "--json", "--limit", "2", "--cursor", first["next_cursor"]
    ).json

    assert [job["job_id"] for job in first["items"] + second["items"]] == ran[::-1]
    assert second["next_cursor"] is None


def test_a_full_last_page_has_no_next_page(windlass: Windlass, ran: list[str]) -> None:
    assert windlass("jobs", "list", "--json", "--limit", "3").json["next_cursor"] is None


@pytest.mark.parametrize("cursor", ["", "1", "x/y", "²/y"])
def test_an_invalid_cursor_is_reported(windlass: Windlass, ran: list[str], cursor: str) -> None:
    result = windlass("jobs", "list", "--cursor", cursor)

    assert result.code == 2
    assert "invalid cursor" in result.err


@pytest.mark.parametrize(
    ("flags", "expected"),
    [(("--status", "failed"), [1]), (("--workflow", "echo_test"), [2, 0]), (("--limit", "1"), [2])],
)
def test_jobs_are_filtered(
    windlass: Windlass, ran: list[str], flags: tuple[str, ...], expected: list[int]
) -> None:
    listed = windlass("jobs", "list", "--json", *flags).json

    assert [job["job_id"] for job in listed["items"]] == [ran[number] for number in expected]


def test_jobs_are_printed_as_a_table(windlass: Windlass, ran: list[str]) -> None:
    result = windlass("jobs", "list")

    assert all(job_id in result.out for job_id in ran)
    assert "failed" in result.out


def test_a_job_is_shown_with_its_nodes_and_result(windlass: Windlass, ran: list[str]) -> None:
    shown = windlass("jobs", "show", ran[0], "--json").json

    assert shown["result_data"] == {"echo_handler": {"echoed_params": {"n": 1}}}
    assert shown["created_at"] <= shown["started_at"] <= shown["completed_at"]
    assert {node["node_id"]: node["status"] for node in shown["nodes"]}[
        "echo_handler"
    ] == "completed"


def test_the_newest_job_is_shown_by_default(windlass: Windlass, ran: list[str]) -> None:
    assert windlass("jobs", "show", "--json").json["job_id"] == ran[-1]


def test_a_failed_job_is_shown_with_its_error(windlass: Windlass, ran: list[str]) -> None:
    result = windlass("jobs", "show", ran[1])

    assert result.code == 0
    assert "error: node boom: broken: it is broken" in result.out


def test_an_unknown_job_is_reported(windlass: Windlass, ran: list[str]) -> None:
    result = windlass("jobs", "show", "absent")

    assert result.code == 2
    assert "absent" in result.err


def test_events_are_listed_in_order(windlass: Windlass, ran: list[str]) -> None:
    events = windlass("jobs", "events", ran[0], "--json").json["items"]

    assert [(event["event_type"], event["node_id"]) for event in events] == [
        ("job_created", None),
        ("node_ready", "echo_handler"),
        ("node_dispatched", "echo_handler"),
        ("job_started", None),
        ("node_started", "echo_handler"),
        ("node_completed", "echo_handler"),
        ("node_ready", "end"),
        ("job_completed", None),
    ]
    assert [event["seq"] for event in events] == list(range(1, 9))


def test_events_are_listed_after_a_sequence_number(windlass: Windlass, ran: list[str]) -> None:
    events = windlass("jobs", "events", ran[0], "--json", "--after", "5", "--limit", "2").json[
        "items"
    ]

    assert [event["seq"] for event in events] == [6, 7]


def test_events_are_printed_as_a_table(windlass: Windlass, ran: list[str]) -> None:
    result = windlass("jobs", "events", ran[1])

    assert "node_failed" in result.out
    assert "broken: it is broken" in result.out


def test_logs_contain_the_output_of_tasks(windlass: Windlass, folder: Path) -> None:
    (folder / "echoing.yaml").write_text(
        "workflow_id: echoing\nnodes:\n  a: {handler: shell, params: {command: [echo, one]}}\n"
        "  b: {handler: shell, dependencies: [a], params: {command: [echo, two]}}\n"
    )
    windlass("run", "echoing.yaml", "--json")

    lines = windlass("jobs", "logs", "--json").json["items"]
    of_b = windlass("jobs", "logs", "--node", "b")

    assert [(line["node_id"], line["message"]) for line in lines] == [("a", "one"), ("b", "two")]
    assert of_b.out.split()[1:] == ["b", "info", "two"]


def test_logs_of_an_unknown_job_are_reported(windlass: Windlass, ran: list[str]) -> None:
    result = windlass("jobs", "logs", "absent")

    assert result.code == 2
    assert "absent" in result.err


def test_server_and_database_cannot_be_combined(windlass: Windlass) -> None:
    result = windlass(
        "jobs", "list", "--server", "http://127.0.0.1:1", "--database", "sqlite:///x.db"
    )

    assert result.code == 2
    assert "leave one out" in result.err
