"""Hints that say how their job was stored: who believes them, and what becomes of one that comes too late."""

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
from windlass.engine.new_job_cache import ENDED_MAX, HINT_INPUT_BYTES_MAX, NewJobCache, hint
from windlass.ports.message_codec import decode_message, encode_message
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobSnapshot

IDS = Ids(Random(1))
STORED = JobSpec("j" * 24, "test", 3, Raw(b'{"x":1}'), 7, 0, 4, "key", "digest", 9)


def told() -> NewJobCache:
    fresh = NewJobCache()
    fresh.believe_after(0)
    return fresh


async def stored(store: Store, ahead_seconds: int = 0) -> JobRecord:
    """A job that another process submits, perhaps by a clock that is ahead."""
    now = CLOCK.now() + ahead_seconds * 1_000_000
    [answer] = await store.jobs.insert([JobSpec(IDS.new(now), "test", 1, Raw(b"{}"), now, 0)])
    return answer.job


async def finished(process: Process, job_id: str) -> JobRecord:
    """Ask the rows: the engine itself may be wrong about the job."""

    async def is_over() -> bool:
        return (await process.store.jobs.get(job_id)).state.status not in ("pending", "running")

    await until(process, job_id, is_over, 0.01)
    return await process.store.jobs.get(job_id)


def test_a_hint_brings_the_whole_row() -> None:
    fresh = told()

    received = decode_message(encode_message(hint(STORED)))
    assert isinstance(received, Submitted)
    assert fresh.hear(received, 0)

    assert fresh.pop(STORED.job_id) == STORED


@pytest.mark.parametrize("changed", ["run", "large"])
def test_a_hint_leaves_out_what_others_must_look_up(changed: str) -> None:
    is_run = changed == "run"
    size = 0 if is_run else HINT_INPUT_BYTES_MAX
    job = JobSpec("j1", "test", 1, Raw(b'"' + b"x" * size + b'"'), 7, 0, shard_key="test" if is_run else None)

    assert hint(job) == Submitted("j1")
    assert not told().hear(hint(job), 0)


def test_hints_about_what_was_made_before_this_owner_are_not_believed() -> None:
    fresh = NewJobCache()
    assert not fresh.hear(hint(STORED), 0)

    fresh.believe_after(STORED.created_at)
    assert not fresh.hear(hint(STORED), 0)

    fresh.believe_after(STORED.created_at - 1)
    assert fresh.hear(hint(STORED), 0)

    fresh.clear()
    assert not fresh.hear(hint(STORED), 0)


def test_a_hint_of_a_job_that_ended_lately_is_not_believed() -> None:
    fresh = told()
    fresh.ended(STORED.job_id)
    for number in range(ENDED_MAX):
        fresh.ended(f"other{number}")

    assert not fresh.hear(hint(STORED), 0)


async def test_a_job_that_a_hint_describes_begins_without_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan({"a": ["b"], "b": []}))
        await process.start()
        looks: list[object] = []

        async def restore(job_id: str) -> JobSnapshot:
            looks.append(job_id)
            raise AssertionError(job_id)

        async def restore_all(job_ids: Sequence[str]) -> Sequence[JobSnapshot]:
            looks.append(job_ids)
            raise AssertionError(job_ids)

        monkeypatch.setattr(store.jobs, "restore", restore)
        monkeypatch.setattr(store.jobs, "restore_all", restore_all)
        jobs = [await stored(store) for _ in range(3)]
        await process.broker.send(0, [hint(job.spec) for job in jobs])

        assert [(await finished(process, job.spec.job_id)).state.status for job in jobs] == ["completed"] * 3
        assert looks == []
        await process.stop()


@pytest.mark.parametrize("ahead_seconds", [0, 3600])
async def test_a_repeated_notification_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ahead_seconds: int
) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan({"a": ["b"], "b": []}))
        await process.start()
        job = await stored(store, ahead_seconds)
        again: JobMessage = hint(job.spec)
        await process.broker.send(0, [again, again])
        await finished(process, job.spec.job_id)
        before = await events_of(store, job.spec.job_id)

        await process.broker.send(0, [again])
        await asyncio.sleep(0.05)
        assert not caplog.records
        # As if it came after thousands of others.
        process.engine.shard.fresh = told()
        another = await stored(store)
        await process.broker.send(0, [again])
        await process.broker.send(0, [hint(another.spec)])

        # The commit was refused, the memory dropped, and the next job runs all the same.
        assert (await finished(process, another.spec.job_id)).state.status == "completed"
        assert [record.message for record in caplog.records] == ["shard 0 drops its memory and rebuilds it from rows"]
        assert await events_of(store, job.spec.job_id) == before
        assert (await store.jobs.get(job.spec.job_id)).state.status == "completed"
        await process.stop()


@pytest.mark.parametrize("ahead_seconds", [0, 3600])
async def test_an_owner_looks_up_what_hints_from_before_it_tell_of(
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
