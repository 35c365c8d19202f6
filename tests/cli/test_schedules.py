"""`windlass schedules`, `runs` and `deliveries` on a database and on a server."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import CommandResult
from tests.cli.test_server import Spawn, stop, up

Windlass = Callable[..., CommandResult]

DATABASE_URL = "sqlite:///.windlass/windlass.db"
# Commands that a test repeats until the server has done something.
COMMANDS_MAX = 20

YEARLY = """
workflow_id: yearly
schedule: {cron: "0 3 1 1 *", timezone: Europe/Paris, jitter: 5s, input: {m: 2}}
nodes: {a: {handler: echo}}
"""
HOURLY = "workflow_id: hourly\nschedule: {every: 1h}\nnodes: {a: {handler: echo}}\n"
SINGLE = """
workflow_id: single
constraints: {max_concurrent_runs: 1}
nodes: {gate: {handler: gate, params: {path: gate.open}}}
"""
TELLING = """
workflow_id: telling
nodes: {tell: {handler: webhook, params: {url: "http://127.0.0.1:1/in"}, retry: 1}}
"""


@pytest.fixture
def documents(folder: Path) -> None:
    for name, text in {
        "yearly": YEARLY,
        "hourly": HOURLY,
        "single": SINGLE,
        "telling": TELLING,
    }.items():
        (folder / f"{name}.yaml").write_text(text)


@pytest.fixture
def ran(documents: None, windlass: Windlass) -> str:
    """A job of the yearly workflow, started manually."""
    return windlass("run", "yearly.yaml", "--json").json["job_id"]


@pytest.fixture
def on_server(
    documents: None, spawn: Spawn, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Windlass]:
    """The command with WINDLASS_SERVER set to a server that has these workflows."""
    dev = up(spawn("dev", "--port", "0", "--import", "gates"))
    monkeypatch.setenv("WINDLASS_SERVER", dev.url)
    yield windlass
    stop(dev.process)


def until_found(on_server: Windlass, run_id: str) -> None:
    """Wait for the run of a job that was submitted: its shard creates it after the response."""
    assert any(on_server("runs", "show", run_id).code == 0 for _ in range(COMMANDS_MAX))


def test_schedules_of_the_database_are_listed(windlass: Windlass, ran: str) -> None:
    items = windlass("schedules", "list", "--json").json["items"]
    table = windlass("schedules", "list").out

    assert [(item["workflow_id"], item["cron"], item["paused"]) for item in items] == [
        ("yearly", "0 3 1 1 *", False)
    ]
    assert "Europe/Paris" in table
    assert "active" in table


def test_a_schedule_of_the_database_is_shown(windlass: Windlass, ran: str) -> None:
    shown = windlass("schedules", "show", "yearly", "--json").json
    printed = windlass("schedules", "show", "yearly").out

    assert shown["next_at"].endswith("-01-01T02:00:00.000000Z")
    assert "0 3 1 1 * (Europe/Paris)" in printed
    assert "up to 5.00 s" in printed


def test_next_slots_are_shown_in_both_time_zones(windlass: Windlass, ran: str) -> None:
    printed = windlass("schedules", "next", "yearly", "-n", "2").out

    assert printed.count("-01-01 03:00:00 +0100") == 2
    assert printed.count("-01-01T02:00:00Z") == 2


def test_a_manual_run_is_listed(windlass: Windlass, ran: str) -> None:
    [run] = windlass("runs", "list", "--workflow", "yearly", "--state", "completed", "--json").json[
        "items"
    ]
    printed = windlass("runs", "show", run["run_id"]).out

    assert run["job_id"] == ran
    assert ran in windlass("runs", "list").out
    assert "container_creating" in printed
    assert "total_seconds" in printed


@pytest.mark.parametrize("command", ["schedules", "runs"])
def test_lists_of_the_database_are_read_page_by_page(
    windlass: Windlass, ran: str, command: str
) -> None:
    windlass("run", "hourly.yaml")
    whole = windlass(command, "list", "--json", "--limit", "2").json

    first = windlass(command, "list", "--json", "--limit", "1").json
    second = windlass(
        command, "list", "--json", "--limit", "1", "--cursor", first["next_cursor"]
    ).json

    assert first["items"] + second["items"] == whole["items"]
    assert (second["next_cursor"], whole["next_cursor"]) == (None, None)


@pytest.mark.parametrize(
    "command",
    [("schedules", "show", "absent"), ("schedules", "next", "absent"), ("runs", "show", "a:b")],
)
def test_unknown_ids_are_reported(windlass: Windlass, ran: str, command: tuple[str, ...]) -> None:
    result = windlass(*command)

    assert result.code == 2
    assert result.err.startswith("error: ")


@pytest.mark.parametrize("command", ["jobs", "runs", "schedules"])
def test_a_cursor_of_the_server_is_one_of_its_database(on_server: Windlass, command: str) -> None:
    for _ in range(2):
        job_id = on_server("schedules", "trigger", "yearly", "--json").json["job_id"]
        until_found(on_server, f"yearly:{job_id}")
    of_server = on_server(command, "list", "--json", "--limit", "1").json["next_cursor"]
    of_database = on_server(
        command, "list", "--json", "--limit", "1", "--database", DATABASE_URL
    ).json["next_cursor"]

    assert of_server is not None
    assert of_database == of_server


def test_a_schedule_is_paused_and_resumed(on_server: Windlass) -> None:
    paused = on_server("schedules", "pause", "hourly", "--json").json
    listed = on_server("schedules", "list").out
    resumed = on_server("schedules", "resume", "hourly", "--json").json

    assert (paused["paused"], resumed["paused"]) == (True, False)
    assert "paused" in listed


def test_a_schedule_is_triggered(on_server: Windlass) -> None:
    result = on_server("schedules", "trigger", "yearly", "-i", "m=3", "--json").json

    shown = on_server("jobs", "watch", result["job_id"])

    assert shown.code == 0
    assert on_server("jobs", "show", result["job_id"], "--json").json["input_data"] == {"m": 3}


def test_a_past_range_is_backfilled(on_server: Windlass) -> None:
    start = (datetime.now(UTC) - timedelta(days=1)).replace(minute=0, second=0, microsecond=0)
    instants = [f"{start + timedelta(hours=at):%Y-%m-%dT%H:%M:%SZ}" for at in (0, 2)]

    result = on_server(
        "schedules", "backfill", "hourly", "--since", instants[0], "--until", instants[1]
    )

    assert result.out == f"started 3 runs, from {instants[0]} to {instants[1]}\n"
    run_id = f"hourly:{instants[0]}"
    events = on_server("runs", "events", run_id, "--json").json["items"]
    assert events[0]["data"]["origin"] == "backfill"
    assert "run_created" in on_server("runs", "events", run_id).out
    assert on_server("schedules", "events", "hourly", "--json").code == 0


def test_a_run_is_cancelled(on_server: Windlass) -> None:
    job_id = on_server("trigger", "single", "--json").json["job_id"]
    run_id = f"single:{job_id}"
    until_found(on_server, run_id)

    result = on_server("runs", "cancel", run_id, "--reason", "enough")

    assert result.code == 0
    assert on_server("jobs", "watch", job_id).code == 1
    assert on_server("jobs", "show", job_id, "--json").json["status"] == "cancelled"


def test_deliveries_are_listed_and_repeated(on_server: Windlass) -> None:
    on_server("trigger", "telling", "--wait")
    [failed] = on_server("deliveries", "list", "--outcome", "failed", "--json").json["items"]

    of_database = on_server(
        "deliveries", "list", "--json", "--limit", "1", "--database", DATABASE_URL
    ).json
    again = on_server("deliveries", "redeliver", failed["delivery_id"], "--json").json

    assert of_database == {"items": [failed], "next_cursor": None}
    assert failed["url"] == "http://127.0.0.1:1/in"
    assert failed["delivery_id"] in on_server("deliveries", "list").out
    # The job repeats the delivery with growing delays; the first attempt is listed at once.
    assert _first_delivery(on_server, again["job_id"]) == (failed["url"], "failed")
    on_server("jobs", "cancel", again["job_id"])
    assert f"of job {failed['job_id']}" in on_server("jobs", "show", again["job_id"]).out


def _first_delivery(on_server: Windlass, job_id: str) -> tuple[str, str] | None:
    for _ in range(COMMANDS_MAX):
        for item in on_server("deliveries", "list", "--json").json["items"]:
            if item["job_id"] == job_id:
                return item["url"], item["outcome"]
    return None
