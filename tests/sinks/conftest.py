"""The databases of the tests of SQL sinks; each test runs on both."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sinks.targets import PostgresTarget, SqliteTarget, Target, opened


@pytest.fixture(params=["postgres", "sqlite"])
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Target]:
    if request.param == "sqlite":
        created = SqliteTarget(tmp_path)
    else:
        created = PostgresTarget(request.getfixturevalue("postgres_url"), tmp_path)
    async with opened(created) as ready:
        yield ready


@pytest.fixture
async def postgres(postgres_url: str, tmp_path: Path) -> AsyncIterator[Target]:
    async with opened(PostgresTarget(postgres_url, tmp_path)) as ready:
        yield ready


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Target]:
    async with opened(SqliteTarget(tmp_path)) as ready:
        yield ready
