"""The workflows of the chaos run, and the clients that keep them coming: submits by key, cancels, retries, looks."""

import asyncio
import time
from collections import Counter, deque
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from simulation.history import AcknowledgedSubmit
from windlass.client import Client
from windlass.core.errors import ApiError, RequestRefused, ServerUnreachable, StoreUnavailable, WindlassError
from windlass.wire import BatchItem, SubmitRequest

BATCH_JOBS = 10
# Submits that may be behind their time; beyond that the rate that is offered is lowered, and the report says so.
BEHIND_MAX = 300
HELD_BACK = "offers held back"
AWAY_PAUSE_SECONDS, AWAY_PAUSE_SECONDS_MAX = 0.05, 1.0
PEOPLE_PAUSE_SECONDS = 0.25
RECENT_MAX = 2_000
ASKING_MAX = 60
UNAVAILABLE = 503
TARGET = "target"
TABLE = "chaos_rows"
TABLE_SQL = f"create table {TABLE} (job text, node text, attempt integer, run text, key text)"


def node(*parents: str, **params: Any) -> dict[str, Any]:
    """A node that reads what its parents made."""
    reads = {parent: f"{{{{ {parent}.output }}}}" for parent in parents}
    return {"handler": "work", "dependencies": list(parents), "params": {"reads": reads, **params}}


RETRY = {"on_error": {"max_attempts": 4, "initial_delay": "50ms", "max_delay": "200ms"}}
# The database of the sink is away for seconds when PostgreSQL is killed.
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
    "flaky": {"a": node(), "b": {**node("a", acts=["flaky", "error", "ok"]), "retry": RETRY}, "c": node("b")},
    "pages": {"fetch": {**node(query={"page": 1}, pages=3), "retry": PAGES}, "last": node("fetch")},
    "sink": {
        "a": node(),
        "store": {**node("a"), "sink": SINK, "retry": PATIENT},
        "c": node("store"),
    },
    FAILING: {"a": node(), "b": node("a", acts=["error", "error", "ok"]), "c": node("b")},
    SLOW: {"a": node(seconds=1.0), "b": node("a", seconds=1.0)},
}
WEIGHTS = {
    "chain": 25, "diamond": 20, "fan": 12, "loop": 8, "flaky": 12, "pages": 8, "sink": 8, FAILING: 4, SLOW: 3,
}  # fmt: skip


class Load:
    """Offers jobs at a rate, whatever the servers do, and remembers every answer."""

    def __init__(self, url: str, rate: float, chance: Random) -> None:
        self.acknowledged: dict[str, AcknowledgedSubmit] = {}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self._url = url
        self._rate = rate
        self._chance = chance
        self._recent: deque[tuple[str, str]] = deque(maxlen=RECENT_MAX)
        # Those that are made to be cancelled or to be retried.
        self._asking: deque[tuple[str, str]] = deque(maxlen=ASKING_MAX)
        self._stopped = asyncio.Event()
        self._under_way = 0

    async def deploy(self) -> None:
        """Store the workflows."""
        async with Client(self._url) as client:
            for name, nodes in DOCUMENTS.items():
                await client.deploy(msgspec.json.encode({"workflow_id": name, "nodes": nodes}), format="json")

    def stop(self) -> None:
        """Offer no more; what was begun is brought to its answer."""
        self._stopped.set()

    async def run(self) -> None:
        """Offer until `stop`."""
        async with Client(self._url, away_seconds_max=1.0) as client, asyncio.TaskGroup() as group:
            group.create_task(self._people(client))
            began, offered = time.monotonic(), 0
            while not self._stopped.is_set():
                due = (time.monotonic() - began) * self._rate - offered
                if due < BATCH_JOBS:
                    with suppress(TimeoutError):
                        async with asyncio.timeout((BATCH_JOBS - due) / self._rate):
                            await self._stopped.wait()
                    continue
                offered += BATCH_JOBS
                if self._under_way >= BEHIND_MAX:
                    self.counts[HELD_BACK] += BATCH_JOBS
                    continue
                self._under_way += 1
                group.create_task(self._submit(client, offered))

    async def _submit(self, client: Client, number: int) -> None:
        """Submit some jobs, again and again under the same keys, until there is an answer."""
        names = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=BATCH_JOBS)
        jobs = [
            SubmitRequest(name, {"number": number + place}, idempotency_key=f"{number + place}")
            for place, name in enumerate(names)
        ]
        pause = AWAY_PAUSE_SECONDS
        try:
            while jobs:
                try:
                    answer = await client.submit_batch(jobs)
                except (ServerUnreachable, StoreUnavailable) as error:
                    self.counts[f"submits repeated after {type(error).__name__}"] += 1
                    await asyncio.sleep(pause * self._chance.uniform(0.5, 1.0))
                    pause = min(2 * pause, AWAY_PAUSE_SECONDS_MAX)
                    continue
                jobs = self._left(jobs, answer.jobs)
        except WindlassError as error:
            self.problems.append(f"a submit was answered with {type(error).__name__}: {error}")
        finally:
            self._under_way -= 1

    def _left(self, jobs: list[SubmitRequest], answers: list[BatchItem]) -> list[SubmitRequest]:
        """Note the answers; the jobs that must be submitted again."""
        left: list[SubmitRequest] = []
        for job, told in zip(jobs, answers, strict=True):
            if told.job_id is not None:
                self.acknowledged[told.job_id] = AcknowledgedSubmit(told.job_id, job.workflow_id, job.idempotency_key)
                place = self._asking if job.workflow_id in (FAILING, SLOW) else self._recent
                place.append((told.job_id, job.workflow_id))
            elif told.error is not None and told.error.status == UNAVAILABLE:
                left.append(job)
            else:
                self.problems.append(f"the submit {job.idempotency_key} was refused: {told.error}")
        return left

    async def _people(self, client: Client) -> None:
        """Somebody who cancels, retries and looks at jobs of the last seconds."""
        while not self._stopped.is_set():
            await asyncio.sleep(PEOPLE_PAUSE_SECONDS)
            choices = self._asking if self._chance.random() < 0.7 else self._recent
            if not choices:
                continue
            job_id, name = self._chance.choice(choices)
            try:
                if name == FAILING:
                    await client.retry(job_id)
                    self.counts["retries by people"] += 1
                elif name == SLOW or self._chance.random() < 0.3:
                    await client.cancel(job_id)
                    self.counts["cancels by people"] += 1
                else:
                    job = await client.job(job_id)
                    self.counts["looks"] += 1
                    assert job.job_id == job_id
            except RequestRefused:
                self.counts["requests refused"] += 1
            except (ServerUnreachable, StoreUnavailable):
                self.counts["requests lost"] += 1
            except ApiError as error:
                self.problems.append(f"a request about {job_id} ({name}): {error}")
