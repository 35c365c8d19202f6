"""One chaos run from the first process to the report."""

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from benchmarks.chaos.faults import Pace, Site
from benchmarks.chaos.work import FAILING, TABLE, TABLE_SQL, Load
from msgspec import Struct
from tests.system.fleet import rows, until

from windlass.clock import SystemClock
from windlass.ports.store import StoredJob
from windlass.stores.postgres import PostgresStore
from windlass.testing.chaos_audit import Findings, Ledger, histories, inspect
from windlass.testing.chaos_steps import FOLDER
from windlass.testing.history import Acknowledged, Sunk

# After the last fault all jobs must have ended within this time, and the queues must be empty soon after.
ENDS_SECONDS_MAX = 180.0
EMPTY_SECONDS_MAX = 30.0
VIOLATIONS_SHOWN_MAX = 30


class Report(Struct, frozen=True):
    """What a run did and what it found."""

    seconds: float
    rate: float
    acknowledged: int
    faults: Counter[str]
    starts: Counter[str]
    load: Counter[str]
    findings: Findings
    takeovers: int
    # From the last fault to the last end of a job.
    settled_seconds: float
    audit_seconds: float
    violations: list[str]

    def text(self) -> str:
        """The report for people, then one line of JSON."""
        found = self.findings
        offered = f"{self.acknowledged:,} submits acknowledged in {self.seconds:.0f} s ({self.rate:.0f} a second)"
        lost = f"{found.losses:,} deliveries lost with their worker, {self.takeovers:,} takeovers of shards"
        lines = [
            f"{self.faults.total()} faults: {_told(self.faults)}; {_told(self.starts)}",
            f"load: {offered}; {_told(self.load)}",
            f"jobs: {_told(found.jobs)}; {found.rounds:,} rounds of retries",
            f"nodes: {_told(found.nodes)}",
            f"{found.events:,} events, {found.executions:,} executions, {lost}",
            f"the last job ended {self.settled_seconds:.1f} s after the faults; audit: {self.audit_seconds:.1f} s",
            *self.violations[:VIOLATIONS_SHOWN_MAX],
            f"{len(self.violations)} violations",
        ]
        told = {
            "seconds": self.seconds, "acknowledged": self.acknowledged, "faults": self.faults, "load": self.load,
            "jobs": found.jobs, "nodes": found.nodes, "events": found.events, "executions": found.executions,
            "losses": found.losses, "takeovers": self.takeovers, "violations": len(self.violations),
        }  # fmt: skip
        return "\n".join([*lines, msgspec.json.encode(told).decode()])


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "none"


async def chaos(
    pace: Pace,
    seconds: float,
    rate: float,
    seed: int,
    *,
    keep: bool = False,
    say: Callable[[str], object] = lambda _: None,
) -> Report:
    """Run for so long; the report."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-chaos-"))
    site = Site(folder, pace, Random(seed))
    try:
        await site.start()
        await rows(site.target_url, TABLE_SQL)
        return await _run(site, seconds, rate, seed, say)
    finally:
        await site.aclose()
        if keep:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


async def _run(site: Site, seconds: float, rate: float, seed: int, say: Callable[[str], object]) -> Report:
    load = Load(site.fleet.url, rate, Random(seed + 1))
    await load.deploy()
    began = time.monotonic()
    loading = asyncio.create_task(load.run())
    while time.monotonic() - began < seconds:
        await site.rest()
        await site.wound()
        if loading.done():
            loading.result()
        say(f"{time.monotonic() - began:5.0f} s: {len(load.acknowledged):,} jobs, {site.counts.total()} faults")
    load.stop()
    loaded_seconds = time.monotonic() - began
    await loading
    violations = await _settled(site, began + loaded_seconds)
    settled_seconds = time.monotonic() - began - loaded_seconds
    takeovers = (await rows(site.database_url, "select coalesce(sum(epoch), 0)::bigint from shards"))[0][0]
    await site.stop()
    say(f"all jobs ended after {settled_seconds:.1f} s; the audit begins")
    audit_began = time.monotonic()
    findings, found = await _audit(site, list(load.acknowledged.values()))
    return Report(
        seconds=loaded_seconds,
        rate=len(load.acknowledged) / loaded_seconds,
        acknowledged=len(load.acknowledged),
        faults=site.counts,
        starts=site.starts,
        load=load.counts,
        findings=findings,
        takeovers=takeovers,
        settled_seconds=settled_seconds,
        audit_seconds=time.monotonic() - audit_began,
        violations=[*violations, *load.problems, *site.problems, *found],
    )


async def _settled(site: Site, since: float) -> list[str]:
    """Wait until everything has come to its end; what has not."""
    left_of = "select count(*) from {} where not {}"
    deadline = since + ENDS_SECONDS_MAX
    violations: list[str] = []
    for table, done in (("jobs", "is_ended"), ("requests", "applied")):

        async def is_done(query: str = left_of.format(table, done)) -> bool:
            return (await rows(site.database_url, query))[0][0] == 0

        try:
            await until(is_done, max(1.0, deadline - time.monotonic()), f"all {table} done")
        except AssertionError:
            left = (await rows(site.database_url, left_of.format(table, done)))[0][0]
            violations.append(f"I14: {left} {table} are not done {ENDS_SECONDS_MAX:g} s after the last fault")

    async def is_empty() -> bool:
        return not await asyncio.to_thread(_queued, site.redis.url)

    try:
        await until(is_empty, EMPTY_SECONDS_MAX, "empty queues")
    except AssertionError:
        violations.append(f"I33: the queues still hold {_queued(site.redis.url)}")
    return violations


def _queued(url: str) -> dict[str, int]:
    """What Redis keeps though nothing is to be done."""
    # The driver is an extra.
    import redis

    with redis.Redis.from_url(url) as client:
        sizes: dict[str, Any] = {"bodies": client.hlen, "leases": client.hlen, "extended": client.zcard}
        found = {name: size(f"windlass:{name}") for name, size in sizes.items()}
        found |= {key.decode(): client.xlen(key) for key in client.scan_iter("windlass:inbox:*")}
    return {name: count for name, count in found.items() if count}


async def _audit(site: Site, acknowledged: Sequence[Acknowledged]) -> tuple[Findings, list[str]]:
    findings = Findings()
    sunk, problems = await _sunk(site)
    ledger = Ledger(site.folder / FOLDER, site.folder / "ledger.db")
    store = await PostgresStore.open(site.database_url, SystemClock())
    keys: dict[tuple[str, str | None], str] = {}
    try:
        async for batch in histories(site.database_url, store, ledger, sunk):
            inspect(batch, findings, settled=True)
            for history in batch:
                job = history.job
                if (failure := _failure(job)) is not None:
                    problems.append(failure)
                if (first := keys.setdefault((job.workflow_id, job.idempotency_key), job.job_id)) != job.job_id:
                    problems.append(f"I25: {job.job_id} has the idempotency key of {first}")
    finally:
        await store.close()
        ledger.close()
    for told in acknowledged:
        if (known := keys.get((told.workflow_id, told.idempotency_key))) != told.job_id:
            problems.append(f"I24: {told.job_id} was acknowledged for {told.idempotency_key}, which is {known}")
    return findings, problems + [str(violation) for violation in findings.violations]


def _failure(job: StoredJob) -> str | None:
    """Only the workflow that is made for it fails, and a task whose worker was killed again and again."""
    if job.status != "failed" or job.workflow_id == FAILING or job.error is None:
        return None
    error = msgspec.json.decode(job.error)
    return None if error.get("type") == "worker_lost" else f"I13: {job.job_id} of {job.workflow_id} failed: {error}"


async def _sunk(site: Site) -> tuple[dict[str, list[Sunk]], list[str]]:
    """What the sink's table holds, by job, and what it holds twice."""
    sunk: dict[str, list[Sunk]] = {}
    problems: list[str] = []
    seen: set[str] = set()
    for row in await rows(site.target_url, f"select job, node, attempt, run, key from {TABLE}"):
        if row["key"] in seen:
            problems.append(f"I7: {row['key']} is in the sink's table twice")
        seen.add(row["key"])
        sunk.setdefault(row["job"], []).append(Sunk(row["key"], msgspec.Raw(msgspec.json.encode(dict(row)))))
    return sunk, problems
