"""The audit of the chaos test detects lost, duplicated and invented rows and events."""

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


class FinishedRun(Struct, frozen=True):
    """A short run without faults, in which all jobs have finished."""

    server_url: str
    database: str
    target: str
    logs: Path
    acknowledged: list[AcknowledgedSubmit]

    @property
    def jobs(self) -> dict[str, str]:
        """Return the job of each workflow."""
        return {submit.workflow_id: submit.job_id for submit in self.acknowledged}


@pytest.fixture(scope="module")
def finished_run(
    postgres_server: Server,
    redis_server: Server,
    tmp_path_factory: pytest.TempPathFactory,
    worker_id: str,
) -> FinishedRun:
    """Run once; each test changes a copy of its databases."""
    folder = tmp_path_factory.mktemp("finished_run")
    # A process may set up this module again after tests of other modules.
    database, target = f"audit_{folder.name}_{worker_id}", f"audit_target_{folder.name}_{worker_id}"
    database_url, target_url = (
        new_database(postgres_server.url, name) for name in (database, target)
    )
    acknowledged = asyncio.run(run_jobs(folder, database_url, target_url, redis_server.url))
    return FinishedRun(postgres_server.url, database, target, folder / FOLDER, acknowledged)


async def run_jobs(
    folder: Path, database_url: str, target_url: str, redis_url: str
) -> list[AcknowledgedSubmit]:
    """Run one job of each kind with real processes."""
    await rows(target_url, TABLE_SQL)
    environment = {
        **FAST,
        "WINDLASS_DATABASE_URL": database_url,
        "WINDLASS_REDIS_URL": redis_url,
        f"WINDLASS_CONNECTIONS__{TARGET.upper()}": target_url,
    }
    async with fleet(folder, environment) as processes:
        await asyncio.gather(
            processes.server(), processes.engine(), processes.worker(imports=HANDLERS)
        )
        async with Client(processes.url) as client, asyncio.timeout(ENDS_SECONDS_MAX):
            for name in KINDS:
                document = {"workflow_id": name, "nodes": DOCUMENTS[name]}
                await client.workflows.deploy(msgspec.json.encode(document), format="json")
            jobs = {
                name: await client.jobs.submit(name, {}, idempotency_key=f"key-of-{name}")
                for name in KINDS
            }
            for job in jobs.values():
                await client.jobs.wait(job.job_id)
    return [AcknowledgedSubmit(job.job_id, name, f"key-of-{name}") for name, job in jobs.items()]


@pytest.fixture(scope="module")
def copies() -> Iterator[int]:
    return count(1)


async def found(
    finished_run: FinishedRun,
    copies: Iterator[int],
    tamper: Tamper | None,
    *,
    in_target: bool = False,
) -> list[str]:
    """Return what the audit finds in a changed copy of the run."""
    database_url, target_url = (
        await copied(finished_run, finished_run.database, copies),
        await copied(finished_run, finished_run.target, copies),
    )
    if tamper is not None:
        connection = await asyncpg.connect(target_url if in_target else database_url)
        await tamper(connection, finished_run.jobs)
        await connection.close()
    return (await audit(database_url, target_url, finished_run.logs, finished_run.acknowledged))[1]


async def copied(finished_run: FinishedRun, database: str, copies: Iterator[int]) -> str:
    name = f"{database}_{next(copies)}"
    await rows(finished_run.server_url, f'create database "{name}" template "{database}"')
    return finished_run.server_url.rsplit("/", 1)[0] + f"/{name}"


def statement(sql: str, kind: str = "chain") -> Tamper:
    """Return a change of the rows of a job."""

    async def change(connection: Any, jobs: dict[str, str]) -> None:
        assert (await connection.execute(sql, jobs[kind])) not in (
            "UPDATE 0",
            "DELETE 0",
            "INSERT 0 0",
        )

    return change


def events(edit: Callable[[list[list[Any]]], list[list[Any]]]) -> Tamper:
    """Return a change of the events of the chain."""

    async def change(connection: Any, jobs: dict[str, str]) -> None:
        pages = await connection.fetch(
            "select body from event_pages where job_id = $1 order by first_seq", jobs["chain"]
        )
        edited = edit([event for page in pages for event in msgspec.json.decode(page[0])])
        await connection.execute("delete from events where job_id = $1", jobs["chain"])
        body = msgspec.json.encode(edited).decode()
        await connection.execute(
            "insert into events values ($1, 1, $2, $3)", jobs["chain"], edited[-1][0], body
        )

    return change


def numbered(log: list[list[Any]]) -> list[list[Any]]:
    return [[seq, *event[1:]] for seq, event in enumerate(log, 1)]


def first_completion(log: list[list[Any]]) -> int:
    return next(position for position, event in enumerate(log) if event[1] == "node_completed")


def without_completion(log: list[list[Any]]) -> list[list[Any]]:
    position = first_completion(log)
    return [*log[:position], *log[position + 1 :]]


def with_repeated_completion(log: list[list[Any]]) -> list[list[Any]]:
    position = first_completion(log)
    return [*log[: position + 1], *log[position:]]


async def lose(connection: Any, jobs: dict[str, str]) -> None:
    for table in ("events", "nodes", "jobs"):
        await connection.execute(f"delete from {table} where job_id = $1", jobs["chain"])


async def test_unchanged_run_has_no_violations(
    finished_run: FinishedRun, copies: Iterator[int]
) -> None:
    assert await found(finished_run, copies, None) == []


@pytest.mark.parametrize(
    ("tamper", "invariant"),
    [
        pytest.param(lose, "I24", id="a lost job"),
        pytest.param(
            statement("update jobs set status = 'running', completed_at = null where job_id = $1"),
            "I2",
            id="an unfinished job",
        ),
        pytest.param(
            events(without_completion),
            "I26",
            id="a missing event",
        ),
        pytest.param(
            events(lambda log: numbered(without_completion(log))),
            "I8",
            id="a missing completion",
        ),
        pytest.param(
            events(lambda log: numbered(with_repeated_completion(log))),
            "I1",
            id="a repeated completion",
        ),
        pytest.param(
            statement("update nodes set output = '{\"made\":\"up\"}' where job_id = $1 and node_id = 'b'"),
            "I6",
            id="an invented output",
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
async def test_changed_row_is_a_violation(
    finished_run: FinishedRun, copies: Iterator[int], tamper: Tamper, invariant: str
) -> None:
    violations = await found(finished_run, copies, tamper)

    assert invariant in {text.partition(" ")[0].rstrip(":") for text in violations}, violations


@pytest.mark.parametrize(
    "sql",
    [
        f"insert into {TABLE} select * from {TABLE} where job = $1",
        f"delete from {TABLE} where job = $1",
        f"update {TABLE} set run = 'invented' where job = $1",
    ],
    ids=["twice", "missing", "invented"],
)
async def test_wrong_sink_row_is_a_violation(
    finished_run: FinishedRun, copies: Iterator[int], sql: str
) -> None:
    violations = await found(finished_run, copies, statement(sql, "sink"), in_target=True)

    assert "I7" in {text.partition(" ")[0].rstrip(":") for text in violations}, violations


async def test_completion_without_an_execution_is_a_violation(
    finished_run: FinishedRun, copies: Iterator[int], tmp_path: Path
) -> None:
    job_id = finished_run.jobs["chain"].encode()
    for file in finished_run.logs.iterdir():
        lines = file.read_bytes().splitlines(keepends=True)
        (tmp_path / file.name).write_bytes(b"".join(line for line in lines if job_id not in line))

    violations = await found(msgspec.structs.replace(finished_run, logs=tmp_path), copies, None)

    assert any(text.startswith("I7") for text in violations), violations
