"""A paginated loop with a SQL sink that is killed with SIGKILL writes every row of every page once."""

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
SHOPS, PAGES, ROWS = 12, 5, 4
ENDS_SECONDS = 100
CALLS = SHOPS * PAGES

HANDLERS = """
import os, time
from windlass import handler, Context

@handler("page")
def page(ctx: Context, shop: int, page: int) -> dict:
    ledger = os.open("ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ledger, b".")
    os.close(ledger)
    time.sleep(0.004)
    rows = [{{"shop": shop, "page": page, "place": place}} for place in range({rows})]
    return {{"data": rows, "paging": {{"more": page < {pages}, "page": page}}}}
"""
WORKFLOW = {
    "workflow_id": "killed",
    "nodes": {
        "fetch": {
            "handler": "page",
            "loop": {"collection": list(range(SHOPS)), "element": "shop", "concurrency": 3},
            "params": {"shop": "{{ shop }}", "page": 1},
            "retry": {
                "on_success": {
                    "while": "{{ response.paging.more }}",
                    "next_call": {"page": "{{ response.paging.page + 1 }}"},
                    "collect": "append",
                    "merge_path": "data",
                }
            },
            "sink": {
                "tool": "sqlite",
                "database": "target.db",
                "table": "orders",
                "mode": "append",
            },
        }
    },
}
EXPECTED = [
    (shop, page, place)
    for shop in range(SHOPS)
    for page in range(1, PAGES + 1)
    for place in range(ROWS)
]


def prepared(folder: Path) -> Path:
    folder.mkdir()
    (folder / "killed.json").write_bytes(msgspec.json.encode(WORKFLOW))
    (folder / "steps.py").write_text(HANDLERS.format(rows=ROWS, pages=PAGES))
    connection = apsw.Connection(str(folder / "target.db"))
    connection.execute("create table orders (shop integer, page integer, place integer)")
    connection.close()
    return folder


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


def killed_once(folder: Path, calls: int, seconds: float) -> int:
    """Run, kill after a number of calls, and resume; return how many calls had started before the kill."""
    prepared(folder)
    process = spawn(folder)
    ledger = folder / "ledger"
    while process.poll() is None and (not ledger.exists() or ledger.stat().st_size < calls):
        time.sleep(0.0005)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    begun = ledger.stat().st_size
    written = len(rows_of(folder))
    outcome = resumed(folder) if process.returncode == -signal.SIGKILL else None

    assert Counter(rows_of(folder)) == Counter(EXPECTED), (
        f"killed after {begun} calls, with {written} rows written"
    )
    if outcome is not None:
        found = [
            (row["shop"], row["page"], row["place"])
            for item in outcome["result_data"]["fetch"]
            for row in item
        ]
        assert found == EXPECTED
    return begun


def resumed(folder: Path) -> dict | None:
    """Resume the job and return its outcome, or None if it had finished before the kill."""
    process = spawn(folder, "--resume")
    out, err = process.communicate(timeout=ENDS_SECONDS)
    if process.returncode == 2 and b"unfinished" in err + out:
        return None
    assert process.returncode == 0, err.decode()
    return msgspec.json.decode(out)


def rows_of(folder: Path) -> list[tuple[int, int, int]]:
    connection = apsw.Connection(str(folder / "target.db"))
    try:
        return list(connection.execute("select shop, page, place from orders"))
    finally:
        connection.close()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kills", [pytest.param(KILLS, marks=pytest.mark.prove), SMOKE_KILLS])
def test_paginated_loop_killed_at_any_moment_writes_every_row_once(
    tmp_path: Path, kills: int
) -> None:
    chance = random.Random(1909)
    moments = [(chance.randrange(1, CALLS), chance.uniform(0.0, 0.012)) for _ in range(kills)]

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda n: killed_once(tmp_path / str(n), *moments[n]), range(kills)))

    assert len([begun for begun in found if begun < CALLS]) >= kills // 2, (
        f"too few kills hit the run: {found}"
    )
