"""The contract of stores: versions and aliases, deleted workflows, results reported over HTTP, logs."""

import pytest
from msgspec import Raw, structs

from tests.contracts.rows import T0, changes, new_job
from windlass.core.artifacts import reference
from windlass.core.errors import RequestRefused, StaleLease, WorkflowNotFound
from windlass.core.jobs import JobState
from windlass.core.messages import Failed, Succeeded, TaskError, TaskFinished
from windlass.core.report_verdict import ReportVerdict
from windlass.core.states import JobStatus
from windlass.ports.handler import LogLine
from windlass.ports.store import Store
from windlass.ports.store.jobs import StoredResult
from windlass.ports.store.logs import LogFilter
from windlass.ports.store.workflows import AliasTarget, WorkflowFilter


async def deploy(store: Store, workflow_id: str, *digests: str) -> None:
    for digest in digests:
        await store.workflows.put(workflow_id, Raw(b'{"d":"%s"}' % digest.encode()), digest, T0)


def result(
    result_id: str, *, meta: bytes | None = None, job_id: str = "j1", at: int = T0
) -> StoredResult:
    outcome = Succeeded(Raw(b'{"n":1}'), None if meta is None else Raw(meta))
    message = TaskFinished(job_id, "a", 1, "w", T0, T0 + 5, outcome, result_id=result_id)
    return StoredResult(result_id, 0, message, at)


def line(
    text: str, *, node_id: str = "a", attempt: int = 1, job_id: str = "j1", index: int = 0
) -> LogLine:
    return LogLine(job_id, node_id, index, attempt, T0, "info", text)


async def test_only_the_call_that_created_a_version_returns_it_as_new(store: Store) -> None:
    first = await store.workflows.put("flow", Raw(b"{}"), "d", T0)
    again = await store.workflows.put("flow", Raw(b"{}"), "d", T0)

    assert (first.is_new, again.is_new) == (True, False)


async def test_workflows_are_listed_by_id_in_their_newest_version(store: Store) -> None:
    await deploy(store, "b", "1", "2")
    await deploy(store, "a", "1")
    await deploy(store, "c", "1")

    page = await store.workflows.list(WorkflowFilter(limit=2))
    rest = await store.workflows.list(WorkflowFilter(after="b"))

    assert [(one.workflow_id, one.version) for one in page] == [("a", 1), ("b", 2)]
    assert [one.workflow_id for one in rest] == ["c"]


async def test_versions_are_listed_newest_first(store: Store) -> None:
    await deploy(store, "flow", "1", "2", "3")

    assert [one.version for one in await store.workflows.versions("flow")] == [3, 2, 1]


async def test_a_deleted_workflow_is_not_listed_and_keeps_its_history(store: Store) -> None:
    await deploy(store, "flow", "1", "2")

    await store.workflows.delete("flow", T0, force=False)

    assert await store.workflows.list(WorkflowFilter()) == []
    assert [one.version for one in await store.workflows.versions("flow")] == [2, 1]
    assert (await store.workflows.get("flow", 1)).version == 1
    with pytest.raises(WorkflowNotFound):
        await store.workflows.get("flow")
    with pytest.raises(WorkflowNotFound):
        await store.workflows.delete("flow", T0, force=False)


async def test_a_workflow_deployed_again_after_its_deletion_is_a_new_version(store: Store) -> None:
    await deploy(store, "flow", "1")
    await store.workflows.delete("flow", T0, force=False)

    again = await store.workflows.put("flow", Raw(b"{}"), "1", T0)

    assert (again.version, again.is_new) == (2, True)
    assert (await store.workflows.get("flow")).version == 2


async def test_a_workflow_with_unfinished_jobs_is_deleted_only_by_force(store: Store) -> None:
    await deploy(store, "flow", "1")
    await store.jobs.insert([new_job("j1")])

    with pytest.raises(RequestRefused, match="unfinished jobs: 1"):
        await store.workflows.delete("flow", T0, force=False)
    await store.workflows.delete("flow", T0, force=True)

    assert (await store.jobs.get("j1")).state.status == "pending"


async def test_an_alias_has_its_last_targets(store: Store) -> None:
    await deploy(store, "flow", "1", "2")

    await store.workflows.put_alias("flow", "stable", [AliasTarget(2)], T0)
    await store.workflows.put_alias("flow", "stable", [AliasTarget(1, 90), AliasTarget(2, 10)], T0)
    await store.workflows.put_alias("flow", "removed", [AliasTarget(1)], T0)
    await store.workflows.put_alias("flow", "removed", [], T0)

    assert await store.workflows.aliases("flow") == {
        "stable": [AliasTarget(1, 90), AliasTarget(2, 10)]
    }


async def test_aliases_are_deleted_with_their_workflow(store: Store) -> None:
    await store.workflows.put("flow", Raw(b"{}"), "one", T0)
    await store.workflows.put("other", Raw(b"{}"), "one", T0)
    await store.workflows.put_alias("flow", "stable", [AliasTarget(1)], T0)
    await store.workflows.put_alias("other", "stable", [AliasTarget(1)], T0)

    await store.workflows.delete("flow", T0, force=False)
    assert await store.workflows.aliases("flow") == {}

    await store.workflows.put("flow", Raw(b"{}"), "two", T0)
    assert await store.workflows.aliases("flow") == {}
    assert list(await store.workflows.aliases("other")) == ["stable"]


async def test_a_deleted_workflow_gets_no_alias(store: Store) -> None:
    await store.workflows.put("flow", Raw(b"{}"), "one", T0)
    await store.workflows.delete("flow", T0, force=False)

    with pytest.raises(WorkflowNotFound):
        await store.workflows.put_alias("flow", "stable", [AliasTarget(1)], T0)

    assert await store.workflows.aliases("flow") == {}


async def test_an_alias_of_an_unknown_version_is_refused(store: Store) -> None:
    await deploy(store, "flow", "1")

    with pytest.raises(WorkflowNotFound):
        await store.workflows.put_alias("flow", "stable", [AliasTarget(1), AliasTarget(7)], T0)

    assert await store.workflows.aliases("flow") == {}


async def test_a_result_waits_until_a_commit_applies_it(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "me")
    await store.jobs.put_result(result("t1", meta=b'{"status":200}'))
    waiting = await store.jobs.results(0, 10)
    applied = changes()
    applied.results["t1"] = ReportVerdict.ACCEPTED

    await store.commit(0, lease.epoch, applied)

    assert [one.result_id for one in waiting] == ["t1"]
    outcome = waiting[0].message.outcome
    assert isinstance(outcome, Succeeded)
    assert (bytes(outcome.output), bytes(outcome.meta or b"")) == (b'{"n":1}', b'{"status":200}')
    assert await store.jobs.results(0, 10) == []


async def judged(store: Store, epoch: int, **verdicts: ReportVerdict) -> None:
    applied = changes()
    applied.results.update(verdicts)
    await store.commit(0, epoch, applied)


async def test_a_commit_stores_the_verdict_on_each_result(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "me")
    for result_id in ("accepted", "repeated", "late", "waiting"):
        await store.jobs.put_result(result(result_id))

    await judged(
        store,
        lease.epoch,
        accepted=ReportVerdict.ACCEPTED,
        repeated=ReportVerdict.REPEATED,
        late=ReportVerdict.LATE,
    )

    found = await store.jobs.verdicts(["accepted", "repeated", "late", "waiting"])
    assert found == {
        "accepted": ReportVerdict.ACCEPTED,
        "repeated": ReportVerdict.REPEATED,
        "late": ReportVerdict.LATE,
    }
    assert [one.result_id for one in await store.jobs.results(0, 10)] == ["waiting"]


async def test_a_refused_result_is_deleted_and_its_verdict_is_unknown(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "me")
    await store.jobs.put_result(result("refused"))

    await judged(store, lease.epoch, refused=ReportVerdict.UNKNOWN)

    assert await store.jobs.verdicts(["refused"]) == {"refused": ReportVerdict.UNKNOWN}
    assert await store.jobs.results(0, 10) == []


@pytest.mark.parametrize("second", [ReportVerdict.REPEATED, ReportVerdict.UNKNOWN])
async def test_the_first_verdict_on_a_result_stays(store: Store, second: ReportVerdict) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "me")
    await store.jobs.put_result(result("t1"))
    await judged(store, lease.epoch, t1=ReportVerdict.ACCEPTED)

    await judged(store, lease.epoch, t1=second)

    assert await store.jobs.verdicts(["t1"]) == {"t1": ReportVerdict.ACCEPTED}


async def test_a_stale_commit_stores_no_verdict(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "me")
    await store.jobs.put_result(result("t1"))
    await store.leases.take(0, "another")

    with pytest.raises(StaleLease):
        await judged(store, lease.epoch, t1=ReportVerdict.ACCEPTED)

    assert await store.jobs.verdicts(["t1"]) == {}


async def test_a_failed_result_is_returned_complete(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    error = TaskError("boom", "it broke", retryable=False, status=500, retry_after_seconds=2.5)
    stored = result("t1")

    await store.jobs.put_result(
        structs.replace(stored, message=structs.replace(stored.message, outcome=Failed(error)))
    )

    assert (await store.jobs.results(0, 10))[0].message.outcome == Failed(error)


async def test_results_are_listed_oldest_first_and_by_shard(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    await store.jobs.put_result(result("t2", at=T0 + 2))
    await store.jobs.put_result(result("t1", at=T0 + 1))
    await store.jobs.put_result(structs.replace(result("t3"), shard=1))

    assert [one.result_id for one in await store.jobs.results(0, 10)] == ["t1", "t2"]
    assert [one.result_id for one in await store.jobs.results(0, 1)] == ["t1"]


async def test_logs_are_read_in_order_after_a_number_and_by_attempt(store: Store) -> None:
    await store.jobs.insert([new_job("j1"), new_job("j2")])
    await store.logs.append([line("one"), line("two", attempt=2), line("three", node_id="b")])
    await store.logs.append([line("other", job_id="j2"), line("four")])

    everything = await store.logs.list(LogFilter("j1"))
    after = await store.logs.list(LogFilter("j1", after=everything[1].log_id, limit=1))

    assert [one.line.message for one in everything] == ["one", "two", "three", "four"]
    assert [one.line.message for one in after] == ["three"]
    assert [one.line.message for one in await store.logs.list(LogFilter("j1", "a", 2))] == ["two"]


async def test_logs_of_a_single_iteration_can_be_read(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    await store.logs.append([line("one"), line("two", index=7), line("three", index=7, attempt=2)])

    assert [one.line.message for one in await store.logs.list(LogFilter("j1", "a", index=7))] == [
        "two",
        "three",
    ]
    assert [one.line.message for one in await store.logs.list(LogFilter("j1", index=0))] == ["one"]


async def test_a_result_too_large_for_a_row_is_returned_as_a_reference(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    large = result("t1")
    message = structs.replace(
        large.message, outcome=Succeeded(reference("j1/abc", 300_000), Raw(b'{"m":1}'))
    )

    await store.jobs.put_result(structs.replace(large, message=message))

    assert [one.message for one in await store.jobs.results(0, 10)] == [message]


async def test_a_result_keeps_the_context_that_its_worker_reported(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    message = structs.replace(result("t1").message, context=Raw(b'{"vars":{"n":1}}'))

    await store.jobs.put_result(structs.replace(result("t1"), message=message))

    assert [one.message for one in await store.jobs.results(0, 10)] == [message]


async def test_pruning_a_job_deletes_its_logs_and_results(store: Store) -> None:
    await store.jobs.insert([new_job("j1")])
    lease = await store.leases.take(0, "me")
    await store.logs.append([line("one")])
    await store.jobs.put_result(result("t1"))
    ended = changes(jobs=[("j1", JobState(JobStatus.COMPLETED, 0, T0, T0 + 1))])
    await store.commit(0, lease.epoch, ended)

    assert list(await store.jobs.prune(T0 + 100, 10)) == ["j1"]
    assert await store.logs.list(LogFilter("j1")) == []
    assert await store.jobs.results(0, 10) == []


async def test_the_newest_epoch_of_a_shard_is_returned(store: Store) -> None:
    before = await store.leases.epoch(0)
    lease = await store.leases.take(0, "me")

    assert (before, await store.leases.epoch(0)) == (0, lease.epoch)


async def test_a_job_keeps_its_scheduled_start(store: Store) -> None:
    await store.jobs.insert([structs.replace(new_job("j1"), scheduled_at=T0 + 60)])

    assert (await store.jobs.get("j1")).spec.scheduled_at == T0 + 60
