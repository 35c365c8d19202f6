"""`windlass db`: migrations, and the copy to PostgreSQL."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from tests.cli.conftest import Said
from windlass.embedded import open_embedded
from windlass.settings import load_settings
from windlass.stores.migrator import migrations

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

    count = len(migrations("postgres"))
    assert (first.code, second.code) == (0, 0)
    assert f"{count} migration{'s' if count > 1 else ''} applied" in first.out
    assert "up to date" in second.out


def test_an_embedded_database_is_migrated(windlass: Windlass, folder: Path) -> None:
    said = windlass("db", "migrate")

    assert said.code == 0
    assert f"{len(migrations('sqlite'))} migrations applied" in said.out
    assert (folder / ".windlass" / "windlass.db").exists()


def test_an_embedded_database_is_copied_to_postgres(windlass: Windlass, ran: None, postgres_url: str) -> None:
    said = windlass("db", "copy", SOURCE, postgres_url)

    assert said.code == 0
    assert "all rows verified" in said.out
    assert asked(postgres_url, "select status from jobs") == "completed"


def test_copy_prints_json(windlass: Windlass, ran: None, postgres_url: str) -> None:
    said = windlass("db", "copy", SOURCE, postgres_url, "--shards", "4", "--json")

    rows = {table["name"]: table["rows"] for table in said.json["tables"]}
    assert (rows["jobs"], rows["workflows"], said.json["shards"]) == (1, 1, 4)


def test_copying_a_database_in_use_is_rejected(windlass: Windlass, folder: Path, postgres_url: str) -> None:
    async def copy_while_it_runs() -> Said:
        async with open_embedded(load_settings().settings):
            return await asyncio.to_thread(windlass, "db", "copy", SOURCE, postgres_url)

    said = asyncio.run(copy_while_it_runs())

    assert said.code == 2
    assert "in use by another Windlass process" in said.err
    assert asked(postgres_url, "select to_regclass('jobs') is null")


def test_copying_twice_is_rejected(windlass: Windlass, ran: None, postgres_url: str) -> None:
    windlass("db", "copy", SOURCE, postgres_url)

    said = windlass("db", "copy", SOURCE, postgres_url)

    assert said.code == 2
    assert "is not empty" in said.err


@pytest.mark.parametrize(("source", "target", "reason"), [
    ("sqlite:///nothing.db", "postgresql://a@127.0.0.1:1/b", "database not found: nothing.db"),
    ("postgresql://a@127.0.0.1:1/b", "postgresql://a@127.0.0.1:1/b", "sqlite:///path"),
    (SOURCE, "sqlite:///other.db", "unsupported target of a copy: 'sqlite:///other.db'"),
    (SOURCE, "postgresql://a:geheim@127.0.0.1:1/b", "cannot use the database postgresql://a:***@127.0.0.1:1/b"),
])  # fmt: skip
def test_an_invalid_source_or_target_is_rejected(
    windlass: Windlass, ran: None, folder: Path, source: str, target: str, reason: str
) -> None:
    said = windlass("db", "copy", source, target)

    assert said.code == 2
    assert reason in said.err
    assert "geheim" not in said.err
    assert not (folder / "nothing.db").exists()
