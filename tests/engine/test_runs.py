"""Runs end to end: an engine, a worker and a database."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.defaults import duties
from tests.engine.run_harness import CLOCK, RunProcess, Steered, deploy, opened
from windlass.core.errors import RunNotFound
from windlass.core.runs.webhooks import WEBHOOK_WORKFLOW
from windlass.ports.store.jobs import JobFilter
from windlass.ports.store.runs import DeliveryFilter, RunFilter
from windlass.stores.sqlite.store import SqliteStore
from windlass.views.runs import load_run_view

ECHO = {"nodes": {"say": {"handler": "echo", "params": {"x": 1}}}}
GATE = {"nodes": {"wait": {"handler": "gate"}}}
FLAKY = {
    "nodes": {
        "first": {"handler": "echo"},
        "second": {"handler": "flaky", "dependencies": ["first"]},
    }
}
ONE = {"max_concurrent_runs": 1}
HOOK = {"url": "https://example.test/hook"}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with opened(tmp_path) as found:
        yield found


@pytest.fixture
async def steered() -> Steered:
    return Steered()


@pytest.fixture
async def process(store: SqliteStore, steered: Steered) -> AsyncIterator[RunProcess]:
    made = RunProcess(store, steered)
    await made.start()
    yield made
    steered.gate.set()
    await made.stop()


async def test_a_submitted_job_of_a_workflow_with_constraints_is_a_run(process: RunProcess) -> None:
    await deploy(process.store, "flow", {**ECHO, "constraints": ONE})

    job = await process.submit("flow")

    run = await process.run_in(f"flow:{job.spec.job_id}", "completed")
    assert (await process.ended(job.spec.job_id)).state.status == "completed"
    assert (run.job_id, run.succeeded, run.detail.origin) == (job.spec.job_id, True, "submit")
    events = [event.type for event in await process.store.runs.events(run.run_id)]
    assert events == ["run_created", *["run_state_changed"] * 7]


async def test_a_plain_workflow_has_no_runs(process: RunProcess) -> None:
    await deploy(process.store, "flow", ECHO)
    job = await process.submit("flow")

    await process.ended(job.spec.job_id)

    assert await process.store.runs.list(RunFilter()) == []
    assert len(job.spec.job_id) == 24


async def test_a_run_is_creating_until_its_first_task_has_started(
    process: RunProcess, steered: Steered
) -> None:
    await deploy(process.store, "flow", {**GATE, "constraints": ONE})
    job = await process.submit("flow")
    await steered.started.wait()

    run = await process.run_in(f"flow:{job.spec.job_id}", "running")
    steered.gate.set()

    assert run.previous_state == "container_creating"
    await process.run_in(run.run_id, "completed")


async def test_a_second_run_is_skipped_and_its_job_cancelled(
    process: RunProcess, steered: Steered
) -> None:
    await deploy(process.store, "flow", {**GATE, "constraints": ONE})
    first = await process.submit("flow")
    await steered.started.wait()

    second = await process.submit("flow")

    run = await process.run_in(f"flow:{second.spec.job_id}", "completed")
    assert run.detail.is_skipped
    assert (await process.ended(second.spec.job_id)).state.status == "cancelled"
    assert (await process.store.jobs.get(first.spec.job_id)).state.status == "running"


async def test_a_waiting_run_starts_when_the_other_has_ended(
    process: RunProcess, steered: Steered
) -> None:
    waits = {"on_constraint_violation": {"type": "wait", "parameters": {"timeout": "1m"}}}
    await deploy(process.store, "flow", {**GATE, "constraints": ONE, "actions": waits})
    jobs = [await process.submit("flow") for _ in range(3)]
    await process.run_in(f"flow:{jobs[2].spec.job_id}", "action_running")

    steered.gate.set()

    runs = [await process.run_in(f"flow:{job.spec.job_id}", "completed") for job in jobs]
    started = [run.detail.started_at or 0 for run in runs]
    assert started == sorted(started)


async def test_another_workflow_is_triggered_with_its_input_checked(process: RunProcess) -> None:
    report = {
        "input": {
            "type": "object",
            "properties": {"day": {"type": "integer"}, "page": {"default": 7}},
        },
        "nodes": {"say": {"handler": "echo"}},
    }
    trigger = {"type": "trigger_job", "parameters": {"workflow_id": "report", "input": {"day": 1}}}
    await deploy(process.store, "report", report)
    await deploy(process.store, "flow", {**ECHO, "actions": {"on_success": trigger}})
    job = await process.submit("flow")

    await process.run_in(f"flow:{job.spec.job_id}", "completed")

    [triggered] = await process.store.jobs.list(JobFilter(workflow_id="report"))
    assert (await process.ended(triggered.spec.job_id)).state.status == "completed"
    assert msgspec.json.decode(triggered.spec.input) == {"day": 1, "page": 7}


async def test_the_input_of_a_triggered_job_is_rendered_over_the_job_and_the_run(
    process: RunProcess,
) -> None:
    given = {
        "said": "{{ say.output.echoed_params.text }}",
        "again": "{{ nodes.say.output.echoed_params.text }}",
        "all": "{{ nodes }}",
        "day": "{{ input.day }}",
        "of": "{{ run.run_id }}",
        "job": "{{ job.id }}",
        "error": "{{ error }}",
    }
    trigger = {"type": "trigger_job", "parameters": {"workflow_id": "report", "input": given}}
    flow = {
        "nodes": {"say": {"handler": "echo", "params": {"text": "hello"}}},
        "actions": {"on_success": trigger},
    }
    await deploy(process.store, "report", {"nodes": {"say": {"handler": "echo"}}})
    await deploy(process.store, "flow", flow)
    job = await process.submit("flow", b'{"day":"monday"}')

    run = await process.run_in(f"flow:{job.spec.job_id}", "completed")

    assert [one.error for one in run.detail.actions] == [None]
    [triggered] = await process.store.jobs.list(JobFilter(parent_job_id=job.spec.job_id))
    spec = triggered.spec
    assert msgspec.json.decode(spec.input) == {
        "said": "hello",
        "again": "hello",
        "all": {
            "say": {
                "output": {"echoed_params": {"text": "hello"}},
                "result": {"echoed_params": {"text": "hello"}},
                "status": "completed",
                "meta": {},
            }
        },
        "day": "monday",
        "of": run.run_id,
        "job": job.spec.job_id,
        "error": None,
    }
    assert (spec.origin, spec.parent_run_id, spec.depth) == ("trigger_job", run.run_id, 1)
    assert [one.job_id for one in run.detail.actions] == [spec.job_id]


async def test_a_triggered_job_gets_outputs_of_a_job_that_ended_long_before(
    process: RunProcess, steered: Steered
) -> None:
    steered.answers.clear()
    slow = {"type": "webhook", "critical": True, "parameters": {"url": "https://example.test/slow"}}
    given = {"said": "{{ wait.output }}", "error": "{{ error }}"}
    trigger = {"type": "trigger_job", "parameters": {"workflow_id": "report", "input": given}}
    flow = {
        "nodes": {"wait": {"handler": "gate"}},
        "constraints": {"max_expected_run_time": 0.05},
        "actions": {"on_slow": slow, "on_success": trigger},
    }
    await deploy(process.store, "report", {"nodes": {"say": {"handler": "echo"}}})
    await deploy(process.store, "flow", flow)
    job = await process.submit("flow")
    await process.until(lambda: _is_called(steered))
    steered.gate.set()
    run_id = f"flow:{job.spec.job_id}"
    await process.run_in(run_id, "terminating")
    # The job leaves the memory with a later commit.
    other = await process.submit("report")
    await process.ended(other.spec.job_id)
    await process.until(lambda: _is_forgotten(process, job.spec.job_id))

    steered.answers.set()

    run = await process.run_in(run_id, "completed")
    assert [one.error for one in run.detail.actions] == [None, None]
    triggered = await process.store.jobs.get(run.detail.actions[-1].job_id or "")
    assert msgspec.json.decode(triggered.spec.input) == {"said": "through", "error": None}


async def _is_called(steered: Steered) -> bool:
    return bool(steered.sent)


async def _is_forgotten(process: RunProcess, job_id: str) -> bool:
    return all(job_id not in shard.jobs for shard in process.engine.shard_owner.shards)


async def test_a_template_that_cannot_be_rendered_is_the_reason_of_the_action(
    process: RunProcess,
) -> None:
    parameters = {"workflow_id": "flow", "input": {"x": "{{ input.missing }}"}}
    trigger = {"type": "trigger_job", "parameters": parameters}
    await deploy(process.store, "flow", {**ECHO, "actions": {"on_success": trigger}})
    job = await process.submit("flow")

    run = await process.run_in(f"flow:{job.spec.job_id}", "completed")

    [record] = run.detail.actions
    assert "missing" in (record.error or "")
    assert run.detail.metrics is not None
    assert run.detail.metrics.actions_failed == 1


async def test_two_workflows_that_start_each_other_end(process: RunProcess) -> None:
    for name, other in (("ping", "pong"), ("pong", "ping")):
        trigger = {"type": "trigger_job", "parameters": {"workflow_id": other}}
        await deploy(process.store, name, {**ECHO, "actions": {"on_success": trigger}})
    await process.submit("ping")

    runs = await process.runs_of("ping", 9)

    last = max(runs, key=lambda row: row.detail.depth)
    assert last.detail.depth == 16
    assert "at most 16" in (last.detail.actions[0].error or "")


async def test_a_task_that_no_worker_takes_does_not_block_its_workflow(
    process: RunProcess, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="windlass.runs")
    flow = {
        "nodes": {"a": {"handler": "echo", "queue": "nobody"}},
        "constraints": {"max_concurrent_runs": 1, "start_timeout": "1s"},
    }
    await deploy(process.store, "flow", flow)
    job = await process.submit("flow")

    run = await process.run_in(f"flow:{job.spec.job_id}", "failed")
    after = await process.submit("flow")
    second = await process.run_in(f"flow:{after.spec.job_id}", "failed")

    assert [one.constraint for one in run.detail.violations] == ["start_timeout"]
    assert "running" not in [one.state for one in run.detail.transitions]
    assert [one.constraint for one in second.detail.violations] == ["start_timeout"]
    fields = [vars(record)["fields"] for record in caplog.records if record.levelname == "ERROR"]
    assert fields[0]["run_id"] == run.run_id
    assert fields[0].keys() >= {"job_id", "scheduled_at", "state", "attempt"}


async def test_an_action_that_cannot_be_performed_is_recorded_and_the_run_continues(
    process: RunProcess,
) -> None:
    trigger = {"type": "trigger_job", "parameters": {"workflow_id": "nowhere"}}
    await deploy(process.store, "flow", {**ECHO, "actions": {"on_success": trigger}})
    job = await process.submit("flow")

    run = await process.run_in(f"flow:{job.spec.job_id}", "completed")

    failed = [
        event
        for event in await process.store.runs.events(run.run_id)
        if event.type == "action_failed"
    ]
    assert len(failed) == 1
    assert run.detail.metrics is not None
    assert run.detail.metrics.actions_failed == 1


async def test_a_hook_is_called_by_a_worker_and_may_refuse_the_run(
    process: RunProcess, steered: Steered
) -> None:
    steered.answer = {"allow": False, "reason": "not today"}
    await deploy(process.store, "flow", {**ECHO, "constraints": {"pre_run_hook": HOOK}})

    job = await process.submit("flow")

    run = await process.run_in(f"flow:{job.spec.job_id}", "completed")
    assert (run.detail.is_skipped, run.detail.reason) == (True, "not today")
    assert [sent["type"] for sent in steered.sent] == ["run.starting"]
    assert (await process.ended(job.spec.job_id)).state.status == "cancelled"


async def test_hooks_before_and_after_a_run_are_called_and_recorded(
    process: RunProcess, steered: Steered
) -> None:
    constraints = {"pre_run_hook": HOOK, "post_run_hook": HOOK}
    webhook = {"type": "webhook", "parameters": {"url": "https://example.test/done"}}
    await deploy(
        process.store,
        "flow",
        {**ECHO, "constraints": constraints, "actions": {"on_success": webhook}},
    )

    job = await process.submit("flow")

    run = await process.run_in(f"flow:{job.spec.job_id}", "completed")
    assert steered.sent[0]["type"] == "run.starting"
    assert sorted(str(sent["type"]) for sent in steered.sent) == [
        "run.completed",
        "run.ended",
        "run.starting",
    ]
    assert len(await process.store.runs.deliveries(DeliveryFilter())) == 3
    assert run.succeeded


async def test_a_delivery_can_be_repeated(process: RunProcess, steered: Steered) -> None:
    await deploy(process.store, "flow", {**ECHO, "constraints": {"post_run_hook": HOOK}})
    job = await process.submit("flow")
    await process.run_in(f"flow:{job.spec.job_id}", "completed")
    [delivery] = await process.store.runs.deliveries(DeliveryFilter())

    again = await process.engine.runs.redeliver(delivery.delivery_id)

    assert (await process.ended(again)).spec.workflow_id == WEBHOOK_WORKFLOW
    assert [sent["type"] for sent in steered.sent] == ["run.ended", "run.ended"]
    assert steered.sent[0] == steered.sent[1]


async def test_a_failed_run_is_retried_in_part(process: RunProcess, steered: Steered) -> None:
    steered.fails = True
    retry = {"max_retries": 3, "initial_delay": "50ms"}
    await deploy(process.store, "flow", {**FLAKY, "run_retry": retry})
    job = await process.submit("flow")
    await process.run_in(f"flow:{job.spec.job_id}", "retrying")

    steered.fails = False

    run = await process.run_in(f"flow:{job.spec.job_id}", "completed", "failed")
    first = (await process.store.jobs.nodes(job.spec.job_id, "first"))[0]
    assert (run.state, run.job_id, first.attempt) == ("completed", job.spec.job_id, 1)
    assert "retrying" in [one.state for one in run.detail.transitions]


async def test_a_full_retry_is_a_new_job(process: RunProcess, steered: Steered) -> None:
    steered.fails = True
    await deploy(
        process.store,
        "flow",
        {**FLAKY, "run_retry": {"max_retries": 1, "initial_delay": 0, "full": True}},
    )

    job = await process.submit("flow")

    run = await process.run_in(f"flow:{job.spec.job_id}", "failed")
    assert run.detail.earlier_jobs == [job.spec.job_id]
    assert run.job_id != job.spec.job_id
    assert (await process.store.jobs.get(run.job_id or "")).state.status == "failed"


async def test_a_retry_by_request_is_a_run_of_its_own(
    process: RunProcess, steered: Steered
) -> None:
    steered.fails = True
    await deploy(
        process.store, "flow", {**FLAKY, "constraints": {"require_previous_success": True}}
    )
    job = await process.submit("flow")
    await process.run_in(f"flow:{job.spec.job_id}", "failed")
    steered.fails = False

    await process.engine.jobs.retry(job.spec.job_id)

    [again] = await process.runs_of("flow", 1)
    assert (again.detail.origin, again.job_id) == ("retry", job.spec.job_id)
    assert (await process.store.jobs.get(job.spec.job_id)).state.status == "completed"


async def test_a_cancelled_run_stops_its_job_and_the_handler(
    process: RunProcess, steered: Steered
) -> None:
    await deploy(process.store, "flow", {**GATE, "constraints": ONE})
    job = await process.submit("flow")
    await steered.started.wait()
    await process.run_in(f"flow:{job.spec.job_id}", "running")

    await process.engine.runs.cancel(f"flow:{job.spec.job_id}", "not needed")

    run = await process.store.runs.get(f"flow:{job.spec.job_id}")
    assert (run.state, run.detail.reason) == ("cancelled", "not needed")
    assert (await process.ended(job.spec.job_id)).state.status == "cancelled"


async def test_a_cancelled_job_cancels_its_run(process: RunProcess, steered: Steered) -> None:
    await deploy(process.store, "flow", {**GATE, "constraints": ONE})
    job = await process.submit("flow")
    await steered.started.wait()

    await process.engine.jobs.cancel(job.spec.job_id)

    await process.run_in(f"flow:{job.spec.job_id}", "cancelled")


async def test_an_unknown_run_cannot_be_cancelled(process: RunProcess) -> None:
    with pytest.raises(RunNotFound, match="flow:nothing"):
        await process.engine.runs.cancel("flow:nothing")


async def test_a_run_that_takes_too_long_is_stopped(process: RunProcess, steered: Steered) -> None:
    await deploy(process.store, "flow", {**GATE, "constraints": {"max_allowed_run_time": "300ms"}})

    job = await process.submit("flow")

    run = await process.run_in(f"flow:{job.spec.job_id}", "failed")
    assert [one.constraint for one in run.detail.violations] == ["max_allowed_run_time"]
    assert (await process.ended(job.spec.job_id)).state.status == "cancelled"


async def test_a_run_has_the_exit_code_of_its_container(process: RunProcess) -> None:
    container = {
        "handler": "container",
        "params": {"runtime": "process", "command": ["sh", "-c", "exit 3"]},
    }
    await deploy(process.store, "flow", {"nodes": {"one": container}, "constraints": ONE})

    job = await process.submit("flow")

    run = await process.run_in(f"flow:{job.spec.job_id}", "failed")
    assert run.detail.metrics is not None
    assert run.detail.metrics.exit_code == 3
    assert run.detail.metrics.pod_start_seconds is not None


async def test_a_schedule_starts_runs_by_itself(process: RunProcess) -> None:
    await deploy(process.store, "flow", {**ECHO, "schedule": {"every": "1s"}})

    runs = await process.runs_of("flow", 2)

    assert all(
        run.scheduled_at % 1_000_000 == 0 and run.detail.origin == "schedule" for run in runs
    )
    assert len({run.job_id for run in runs}) == len(runs)
    assert (await process.store.runs.schedule("flow")).slot_at >= runs[0].scheduled_at


async def test_a_paused_schedule_starts_nothing_until_it_is_resumed(process: RunProcess) -> None:
    await deploy(process.store, "flow", {**ECHO, "schedule": {"every": "1s"}})
    await process.runs_of("flow", 1)
    paused = await process.engine.runs.pause("flow")

    async def is_withdrawn() -> bool:
        return not await process.store.runs.list(RunFilter(workflow_id="flow", state="pre_run"))

    await process.until(is_withdrawn)
    count = len(await process.store.runs.list(RunFilter(workflow_id="flow")))

    resumed = await process.engine.runs.resume("flow")

    await process.runs_of("flow", count + 1)
    assert (paused.is_paused, resumed.is_paused) == (True, False)


async def test_a_backfill_runs_slots_without_a_run(process: RunProcess) -> None:
    await deploy(process.store, "flow", {**ECHO, "schedule": {"cron": "0 0 1 1 *"}})
    since, until = 1_420_070_400_000_000 - 1, 1_577_836_800_000_000

    asked = await process.engine.runs.unfilled("flow", since, until)
    answer = await process.engine.runs.backfill("flow", since, until)
    runs = await process.runs_of("flow", 6)
    again = await process.engine.runs.backfill("flow", since, until)

    assert list(answer.slots) == list(asked.slots) == sorted(run.scheduled_at for run in runs)
    assert (answer.left_out, again.slots, again.left_out) == ({}, [], {"has_run": 6})
    assert runs[-1].run_id == "flow:2015-01-01T00:00:00Z"
    assert len(await process.store.runs.list(RunFilter(workflow_id="flow", state="completed"))) == 6


async def test_runs_are_adopted_by_the_next_process(store: SqliteStore, steered: Steered) -> None:
    waits = {"on_constraint_violation": {"type": "wait"}}
    await deploy(store, "flow", {**GATE, "constraints": ONE, "actions": waits})
    one = RunProcess(store, steered)
    await one.start()
    jobs = [await one.submit("flow") for _ in range(2)]
    await steered.started.wait()
    await one.run_in(f"flow:{jobs[1].spec.job_id}", "action_running")
    await one.stop()

    two = RunProcess(store, steered)
    await two.start()
    steered.gate.set()

    for job in jobs:
        await two.run_in(f"flow:{job.spec.job_id}", "completed")
    await two.stop()


async def test_a_run_that_is_adopted_while_it_creates_runs_once_its_task_starts(
    store: SqliteStore, steered: Steered
) -> None:
    await deploy(store, "flow", {**GATE, "constraints": ONE})
    one = RunProcess(store, steered)
    await one.start(worker=False)
    job = await one.submit("flow")
    await one.run_in(f"flow:{job.spec.job_id}", "container_creating")
    await one.stop()

    two = RunProcess(store, steered)
    await two.start()

    await two.run_in(f"flow:{job.spec.job_id}", "running")
    steered.gate.set()
    await two.run_in(f"flow:{job.spec.job_id}", "completed")
    await two.stop()


async def test_runs_that_no_engine_served_for_too_long_are_orphaned(
    store: SqliteStore, steered: Steered
) -> None:
    await deploy(store, "flow", {**GATE, "constraints": ONE})
    one = RunProcess(store, steered)
    await one.start()
    job = await one.submit("flow")
    await steered.started.wait()
    await one.run_in(f"flow:{job.spec.job_id}", "running")
    await store.runs.put_heartbeat(0)
    await one.stop()

    two = RunProcess(store, steered, duties=duties(run_heartbeats_missed_max=0))
    await two.start()

    run = await two.run_in(f"flow:{job.spec.job_id}", "orphaned")
    assert run.succeeded is False
    assert (await two.ended(job.spec.job_id)).state.status == "cancelled"
    await two.stop()


async def heartbeats_of(process: RunProcess, run_id: str) -> int:
    """Return the heartbeats of a run as the API shows them."""
    row = await process.store.runs.get(run_id)
    return (await load_run_view(process.store.runs, row, CLOCK.now())).metrics["heartbeats"]


async def test_the_heartbeats_of_a_run_are_counted_on_the_way_and_over_a_restart(
    store: SqliteStore, steered: Steered
) -> None:
    await deploy(store, "flow", {**GATE, "constraints": ONE})
    one = RunProcess(store, steered, duties=duties(run_heartbeat_seconds=0.02))
    await one.start()
    job = await one.submit("flow")
    run_id = f"flow:{job.spec.job_id}"
    await steered.started.wait()

    async def has_heartbeats() -> bool:
        return await heartbeats_of(one, run_id) >= 2

    await one.until(has_heartbeats)
    await one.stop()
    before = await heartbeats_of(one, run_id)
    two = RunProcess(store, steered)
    await two.start()
    steered.gate.set()
    run = await two.run_in(run_id, "completed")
    await two.stop()

    assert run.detail.metrics is not None
    assert run.detail.metrics.heartbeats >= before >= 2


async def test_a_run_counts_no_heartbeats_before_its_own(
    store: SqliteStore, steered: Steered
) -> None:
    await deploy(store, "flow", {**GATE, "constraints": ONE})
    for _ in range(3):
        await store.runs.put_heartbeat(0)
    process = RunProcess(store, steered)
    await process.start()
    job = await process.submit("flow")
    await steered.started.wait()
    await process.run_in(f"flow:{job.spec.job_id}", "running")

    during = await heartbeats_of(process, f"flow:{job.spec.job_id}")
    steered.gate.set()
    run = await process.run_in(f"flow:{job.spec.job_id}", "completed")
    await process.stop()

    assert run.detail.metrics is not None
    assert (during, run.detail.metrics.heartbeats) == (0, 0)


async def test_a_resumed_job_continues_with_its_run(store: SqliteStore, steered: Steered) -> None:
    await deploy(store, "flow", {**GATE, "constraints": ONE})
    one = RunProcess(store, steered, alone=True)
    await one.start()
    job = await one.submit("flow")
    await one.run_in(f"flow:{job.spec.job_id}", "container_creating", "running")
    await one.stop()
    two = RunProcess(store, steered, alone=True)
    await two.start()
    steered.gate.set()

    await two.engine.jobs.resume(job.spec.job_id)

    await two.run_in(f"flow:{job.spec.job_id}", "completed")
    await two.stop()


async def test_a_process_that_runs_only_its_own_jobs_enforces_their_constraints(
    store: SqliteStore, steered: Steered
) -> None:
    await deploy(store, "flow", {**ECHO, "constraints": ONE, "schedule": {"every": "1s"}})
    process = RunProcess(store, steered, alone=True)
    await process.start()

    job = await process.submit("flow")

    await process.run_in(f"flow:{job.spec.job_id}", "completed")
    assert await store.runs.list(RunFilter(state="pre_run")) == []
    await process.stop()
