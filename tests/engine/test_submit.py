"""Submitting jobs: one function for all callers, alone, all together or each with its own result."""

from pathlib import Path

import pytest

from tests.engine.harness import Process, opened, plan
from windlass.core.errors import IdempotencyConflict, InputInvalid, WindlassError, WorkflowNotFound
from windlass.core.submit_request import SubmitRequest
from windlass.ports.store.jobs import JobFilter, SubmitResult

VALID = SubmitRequest("test", {"n": 1})
MISSING = SubmitRequest("missing")
INVALID_INSTANT = SubmitRequest("test", scheduled_at="2030-13-01T00:00:00Z")


async def test_each_request_gets_its_own_result_or_error(tmp_path: Path) -> None:
    keyed = SubmitRequest("test", {"n": 2}, idempotency_key="key")
    other = SubmitRequest("test", {"n": 3}, idempotency_key="key")
    async with opened(tmp_path) as store:
        process = Process(store, plan({"a": []}))
        await process.start()

        answers = await process.engine.jobs.submit_each(
            [VALID, MISSING, keyed, INVALID_INSTANT, other, keyed]
        )
        stored = await store.jobs.list(JobFilter())
        await process.stop()

    kinds = [type(answer) for answer in answers]
    assert kinds == [
        SubmitResult,
        WorkflowNotFound,
        SubmitResult,
        InputInvalid,
        IdempotencyConflict,
        SubmitResult,
    ]
    created = [answer.created for answer in answers if not isinstance(answer, WindlassError)]
    assert created == [True, True, False]
    assert len(stored) == 2


async def test_an_invalid_request_stores_none_of_the_jobs_submitted_with_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan({"a": []}))
        await process.start()

        with pytest.raises(WorkflowNotFound):
            await process.engine.jobs.submit_all([VALID, MISSING])
        stored = await store.jobs.list(JobFilter())
        await process.stop()

    assert stored == []


async def test_what_the_caller_sent_identifies_a_request_that_was_derived_from_it(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan({"a": []}))
        await process.start()
        jobs = process.engine.jobs

        first = await jobs.submit(
            SubmitRequest("test", {"n": 1}, idempotency_key="key"), ("test", None)
        )
        second = await jobs.submit(
            SubmitRequest("test", {"n": 2}, idempotency_key="key"), ("test", None)
        )
        with pytest.raises(IdempotencyConflict, match="another request"):
            await jobs.submit(
                SubmitRequest("test", {"n": 1}, idempotency_key="key"), ("test", {"n": 1})
            )
        await process.stop()

    assert (first.created, second.created) == (True, False)
    assert first.job.spec.job_id == second.job.spec.job_id
