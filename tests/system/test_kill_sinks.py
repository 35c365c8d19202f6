"""A process with a SQL sink that is killed with SIGKILL at random moments writes every row once."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sinks.targets import PostgresTarget, SqliteTarget

WRITES = 160
ROWS = 3
KILLS = 8
ENDS_SECONDS = 60

# Writes all tasks from the first one, like a worker whose reports were lost.
PROGRAM = f"""
import asyncio, sys
from pathlib import Path
import msgspec
from msgspec import Raw
from windlass.connections.folder import Folder
from windlass.connections.named import Connections
from windlass.core.changes import SinkSpec
from windlass.sinks.postgres import PostgresSink
from windlass.sinks.sqlite import SqliteSink

async def main():
    connections = Connections({{"main_db": sys.argv[2]}}, Folder(Path(".")))
    sink = (PostgresSink if sys.argv[1] == "postgres" else SqliteSink)(connections, 30.0)
    spec = SinkSpec(sys.argv[1], b'{{"table": "marks"}}', (), "run")
    for task in range({WRITES}):
        rows = [{{"task": task, "number": number}} for number in range({ROWS})]
        receipt = await sink.write(spec, Raw(msgspec.json.encode(rows)), f"task-{{task}}")
        if not receipt.skipped:
            print(task, flush=True)
    await connections.aclose()

asyncio.run(main())
"""


@pytest.mark.parametrize("tool", ["postgres", "sqlite"])
async def test_writer_killed_repeatedly_writes_every_row_once(
    tool: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = (
        request.getfixturevalue("postgres_url")
        if tool == "postgres"
        else f"sqlite:///{tmp_path / 'target.db'}"
    )
    target = PostgresTarget(url, tmp_path) if tool == "postgres" else SqliteTarget(tmp_path)
    await target.execute("create table marks (task integer, number integer)")
    chance = random.Random(4)

    for _ in range(KILLS):
        await asyncio.to_thread(kill, tool, url, tmp_path, chance.randint(1, 2 * WRITES // KILLS))
    done = await asyncio.to_thread(
        subprocess.run, command(tool, url), cwd=tmp_path, capture_output=True, timeout=ENDS_SECONDS
    )

    assert done.returncode == 0, done.stderr
    rows = await target.rows(
        "select task, number, count(*) as times from marks group by task, number"
    )
    assert len(rows) == WRITES * ROWS
    assert {row["times"] for row in rows} == {1}


def command(tool: str, url: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, tool, url]


def kill(tool: str, url: str, folder: Path, writes: int) -> None:
    """Kill a writer after a number of new writes, during the next one."""
    with subprocess.Popen(command(tool, url), cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(writes):
            process.stdout.readline()
        process.kill()
