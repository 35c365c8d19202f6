"""The audit of the chaos run on a history that was tampered with: what is lost, doubled or made up shows."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest
from msgspec import Struct

from benchmarks.chaos.audit import audit
from benchmarks.chaos.faults import HANDLERS
from benchmarks.chaos.handlers import FOLDER
from benchmarks.chaos.work import DOCUMENTS, SLOW, TABLE, TABLE_SQL, TARGET
from simulation.history import AcknowledgedSubmit
from tests.servers import Server, new_database
from tests.system.fleet import FAST, fleet, rows
from windlass.client import Client

ENDS_SECONDS_MAX = 60.0
KINDS = [name for name in DOCUMENTS if name != SLOW]

Tamper = Callable[[Any, dict[str, str]], Awaitable[None]]


class Past(Struct, frozen=True):
    """A small run without faults, all of it over."""

    server_url: str
    database: str
    target: str
    logs: Path
    acknowledged: list[AcknowledgedSubmit]

    @property
    def jobs(self) -> dict[str, str]:
        """The job of each workflow."""
        return {told.workflow_id: told.job_id for told in self.acknowledged}


@pytest.fixture(scope="module")
def past(
    postgres_server: Server, redis_server: Server, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Past:
    """Made once: each test works on a copy."""
    folder = tmp_path_factory.mktemp("past")
    # A process may set the module up again after tests of others.
    database, target = f"audit_{folder.name}_{worker_id}", f"audit_target_{folder.name}_{worker_id}"
    database_url, target_url = (new_database(postgres_server.url, name) for name in (database, target))
    acknowledged = asyncio.run(lived(folder, database_url, target_url, redis_server.url))
    return Past(postgres_server.url, database, target, folder / FOLDER, acknowledged)


async def lived(folder: Path, database_url: str, target_url: str, redis_url: str) -> list[AcknowledgedSubmit]:
    """One job of each kind, run to its end by real processes."""
    await rows(target_url, TABLE_SQL)
    environment = {
        **FAST,
        "WINDLASS_DATABASE_URL": database_url,
        "WINDLASS_REDIS_URL": redis_url,
        f"WINDLASS_CONNECTIONS__{TARGET.upper()}": target_url,
    }
    async with fleet(folder, environment) as processes:
        await asyncio.gather(processes.server(), processes.engine(), processes.worker(imports=HANDLERS))
        async with Client(processes.url) as client, asyncio.timeout(ENDS_SECONDS_MAX):
            for name in KINDS:
                document = {"workflow_id": name, "nodes": DOCUMENTS[name]}
                await client.workflows.deploy(msgspec.json.encode(document), format="json")
            jobs = {name: await client.jobs.submit(name, {}, idempotency_key=f"key-of-{name}") for name in KINDS}
            for job in jobs.values():
                await client.jobs.wait(job.job_id)
    return [AcknowledgedSubmit(job.job_id, name, f"key-of-{name}") for name, job in jobs.items()]


@pytest.fixture(scope="module")
def copies() -> Iterator[int]:
    return count(1)


async def found(past: Past, copies: Iterator[int], tamper: Tamper | None, *, in_target: bool = False) -> list[str]:
    """What the audit says of a copy of the past that was tampered with."""
    database_url, target_url = await copied(past, past.database, copies), await copied(past, past.target, copies)
    if tamper is not None:
        connection = await asyncpg.connect(target_url if in_target else database_url)
        await tamper(connection, past.jobs)
        await connection.close()
    return (await audit(database_url, target_url, past.logs, past.acknowledged))[1]


async def copied(past: Past, database: str, copies: Iterator[int]) -> str:
    name = f"{database}_{next(copies)}"
    await rows(past.server_url, f'create database "{name}" template "{database}"')
    return past.server_url.rsplit("/", 1)[0] + f"/{name}"


def statement(sql: str, kind: str = "chain") -> Tamper:
    """A change to the rows of the job of a kind."""

    async def change(connection: Any, jobs: dict[str, str]) -> None:
        assert (await connection.execute(sql, jobs[kind])) not in ("UPDATE 0", "DELETE 0", "INSERT 0 0")

    return change


def events(edit: Callable[[list[list[Any]]], list[list[Any]]]) -> Tamper:
    """A change to the events of the chain."""

    async def change(connection: Any, jobs: dict[str, str]) -> None:
        pages = await connection.fetch(
            "select body from event_pages where job_id = $1 order by first_seq", jobs["chain"]
        )
        told = edit([event for page in pages for event in msgspec.json.decode(page[0])])
        await connection.execute("delete from events where job_id = $1", jobs["chain"])
        body = msgspec.json.encode(told).decode()
        await connection.execute("insert into events values ($1, 1, $2, $3)", jobs["chain"], told[-1][0], body)

    return change


def numbered(told: list[list[Any]]) -> list[list[Any]]:
    return [[seq, *event[1:]] for seq, event in enumerate(told, 1)]


def completions(told: list[list[Any]]) -> list[int]:
    return [place for place, event in enumerate(told) if event[1] == "node_completed"]


async def lose(connection: Any, jobs: dict[str, str]) -> None:
    for table in ("events", "nodes", "jobs"):
        await connection.execute(f"delete from {table} where job_id = $1", jobs["chain"])


async def test_unchanged_run_has_no_violations(past: Past, copies: Iterator[int]) -> None:
    assert await found(past, copies, None) == []


@pytest.mark.parametrize(
    ("tamper", "invariant"),
    [
        pytest.param(lose, "I24", id="a lost job"),
        pytest.param(
            statement("update jobs set status = 'running', completed_at = null where job_id = $1"),
            "I2",
            id="a job that never ended",
        ),
        pytest.param(
            events(lambda told: [event for place, event in enumerate(told) if place != completions(told)[0]]),
            "I26",
            id="a missing event",
        ),
        pytest.param(
            events(lambda told: numbered([e for place, e in enumerate(told) if place != completions(told)[0]])),
            "I8",
            id="a missing completion",
        ),
        pytest.param(
            events(lambda told: numbered([*told[: completions(told)[0] + 1], *told[completions(told)[0] :]])),
            "I1",
            id="a doubled completion",
        ),
        pytest.param(
            statement("update nodes set output = '{\"made\":\"up\"}' where job_id = $1 and node_id = 'b'"),
            "I6",
            id="an output that no handler made",
        ),
        pytest.param(
            statement("update nodes set status = 'failed' where job_id = $1 and node_id = 'b'"),
            "I2",
            id="an illegal state",
        ),
        pytest.param(
            statement("delete from iterations where job_id = $1 and \"index\" = 2", "loop"),
            "I2",
            id="a lost iteration",
        ),
    ],
)  # fmt: skip
async def test_changed_row_is_a_violation(past: Past, copies: Iterator[int], tamper: Tamper, invariant: str) -> None:
    told = await found(past, copies, tamper)

    assert invariant in {text.partition(" ")[0].rstrip(":") for text in told}, told


@pytest.mark.parametrize(
    "sql",
    [
        f"insert into {TABLE} select * from {TABLE} where job = $1",
        f"delete from {TABLE} where job = $1",
        f"update {TABLE} set run = 'made up' where job = $1",
    ],
    ids=["twice", "missing", "made up"],
)
async def test_wrong_sink_row_is_a_violation(past: Past, copies: Iterator[int], sql: str) -> None:
    told = await found(past, copies, statement(sql, "sink"), in_target=True)

    assert "I7" in {text.partition(" ")[0].rstrip(":") for text in told}, told


async def test_completion_without_an_execution_is_a_violation(
    past: Past, copies: Iterator[int], tmp_path: Path
) -> None:
    job_id = past.jobs["chain"].encode()
    for file in past.logs.iterdir():
        lines = file.read_bytes().splitlines(keepends=True)
        (tmp_path / file.name).write_bytes(b"".join(line for line in lines if job_id not in line))

    told = await found(msgspec.structs.replace(past, logs=tmp_path), copies, None)

    assert any(text.startswith("I7") for text in told), told
