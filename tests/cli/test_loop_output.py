"""Loops on the command line: counts, and lists of iterations."""

import io
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from tests.cli.conftest import CommandResult
from tests.cli.test_drawing import plan_of
from windlass.cli.output.event_data import LoopCounts, format_counts
from windlass.cli.output.live import LiveDisplay
from windlass.cli.output.plain import PlainDisplay
from windlass.cli.output.progress import JobProgress
from windlass.core.events import Event

Windlass = Callable[..., CommandResult]

T0 = 1_800_000_000_000_000
SECOND = 1_000_000
LOOP = """
workflow_id: loop
nodes:
  each:
    handler: python
    loop: {collection: [1, 0, 2, 4], element: n, on_failure: continue}
    params: {code: "def main(n):\\n    print('dividing by', n)\\n    return 12 // n", n: "{{ n }}"}
"""
MANY = """
workflow_id: many
nodes:
  each: {handler: echo, loop: {collection: "{{ input.items }}", element: n, concurrency: 200}, params: {n: "{{ n }}"}}
"""
LARGE = """
workflow_id: large
nodes:
  make: {handler: python, params: {code: "def main(length): return 'x' * length", length: "{{ input.length }}"}}
  small: {handler: echo, params: {n: 1}}
"""


@pytest.fixture
def looped(windlass: Windlass, folder: Path) -> str:
    """A job whose loop has one iteration that failed."""
    (folder / "loop.yaml").write_text(LOOP)
    return windlass("run", "loop.yaml", "--json").json["job_id"]


def event(kind: str, index: int | None = None, seconds: float = 0, **data: object) -> Event:
    body = msgspec.Raw(msgspec.json.encode(data)) if data else None
    return Event(1, kind, "each", index, T0 + round(seconds * SECOND), body)


def running_loop(total: int, ended: int) -> list[Event]:
    began = event("iterator_started", total_iterations=total, attempt_number=1)
    tasks = [event("iteration_completed", index, index / 1_000) for index in range(ended)]
    return [event("node_dispatched", attempt_number=1), began, event("node_started"), *tasks]


# During the job


def test_iterations_are_counted() -> None:
    progress = JobProgress(plan_of({"each": []}))
    for one in [*running_loop(9, 4), event("iteration_failed", 5), event("iteration_skipped", 6)]:
        progress.apply(one)

    node = progress.nodes["each"]

    assert node.status == "running"
    assert node.loop is not None
    assert format_counts(node.loop) == "6/9, 1 failed, 1 skipped"


def test_a_retry_counts_failed_iterations_again() -> None:
    progress = JobProgress(plan_of({"each": []}))
    for one in [*running_loop(9, 4), event("iteration_failed", 5), event("iteration_cancelled", 6)]:
        progress.apply(one)

    progress.apply(event("iterator_started", total_iterations=9, left=5))

    assert progress.nodes["each"].loop == LoopCounts(total=9, completed=4)


def test_a_restarted_loop_starts_its_counts_at_zero() -> None:
    progress = JobProgress(plan_of({"each": []}))
    for one in running_loop(9, 9):
        progress.apply(one)

    progress.apply(event("iterator_started", total_iterations=3))

    assert progress.nodes["each"].loop == LoopCounts(total=3)


def test_plain_lines_summarize_a_loop_periodically(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainDisplay(JobProgress(plan_of({"each": []})))

    for one in [*running_loop(10_000, 9_000), event("node_completed", None, 10, attempt_number=1)]:
        view.show(one)

    lines = [line[14:] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "each  started",
        "each  2,001/10,000",
        "each  4,001/10,000",
        "each  6,001/10,000",
        "each  8,001/10,000",
        "each  completed 9,000/10,000 in 10.0 s",
    ]


def test_the_live_display_has_one_line_per_loop() -> None:
    progress = JobProgress(plan_of({"each": []}))
    for one in [
        *running_loop(10_000, 3_410),
        event("iteration_failed", 1),
        event("iteration_failed", 2),
    ]:
        progress.apply(one)
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(LiveDisplay(progress, console).render())

    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue().splitlines()
    assert len(shown) == 2
    assert "3,412/10,000, 2 failed" in shown[1]


def test_a_run_of_many_iterations_prints_few_lines(windlass: Windlass, folder: Path) -> None:
    (folder / "many.yaml").write_text(MANY)

    result = windlass("run", "many.yaml", "-i", f"items={list(range(2_000))}")

    lines = result.out[: result.out.index("{")].splitlines()
    assert result.code == 0
    assert "each  completed 2,000/2,000 in" in lines[-2]
    assert len(lines) < 30


# After the job


def test_run_prints_loops_as_json(windlass: Windlass, folder: Path) -> None:
    (folder / "loop.yaml").write_text(LOOP)

    result = windlass("run", "loop.yaml", "--json").json

    assert result["result_data"] == {"each": [12, None, 6, 3]}
    assert result["nodes"]["each"]["loop"] == {
        "total": 4, "begun": 4, "completed": 3, "failed": 1, "skipped": 0, "running": 0, "waiting": 0, "cancelled": 0,
    }  # fmt: skip


def test_a_job_is_shown_with_the_counts_of_its_loops(windlass: Windlass, looped: str) -> None:
    result = windlass("jobs", "show", looped)

    assert "4/4, 1 failed" in result.out


def test_iterations_are_listed(windlass: Windlass, looped: str) -> None:
    result = windlass("jobs", "iterations", looped, "each")

    rows = [line.split() for line in result.out.splitlines()[1:]]
    assert [row[:2] for row in rows] == [
        ["0", "completed"],
        ["1", "failed"],
        ["2", "completed"],
        ["3", "completed"],
    ]
    assert "ZeroDivisionError" in result.out


def test_iterations_are_filtered_by_status(windlass: Windlass, looped: str) -> None:
    (task,) = windlass("jobs", "iterations", looped, "each", "--status", "failed", "--json").json[
        "items"
    ]

    assert (task["index"], task["attempt"], task["output"]) == (1, 1, None)
    assert "division" in task["error"]["message"]


def test_the_number_of_listed_iterations_is_limited(windlass: Windlass, looped: str) -> None:
    listed = windlass("jobs", "iterations", looped, "each", "--limit", "2", "--json").json["items"]

    assert [task["index"] for task in listed] == [0, 1]


@pytest.mark.parametrize("node", ["nothing", "eahc"])
def test_an_unknown_node_is_reported(windlass: Windlass, looped: str, node: str) -> None:
    result = windlass("jobs", "iterations", looped, node)

    assert result.code == 2
    assert f"has no node {node!r}" in result.err


def test_logs_are_filtered_by_iteration(windlass: Windlass, looped: str) -> None:
    lines = windlass("jobs", "logs", looped, "--node", "each", "--index", "2", "--json").json[
        "items"
    ]

    assert [line["message"] for line in lines] == ["dividing by 2"]


def test_events_name_iterations(windlass: Windlass, looped: str) -> None:
    result = windlass("jobs", "events", looped)

    rows = [" ".join(line.split()) for line in result.out.splitlines()]
    assert any("iterator_started each 1 4 iterations, sequential, 1 at once" in row for row in rows)
    assert any("iteration_failed each[1] 1 ZeroDivisionError" in row for row in rows)
    assert any("iterator_completed each 4/4, 1 failed" in row for row in rows)


def test_events_as_json_have_the_fields_of_the_api(windlass: Windlass, looped: str) -> None:
    events = windlass("jobs", "events", looped, "--json").json["items"]

    (failed,) = [one for one in events if one["event_type"] == "iteration_failed"]
    assert failed["meta"]["iterator"]["total_iterations"] == 4
    assert failed["meta"]["error"]["has_stack_trace"] is True
    assert failed["context"]["workflow_id"] == "loop"


# Large values


def test_a_large_output_is_printed_completely(windlass: Windlass, folder: Path) -> None:
    (folder / "large.yaml").write_text(LARGE)
    ran = windlass("run", "large.yaml", "-i", "length=2000000", "--json").json

    shown = windlass("jobs", "show", ran["job_id"], "--json").json

    assert ran["result_data"]["make"] == "x" * 2_000_000
    assert shown["result_data"] == ran["result_data"]
    assert {node["node_id"]: node["output"] for node in shown["nodes"]} == ran["result_data"]


def test_outputs_beyond_the_limit_are_printed_by_their_size(
    windlass: Windlass, folder: Path
) -> None:
    (folder / "large.yaml").write_text(LARGE)

    ran = windlass("run", "large.yaml", "-i", f"length={16 << 20}", "--json").json

    assert ran["result_data"] == {
        "make": {"_truncated": True, "_size": (16 << 20) + 2},
        "small": {"echoed_params": {"n": 1}},
    }


def test_a_missing_output_is_reported(windlass: Windlass, folder: Path) -> None:
    (folder / "large.yaml").write_text(LARGE)
    windlass("run", "large.yaml", "-i", "length=300000", "--json")
    for file in (folder / ".windlass" / "artifacts").rglob("*"):
        if file.is_file():
            file.unlink()

    shown = windlass("jobs", "show", "--json").json

    assert shown["result_data"]["make"] == {"_truncated": True, "_size": 300_002, "_missing": True}
