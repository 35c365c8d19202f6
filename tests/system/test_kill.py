"""A run killed with SIGKILL at any moment is resumed and completes, and no completed node runs again."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import msgspec
import pytest

# Kills in `make prove` and in `make test`.
KILLS, SMOKE_KILLS = 30, 3
LANES, DEPTH = 30, 10
ENDS_SECONDS = 100
LINE_BYTES = 24

HANDLERS = """
import os, time
from windlass import handler, Context

@handler("step")
def step(ctx: Context, seconds: float = 0.004) -> dict:
    line = f"{ctx.node_id} {ctx.attempt} {os.getpid()}".ljust(23).encode() + b"\\n"
    ledger = os.open("ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, line)
    os.close(ledger)
    time.sleep(seconds)
    return {"node": ctx.node_id}
"""


def workflow() -> str:
    """Return a workflow of 300 nodes: parallel lanes between one first and one last node."""
    nodes = {"first": {"handler": "step", "params": {}}}
    for lane in range(LANES):
        for step in range(DEPTH if lane else DEPTH - 2):
            before = f"n{lane}_{step - 1}" if step else "first"
            nodes[f"n{lane}_{step}"] = {"handler": "step", "params": {}, "dependencies": [before]}
    ends = [f"n{lane}_{(DEPTH if lane else DEPTH - 2) - 1}" for lane in range(LANES)]
    nodes["last"] = {"handler": "step", "params": {}, "dependencies": ends}
    assert len(nodes) == 300
    return msgspec.json.encode({"workflow_id": "killed", "nodes": nodes}).decode()


def spawn(folder: Path, *more: str) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-m",
        "windlass",
        "run",
        "killed.json",
        "--json",
        "--import",
        "steps",
        *more,
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe)


def completed(folder: Path) -> set[str]:
    """Return the nodes that are completed in the database."""
    database = folder / ".windlass" / "windlass.db"
    if not database.exists():
        return set()
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return {
            row[0]
            for row in connection.execute("select node_id from nodes where status = 'completed'")
        }
    except apsw.SQLError:  # killed before the schema was created
        return set()
    finally:
        connection.close()


def ledger(folder: Path) -> list[str]:
    file = folder / "ledger"
    return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []


def events(folder: Path) -> list[tuple[int, str, str | None]]:
    connection = apsw.Connection(str(folder / ".windlass" / "windlass.db"))
    try:
        return list(
            connection.execute(
                "select seq, event_type, node_id from event_list order by job_id, seq"
            )
        )
    finally:
        connection.close()


def kill_at(process: "subprocess.Popen[bytes]", folder: Path, calls: int, seconds: float) -> None:
    """Kill the process some time after so many handlers have started."""
    file = folder / "ledger"
    while (
        process.poll() is None
        and calls
        and (not file.exists() or file.stat().st_size < calls * LINE_BYTES)
    ):
        time.sleep(0.0005)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def killed_once(folder: Path, calls: int, seconds: float) -> int:
    """Run, kill and resume to the end; return how many nodes were completed when the process was killed."""
    folder.mkdir()
    (folder / "killed.json").write_text(workflow())
    (folder / "steps.py").write_text(HANDLERS)
    process = spawn(folder)
    kill_at(process, folder, calls, seconds)
    before, ran_before = completed(folder), ledger(folder)
    if (
        len(before) == 300
    ):  # the last node and the job end in one commit: there is nothing left to resume
        return len(before)

    outcome = _resume(folder)
    ran_after = ledger(folder)[len(ran_before) :]

    assert outcome["status"] == "completed"
    assert set(ran_after) & before == set(), "completed nodes ran again"
    assert set(ran_before) | set(ran_after) >= set(outcome["nodes"])
    counts = Counter(node for _, kind, node in events(folder) if kind == "node_completed")
    assert counts == Counter(outcome["nodes"].keys()), "every node has one accepted completion"
    assert [seq for seq, _, _ in events(folder)] == list(range(1, len(events(folder)) + 1))
    return len(before)


def _resume(folder: Path) -> dict:
    for more in (("--resume",), ()):
        process = spawn(folder, *more)
        out, err = process.communicate(timeout=ENDS_SECONDS)
        # Exit code 2: the process was killed before anything was stored, so there is nothing to resume.
        if process.returncode == 2 and more and not completed(folder):
            continue
        assert process.returncode == 0, err.decode()
        return msgspec.json.decode(out)
    raise AssertionError("nothing ran")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kills", [pytest.param(KILLS, marks=pytest.mark.prove), SMOKE_KILLS])
def test_job_killed_at_any_moment_is_resumed_and_runs_nothing_twice(
    tmp_path: Path, kills: int
) -> None:
    chance = random.Random(8470)
    # Some while the process starts, the others between the first handler and the last.
    at_start = kills // 6
    moments = [(0, chance.uniform(0.1, 0.6)) for _ in range(at_start)]
    moments += [
        (chance.randrange(1, 299), chance.uniform(0.0, 0.005)) for _ in range(kills - at_start)
    ]

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda n: killed_once(tmp_path / str(n), *moments[n]), range(kills)))

    assert len([count for count in found if 0 < count < 300]) >= kills // 2, (
        f"too few kills hit the run: {found}"
    )
