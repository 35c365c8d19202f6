"""Old identities are deleted from the databases that sinks write to, and no others."""

import logging

import pytest

from tests.sinks.targets import Target, Writer
from windlass.connections.failures import DatabaseRefused
from windlass.sinks import identity_pruner
from windlass.sinks.identity_pruner import IdentityPruner


async def identities(target: Target) -> list[str]:
    rows = await target.rows("select identity from windlass_effects order by identity")
    return [row["identity"] for row in rows]


@pytest.fixture
async def marks(target: Target) -> Writer:
    await target.execute("create table marks (mark integer)")
    return Writer(target, table="marks")


async def test_identities_beyond_the_retention_are_deleted_with_a_later_write(
    target: Target, marks: Writer
) -> None:
    await marks.write({"mark": 1}, identity="task-1")
    await target.age_identities(days=1)
    await marks.write({"mark": 2}, identity="task-2")
    await target.age_identities(days=1)

    await Writer(target, table="marks").write({"mark": 3}, identity="task-3")

    assert await identities(target) == ["task-2", "task-3"]
    assert await marks.table() == [{"mark": 1}, {"mark": 2}, {"mark": 3}]


async def test_a_database_with_many_old_identities_is_pruned_with_every_write(
    target: Target, marks: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await marks.write({"mark": number}, identity=f"task-{number}")
    await target.age_identities(days=3)
    monkeypatch.setattr(identity_pruner, "DELETED_MAX", 2)
    writer = Writer(target, table="marks")

    remaining: list[int] = []
    for number in range(4, 7):
        await writer.write({"mark": number}, identity=f"task-{number}")
        remaining.append(len(await identities(target)))

    # Two of four old ones with each of the first two writes.
    assert remaining == [3, 2, 3]


async def test_the_replacement_of_a_table_is_known_as_long_as_its_task_writes(
    target: Target, marks: Writer
) -> None:
    for number in range(4):
        writer = Writer(target, table="marks", mode="replace")
        await writer.write({"mark": number}, identity=f"task-{number}")
        await target.age_identities(days=1)

    assert await marks.table() == [{"mark": number} for number in range(4)]


async def test_a_refused_deletion_is_logged_and_repeated_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pruner = IdentityPruner(30)
    calls: list[tuple[int, float]] = []

    async def refuse(limit: int, seconds: float) -> int:
        calls.append((limit, seconds))
        raise DatabaseRefused("permission denied for table windlass_effects", code="42501")

    with caplog.at_level(logging.WARNING):
        await pruner.prune("main_db", refuse)
        await pruner.prune("main_db", refuse)

    assert calls == [(1_000, 30 * 86_400)]
    [record] = caplog.records
    assert "permission denied" in record.getMessage()
    assert "allow the role to delete them" in record.getMessage()
