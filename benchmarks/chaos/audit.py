"""Checks the data of a chaos run: rows, events, execution logs, sink rows and responses to clients."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.chaos.history import ExecutionLogReader, Findings, histories, inspect
from benchmarks.chaos.work import FAILING, TABLE
from simulation.history import AcknowledgedSubmit, SinkRow
from tests.system.fleet import rows
from windlass.clock import SystemClock
from windlass.core.jobs import JobRecord
from windlass.stores.postgres.store import PostgresStore


async def audit(
    database_url: str, target_url: str, logs: Path, acknowledged: Sequence[AcknowledgedSubmit]
) -> tuple[Findings, list[str]]:
    """Check every job; return the counts and every violation."""
    findings = Findings()
    sink_rows, problems = await _sink_rows(target_url)
    store = await PostgresStore.open(database_url, SystemClock(), connections_max=10)
    keys: dict[tuple[str, str | None], str] = {}
    with tempfile.TemporaryDirectory(prefix="windlass-audit-") as folder:
        log = ExecutionLogReader(logs, Path(folder) / "executions.db")
        try:
            async for batch in histories(database_url, store, log, sink_rows):
                inspect(batch, findings, settled=True)
                for history in batch:
                    job = history.job
                    problems += _unexpected_failures(job)
                    spec = job.spec
                    first = keys.setdefault((spec.workflow_id, spec.idempotency_key), spec.job_id)
                    if first != spec.job_id:
                        problems.append(f"I25: {spec.job_id} has the idempotency key of {first}")
        finally:
            await store.close()
            log.close()
    for submit in acknowledged:
        known = keys.get((submit.workflow_id, submit.idempotency_key))
        if known != submit.job_id:
            problems.append(
                f"I24: {submit.job_id} was acknowledged for {submit.idempotency_key}, which is {known}"
            )
    return findings, problems + [str(violation) for violation in findings.violations]


def _unexpected_failures(job: JobRecord) -> list[str]:
    """Return the failure of a job, unless its workflow always fails or its worker was killed too often."""
    if job.state.status != "failed" or job.spec.workflow_id == FAILING or job.state.error is None:
        return []
    error = msgspec.json.decode(job.state.error)
    if error.get("type") == "worker_lost":
        return []
    return [f"I13: {job.spec.job_id} of {job.spec.workflow_id} failed: {error}"]


async def _sink_rows(target_url: str) -> tuple[dict[str, list[SinkRow]], list[str]]:
    """Return the rows of the sink by job, and the duplicates."""
    sink_rows: dict[str, list[SinkRow]] = {}
    problems: list[str] = []
    seen: set[str] = set()
    for row in await rows(target_url, f"select job, node, attempt, run, key from {TABLE}"):
        if row["key"] in seen:
            problems.append(f"I7: {row['key']} was written to the sink twice")
        seen.add(row["key"])
        sink_rows.setdefault(row["job"], []).append(
            SinkRow(row["key"], msgspec.Raw(msgspec.json.encode(dict(row))))
        )
    return sink_rows, problems
