"""Tables and warnings about failures, pages and runs on a terminal of 80 columns."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.text import Text

from tests.cli.conftest import CommandResult
from windlass.cli.output.run_tables import print_deliveries, print_run, print_run_events
from windlass.wire import DeliveryView, RunEventView, RunView

Windlass = Callable[..., CommandResult]

FAILURES = """
workflow_id: with_a_long_name
nodes:
  each:
    handler: python
    loop: {collection: [1, 0, 2], element: n, on_failure: continue}
    params: {code: "def main(n): return 12 // n", n: "{{ n }}"}
  optional: {handler: fail, params: {message: it is down, retryable: false}, allow_failure: true}
"""
PAGES = """
workflow_id: pages
nodes:
  fetch:
    handler: echo
    params: {page: 1}
    retry:
      on_success: {while: "{{ attempt < 9 }}", next_call: {page: 2}, max_attempts: 2, collect: collect}
  many:
    handler: echo
    loop: {collection: [1, 9], element: calls}
    params: {page: 1}
    retry:
      on_success: {while: "{{ attempt < calls }}", next_call: {page: 2}, max_attempts: 2, collect: collect}
"""
AT = "2030-01-01T00:00:00.000000Z"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


def shown(out: str) -> list[str]:
    return [Text.from_ansi(line).plain.rstrip() for line in out.splitlines()]


def test_a_list_of_jobs_shows_failures_and_names_of_workflows(
    terminal: None, windlass: Windlass, folder: Path
) -> None:
    (folder / "failures.yaml").write_text(FAILURES)
    windlass("run", "failures.yaml", "--json")

    lines = shown(windlass("jobs", "list").out)

    assert max(map(len, lines)) <= 80
    assert "with_a_long_n" in lines[1]
    status = " ".join(line[41:54].strip() for line in lines[1:])
    assert status.strip() == "completed with 2 failures"


def test_a_job_with_failures_says_how_to_run_them_again(windlass: Windlass, folder: Path) -> None:
    (folder / "failures.yaml").write_text(FAILURES)
    job_id = windlass("run", "failures.yaml", "--json").json["job_id"]

    out = windlass("jobs", "show", job_id).out

    assert "completed with 2 failures\n" in out
    assert f"run them again: windlass jobs retry {job_id}" in out


@pytest.fixture
def pages(windlass: Windlass, folder: Path) -> str:
    """A job with a node and an iteration whose pages were cut."""
    (folder / "pages.yaml").write_text(PAGES)
    return windlass("run", "pages.yaml", "--json").json["job_id"]


def test_pages_that_are_left_are_warnings(windlass: Windlass, pages: str) -> None:
    out = windlass("jobs", "show", pages).out

    assert "node fetch: more pages than max_attempts: 2; raise" in out
    assert "node many: more pages than max_attempts in 1 iteration; raise" in out


def test_iterations_say_that_pages_are_left(windlass: Windlass, pages: str) -> None:
    first, second = windlass("jobs", "iterations", pages, "many").out.splitlines()[1:]

    assert "more pages left" not in first
    assert "more pages left: [" in second


def test_a_further_call_is_not_a_failure(windlass: Windlass, pages: str) -> None:
    rows = [" ".join(line.split()) for line in windlass("jobs", "events", pages).out.splitlines()]

    assert any("node_retrying fetch 1 call 1 succeeded, calling again" in row for row in rows)
    assert any("retry_sequence_completed fetch 2 calls, more pages left" in row for row in rows)
    assert any("retry_sequence_completed many[0] 1 call" in row for row in rows)
    assert any("iterator_completed many 2/2, 1 with more pages left" in row for row in rows)


def test_a_node_that_fails_for_its_pages_has_no_warning(windlass: Windlass, folder: Path) -> None:
    document = PAGES.replace("max_attempts: 2,", "max_attempts: 2, on_exhausted: fail,", 1)
    (folder / "pages.yaml").write_text(document)
    job_id = windlass("run", "pages.yaml", "--json").json["job_id"]

    out = windlass("jobs", "show", job_id).out

    assert "pages_exhausted: more pages than max_attempts: 2; raise it" in out
    assert "warning: node fetch" not in out


def test_a_delivery_shows_its_url_and_error(
    terminal: None, capfd: pytest.CaptureFixture[str]
) -> None:
    delivery = DeliveryView(
        delivery_id="1m7r36kkjhxgrcphjba4kf2g_deliver_1",
        job_id="1m7r36kkjhxgrcphjba4kf2g",
        workflow_id="orders",
        node_id="deliver",
        attempt=1,
        url="https://example.com/in",
        outcome="failed",
        sent_at=AT,
        duration_seconds=1.5,
        status=503,
        error="no response",
    )

    print_deliveries([delivery])

    lines = shown(capfd.readouterr().out)
    assert max(map(len, lines)) <= 80
    text = "".join(line[50:].strip() for line in lines[1:])
    assert "https://example.com/in" in text
    assert "no response" in text
    assert any("failed 503" in line for line in lines)


def run_event(event_type: str, **data: object) -> RunEventView:
    return RunEventView(1, event_type, "nightly", "nightly:1", AT, dict(data))


def test_a_change_of_state_is_shown_by_its_states_and_reason(
    terminal: None, capfd: pytest.CaptureFixture[str]
) -> None:
    changed = run_event(
        "run_state_changed", state="failed", previous_state="running", attempt=1, reason="too slow"
    )
    started = run_event("run_state_changed", state="pending", previous_state="pre_run", attempt=0)
    created = run_event("run_created", origin="submit", is_catch_up=False)

    print_run_events([changed, started, created])

    rows = " ".join(" ".join(line.split()) for line in shown(capfd.readouterr().out))
    assert "run_state_changed running → failed, attempt: 2, reason: too slow" in rows
    assert "run_state_changed pre_run → pending 1" in rows
    assert "run_created origin: submit, is_catch_up: no" in rows


def test_a_skipped_run_has_a_reason_and_no_error(
    terminal: None, capfd: pytest.CaptureFixture[str]
) -> None:
    run = msgspec.convert(
        {
            "run_id": "nightly:1",
            "workflow_id": "nightly",
            "version": 1,
            "scheduled_at": AT,
            "state": "completed",
            "previous_state": "action_running",
            "job_id": None,
            "attempt": 0,
            "transitions": [],
            "violations": [],
            "metrics": {"error": "no room", "final_state": "completed"},
            "origin": "schedule",
            "created_at": AT,
            "reason": "no room",
            "skipped": True,
        },
        RunView,
    )

    print_run(run)

    lines = shown(capfd.readouterr().out)
    assert "reason: no room" in lines
    assert not any(line.startswith("error") for line in lines)
