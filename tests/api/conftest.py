"""A system on a temporary database, and a client of its application without a network."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.api.harness import System


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with System.running(tmp_path) as running:
        yield running


@pytest.fixture
def client(system: System) -> httpx2.AsyncClient:
    return system.client
