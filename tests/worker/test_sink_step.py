"""The sink step between the end of a handler and its report."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from msgspec import Raw
from worker_harness import Bench, task, working

from windlass import handler
from windlass.connections.folder import Folder
from windlass.connections.named import Connections
from windlass.core.changes import SinkSpec
from windlass.core.messages import Failed, Succeeded
from windlass.ports.handler import Context
from windlass.ports.sink import Sink, SinkReceipt
from windlass.sinks.file import FileSink
from windlass.sinks.sqlite import SqliteSink


@handler("at_once")
async def at_once(n: int) -> dict[str, int]:
    return {"n": n}


@handler("waiting")
async def waiting(ctx: Context, n: int) -> dict[str, int]:
    await asyncio.sleep(0)
    ctx.meta["seen"] = True
    return {"n": n}


@handler("threaded")
def threaded(n: int) -> dict[str, int]:
    return {"n": n}


@handler("isolated", mode="process")
def isolated(n: int) -> dict[str, int]:
    return {"n": n}


@handler("failing")
async def failing() -> None:
    raise ValueError("no output at all")


@handler("stubborn")
async def stubborn(ctx: Context) -> dict[str, int]:
    ctx.log("running")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return {"n": 1}
    return {"n": 2}


ALL = (at_once, waiting, threaded, isolated, failing, stubborn)


def into(tool: str, **options: Any) -> SinkSpec:
    return SinkSpec(tool, msgspec.json.encode(options), (), "run-1")


class Marks:
    """A database with one table, and the sink that writes to it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "marks.db"
        self.connections = Connections({"marks": f"sqlite:///{self.path}"}, Folder(folder))
        self.sinks: dict[str, Sink] = {
            "sqlite": SqliteSink(self.connections, 30),
            "file": FileSink(Folder(folder)),
        }
        self.execute("create table marks (n integer)")

    def execute(self, sql: str) -> list[Any]:
        connection = apsw.Connection(str(self.path))
        found = connection.execute(sql).fetchall()
        connection.close()
        return found

    def rows(self) -> list[int]:
        return [n for (n,) in self.execute("select n from marks order by n")]


@asynccontextmanager
async def marking(folder: Path, **settings: Any) -> AsyncIterator[tuple[Bench, Marks]]:
    marks = Marks(folder)
    async with working(*ALL, sinks=marks.sinks, **settings) as bench:
        yield bench, marks
    await marks.connections.aclose()


def meta_of(outcome: Succeeded | Failed) -> Any:
    return msgspec.json.decode(outcome.meta) if outcome.meta is not None else None


@pytest.mark.parametrize("name", ["at_once", "waiting", "threaded", "isolated"])
async def test_the_output_of_every_kind_of_handler_is_in_its_sink_before_it_is_reported(
    tmp_path: Path, name: str
) -> None:
    async with marking(tmp_path) as (bench, marks):
        ended = await bench.run(task(name, {"n": 7}, sink=into("sqlite", table="marks")))
        written = marks.rows()

    assert isinstance(ended.outcome, Succeeded), ended.outcome
    assert msgspec.json.decode(ended.outcome.output) == {"n": 7}
    assert meta_of(ended.outcome)["sink"] == {"tool": "sqlite", "rows": 1, "skipped": False}
    assert written == [7]


async def test_the_meta_of_the_handler_is_kept(tmp_path: Path) -> None:
    async with marking(tmp_path) as (bench, _):
        ended = await bench.run(task("waiting", {"n": 7}, sink=into("sqlite", table="marks")))

    assert meta_of(ended.outcome) == {
        "seen": True,
        "sink": {"tool": "sqlite", "rows": 1, "skipped": False},
    }


@pytest.mark.parametrize("name", ["at_once", "waiting", "threaded", "isolated"])
async def test_a_sink_that_refuses_fails_the_attempt_of_every_kind_of_handler(
    tmp_path: Path, name: str
) -> None:
    async with marking(tmp_path) as (bench, _):
        error = await bench.error(task(name, {"n": 7}, sink=into("sqlite", table="mark")))

    assert error.type == "sink_failed.table_unknown"
    assert error.message == "marks: table not found: 'mark'; did you mean 'marks'?"
    assert not error.retryable


async def test_a_task_lost_between_its_write_and_its_report_writes_nothing_twice(
    tmp_path: Path,
) -> None:
    async with marking(tmp_path) as (bench, marks):
        bench.broker.failures["finish"] = 1_000_000
        first = task(
            "at_once",
            {"n": 7},
            sink=into("sqlite", table="marks"),
            idempotency_key="job_node_page1",
        )
        await bench.broker.publish([first])
        await bench.until(lambda: bool(marks.rows()))
        bench.worker.abort()
        assert bench.broker.finished == {}

        async with working(*ALL, sinks=marks.sinks) as other:
            second = task(
                "at_once", {"n": 7}, "job_node_2", sink=first.sink, idempotency_key="job_node_page1"
            )
            ended = await other.run(second)

    assert meta_of(ended.outcome)["sink"] == {"tool": "sqlite", "rows": 1, "skipped": True}
    assert marks.rows() == [7]


async def test_a_failed_handler_writes_nothing(tmp_path: Path) -> None:
    async with marking(tmp_path) as (bench, marks):
        error = await bench.error(task("failing", sink=into("sqlite", table="marks")))

    assert error.type == "ValueError"
    assert marks.rows() == []


@pytest.mark.parametrize("name", ["at_once", "waiting", "threaded", "isolated"])
async def test_the_sink_counts_against_the_timeout(tmp_path: Path, name: str) -> None:
    async with marking(tmp_path) as (bench, marks):
        other = apsw.Connection(str(marks.path))
        other.execute("begin immediate")

        error = await bench.error(
            task(
                name,
                {"n": 7},
                sink=into("sqlite", table="marks"),
                timeout_seconds=1.5 if name == "isolated" else 0.4,
            )
        )

        other.execute("rollback")
        other.close()
    assert error.type == "timeout"
    assert marks.rows() == []


async def test_a_cancelled_attempt_stops_its_write(tmp_path: Path) -> None:
    async with marking(tmp_path, started_after_seconds=0.0) as (bench, marks):
        other = apsw.Connection(str(marks.path))
        other.execute("begin immediate")
        await bench.broker.publish([task("threaded", {"n": 7}, sink=into("sqlite", table="marks"))])
        await bench.until(lambda: bool(bench.broker.sent))

        await bench.broker.cancel(["job_node_1"])
        ended = await bench.ended()

        other.execute("rollback")
        other.close()
    assert isinstance(ended.outcome, Failed)
    assert ended.outcome.error.type == "cancelled"
    assert marks.rows() == []


async def test_a_handler_that_succeeds_after_its_task_was_returned_writes_nothing(
    tmp_path: Path,
) -> None:
    async with marking(tmp_path) as (bench, marks):
        await bench.broker.publish([task("stubborn", sink=into("sqlite", table="marks"))])
        await bench.until(lambda: bool(bench.lines))

        await bench.worker.stop(0.0)

    assert bench.broker.returned == ["job_node_1"]
    assert marks.rows() == []


async def test_an_unknown_sink_is_rejected_with_the_known_ones(tmp_path: Path) -> None:
    async with marking(tmp_path) as (bench, _):
        error = await bench.error(task("at_once", {"n": 7}, sink=into("sqlight", table="marks")))

    assert error.type == "sink_failed.tool_unknown"
    assert error.message == "unknown sink: 'sqlight'; this worker has sqlite"
    assert not error.retryable


async def test_an_unexpected_error_of_a_sink_fails_the_attempt_and_is_retryable(
    tmp_path: Path,
) -> None:
    class Broken:
        async def write(self, spec: SinkSpec, output: Raw, identity: str) -> SinkReceipt:
            raise ZeroDivisionError("a driver's bug")

        async def aclose(self) -> None: ...

    async with working(at_once, sinks={"broken": Broken()}) as bench:
        error = await bench.error(task("at_once", {"n": 7}, sink=into("broken")))

    assert (error.type, error.retryable) == ("sink_failed.ZeroDivisionError", True)


async def test_the_identity_of_a_task_without_a_key_is_its_id(tmp_path: Path) -> None:
    async with marking(tmp_path) as (bench, marks):
        await bench.run(task("at_once", {"n": 7}, sink=into("sqlite", table="marks")))

    assert marks.execute("select identity, run_key, rows from windlass_effects") == [
        ("job_node_1", "run-1", 1)
    ]
