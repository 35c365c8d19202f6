"""Which operations run on the event loop and which on the thread, and the size of the write-ahead log."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from windlass.core.errors import CommitUnknown, RequestRefused
from windlass.stores.sqlite import writer as writer_module
from windlass.stores.sqlite.connection import CHECKPOINT_PAGES, Connection, connect
from windlass.stores.sqlite.writer import SqliteWriter

PAGE_BYTES = 4_096


@asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[SqliteWriter]:
    connection = connect(str(path))
    connection.execute("create table notes (note text)")
    writer = SqliteWriter(connection, str(path))
    try:
        yield writer
    finally:
        await writer.close()
        connection.close()


def note(text: str) -> Any:
    return lambda connection: connection.execute("insert into notes values (?)", (text,))


def notes(path: Path) -> list[str]:
    connection = connect(str(path), read_only=True)
    found = [row[0] for row in connection.execute("select note from notes order by rowid")]
    connection.close()
    return found


async def test_a_single_small_operation_is_durable_when_the_call_returns(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as writer:
        writing = writer.write(note("a"), undo=False, small=True)

        assert writing.done()
        assert notes(tmp_path / "x.db") == ["a"]


async def test_a_small_operation_does_not_overtake_waiting_ones(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as writer:
        writing = [writer.write(note(str(number)), small=number % 2 == 1) for number in range(50)]

        assert not writing[1].done()
        await asyncio.gather(*writing)
        assert notes(tmp_path / "x.db") == [str(number) for number in range(50)]


async def test_the_loop_does_not_wait_for_another_process(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as writer:
        other = connect(str(tmp_path / "x.db"))
        other.execute("begin immediate")

        writing = writer.write(note("a"), small=True)

        assert not writing.done()
        other.execute("commit")
        other.close()
        await asyncio.wait_for(writing, 10)
        assert notes(tmp_path / "x.db") == ["a"]


async def test_after_a_slow_commit_the_next_ones_run_on_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "x.db") as writer:
        with monkeypatch.context() as slow:
            slow.setattr(writer_module, "INLINE_SECONDS_MAX", -1.0)
            slow.setattr(writer_module, "INLINE_PAUSE_SECONDS", 0.2)
            assert writer.write(note("a"), small=True).done()

        later = writer.write(note("b"), small=True)

        assert not later.done()
        await later
        await asyncio.sleep(0.25)
        assert writer.write(note("c"), small=True).done()


async def test_the_write_ahead_log_stays_small_on_the_loop_and_on_the_thread(
    tmp_path: Path,
) -> None:
    text = "x" * 3_000
    async with opened(tmp_path / "x.db") as writer:
        for number in range(2 * CHECKPOINT_PAGES):
            await writer.write(note(text), undo=False, small=number % 500 != 0)
        await writer.write(note("last"))

        # The size that automatic checkpoints leave.
        assert (tmp_path / "x.db-wal").stat().st_size < 1.2 * CHECKPOINT_PAGES * (PAGE_BYTES + 24)
        assert (tmp_path / "x.db").stat().st_size > CHECKPOINT_PAGES * PAGE_BYTES


@pytest.mark.parametrize("small", [True, False])
async def test_an_operation_is_written_after_another_one_raised(
    tmp_path: Path, *, small: bool
) -> None:
    def broken(connection: Connection) -> None:
        connection.execute("insert into notes values ('half')")
        raise ZeroDivisionError

    def refusing(_: Connection) -> None:
        raise RequestRefused("not this one")

    async with opened(tmp_path / "x.db") as writer:
        with pytest.raises(CommitUnknown):
            await writer.write(broken, small=small)
        with pytest.raises(RequestRefused):
            await writer.write(refusing, small=small)
        await writer.write(note("a"), small=small)

        assert notes(tmp_path / "x.db") == ["a"]


async def test_a_closed_writer_rejects_operations(tmp_path: Path) -> None:
    async with opened(tmp_path / "x.db") as writer:
        await writer.close()

        with pytest.raises(CommitUnknown, match="closed"):
            await writer.write(note("a"), small=True)
