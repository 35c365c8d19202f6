"""What a chaos run left behind, brought before the checker: rows, events, ledgers, sinks, and answers to callers."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.chaos.history import Findings, Ledger, histories, inspect
from benchmarks.chaos.work import FAILING, TABLE
from simulation.history import AcknowledgedSubmit, SinkRow
from tests.system.fleet import rows
from windlass.clock import SystemClock
from windlass.core.jobs import JobRecord
from windlass.stores.postgres.store import PostgresStore


async def audit(
    database_url: str, target_url: str, ledgers: Path, acknowledged: Sequence[AcknowledgedSubmit]
) -> tuple[Findings, list[str]]:
    """Check every job there is; what was seen, and every violation."""
    findings = Findings()
    sink_rows, problems = await _sunk(target_url)
    store = await PostgresStore.open(database_url, SystemClock())
    keys: dict[tuple[str, str | None], str] = {}
    with tempfile.TemporaryDirectory(prefix="windlass-audit-") as folder:
        ledger = Ledger(ledgers, Path(folder) / "ledger.db")
        try:
            async for batch in histories(database_url, store, ledger, sink_rows):
                inspect(batch, findings, settled=True)
                for history in batch:
                    job = history.job
                    if (failure := _failure(job)) is not None:
                        problems.append(failure)
                    if (
                        first := keys.setdefault((job.spec.workflow_id, job.spec.idempotency_key), job.spec.job_id)
                    ) != job.spec.job_id:
                        problems.append(f"I25: {job.spec.job_id} has the idempotency key of {first}")
        finally:
            await store.close()
            ledger.close()
    for told in acknowledged:
        if (known := keys.get((told.workflow_id, told.idempotency_key))) != told.job_id:
            problems.append(f"I24: {told.job_id} was acknowledged for {told.idempotency_key}, which is {known}")
    return findings, problems + [str(violation) for violation in findings.violations]


def _failure(job: JobRecord) -> str | None:
    """Only the workflow that is made for it fails, and a task whose worker was killed again and again."""
    if job.state.status != "failed" or job.spec.workflow_id == FAILING or job.state.error is None:
        return None
    error = msgspec.json.decode(job.state.error)
    return (
        None
        if error.get("type") == "worker_lost"
        else f"I13: {job.spec.job_id} of {job.spec.workflow_id} failed: {error}"
    )


async def _sunk(target_url: str) -> tuple[dict[str, list[SinkRow]], list[str]]:
    """What the sink's table holds, by job, and what it holds twice."""
    sink_rows: dict[str, list[SinkRow]] = {}
    problems: list[str] = []
    seen: set[str] = set()
    for row in await rows(target_url, f"select job, node, attempt, run, key from {TABLE}"):
        if row["key"] in seen:
            problems.append(f"I7: {row['key']} is in the sink's table twice")
        seen.add(row["key"])
        sink_rows.setdefault(row["job"], []).append(SinkRow(row["key"], msgspec.Raw(msgspec.json.encode(dict(row)))))
    return sink_rows, problems
