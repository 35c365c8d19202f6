"""The health of a deployment whose engines are other processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest
from msgspec import structs

from tests.api.harness import NO_UI
from tests.defaults import OUTPUT_BYTES_MAX, duties
from windlass.api.app import create_app
from windlass.api.state import ApiState
from windlass.brokers.memory import MemoryBroker
from windlass.clock import SystemClock
from windlass.core.errors import BrokerUnavailable, StoreUnavailable
from windlass.core.instants import MICROSECONDS
from windlass.engine.config import Sharing
from windlass.engine.engine import Engine
from windlass.engine.plan_cache import Plans
from windlass.factory import compile_stored
from windlass.ports.store.leases import EngineRow, Ownership
from windlass.spec import check_input
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.memory.store import MemoryStore
from windlass.stores.sqlite.connection import Connection
from windlass.stores.sqlite.store import SqliteStore

SHARDS, LONG_SECONDS = 4, 60.0
EXPIRED = 0.0
TIMEOUT_SECONDS = 6.0


class SetClock(SystemClock):
    """A clock that a test moves forward."""

    ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead


class SharedServer:
    """A server process, and the store and the broker that it shares with engines and workers."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.store = MemoryStore(self.clock)
        self.broker = MemoryBroker(self.clock)
        self.engine = Engine(
            store=self.store,
            broker=self.broker,
            clock=self.clock,
            plans=Plans(self.store, compile_stored),
            artifacts=MemoryArtifacts(),
            random=Random(1),
            owner="server",
            artifact_bytes_max=OUTPUT_BYTES_MAX,
            duties=duties(),
            check_input=check_input,
            sharing=Sharing(SHARDS, LONG_SECONDS, owns=False),
        )
        self.state = ApiState(
            store=self.store,
            artifacts=MemoryArtifacts(),
            broker=self.broker,
            control=self.engine,
            clock=self.clock,
            handlers=(),
            chance=Random(1),
            version="0.0.0",
            artifact_bytes_max=OUTPUT_BYTES_MAX,
            ui_folder=NO_UI,
        )
        transport = httpx2.ASGITransport(app=create_app(self.state))
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")

    async def start_engine(self, name: str, shards: range = range(SHARDS)) -> None:
        await self.store.leases.renew(EngineRow(name, TIMEOUT_SECONDS), {}, LONG_SECONDS)
        for shard in shards:
            await self.store.leases.claim(shard, name, LONG_SECONDS)

    async def get(self, path: str, status: int = 200) -> Any:
        response = await self.client.get(path)
        assert response.status_code == status
        return response.json()


@asynccontextmanager
async def serving(engine: str | None = None) -> AsyncIterator[SharedServer]:
    """Start a server, after an engine if one is named."""
    server = SharedServer()
    if engine is not None:
        await server.start_engine(engine)
    await server.engine.start()
    async with server.client:
        yield server
    await server.engine.stop()


async def test_health_is_ok_when_engines_own_all_shards() -> None:
    async with serving() as server:
        await server.start_engine("one", range(2))
        await server.start_engine("two", range(2, 4))

        health = await server.get("/health")

    assert (health["status"], health["problems"]) == ("ok", [])
    assert health["engines"] == ["one", "two"]
    assert [shard["owner"] for shard in health["shards"]] == ["one", "one", "two", "two"]


async def test_health_is_degraded_without_an_engine() -> None:
    async with serving() as server:
        health = await server.get("/health")
        await server.get("/readyz")

    assert health["status"] == "degraded"
    assert health["problems"] == ["no engine is running: jobs do not advance"]
    assert [(shard["shard"], shard["owner"]) for shard in health["shards"]] == [
        (shard, None) for shard in range(SHARDS)
    ]


async def test_health_is_degraded_while_a_shard_has_no_owner() -> None:
    async with serving() as server:
        await server.start_engine("one", range(2))
        await server.store.leases.claim(3, "dead", EXPIRED)

        health = await server.get("/health")
        ready = await server.get("/readyz")

    assert health["status"] == "degraded"
    assert health["problems"] == [
        "2 of 4 shards have no owner, and their jobs do not advance: 2, 3"
    ]
    # This process can serve: what it stores starts as soon as an engine takes the shards.
    assert ready["status"] == "ok"


async def test_health_is_degraded_without_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unavailable() -> None:
        raise BrokerUnavailable("no answer")

    async with serving("one") as server:
        monkeypatch.setattr(server.broker, "workers", unavailable)

        health = await server.get("/health")

    assert (health["status"], health["problems"]) == (
        "degraded",
        ["the broker is unavailable: no answer"],
    )


async def test_health_is_degraded_without_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unavailable() -> Ownership:
        raise StoreUnavailable("no answer")

    async def refused(now: int) -> None:
        raise StoreUnavailable("no answer")

    async with serving("one") as server:
        monkeypatch.setattr(server.store.leases, "ownership", unavailable)
        monkeypatch.setattr(server.store.leases, "probe", refused)

        health = await server.get("/health")
        ready = await server.get("/readyz", 503)

    problems = ["the database is unavailable: no answer"]
    assert (health["status"], health["problems"]) == ("degraded", problems)
    assert (ready["status"], ready["problems"]) == ("degraded", problems)


async def test_worker_is_stale_after_the_timeout_that_the_engines_publish() -> None:
    async with serving("one") as server:
        await server.broker.claim("w1", ["default"], 1, 0.0)
        [fresh] = (await server.get("/health"))["workers"]

        server.clock.ahead = round((TIMEOUT_SECONDS + 1) * 1e6)

        [silent] = (await server.get("/health"))["workers"]
        assert (fresh["alive"], silent["alive"]) == (True, False)


async def test_stopped_worker_is_removed_at_once() -> None:
    async with serving() as server:
        await server.broker.claim("node-1", ["default"], 1, 0.0)

        response = await server.client.delete("/api/v1/workers/node-1")

        assert response.status_code == 204
        assert (await server.get("/health"))["workers"] == []


@pytest.mark.parametrize("worker_id", ["a%20b", "x" * 301])
async def test_invalid_id_of_a_worker_is_refused(worker_id: str) -> None:
    async with serving() as server:
        response = await server.client.delete(f"/api/v1/workers/{worker_id}")

    assert response.status_code == 422


async def test_health_names_workers_of_the_process_that_take_no_tasks() -> None:
    async with serving("one") as server:
        state = structs.replace(server.state, worker_problems=lambda: ["a worker takes no tasks"])
        transport = httpx2.ASGITransport(app=create_app(state))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            health = (await client.get("/health")).json()
            ready = await client.get("/readyz")

    assert (health["status"], health["problems"]) == ("degraded", ["a worker takes no tasks"])
    # Submits are accepted.
    assert ready.status_code == 200


def refuse_writes(connection: Connection) -> None:
    """Have the connection refuse all later writes."""
    connection.execute("pragma query_only = on")


async def test_process_is_not_ready_while_the_database_refuses_writes(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "windlass.db"), SystemClock())
    async with serving("one") as server:
        state = structs.replace(server.state, store=store)
        transport = httpx2.ASGITransport(app=create_app(state))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            before = await client.get("/readyz")
            server.clock.ahead = 2 * MICROSECONDS
            # Reads still succeed.
            await store._database.transact(refuse_writes)
            ready = await client.get("/readyz")
            listed = await client.get("/api/v1/jobs")

    assert (before.status_code, ready.status_code, listed.status_code) == (200, 503, 200)
    assert "attempt to write a readonly database" in ready.json()["problems"][0]
    await store.close()


async def test_process_is_not_ready_while_the_broker_refuses_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(worker_id: str) -> None:
        raise BrokerUnavailable("READONLY You can't write against a read only replica.")

    async with serving("one") as server:
        monkeypatch.setattr(server.broker, "deregister", refused)

        ready = await server.get("/readyz", 503)

    assert ready["problems"] == [
        "the broker is unavailable: READONLY You can't write against a read only replica."
    ]


async def test_checks_of_the_same_second_share_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    probes: list[int] = []

    async def probe(now: int) -> None:
        probes.append(now)

    async with serving("one") as server:
        monkeypatch.setattr(server.store.leases, "probe", probe)
        for _ in range(10):
            await server.get("/readyz")
        server.clock.ahead += 2 * MICROSECONDS
        await server.get("/readyz")

    assert len(probes) == 2
