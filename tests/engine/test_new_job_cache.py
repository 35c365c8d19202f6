"""Submit messages that carry their job: when they are trusted, and what happens if that was wrong."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from msgspec import Raw

from tests.engine.harness import CLOCK, Process, events_of, opened, plan, until
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.messages import JobMessage, Submitted
from windlass.engine.ids import Ids
from windlass.engine.new_job_cache import FINISHED_MAX, HINT_INPUT_BYTES_MAX, NewJobCache, hint
from windlass.ports.message_codec import decode_message, encode_message
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobSnapshot

IDS = Ids(Random(1))
STORED = JobSpec("j" * 24, "test", 3, Raw(b'{"x":1}'), 7, 0, 4, "key", "digest", 9)


def trusting_cache() -> NewJobCache:
    cache = NewJobCache()
    cache.trust_after(0)
    return cache


async def stored(store: Store, ahead_seconds: int = 0) -> JobRecord:
    """Store a job as another process does, perhaps with a clock that is ahead."""
    now = CLOCK.now() + ahead_seconds * 1_000_000
    [answer] = await store.jobs.insert([JobSpec(IDS.new(now), "test", 1, Raw(b"{}"), now, 0)])
    return answer.job


async def finished(process: Process, job_id: str) -> JobRecord:
    """Wait for the rows of a job: the engine itself may be wrong about it."""

    async def is_finished() -> bool:
        return (await process.store.jobs.get(job_id)).state.status not in ("pending", "running")

    await until(process, job_id, is_finished, 0.01)
    return await process.store.jobs.get(job_id)


def test_a_hint_carries_the_whole_spec() -> None:
    cache = trusting_cache()

    received = decode_message(encode_message(hint(STORED)))
    assert isinstance(received, Submitted)
    assert cache.add_trusted(received)

    assert cache.pop(STORED.job_id) == STORED


@pytest.mark.parametrize("changed", ["run", "large"])
def test_a_hint_of_a_run_or_a_large_job_carries_no_spec(changed: str) -> None:
    is_run = changed == "run"
    size = 0 if is_run else HINT_INPUT_BYTES_MAX
    job = JobSpec(
        "j1", "test", 1, Raw(b'"' + b"x" * size + b'"'), 7, 0, shard_key="test" if is_run else None
    )

    assert hint(job) == Submitted("j1")
    assert not trusting_cache().add_trusted(hint(job))


def test_hints_of_jobs_created_before_the_shard_was_taken_are_not_trusted() -> None:
    cache = NewJobCache()
    assert not cache.add_trusted(hint(STORED))

    cache.trust_after(STORED.created_at)
    assert not cache.add_trusted(hint(STORED))

    cache.trust_after(STORED.created_at - 1)
    assert cache.add_trusted(hint(STORED))

    cache.clear()
    assert not cache.add_trusted(hint(STORED))


def test_a_hint_of_a_recently_finished_job_is_not_trusted() -> None:
    cache = trusting_cache()
    cache.remember_finished(STORED.job_id)
    for number in range(FINISHED_MAX):
        cache.remember_finished(f"other{number}")

    assert not cache.add_trusted(hint(STORED))


async def test_a_job_carried_by_a_hint_starts_without_a_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan({"a": ["b"], "b": []}))
        await process.start()
        reads: list[object] = []

        async def restore(job_id: str) -> JobSnapshot:
            reads.append(job_id)
            raise AssertionError(job_id)

        async def restore_all(job_ids: Sequence[str]) -> Sequence[JobSnapshot]:
            reads.append(job_ids)
            raise AssertionError(job_ids)

        monkeypatch.setattr(store.jobs, "restore", restore)
        monkeypatch.setattr(store.jobs, "restore_all", restore_all)
        jobs = [await stored(store) for _ in range(3)]
        await process.broker.send(0, [hint(job.spec) for job in jobs])

        assert [(await finished(process, job.spec.job_id)).state.status for job in jobs] == [
            "completed"
        ] * 3
        assert reads == []
        await process.stop()


@pytest.mark.parametrize("ahead_seconds", [0, 3600])
async def test_a_repeated_hint_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ahead_seconds: int
) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan({"a": ["b"], "b": []}))
        await process.start()
        job = await stored(store, ahead_seconds)
        repeated: JobMessage = hint(job.spec)
        await process.broker.send(0, [repeated, repeated])
        await finished(process, job.spec.job_id)
        before = await events_of(store, job.spec.job_id)

        await process.broker.send(0, [repeated])
        await asyncio.sleep(0.05)
        assert not caplog.records
        # As after thousands of other jobs.
        process.shard.table.new_jobs = trusting_cache()
        another = await stored(store)
        await process.broker.send(0, [repeated])
        await process.broker.send(0, [hint(another.spec)])

        # The commit is rejected, the shard reloads, and the next job still runs.
        assert (await finished(process, another.spec.job_id)).state.status == "completed"
        [record] = caplog.records
        assert record.message.startswith(
            "shard 0: discarding in-memory state; reloading from the database: SQLite rejected"
        )
        assert await events_of(store, job.spec.job_id) == before
        assert (await store.jobs.get(job.spec.job_id)).state.status == "completed"
        await process.stop()


@pytest.mark.parametrize("ahead_seconds", [0, 3600])
async def test_a_new_owner_reads_the_jobs_of_earlier_hints(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ahead_seconds: int
) -> None:
    async with opened(tmp_path) as store:
        before = Process(store, plan({"a": ["b"], "b": []}))
        await before.start()
        job = await stored(store, ahead_seconds)
        await before.broker.send(0, [hint(job.spec)])
        await finished(before, job.spec.job_id)
        await before.stop()

        process = Process(store, plan({"a": ["b"], "b": []}), "two")
        await process.broker.send(0, [hint(job.spec)])
        await process.start()
        another = await stored(store)
        await process.broker.send(0, [hint(another.spec)])

        assert (await finished(process, another.spec.job_id)).state.status == "completed"
        assert not caplog.records
        await process.stop()
