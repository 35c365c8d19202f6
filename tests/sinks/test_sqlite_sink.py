"""What only the SQLite sink does: paths of files, one writer at a time, and waits that can be cancelled."""

import asyncio
from pathlib import Path

import apsw
import pytest

from tests.sinks.targets import RETENTION_DAYS, Target, Writer, raw, sink_spec
from windlass.connections.failures import DatabaseRefused
from windlass.connections.folder import Folder, PathRefused
from windlass.connections.named import Connections, ConnectionUnknown
from windlass.sinks.sqlite import SqliteSink


def prepare(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("create table marks (mark integer)")
    connection.close()


async def test_a_file_is_addressed_by_its_path(tmp_path: Path) -> None:
    prepare(tmp_path / "marks.db")
    connections = Connections({}, Folder(tmp_path))

    await SqliteSink(connections, RETENTION_DAYS).write(
        sink_spec("sqlite", table="marks", database="marks.db"), raw({"mark": 1}), "task-1"
    )

    assert apsw.Connection(str(tmp_path / "marks.db")).execute(
        "select mark from marks"
    ).fetchall() == [(1,)]
    await connections.aclose()


@pytest.mark.parametrize(
    "database", ["../marks.db", "/etc/passwd", "link/marks.db", "a/../../marks.db", "", "."]
)
async def test_a_path_outside_the_directory_is_rejected(tmp_path: Path, database: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    prepare(tmp_path / "marks.db")
    (inside / "link").symlink_to(tmp_path)
    sink = SqliteSink(Connections({}, Folder(inside)), RETENTION_DAYS)

    with pytest.raises(PathRefused):
        await sink.write(
            sink_spec("sqlite", table="marks", database=database), raw({"mark": 1}), "task-1"
        )


async def test_a_name_and_a_path_together_are_rejected(tmp_path: Path) -> None:
    sink = SqliteSink(Connections({"main_db": "sqlite:///x.db"}, Folder(tmp_path)), RETENTION_DAYS)

    with pytest.raises(ConnectionUnknown, match="remove one of them"):
        await sink.write(
            sink_spec("sqlite", table="marks", connection="main_db", database="x.db"),
            raw([]),
            "task-1",
        )


async def test_without_a_connection_the_error_shows_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConnectionUnknown, match=r"\[connections\] NAME = \"sqlite:///"):
        await SqliteSink(Connections({}, Folder(tmp_path)), RETENTION_DAYS).write(
            sink_spec("sqlite", table="t"), raw([]), "task-1"
        )


async def test_a_writer_waits_for_another_process(sqlite: Target, tmp_path: Path) -> None:
    await sqlite.execute("create table marks (mark integer)")
    other = apsw.Connection(str(tmp_path / "target.db"))
    other.execute("begin immediate; insert into marks values (1)")
    writer = Writer(sqlite, table="marks")
    writing = asyncio.create_task(writer.write({"mark": 2}))
    done, _ = await asyncio.wait({writing}, timeout=0.2)
    assert not done

    other.execute("commit")
    other.close()
    await writing

    assert await writer.table() == [{"mark": 1}, {"mark": 2}]


async def test_a_cancelled_wait_for_another_process_ends_at_once(
    sqlite: Target, tmp_path: Path
) -> None:
    await sqlite.execute("create table marks (mark integer)")
    other = apsw.Connection(str(tmp_path / "target.db"))
    other.execute("begin immediate")
    writer = Writer(sqlite, table="marks")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await writer.write({"mark": 2})

    other.execute("rollback")
    other.close()
    assert not (await writer.write({"mark": 2})).skipped


async def test_an_integer_beyond_64_bits_is_rejected(sqlite: Target) -> None:
    await sqlite.execute("create table marks (mark integer)")

    with pytest.raises(DatabaseRefused, match="pass it as text"):
        await Writer(sqlite, table="marks").write({"mark": 2**63})


async def test_a_file_that_is_not_a_database_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "words.db").write_text(
        "these are words, and many of them, and none of them is a database" * 50
    )
    sink = SqliteSink(Connections({}, Folder(tmp_path)), RETENTION_DAYS)

    with pytest.raises(DatabaseRefused, match="not a database"):
        await sink.write(sink_spec("sqlite", table="t", database="words.db"), raw([]), "task-1")


async def test_a_strict_table_refuses_values_of_other_types(sqlite: Target) -> None:
    await sqlite.execute("create table marks (mark integer) strict")

    with pytest.raises(DatabaseRefused, match="cannot store TEXT value in INTEGER column"):
        await Writer(sqlite, table="marks").write({"mark": "many"})


async def test_writes_that_are_committed_together_fail_separately(
    sqlite: Target, tmp_path: Path
) -> None:
    await sqlite.execute("create table marks (mark integer primary key)")
    other = apsw.Connection(str(tmp_path / "target.db"))
    other.execute("begin immediate")
    marks = Writer(sqlite, table="marks")
    # The first one waits for the other process; the others wait behind it and are committed together.
    writing = [
        asyncio.create_task(marks.write({"mark": mark}, identity=f"task-{at}"))
        for at, mark in enumerate([0, 1, 1, 2])
    ]
    await asyncio.wait(writing, timeout=0.1)
    other.execute("rollback")
    other.close()

    outcomes = await asyncio.gather(*writing, return_exceptions=True)

    # Which of the two writes of the same mark fails is not defined.
    types = [type(outcome).__name__ for outcome in outcomes]
    assert (types[0], sorted(types[1:3]), types[3]) == (
        "SinkReceipt",
        ["DatabaseRefused", "SinkReceipt"],
        "SinkReceipt",
    )
    assert await marks.table() == [{"mark": 0}, {"mark": 1}, {"mark": 2}]


async def test_a_write_that_is_cancelled_in_a_group_leaves_the_others_alone(
    sqlite: Target, tmp_path: Path
) -> None:
    await sqlite.execute("create table marks (mark integer)")
    other = apsw.Connection(str(tmp_path / "target.db"))
    other.execute("begin immediate")
    marks = Writer(sqlite, table="marks")
    writing = [
        asyncio.create_task(marks.write({"mark": mark}, identity=f"task-{mark}"))
        for mark in range(4)
    ]
    await asyncio.wait(writing, timeout=0.1)

    writing[2].cancel()
    await asyncio.wait({writing[2]})
    other.execute("rollback")
    other.close()
    await asyncio.gather(*writing, return_exceptions=True)

    assert [row["mark"] for row in await marks.table()] == [0, 1, 3]


async def test_writes_end_when_their_database_is_closed(sqlite: Target, tmp_path: Path) -> None:
    await sqlite.execute("create table marks (mark integer)")
    other = apsw.Connection(str(tmp_path / "target.db"))
    other.execute("begin immediate")
    sink = SqliteSink(sqlite.connections, RETENTION_DAYS)
    writing = asyncio.create_task(
        sink.write(sink_spec("sqlite", table="marks"), raw({"mark": 1}), "task-1")
    )
    await asyncio.wait({writing}, timeout=0.1)

    await sqlite.connections.aclose()
    await asyncio.wait({writing})

    assert writing.cancelled()
    other.close()
