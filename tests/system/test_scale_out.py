"""Servers, engines and workers in real processes that share PostgreSQL and are killed and paused."""

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.chaos.handlers import FOLDER
from benchmarks.chaos.history import ExecutionLogReader, Findings, histories, inspect
from tests.system.fleet import FAST, Fleet, Process, fleet, rows, until
from windlass.client import Client
from windlass.clock import SystemClock
from windlass.stores.postgres.store import PostgresStore

SHARDS, LEASE_SECONDS, LOST_SECONDS, REAP_SECONDS = 8, 1.5, 2.0, 0.25
# Allows for a machine that runs other tests.
SLACK_SECONDS = 2.0
ENDS_SECONDS_MAX = 60.0
HANDLERS = "from benchmarks.chaos.handlers import *\n"


def node(*parents: str, handler: str = "work", **params: Any) -> dict[str, Any]:
    reads = (
        {"reads": {parent: f"{{{{ {parent}.output }}}}" for parent in parents}}
        if handler == "work"
        else {}
    )
    return {"handler": handler, "dependencies": list(parents), "params": {**reads, **params}}


LOOP = {"collection": "{{ first.output.list }}", "element": "item", "concurrency": 4}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "diamond": {"a": node(), "b": node("a"), "c": node("a"), "d": node("b", "c")},
    "loop": {
        "first": node(width=12),
        "each": {**node("first", element="{{ item }}", index="{{ index }}"), "loop": LOOP},
        "last": node("each"),
    },
    "long": {"a": node(seconds=600)},
    # Many short nodes: one of them can be dispatched at any moment.
    "steady": {f"n{at}": node(*([f"n{at - 1}"] if at else []), seconds=0.05) for at in range(60)},
    "failing": {"a": node(actions=["error", "ok"])},
    "threads": {"a": node(handler="burn_in_thread", seconds=4.0)},
    "blocked": {"a": node(handler="block_in_loop", seconds=4.0)},
    "burning": {"a": node(handler="burn_in_loop", seconds=4.0)},
    "brief": {"a": node(seconds=1.5)},
}


class Deployment:
    """A fleet with a client and queries of its database."""

    def __init__(self, processes: Fleet, client: Client, database_url: str) -> None:
        self.fleet = processes
        self.client = client
        self.url = database_url

    async def submit(self, name: str, count: int = 1) -> list[str]:
        return [(await self.client.jobs.submit(name, {"number": at})).job_id for at in range(count)]

    async def ended(self, job_ids: list[str]) -> Counter[str]:
        async with asyncio.timeout(ENDS_SECONDS_MAX):
            return Counter([(await self.client.jobs.wait(job_id)).status for job_id in job_ids])

    async def owners(self) -> Counter[str]:
        """Return the number of shards of each engine."""
        found = await rows(
            self.url, "select owner from shards where owner is not null and expires_at > now()"
        )
        return Counter(row["owner"] for row in found)

    async def balanced(self, *engines: Process) -> Counter[str]:
        """Wait until only these engines own shards, in equal numbers."""
        fair = SHARDS // len(engines)

        async def is_fair() -> Counter[str] | None:
            owners = await self.owners()
            return owners if owners == {engine.id: fair for engine in engines} else None

        return await until(
            is_fair, 10 * LEASE_SECONDS + 10 * SLACK_SECONDS, f"{fair} shards for each of {engines}"
        )

    async def running(self, job_id: str) -> str:
        """Wait until a task of the job runs and return its worker."""

        async def found() -> str | None:
            held = await rows(
                self.url,
                "select worker_id from nodes where job_id = $1 and status = 'running'",
                job_id,
            )
            return held[0]["worker_id"] if held else None

        return await until(found, ENDS_SECONDS_MAX, f"a task of {job_id} runs")

    async def audit(self) -> Findings:
        """Return the findings of the checker for all jobs."""
        findings = Findings()
        log = ExecutionLogReader(
            self.fleet.folder / FOLDER, self.fleet.folder / f"executions{time.monotonic_ns()}.db"
        )
        store = await PostgresStore.open(self.url, SystemClock(), connections_max=10)
        try:
            async for batch in histories(self.url, store, log):
                inspect(batch, findings, settled=False)
        finally:
            await store.close()
            log.close()
        return findings


@pytest.fixture(params=["redis"])
async def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, redis_url: str
) -> AsyncIterator[Deployment]:
    """An API server; tests start engines and workers."""
    (tmp_path / "steps.py").write_text(HANDLERS)
    environment = {**FAST, "WINDLASS_DATABASE_URL": postgres_url}
    if request.param == "redis":
        environment["WINDLASS_REDIS_URL"] = redis_url
    async with fleet(tmp_path, environment) as processes:
        await processes.server()
        async with Client(processes.url) as client:
            for name, nodes in DOCUMENTS.items():
                await client.workflows.deploy(
                    msgspec.json.encode({"workflow_id": name, "nodes": nodes}), format="json"
                )
            yield Deployment(processes, client, postgres_url)


both_brokers = pytest.mark.parametrize("deployment", ["redis", "postgres"], indirect=True)


async def engines(deployment: Deployment, count: int = 2) -> list[Process]:
    return list(
        await asyncio.gather(*(deployment.fleet.engine(f"engine-{at}") for at in range(count)))
    )


async def workers(deployment: Deployment, count: int = 2) -> list[Process]:
    return list(
        await asyncio.gather(*(deployment.fleet.worker(f"worker-{at}") for at in range(count)))
    )


@both_brokers
async def test_two_engines_and_two_workers_share_the_work(deployment: Deployment) -> None:
    await asyncio.gather(engines(deployment), workers(deployment))

    job_ids = await deployment.submit("diamond", 20) + await deployment.submit("loop", 10)

    assert await deployment.ended(job_ids) == {"completed": 30}
    assert (await deployment.audit()).violations == []
    ran = await rows(
        deployment.url, "select distinct worker_id from nodes where worker_id is not null"
    )
    assert len(ran) == 2


async def test_engines_rebalance_shards_when_one_starts_or_stops(deployment: Deployment) -> None:
    first = await deployment.fleet.engine("engine-1")
    await deployment.balanced(first)
    second = await deployment.fleet.engine("engine-2")
    await deployment.balanced(first, second)

    code = await first.stop()
    given_back = await deployment.owners()

    assert code == 0
    # Without a delay: the engine released its leases.
    assert first.id not in given_back
    await deployment.balanced(second)


async def test_job_continues_at_once_when_its_engine_stops(deployment: Deployment) -> None:
    first, second = await engines(deployment)
    await workers(deployment)
    await deployment.balanced(first, second)
    job_ids = await deployment.submit("steady", 6)

    await first.stop()

    assert await deployment.ended(job_ids) == {"completed": 6}
    assert await longest_gap(deployment) < LEASE_SECONDS + SLACK_SECONDS
    assert (await deployment.audit()).violations == []


async def test_jobs_of_a_killed_engine_continue_after_its_lease(deployment: Deployment) -> None:
    first, second = await engines(deployment)
    await workers(deployment)
    await deployment.balanced(first, second)
    job_ids = await deployment.submit("steady", 6)

    await first.kill()

    assert await deployment.ended(job_ids) == {"completed": 6}
    assert await longest_gap(deployment) < LEASE_SECONDS + SLACK_SECONDS
    assert (await deployment.audit()).violations == []


async def longest_gap(deployment: Deployment) -> float:
    """Return the longest time without a dispatch in a job of many short nodes."""
    query = """
        select extract(epoch from max(gap)) as longest from (
            select at - lag(at) over (partition by job_id order by seq) as gap
              from event_list where event_type = 'node_dispatched') as gaps
    """
    return float((await rows(deployment.url, query))[0]["longest"])


async def test_paused_engine_commits_nothing_and_rejoins(deployment: Deployment) -> None:
    first, second = await engines(deployment)
    await workers(deployment)
    await deployment.balanced(first, second)
    job_ids = await deployment.submit("steady", 6)
    before = await epochs(deployment)

    first.send(signal.SIGSTOP)
    await deployment.balanced(second)
    taken = await epochs(deployment)
    first.send(signal.SIGCONT)

    assert await deployment.ended(job_ids) == {"completed": 6}
    await deployment.balanced(first, second)
    # Its shards were taken over under new epochs, so its own commits are refused.
    assert sum(taken[shard] > before[shard] for shard in before) >= SHARDS // 2
    assert first.is_alive
    assert (await deployment.audit()).violations == []


async def epochs(deployment: Deployment) -> dict[int, int]:
    return {
        row["shard"]: row["epoch"]
        for row in await rows(deployment.url, "select shard, epoch from shards")
    }


@both_brokers
async def test_task_of_a_killed_worker_runs_again_without_using_an_attempt(
    deployment: Deployment,
) -> None:
    _, found = await asyncio.gather(engines(deployment, 1), workers(deployment))
    [job_id] = await deployment.submit("long")
    holder = await deployment.running(job_id)
    [killed] = [process for process in found if process.id == holder]

    await killed.kill()
    began = time.monotonic()

    async def moved() -> bool:
        ran = executions(deployment, job_id)
        return len(ran) == 2 and len({run.worker_id for run in ran}) == 2

    await until(
        moved, LOST_SECONDS + REAP_SECONDS + 1 + SLACK_SECONDS, "the task runs at the other worker"
    )
    seconds = time.monotonic() - began
    await deployment.client.jobs.cancel(job_id)
    [row] = await rows(
        deployment.url, "select attempt, losses from nodes where job_id = $1", job_id
    )
    assert (row["attempt"], row["losses"]) == (1, 1)
    assert seconds < LOST_SECONDS + REAP_SECONDS + 1 + SLACK_SECONDS
    assert (await deployment.audit()).violations == []


def executions(deployment: Deployment, job_id: str) -> list[Any]:
    """Return the executions of a job."""
    folder = deployment.fleet.folder / FOLDER
    lines = (
        [line for file in folder.iterdir() for line in file.read_bytes().splitlines()]
        if folder.exists()
        else []
    )
    found = [msgspec.json.decode(line) for line in lines]
    return [_Run(one) for one in found if one.get("job_id") == job_id]


class _Run:
    def __init__(self, line: dict[str, Any]) -> None:
        self.worker_id: str = line["worker_id"]


async def test_stopping_worker_finishes_its_tasks(deployment: Deployment) -> None:
    _, [worker] = await asyncio.gather(engines(deployment, 1), workers(deployment, 1))
    job_ids = await deployment.submit("brief", 3)
    for job_id in job_ids:
        await deployment.running(job_id)

    code = await worker.stop()

    assert code == 0
    assert await deployment.ended(job_ids) == {"completed": 3}
    assert {len(executions(deployment, job_id)) for job_id in job_ids} == {1}


@pytest.mark.parametrize(
    ("deployment", "workflow"),
    [
        ("redis", "threads"),
        ("redis", "blocked"),
        pytest.param("redis", "burning", marks=pytest.mark.prove),
        pytest.param("postgres", "burning", marks=pytest.mark.prove),
    ],
    indirect=["deployment"],
)
async def test_busy_handlers_do_not_make_a_worker_lost(
    deployment: Deployment, workflow: str
) -> None:
    await asyncio.gather(engines(deployment, 1), workers(deployment, 2))

    job_ids = await deployment.submit(workflow, 3)

    assert await deployment.ended(job_ids) == {"completed": 3}
    assert {len(executions(deployment, job_id)) for job_id in job_ids} == {1}
    assert (await deployment.audit()).losses == 0


@both_brokers
async def test_worker_with_rare_heartbeats_adapts_to_the_timeout_of_the_engines(
    deployment: Deployment,
) -> None:
    # Consistent with each other, but not with the settings of the engine.
    rare = {
        "WINDLASS_WORKER__HEARTBEAT_SECONDS": "20",
        "WINDLASS_ENGINE__WORKER_TIMEOUT_SECONDS": "60",
    }
    worker = await deployment.fleet.worker("rare", settings=rare)
    # The worker is waiting for its next heartbeat when the engine appears.
    await engines(deployment, 1)

    job_ids = await deployment.submit("threads", 2)

    assert await deployment.ended(job_ids) == {"completed": 2}
    assert {len(executions(deployment, job_id)) for job_id in job_ids} == {1}
    assert (await deployment.audit()).losses == 0
    assert "engine.worker_timeout_seconds = 2" in worker.log.read_text()


async def test_process_with_another_number_of_shards_does_not_start(
    deployment: Deployment,
) -> None:
    process = await deployment.fleet.spawn(
        "other", "engine", settings={"WINDLASS_ENGINE__SHARDS": "9"}
    )

    assert await process.ended() == 2
    assert "the database has 8 shards, not 9; set engine.shards = 8" in process.log.read_text()


async def test_health_and_workers_show_all_processes(deployment: Deployment) -> None:
    [engine], found = await asyncio.gather(engines(deployment, 1), workers(deployment))
    await deployment.balanced(engine)
    names = {process.id for process in found}

    async def all_alive() -> bool:
        seen = await deployment.client.workers.list()
        return {worker.worker_id for worker in seen if worker.alive} == names

    await until(all_alive, ENDS_SECONDS_MAX, "all workers are seen")
    health = await deployment.client.health()
    command = [sys.executable, "-m", "windlass", "workers", "--server", deployment.fleet.url]
    listed = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=True
    )

    assert health.status == "ok"
    assert {shard.owner for shard in health.shards} == {engine.id}
    assert len(health.shards) == SHARDS
    assert {worker.worker_id for worker in health.workers} == names
    assert all(name in listed.stdout for name in names)


async def test_killed_worker_is_stale_and_stopped_one_disappears(deployment: Deployment) -> None:
    _, [killed, stopped] = await asyncio.gather(engines(deployment, 1), workers(deployment))

    async def listed() -> list[tuple[str, bool]]:
        return [(one.worker_id, one.alive) for one in await deployment.client.workers.list()]

    async def are_registered() -> bool:
        return {killed.id, stopped.id} <= dict(await listed()).keys()

    await until(are_registered, ENDS_SECONDS_MAX, "both workers are registered")
    await killed.kill()
    await stopped.stop()

    assert stopped.id not in dict(await listed())

    async def is_stale() -> bool:
        return await listed() == [(killed.id, False)]

    await until(is_stale, ENDS_SECONDS_MAX, "the killed worker is stale")
    command = [sys.executable, "-m", "windlass", "workers", "--server", deployment.fleet.url]
    shown = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=True
    )
    assert "stale" in shown.stdout


async def test_health_is_degraded_while_shards_have_no_engine(deployment: Deployment) -> None:
    before = await deployment.client.health()
    engine = await deployment.fleet.engine()
    await deployment.balanced(engine)
    owned = await deployment.client.health()
    await engine.kill()

    async def is_degraded() -> bool:
        return (await deployment.client.health()).status == "degraded"

    await until(is_degraded, ENDS_SECONDS_MAX, "the leases of the killed engine have expired")
    assert (before.status, owned.status, owned.engines) == ("degraded", "ok", [engine.id])
    assert before.problems == ["no engine is running: jobs do not advance"]


async def test_requests_waits_and_streams_reach_jobs_of_other_processes(
    deployment: Deployment,
) -> None:
    await asyncio.gather(engines(deployment, 1), workers(deployment, 1))
    [long], [failing] = await deployment.submit("long"), await deployment.submit("failing")
    await deployment.running(long)

    watching = asyncio.create_task(watched(deployment.client, long))
    await deployment.client.jobs.cancel(long, "enough")
    failed = await deployment.client.jobs.wait(failing)
    await deployment.client.jobs.retry(failing)

    assert (await deployment.ended([long])) == {"cancelled": 1}
    # A late result of the cancelled attempt may be recorded as ignored.
    assert "job_cancelled" in (await watching)[-2:]
    assert failed.status == "failed"
    assert (await deployment.ended([failing])) == {"completed": 1}


async def watched(client: Client, job_id: str) -> list[str]:
    async with asyncio.timeout(ENDS_SECONDS_MAX):
        return [event.event_type async for event in client.jobs.watch(job_id)]
