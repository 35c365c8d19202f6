"""Reads the histories of jobs from PostgreSQL and the execution logs of workers in batches, and checks them."""

import json
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from benchmarks.chaos.handlers import Ended, Started
from simulation.checker import check_job
from simulation.history import Execution, JobHistory, SinkRow, Violation
from windlass.core.changes import IterationRow, NodeRow
from windlass.core.events import Event
from windlass.core.jobs import JobRecord
from windlass.engine.plan_cache import Plans
from windlass.factory import compile_stored
from windlass.ports.store import Store
from windlass.ports.store.jobs import Request
from windlass.stores.columns import ITERATION, JOB_NAMES, NODE, job_of_row, quoted
from windlass.stores.memory.records import LoopRecords
from windlass.stores.postgres.pool import Session, connect
from windlass.stores.rows import decode_page, event_of

# Jobs whose whole history is in memory at a time.
BATCH_JOBS = 200
INSERT_LINES = 5_000
VIOLATIONS_MAX = 1_000

_JOBS = f"""
select {", ".join(map(quoted, JOB_NAMES))},
       coalesce((select last_seq from events
                  where events.job_id = jobs.job_id order by first_seq desc limit 1), 1) as seq
  from jobs where job_id > $1 order by job_id limit $2
"""
_OF_JOBS = {
    "nodes": f"select {', '.join(map(quoted, NODE.names))} from node_list where job_id = any ($1::text[])",
    "iterations": f"select {', '.join(map(quoted, ITERATION.names))} from iterations where job_id = any ($1::text[])",
    "call_outputs": 'select job_id, number, generation, "index", call, output from call_outputs '
    "where job_id = any ($1::text[])",
    "chunks": "select job_id, number, generation, body from collection_chunks where job_id = any ($1::text[]) "
    "order by job_id, number, generation, chunk",
    "events": "select job_id, body from event_pages where job_id = any ($1::text[]) order by job_id, first_seq",
    "requests": "select job_id, request_id, kind, created_at, reason, from_node, applied from requests "
    "where job_id = any ($1::text[])",
}
_started = msgspec.json.Decoder(Started)
_ended = msgspec.json.Decoder(Ended)


class Findings(Struct):
    """The counts and violations of an audit."""

    jobs: Counter[str] = field(default_factory=Counter)
    nodes: Counter[str] = field(default_factory=Counter)
    events: int = 0
    executions: int = 0
    # Deliveries that were lost with their worker and made again.
    losses: int = 0
    rounds: int = 0
    violations: list[Violation] = field(default_factory=list)
    acknowledged_seen: set[str] = field(default_factory=set)


class ExecutionLogReader:
    """The execution logs of all workers in a database, because there may be millions of lines."""

    def __init__(self, folder: Path, place: Path) -> None:
        self._database = sqlite3.connect(place)
        self._database.execute(
            "create table begun (run text primary key, job_id text, body blob) without rowid"
        )
        self._database.execute("create table ended (run text primary key, body blob) without rowid")
        for file in sorted(folder.iterdir()) if folder.exists() else ():
            self._read(file)
        self._database.execute("create index of_job on begun (job_id)")

    def _read(self, file: Path) -> None:
        begun: list[tuple[str, str, bytes]] = []
        ended: list[tuple[str, bytes]] = []
        with file.open("rb") as lines:
            for line in lines:
                if line.startswith(b'{"run":') and b'"job_id":' in line[:64]:
                    found = _started.decode(line)
                    begun.append((found.run, found.job_id, line))
                else:
                    ended.append((_ended.decode(line).run, line))
                if len(begun) + len(ended) >= INSERT_LINES:
                    self._insert(begun, ended)
        self._insert(begun, ended)

    def _insert(self, begun: list[tuple[str, str, bytes]], ended: list[tuple[str, bytes]]) -> None:
        self._database.executemany("insert into begun values (?, ?, ?)", begun)
        self._database.executemany("insert into ended values (?, ?)", ended)
        self._database.commit()
        begun.clear()
        ended.clear()

    def executions(self, job_ids: Sequence[str]) -> dict[str, list[Execution]]:
        """Return the executions of these jobs."""
        found: dict[str, list[Execution]] = {}
        query = (
            "select begun.body, ended.body from json_each(?) as wanted "
            "join begun on begun.job_id = wanted.value left join ended using (run)"
        )
        for begun, ended in self._database.execute(query, (json.dumps(job_ids),)):
            execution = _started.decode(begun).execution(
                None if ended is None else _ended.decode(ended)
            )
            found.setdefault(execution.job_id, []).append(execution)
        return found

    def jobs(self) -> int:
        """Return the number of jobs with executions."""
        return self._database.execute("select count(distinct job_id) from begun").fetchone()[0]

    def close(self) -> None:
        """Close the database."""
        self._database.close()


async def histories(
    url: str,
    store: Store,
    log: ExecutionLogReader | None,
    sinks: Mapping[str, Sequence[SinkRow]] | None = None,
) -> AsyncIterator[list[JobHistory]]:
    """Yield the histories of all jobs of a database in batches."""
    plans = Plans(store, compile_stored)
    session = await connect(url)
    after = ""
    try:
        while jobs := [
            job_of_row(tuple(row)) for row in await session.fetch(_JOBS, after, BATCH_JOBS)
        ]:
            after = jobs[-1].spec.job_id
            yield await _batch(session, plans, jobs, log, sinks)
    finally:
        await session.close()


async def _batch(
    session: Session,
    plans: Plans,
    jobs: Sequence[JobRecord],
    log: ExecutionLogReader | None,
    sinks: Mapping[str, Sequence[SinkRow]] | None,
) -> list[JobHistory]:
    job_ids = [job.spec.job_id for job in jobs]
    rows = {name: await session.fetch(query, job_ids) for name, query in _OF_JOBS.items()}
    executions = {} if log is None else log.executions(job_ids)
    nodes: dict[str, list[NodeRow]] = {}
    events: dict[str, list[Event]] = {}
    requests: dict[str, list[tuple[Request, bool]]] = {}
    for row in rows["nodes"]:
        nodes.setdefault(row["job_id"], []).append(NODE.row(tuple(row)))
    for job_id, body in rows["events"]:
        events.setdefault(job_id, []).extend(event_of(event) for event in decode_page(body))
    for job_id, request_id, kind, created_at, reason, from_node, applied in rows["requests"]:
        request = Request(request_id, job_id, kind, created_at, reason, from_node)
        requests.setdefault(job_id, []).append((request, applied))
    loops = _loops(rows)
    return [
        JobHistory(
            job=job,
            plan=await plans.get(job.spec.workflow_id, job.spec.version),
            nodes=nodes.get(job.spec.job_id, []),
            events=events.get(job.spec.job_id, []),
            requests=requests.get(job.spec.job_id, []),
            executions=executions.get(job.spec.job_id, []),
            is_execution_log_complete=log is not None,
            loops=loops.get(job.spec.job_id, LoopRecords()),
            sink_rows=None if sinks is None else sinks.get(job.spec.job_id, ()),
        )
        for job in jobs
    ]


def _loops(rows: Mapping[str, Sequence[Any]]) -> dict[str, LoopRecords]:
    tasks: dict[str, list[IterationRow]] = {}
    collections: dict[str, dict[tuple[int, int], list[bytes]]] = {}
    pages: dict[str, dict[tuple[int, int, int, int], Raw]] = {}
    for row in rows["iterations"]:
        tasks.setdefault(row["job_id"], []).append(ITERATION.row(tuple(row)))
    for job_id, number, generation, body in rows["chunks"]:
        collections.setdefault(job_id, {}).setdefault((number, generation), []).append(
            body.encode()
        )
    for job_id, number, generation, index, call, output in rows["call_outputs"]:
        pages.setdefault(job_id, {})[number, generation, index, call] = Raw(output.encode())
    return {
        job_id: LoopRecords(
            tasks.get(job_id, []), collections.get(job_id, {}), pages.get(job_id, {})
        )
        for job_id in {*tasks, *collections, *pages}
    }


def inspect(batch: Iterable[JobHistory], findings: Findings, *, settled: bool) -> None:
    """Check a batch, and count what it holds."""
    for history in batch:
        findings.jobs[history.job.state.status] += 1
        findings.nodes.update(row.status for row in history.nodes)
        findings.nodes.update(row.status for row in history.loops.iterations)
        findings.events += len(history.events)
        findings.executions += len(history.executions)
        findings.losses += sum(event.type == "worker_lost" for event in history.events)
        findings.rounds += history.job.state.round
        if len(findings.violations) < VIOLATIONS_MAX:
            findings.violations += check_job(history, settled=settled)
