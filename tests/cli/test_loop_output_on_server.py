"""Loops and large outputs of jobs on a server."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import CommandResult
from tests.cli.test_loop_output import LARGE, LOOP
from tests.cli.test_server import Spawn, stop, up

Windlass = Callable[..., CommandResult]


@pytest.fixture
def windlass_on(
    spawn: Spawn, windlass: Windlass, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Windlass]:
    """The command with WINDLASS_SERVER set to a server that has the workflows of these tests."""
    (folder / "loop.yaml").write_text(LOOP)
    (folder / "large.yaml").write_text(LARGE)
    dev = up(spawn("dev", "--port", "0", "--import", "gates"))
    monkeypatch.setenv("WINDLASS_SERVER", dev.url)
    yield windlass
    stop(dev.process)


def test_a_loop_is_followed_and_its_iterations_listed(windlass_on: Windlass) -> None:
    result = windlass_on("trigger", "loop", "--wait")
    job_id = windlass_on("jobs", "list", "--json").json["items"][0]["job_id"]
    listed = windlass_on("jobs", "iterations", job_id, "each", "--status", "failed", "--json").json[
        "items"
    ]
    lines = windlass_on("jobs", "logs", job_id, "--index", "3", "--follow").out

    assert "completed 4/4, 1 failed" in result.out
    assert [task["index"] for task in listed] == [1]
    assert lines.splitlines()[0].endswith("each[3]  info     dividing by 4")


def test_large_outputs_are_printed_completely(windlass_on: Windlass) -> None:
    triggered = windlass_on("trigger", "large", "-i", "length=2000000", "--wait", "--json").json

    shown = windlass_on("jobs", "show", triggered["job_id"], "--json").json

    whole = {"make": "x" * 2_000_000, "small": {"echoed_params": {"n": 1}}}
    assert triggered["result_data"] == whole
    assert shown["result_data"] == whole
    assert {node["node_id"]: node["output"] for node in shown["nodes"]} == whole


def test_outputs_beyond_the_limit_are_printed_by_their_size(windlass_on: Windlass) -> None:
    result = windlass_on("trigger", "large", "-i", f"length={16 << 20}", "--wait", "--json").json

    assert result["result_data"]["make"] == {"_truncated": True, "_size": (16 << 20) + 2}
    assert result["result_data"]["small"] == {"echoed_params": {"n": 1}}


def test_watch_prints_one_event_per_line(windlass_on: Windlass) -> None:
    windlass_on("trigger", "loop", "--wait", "--json")

    result = windlass_on("jobs", "watch", "--json")

    assert result.out.count('"event_type":"iteration_completed"') == 3
    assert result.out.count('"iterator_name":"n"') >= 12
