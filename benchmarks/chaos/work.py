"""The workflows of the chaos run, and the clients that submit, cancel, retry and read jobs."""

import asyncio
import time
from collections import Counter, deque
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from simulation.history import AcknowledgedSubmit
from windlass.client import Client
from windlass.core.errors import (
    ApiError,
    RequestRefused,
    ServerUnreachable,
    StoreUnavailable,
    WindlassError,
)
from windlass.wire import BatchItemView, SubmitRequest

BATCH_JOBS = 10
# Batches that may be unanswered; beyond that jobs are skipped, and the report says so.
UNANSWERED_MAX = 300
SKIPPED = "jobs not submitted"
AWAY_PAUSE_SECONDS, AWAY_PAUSE_SECONDS_MAX = 0.05, 1.0
REQUEST_PAUSE_SECONDS = 0.25
RECENT_MAX = 2_000
REQUESTABLE_MAX = 60
UNAVAILABLE = 503
TARGET = "target"
TABLE = "chaos_rows"
TABLE_SQL = f"create table {TABLE} (job text, node text, attempt integer, run text, key text)"


def node(*parents: str, **params: Any) -> dict[str, Any]:
    """Return a node that reads the outputs of its dependencies."""
    reads = {parent: f"{{{{ {parent}.output }}}}" for parent in parents}
    return {"handler": "work", "dependencies": list(parents), "params": {"reads": reads, **params}}


RETRY = {"on_error": {"max_attempts": 4, "initial_delay": "50ms", "max_delay": "200ms"}}
# The database of the sink is unavailable for seconds when PostgreSQL is killed.
PATIENT = {"on_error": {"max_attempts": 50, "backoff": "fixed", "initial_delay": "500ms"}}
SINK = {"tool": "postgres", "connection": TARGET, "table": TABLE}
LOOP = {"collection": "{{ first.output.list }}", "element": "item", "concurrency": 3}
PAGES = {
    "on_success": {
        "while": "{{ response.more }}",
        "next_call": {"query": {"page": "{{ response.next }}"}},
        "collect": "append",
        "merge_path": "items",
    }
}
FAILING, SLOW = "failing", "slow"
LEAVES = ("b", "c", "d", "e")
DOCUMENTS: dict[str, dict[str, Any]] = {
    "chain": {"a": node(), "b": node("a"), "c": node("b")},
    "diamond": {"a": node(), "b": node("a"), "c": node("a"), "d": node("b", "c")},
    "fan": {"a": node(), **{name: node("a") for name in LEAVES}, "z": node(*LEAVES)},
    "loop": {
        "first": node(width=5),
        "each": {**node("first", element="{{ item }}", index="{{ index }}"), "loop": LOOP},
        "last": node("each"),
    },
    "flaky": {
        "a": node(),
        "b": {**node("a", actions=["flaky", "error", "ok"]), "retry": RETRY},
        "c": node("b"),
    },
    "pages": {"fetch": {**node(query={"page": 1}, pages=3), "retry": PAGES}, "last": node("fetch")},
    "sink": {
        "a": node(),
        "store": {**node("a"), "sink": SINK, "retry": PATIENT},
        "c": node("store"),
    },
    FAILING: {"a": node(), "b": node("a", actions=["error", "error", "ok"]), "c": node("b")},
    SLOW: {"a": node(seconds=1.0), "b": node("a", seconds=1.0)},
}
WEIGHTS = {
    "chain": 25, "diamond": 20, "fan": 12, "loop": 8, "flaky": 12, "pages": 8, "sink": 8, FAILING: 4, SLOW: 3,
}  # fmt: skip


class Load:
    """Submits jobs at a rate that does not depend on the servers, and records every response."""

    def __init__(self, url: str, rate: float, random: Random) -> None:
        self.acknowledged: dict[str, AcknowledgedSubmit] = {}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self._url = url
        self._rate = rate
        self._random = random
        self._recent: deque[tuple[str, str]] = deque(maxlen=RECENT_MAX)
        # Jobs of the workflows that are meant to be cancelled or retried.
        self._requestable: deque[tuple[str, str]] = deque(maxlen=REQUESTABLE_MAX)
        self._stopped = asyncio.Event()
        self._unanswered = 0

    async def deploy(self) -> None:
        """Deploy the workflows."""
        async with Client(self._url) as client:
            for name, nodes in DOCUMENTS.items():
                await client.workflows.deploy(
                    msgspec.json.encode({"workflow_id": name, "nodes": nodes}), format="json"
                )

    def stop(self) -> None:
        """Submit no more jobs; unanswered submits are completed."""
        self._stopped.set()

    async def run(self) -> None:
        """Submit until `stop`."""
        async with Client(self._url, away_seconds_max=1.0) as client, asyncio.TaskGroup() as group:
            group.create_task(self._send_requests(client))
            started, submitted = time.monotonic(), 0
            while not self._stopped.is_set():
                due = (time.monotonic() - started) * self._rate - submitted
                if due < BATCH_JOBS:
                    with suppress(TimeoutError):
                        async with asyncio.timeout((BATCH_JOBS - due) / self._rate):
                            await self._stopped.wait()
                    continue
                submitted += BATCH_JOBS
                if self._unanswered >= UNANSWERED_MAX:
                    self.counts[SKIPPED] += BATCH_JOBS
                    continue
                self._unanswered += 1
                group.create_task(self._submit(client, submitted))

    async def _submit(self, client: Client, number: int) -> None:
        """Submit some jobs with the same keys until there is a response."""
        names = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=BATCH_JOBS)
        jobs = [
            SubmitRequest(name, {"number": number + place}, idempotency_key=f"{number + place}")
            for place, name in enumerate(names)
        ]
        pause = AWAY_PAUSE_SECONDS
        try:
            while jobs:
                try:
                    answer = await client.jobs.submit_batch(jobs)
                except (ServerUnreachable, StoreUnavailable) as error:
                    self.counts[f"submits repeated after {type(error).__name__}"] += 1
                    await asyncio.sleep(pause * self._random.uniform(0.5, 1.0))
                    pause = min(2 * pause, AWAY_PAUSE_SECONDS_MAX)
                    continue
                jobs = self._left(jobs, answer.jobs)
        except WindlassError as error:
            self.problems.append(f"a submit was answered with {type(error).__name__}: {error}")
        finally:
            self._unanswered -= 1

    def _left(self, jobs: list[SubmitRequest], answers: list[BatchItemView]) -> list[SubmitRequest]:
        """Record the responses; return the jobs that must be submitted again."""
        left: list[SubmitRequest] = []
        for job, item in zip(jobs, answers, strict=True):
            if item.job_id is not None:
                self.acknowledged[item.job_id] = AcknowledgedSubmit(
                    item.job_id, job.workflow_id, job.idempotency_key
                )
                jobs_of_kind = (
                    self._requestable if job.workflow_id in (FAILING, SLOW) else self._recent
                )
                jobs_of_kind.append((item.job_id, job.workflow_id))
            elif item.error is not None and item.error.status == UNAVAILABLE:
                left.append(job)
            else:
                self.problems.append(f"the submit {job.idempotency_key} was refused: {item.error}")
        return left

    async def _send_requests(self, client: Client) -> None:
        """Cancel, retry and read recent jobs, as an operator does."""
        while not self._stopped.is_set():
            await asyncio.sleep(REQUEST_PAUSE_SECONDS)
            choices = self._requestable if self._random.random() < 0.7 else self._recent
            if not choices:
                continue
            job_id, name = self._random.choice(choices)
            try:
                if name == FAILING:
                    await client.jobs.retry(job_id)
                    self.counts["retries"] += 1
                elif name == SLOW or self._random.random() < 0.3:
                    await client.jobs.cancel(job_id)
                    self.counts["cancels"] += 1
                else:
                    job = await client.jobs.get(job_id)
                    self.counts["reads"] += 1
                    assert job.job_id == job_id
            except RequestRefused:
                self.counts["requests refused"] += 1
            except (ServerUnreachable, StoreUnavailable):
                self.counts["requests lost"] += 1
            except ApiError as error:
                self.problems.append(f"a request about {job_id} ({name}): {error}")
