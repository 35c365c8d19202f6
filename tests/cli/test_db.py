"""`windlass db`: schemas are brought up to date, and an embedded installation moves to PostgreSQL."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from tests.cli.conftest import Said
from windlass.process import open_embedded
from windlass.settings import load_settings
from windlass.stores.migrator import migrations
from windlass.stores.queries import POSTGRES, SQLITE

Windlass = Callable[..., Said]

SOURCE = "sqlite:///.windlass/windlass.db"


@pytest.fixture
def ran(windlass: Windlass) -> None:
    """An installation on which something was run."""
    assert windlass("run", "echo.yaml").code == 0


def asked(url: str, query: str) -> object:
    async def ask() -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_a_postgres_database_is_migrated_once(windlass: Windlass, postgres_url: str) -> None:
    first, second = (windlass("db", "migrate", "--database", postgres_url) for _ in range(2))

    count = len(migrations(POSTGRES))
    assert (first.code, second.code) == (0, 0)
    assert f"{count} migration{'s' if count > 1 else ''} applied" in first.out
    assert "nothing to do" in second.out


def test_an_embedded_database_is_migrated(windlass: Windlass, folder: Path) -> None:
    said = windlass("db", "migrate")

    assert said.code == 0
    assert f"{len(migrations(SQLITE))} migrations applied" in said.out
    assert (folder / ".windlass" / "windlass.db").exists()


def test_an_embedded_installation_moves_to_postgres(windlass: Windlass, ran: None, postgres_url: str) -> None:
    said = windlass("db", "copy", SOURCE, postgres_url)

    assert said.code == 0
    assert "all rows arrived" in said.out
    assert asked(postgres_url, "select status from jobs") == "completed"


def test_the_copy_is_told_as_json(windlass: Windlass, ran: None, postgres_url: str) -> None:
    said = windlass("db", "copy", SOURCE, postgres_url, "--shards", "4", "--json")

    rows = {table["name"]: table["rows"] for table in said.json["tables"]}
    assert (rows["jobs"], rows["workflows"], said.json["shards"]) == (1, 1, 4)


def test_a_source_that_is_in_use_is_refused(windlass: Windlass, folder: Path, postgres_url: str) -> None:
    async def copy_while_it_runs() -> Said:
        async with open_embedded(load_settings().settings):
            return await asyncio.to_thread(windlass, "db", "copy", SOURCE, postgres_url)

    said = asyncio.run(copy_while_it_runs())

    assert said.code == 2
    assert "in use by another Windlass process" in said.err
    assert asked(postgres_url, "select to_regclass('jobs') is null")


def test_a_second_copy_is_refused(windlass: Windlass, ran: None, postgres_url: str) -> None:
    windlass("db", "copy", SOURCE, postgres_url)

    said = windlass("db", "copy", SOURCE, postgres_url)

    assert said.code == 2
    assert "is not empty" in said.err


@pytest.mark.parametrize(("source", "target", "reason"), [
    ("sqlite:///nothing.db", "postgresql://a@127.0.0.1:1/b", "there is no database at nothing.db"),
    ("postgresql://a@127.0.0.1:1/b", "postgresql://a@127.0.0.1:1/b", "sqlite:///path"),
    (SOURCE, "sqlite:///other.db", "not 'sqlite:///other.db'"),
    (SOURCE, "postgresql://a:geheim@127.0.0.1:1/b", "cannot use the database postgresql://a:***@127.0.0.1:1/b"),
])  # fmt: skip
def test_what_can_not_be_copied_is_refused(
    windlass: Windlass, ran: None, folder: Path, source: str, target: str, reason: str
) -> None:
    said = windlass("db", "copy", source, target)

    assert said.code == 2
    assert reason in said.err
    assert "geheim" not in said.err
    assert not (folder / "nothing.db").exists()
