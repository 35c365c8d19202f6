"""The engine on a real SQLite database: recovery, lost hints, failed commits, other owners."""

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NoReturn

import pytest
from msgspec import Raw

from tests.engine.harness import CLOCK, ENDS_SECONDS, Process, events_of, opened, plan
from windlass.core.changes import Changes
from windlass.core.errors import (
    CommitUnknown,
    IdempotencyConflict,
    RequestRefused,
    StaleLease,
    StoreUnusable,
)
from windlass.core.jobs import JobSpec
from windlass.core.messages import Succeeded, TaskFinished
from windlass.core.plan import NodePlan, RetryOnError
from windlass.core.templates.template import compile_template
from windlass.engine.duties import pruner
from windlass.engine.duties.pruner import Pruner
from windlass.engine.ids import Ids
from windlass.ports.store.jobs import JobFilter, Request, StoredResult
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.sqlite.store import SqliteStore

DIAMOND = {
    "start": [],
    "left": ["start"],
    "right": ["start"],
    "join": ["left", "right"],
    "end": ["join"],
}
CHAIN = {"a": [], "b": ["a"], "c": ["b"]}


def node(node_id: str, handler: str, **params: object) -> NodePlan:
    return NodePlan(id=node_id, handler=handler, params=compile_template(params))


async def test_a_job_runs_to_its_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan(DIAMOND))
        await process.start()

        job = await process.submit(b'{"x":1}')
        ended = await process.ended(job.spec.job_id)
        rows = {row.node_id: row for row in await store.jobs.nodes(job.spec.job_id)}
        await process.stop()

    assert ended.state.status == "completed"
    assert bytes(rows["join"].output or b"") == b'{"echoed_params":{"x":1}}'


async def test_another_engine_continues_after_one_was_killed(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        killed = Process(store, plan(CHAIN))
        await killed.start(worker=False)
        job = await killed.submit()
        await _until(store, job.spec.job_id, "node_dispatched")

        successor = Process(store, plan(CHAIN), "two")
        await successor.start()
        ended = await successor.ended(job.spec.job_id)
        kinds = Counter(await events_of(store, job.spec.job_id))
        await successor.stop()

    assert ended.state.status == "completed"
    assert kinds["node_completed"] == 3
    assert kinds["node_dispatched"] == 3


async def test_an_engine_that_lost_its_shard_cannot_write(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first = Process(store, plan(CHAIN))
        await first.start()
        second = Process(store, plan(CHAIN), "two")
        await second.start()

        await first.submit()

        running = first.engine.shard_owner.running
        assert running is not None
        with pytest.raises(StaleLease):
            await asyncio.wait_for(running, ENDS_SECONDS)
        await second.stop()


class Failing:
    """A store whose nth commit fails: before it takes effect, or after."""

    def __init__(self, store: SqliteStore, commit: int, *, after: bool) -> None:
        self._store = store
        self._left = commit
        self._after = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def commit(self, shard: int, epoch: int, changes: Changes) -> None:
        self._left -= 1
        if self._left != 0 or self._after:
            await self._store.commit(shard, epoch, changes)
        if self._left == 0:
            raise CommitUnknown("unknown outcome")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("commit", [1, 2, 3])
async def test_a_commit_of_unknown_outcome_loses_and_repeats_nothing(
    tmp_path: Path, commit: int, after: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as store:
        process = Process(Failing(store, commit, after=after), plan(CHAIN))  # type: ignore[arg-type]
        await process.start()

        job = await process.submit()
        ended = await process.ended(job.spec.job_id)
        kinds = Counter(await events_of(store, job.spec.job_id))
        numbers = [event.seq for event in await store.jobs.events(job.spec.job_id)]
        await process.stop()

    assert ended.state.status == "completed"
    assert (kinds["node_completed"], kinds["job_completed"]) == (3, 1)
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_job_that_cannot_be_loaded_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as store:
        await store.workflows.put("broken", Raw(b'"broken"'), "x", CLOCK.now())
        now = CLOCK.now()
        await store.jobs.insert([JobSpec(Ids(Random()).new(now), "broken", 1, Raw(b"{}"), now)])
        process = Process(store, plan(CHAIN))
        await process.start()

        ended = await process.ended((await process.submit()).spec.job_id)
        await process.stop()

    assert ended.state.status == "completed"
    assert "quarantined" in caplog.text


async def test_a_job_whose_hint_was_lost_is_found(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan(CHAIN))
        await process.start()
        old = CLOCK.now() - 10_000_000
        job_id = Ids(Random()).new(old)

        await store.jobs.insert([JobSpec(job_id, "test", 1, Raw(b"{}"), old)])
        ended = await process.ended(job_id)
        await process.stop()

    assert ended.state.status == "completed"


async def test_a_cancel_whose_hint_was_lost_is_found(tmp_path: Path) -> None:
    slow = plan({"a": []}, a=node("a", "sleep", seconds=60))
    async with opened(tmp_path) as store:
        process = Process(store, slow)
        await process.start()
        job = await process.submit()

        await store.jobs.put_request(Request("r1", job.spec.job_id, "cancel", CLOCK.now()))
        ended = await process.ended(job.spec.job_id)
        waiting = await store.jobs.requests(0, 10)
        await process.stop()

    assert ended.state.status == "cancelled"
    assert not waiting


async def test_cancel_stops_a_running_handler_at_once(tmp_path: Path) -> None:
    slow = plan({"a": []}, a=node("a", "sleep", seconds=60))
    async with opened(tmp_path) as store:
        process = Process(store, slow)
        await process.start()
        job = await process.submit()
        await _until(store, job.spec.job_id, "node_started")

        await process.engine.jobs.cancel(job.spec.job_id, "enough")
        await process.ended(job.spec.job_id)
        await _until(store, job.spec.job_id, "result_ignored")
        idle = process.worker.running
        await process.stop()

    assert idle == 0


async def test_retry_runs_only_what_failed(tmp_path: Path) -> None:
    flaky = plan(CHAIN, b=node("b", "fail", times=1))
    async with opened(tmp_path) as store:
        process = Process(store, flaky)
        await process.start()
        job = await process.submit()
        failed = await process.ended(job.spec.job_id)

        await process.engine.jobs.retry(job.spec.job_id)
        ended = await process.ended(job.spec.job_id)
        rows = {row.node_id: row.attempt for row in await store.jobs.nodes(job.spec.job_id)}
        await process.stop()

    assert (failed.state.status, ended.state.status) == ("failed", "completed")
    assert rows == {"a": 1, "b": 2, "c": 1}


async def test_a_retry_of_a_completed_job_needs_a_node(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan(CHAIN))
        await process.start()
        job = await process.submit()
        await process.ended(job.spec.job_id)

        with pytest.raises(RequestRefused, match="completed"):
            await process.engine.jobs.retry(job.spec.job_id)
        await process.stop()


async def test_a_wait_between_attempts_survives_a_restart(tmp_path: Path) -> None:
    rule = RetryOnError(attempts_max=3, initial_delay_seconds=0.3, jitter=0.0)
    waiting = plan(
        {"a": []},
        a=NodePlan(id="a", handler="fail", params=compile_template({"times": 1}), on_error=rule),
    )
    async with opened(tmp_path) as store:
        first = Process(store, waiting)
        await first.start()
        job = await first.submit()
        await _until(store, job.spec.job_id, "node_retrying")
        await first.stop()

        second = Process(store, waiting, "two")
        await second.start()
        ended = await second.ended(job.spec.job_id)
        row = (await store.jobs.nodes(job.spec.job_id))[0]
        await second.stop()

    assert (ended.state.status, row.attempt) == ("completed", 2)


async def test_concurrent_submits_with_one_key_create_one_job(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan(CHAIN))
        await process.start()

        jobs = await asyncio.gather(*(process.submit(key="k") for _ in range(100)))
        await process.stop()

    assert len({job.spec.job_id for job in jobs}) == 1


async def test_one_key_with_another_body_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan(CHAIN))
        await process.start()
        await process.submit(key="k")

        with pytest.raises(IdempotencyConflict, match="another"):
            await process.submit(input=b'{"another":1}', key="k")
        await process.stop()


async def test_an_engine_for_new_jobs_ignores_old_ones_until_they_are_resumed(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        killed = Process(store, plan(CHAIN))
        await killed.start(worker=False)
        old = await killed.submit()
        await _until(store, old.spec.job_id, "node_dispatched")
        process = Process(store, plan(CHAIN), "two", only_new_jobs=True)
        await process.start()

        new = await process.ended((await process.submit()).spec.job_id)
        before = await store.jobs.get(old.spec.job_id)
        await process.engine.jobs.resume(old.spec.job_id)
        after = await process.ended(old.spec.job_id)
        await process.stop()

    assert (new.state.status, before.state.status, after.state.status) == (
        "completed",
        "running",
        "completed",
    )


async def test_old_finished_jobs_are_deleted_and_running_ones_are_not(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan({"a": []}, a=node("a", "sleep", seconds=60)))
        quick = Process(store, plan(CHAIN), "two")
        await process.start()
        running = await process.submit()
        await _until(store, running.spec.job_id, "node_dispatched")
        await quick.start(worker=False)
        finished = await quick.submit()
        await quick.engine.jobs.cancel(finished.spec.job_id)
        await quick.ended(finished.spec.job_id)

        has_more = await Pruner(store, MemoryArtifacts(), CLOCK, retention_days=-1.0).prune()
        left = await store.jobs.list(JobFilter())
        await quick.stop()
        process.worker.abort()

    assert not has_more
    assert [job.spec.job_id for job in left] == [running.spec.job_id]


async def test_retention_deletes_all_old_jobs_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruner, "PRUNE_JOBS_MAX", 2)
    monkeypatch.setattr(pruner, "PRUNE_BATCHES_MAX", 2)
    async with opened(tmp_path) as store:
        process = Process(store, plan(CHAIN))
        await process.start()
        jobs = [await process.submit() for _ in range(11)]
        for job in jobs:
            await process.ended(job.spec.job_id)
        duties = process.engine._duties
        duties._pruner = Pruner(store, MemoryArtifacts(), CLOCK, retention_days=-1.0)

        await duties._prune()

        left = await store.jobs.list(JobFilter())
        await process.stop()
    assert left == []


async def _until(store: SqliteStore, job_id: str, kind: str) -> None:
    """Wait until an event of this kind is stored."""
    async with asyncio.timeout(ENDS_SECONDS):
        while kind not in await events_of(store, job_id):  # noqa: ASYNC110 - another engine may write the row
            await asyncio.sleep(0.005)


async def test_a_result_for_a_quarantined_job_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as store:
        await store.workflows.put("broken", Raw(b'"broken"'), "x", CLOCK.now())
        now = CLOCK.now()
        job_id = Ids(Random()).new(now)
        await store.jobs.insert([JobSpec(job_id, "broken", 1, Raw(b"{}"), now)])
        message = TaskFinished(
            job_id, "a", 1, "w", now, now, Succeeded(Raw(b"1")), result_id=f"{job_id}_a_1"
        )
        process = Process(store, plan(CHAIN))
        await process.start()
        await store.jobs.put_result(StoredResult(f"{job_id}_a_1", 0, message, now))

        await process.broker.send(0, [message])
        await process.ended((await process.submit()).spec.job_id)
        kept = await store.jobs.results(0, 10)
        await process.stop()

    assert [result.result_id for result in kept] == [f"{job_id}_a_1"]


async def test_a_start_that_is_cancelled_ends_at_once_and_keeps_the_shard_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as store:
        await store.leases.take(0, "dead")
        process = Process(store, plan(CHAIN))
        reached = asyncio.Event()

        async def blocked(*_: object) -> NoReturn:
            reached.set()
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

        monkeypatch.setattr(store.jobs, "unfinished", blocked)
        starting = asyncio.create_task(process.engine.start())
        await reached.wait()
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting

        await asyncio.wait_for(process.engine.stop(), ENDS_SECONDS)

        # The next owner must look for the tasks that the dead one ran.
        assert (await store.leases.take(0, "next")).abandoned


async def test_an_engine_refuses_to_start_on_a_database_that_no_retry_can_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan(CHAIN))

        async def unusable(*_: object) -> NoReturn:
            raise StoreUnusable("damaged")

        monkeypatch.setattr(store.jobs, "unfinished", unusable)

        with pytest.raises(StoreUnusable, match="damaged"):
            await asyncio.wait_for(process.engine.start(), ENDS_SECONDS)
        await process.engine.stop()
