"""One chaos run, from the first process to the report."""

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from benchmarks.chaos.audit import audit
from benchmarks.chaos.faults import Pace, Site
from benchmarks.chaos.handlers import FOLDER
from benchmarks.chaos.history import Findings
from benchmarks.chaos.work import SKIPPED, TABLE_SQL, Load
from tests.system.fleet import rows, until

# After the last fault all jobs must have ended within this time, and the queues must be empty soon after.
ENDS_SECONDS_MAX = 180.0
EMPTY_SECONDS_MAX = 30.0
VIOLATIONS_SHOWN_MAX = 30


class ChaosReport(Struct, frozen=True):
    """The result of a chaos run."""

    seconds: float
    # Jobs per second: requested and acknowledged.
    requested_rate: float
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
        """Return the report as text, followed by one line of JSON."""
        found = self.findings
        offered = f"{self.acknowledged:,} submits acknowledged in {self.seconds:.0f} s ({self.rate:.0f} per second)"
        lost = f"{found.losses:,} deliveries lost with their worker, {self.takeovers:,} takeovers of shards"
        lines = [
            f"{self.faults.total()} faults: {_counts(self.faults)}; {_counts(self.starts)}",
            f"load: {offered}; {_counts(self.load)}",
            self._pace(),
            f"jobs: {_counts(found.jobs)}; {found.rounds:,} rounds of retries",
            f"nodes: {_counts(found.nodes)}",
            f"{found.events:,} events, {found.executions:,} executions, {lost}",
            f"the last job ended {self.settled_seconds:.1f} s after the faults; audit: {self.audit_seconds:.1f} s",
            *self.violations[:VIOLATIONS_SHOWN_MAX],
            f"{len(self.violations)} violations",
        ]
        summary = {
            "seconds": self.seconds, "requested_rate": self.requested_rate, "rate": self.rate,
            "acknowledged": self.acknowledged, "faults": self.faults, "load": self.load,
            "jobs": found.jobs, "nodes": found.nodes, "events": found.events, "executions": found.executions,
            "losses": found.losses, "takeovers": self.takeovers, "violations": len(self.violations),
        }  # fmt: skip
        return "\n".join([*lines, msgspec.json.encode(summary).decode()])

    def _pace(self) -> str:
        """Describe whether the machine sustained the requested rate."""
        skipped = self.load[SKIPPED]
        if not skipped:
            return f"the requested rate of {self.requested_rate:g} jobs per second was sustained"
        requested = f"of the requested {self.requested_rate:g} per second"
        return f"{skipped:,} jobs {requested} were not submitted: this machine sustained {self.rate:.0f} per second"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "none"


async def chaos(
    pace: Pace,
    seconds: float,
    rate: float,
    seed: int,
    *,
    keep: bool = False,
    log: Callable[[str], object] = lambda _: None,
) -> ChaosReport:
    """Run for `seconds`, audit, and return the report."""
    folder = Path(tempfile.mkdtemp(prefix="windlass-chaos-"))
    site = Site(folder, pace, Random(seed))
    try:
        await site.start()
        await rows(site.target_url, TABLE_SQL)
        return await _run(site, seconds, rate, seed, log)
    finally:
        await site.aclose()
        if keep:
            log(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


async def _run(
    site: Site, seconds: float, rate: float, seed: int, log: Callable[[str], object]
) -> ChaosReport:
    load = Load(site.fleet.url, rate, Random(seed + 1))
    await load.deploy()
    began = time.monotonic()
    loading = asyncio.create_task(load.run())
    while time.monotonic() - began < seconds:
        await site.pause()
        await site.inject_fault()
        if loading.done():
            loading.result()
        log(
            f"{time.monotonic() - began:5.0f} s: {len(load.acknowledged):,} jobs, {site.counts.total()} faults"
        )
    load.stop()
    loaded_seconds = time.monotonic() - began
    await loading
    violations = await _settled(site, began + loaded_seconds)
    settled_seconds = time.monotonic() - began - loaded_seconds
    takeovers = (
        await rows(site.database_url, "select coalesce(sum(epoch), 0)::bigint from shards")
    )[0][0]
    await site.stop()
    log(f"all jobs ended after {settled_seconds:.1f} s; the audit starts")
    audit_began = time.monotonic()
    findings, found = await audit(
        site.database_url, site.target_url, site.folder / FOLDER, list(load.acknowledged.values())
    )
    return ChaosReport(
        seconds=loaded_seconds,
        requested_rate=rate,
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
    """Wait until everything has ended; return what has not."""
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
            violations.append(
                f"I14: {left} {table} are unfinished {ENDS_SECONDS_MAX:g} s after the last fault"
            )

    async def is_empty() -> bool:
        return not await asyncio.to_thread(_queued, site.redis.url)

    try:
        await until(is_empty, EMPTY_SECONDS_MAX, "empty queues")
    except AssertionError:
        violations.append(f"I33: the queues still hold {_queued(site.redis.url)}")
    return violations


def _queued(url: str) -> dict[str, int]:
    """Return what is left in Redis."""
    # An optional dependency.
    import redis

    with redis.Redis.from_url(url) as client:
        found: dict[str, Any] = {
            name: client.hlen(f"windlass:{name}") for name in ("bodies", "leases", "heartbeats")
        }
        found |= {key.decode(): client.xlen(key) for key in client.scan_iter("windlass:inbox:*")}
    return {name: count for name, count in found.items() if count}
