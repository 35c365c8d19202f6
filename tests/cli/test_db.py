"""`windlass db`: migrations, and the copy to PostgreSQL."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from tests.cli.conftest import CommandResult
from windlass.embedded import open_embedded
from windlass.settings_loader import load_settings
from windlass.stores.migrator import migrations
from windlass.stores.queries import POSTGRES, SQLITE

Windlass = Callable[..., CommandResult]

SOURCE = "sqlite:///.windlass/windlass.db"


@pytest.fixture
def ran(windlass: Windlass) -> None:
    """A database with a finished job."""
    assert windlass("run", "echo.yaml").code == 0


def fetch_value(url: str, query: str) -> object:
    async def fetch() -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

    return asyncio.run(fetch())


def test_a_postgres_database_is_migrated_once(windlass: Windlass, postgres_url: str) -> None:
    first, second = (windlass("db", "migrate", "--database", postgres_url) for _ in range(2))

    count = len(migrations(POSTGRES))
    assert (first.code, second.code) == (0, 0)
    assert f"{count} migration{'s' if count > 1 else ''} applied" in first.out
    assert "up to date" in second.out


def test_an_embedded_database_is_migrated(windlass: Windlass, folder: Path) -> None:
    result = windlass("db", "migrate")

    assert result.code == 0
    assert f"{len(migrations(SQLITE))} migrations applied" in result.out
    assert (folder / ".windlass" / "windlass.db").exists()


def test_an_embedded_database_is_copied_to_postgres(
    windlass: Windlass, ran: None, postgres_url: str
) -> None:
    result = windlass("db", "copy", SOURCE, postgres_url)

    assert result.code == 0
    assert "all rows verified" in result.out
    assert fetch_value(postgres_url, "select status from jobs") == "completed"


def test_copy_prints_json(windlass: Windlass, ran: None, postgres_url: str) -> None:
    result = windlass("db", "copy", SOURCE, postgres_url, "--shards", "4", "--json")

    rows = {table["name"]: table["rows"] for table in result.json["tables"]}
    assert (rows["jobs"], rows["workflows"], result.json["shards"]) == (1, 1, 4)


def test_copying_a_database_in_use_is_rejected(
    windlass: Windlass, folder: Path, postgres_url: str
) -> None:
    async def copy_while_it_runs() -> CommandResult:
        async with open_embedded(load_settings().settings):
            return await asyncio.to_thread(windlass, "db", "copy", SOURCE, postgres_url)

    result = asyncio.run(copy_while_it_runs())

    assert result.code == 2
    assert "in use by another Windlass process" in result.err
    assert fetch_value(postgres_url, "select to_regclass('jobs') is null")


def test_copying_twice_is_rejected(windlass: Windlass, ran: None, postgres_url: str) -> None:
    windlass("db", "copy", SOURCE, postgres_url)

    result = windlass("db", "copy", SOURCE, postgres_url)

    assert result.code == 2
    assert "is not empty" in result.err


@pytest.mark.parametrize(("source", "target", "reason"), [
    ("sqlite:///nothing.db", "postgresql://a@127.0.0.1:1/b", "database not found: nothing.db"),
    ("postgresql://a@127.0.0.1:1/b", "postgresql://a@127.0.0.1:1/b", "sqlite:///path"),
    (SOURCE, "sqlite:///other.db", "unsupported target of a copy: 'sqlite:///other.db'"),
    (SOURCE, "postgresql://a:hidden@127.0.0.1:1/b", "cannot use the database postgresql://a:***@127.0.0.1:1/b"),
])  # fmt: skip
def test_an_invalid_source_or_target_is_rejected(
    windlass: Windlass, ran: None, folder: Path, source: str, target: str, reason: str
) -> None:
    result = windlass("db", "copy", source, target)

    assert result.code == 2
    assert reason in result.err
    assert "hidden" not in result.err
    assert not (folder / "nothing.db").exists()
