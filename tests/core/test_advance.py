"""The rules of a job's execution."""

import msgspec
import pytest
from msgspec import Raw, structs

from simulation.plans import plan_of
from tests.core.job_harness import SECOND, T0, JobHarness
from windlass.core.advance import advance
from windlass.core.dispatch import TURN_READY_MAX
from windlass.core.errors import IllegalMove
from windlass.core.job import Job
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.messages import (
    CancelRequested,
    Continue,
    Submitted,
    Succeeded,
    TaskStarted,
    TimerDue,
    TimerKind,
)
from windlass.core.plan import NodePlan, RetryOnError
from windlass.core.states import JOB_FINAL, NODE_FINAL, NodeMove, NodeStatus, node_after
from windlass.core.templates.template import compile_template
from windlass.core.timers import timer_of

ECHO = {"start": [], "echo_handler": ["start"], "end": ["echo_handler"]}
DIAMOND = {"top": [], "left": ["top"], "right": ["top"], "join": ["left", "right"]}


def task(node_id: str, **settings: object) -> NodePlan:
    return NodePlan(id=node_id, handler="echo", **settings)  # type: ignore[arg-type]


def test_the_echo_workflow_emits_its_documented_events() -> None:
    harness = JobHarness(plan_of(ECHO))

    harness.begin()
    harness.finish("echo_handler")

    assert harness.events == [
        "job_created",
        "node_ready echo_handler",
        "node_dispatched echo_handler",
        "job_started",
        "node_started echo_handler",
        "node_completed echo_handler",
        "node_ready end",
        "job_completed",
    ]


def test_final_states_are_listed() -> None:
    assert {state.label for state in NODE_FINAL} == {"completed", "failed", "skipped", "cancelled"}
    assert {state.value for state in JOB_FINAL} == {"completed", "failed", "cancelled"}


def test_an_unlisted_move_raises() -> None:
    with pytest.raises(IllegalMove, match="completed cannot dispatch"):
        node_after(NodeStatus.COMPLETED, NodeMove.DISPATCH)


def test_a_fan_in_is_dispatched_once_when_its_parents_finish_together() -> None:
    harness = JobHarness(plan_of(DIAMOND))
    harness.begin()
    harness.finish("top")

    harness.finish("left")
    harness.finish("right", attempt=1)
    harness.finish("right", attempt=1)

    assert harness.dispatched.count("join") == 1


def test_a_message_delivered_twice_changes_nothing() -> None:
    harness = JobHarness(plan_of(DIAMOND))
    harness.begin()
    message = harness.finished("top", Succeeded(Raw(b"1")))
    harness.apply(message)

    again = harness.apply(message)

    assert not again
    assert not again.tasks


def test_params_read_the_outputs_of_upstream_nodes() -> None:
    params = compile_template({"total": "{{ a.output.n + 1 }}", "who": "{{ name }}"})
    harness = JobHarness(
        plan_of({"a": [], "b": ["a"]}, {"b": task("b", params=params)}), b'{"name":"ada"}'
    )
    harness.begin()

    changes = harness.finish("a", b'{"n":41}')

    assert changes.tasks[0].params == b'{"total":42,"who":"ada"}'


def test_a_node_without_params_gets_the_jobs_input() -> None:
    harness = JobHarness(plan_of({"a": []}), b'{"message":"hello"}')

    changes = harness.begin()

    assert changes.tasks[0].params == b'{"message":"hello"}'


def test_a_template_that_fails_fails_its_node_and_is_not_retried() -> None:
    node = NodePlan(id="b", handler="echo", params=compile_template({"x": "{{ a.output.missing }}"}),
                    on_error=RetryOnError(attempts_max=5))  # fmt: skip
    harness = JobHarness(plan_of({"a": [], "b": ["a"]}, {"b": node}))
    harness.begin()

    harness.finish("a", b"{}")

    assert harness.status == "failed"
    assert b"template_failed" in bytes(harness.rows["b"].error or b"")
    assert b"missing" in bytes(harness.rows["b"].error or b"")


def test_a_false_condition_skips_the_node_and_nodes_that_depend_only_on_it() -> None:
    nodes = {"b": task("b", when=compile_template("{{ false }}"))}
    harness = JobHarness(
        plan_of({"a": [], "b": ["a"], "c": ["b"], "d": ["c"], "end": ["d"]}, nodes)
    )
    harness.begin()

    harness.finish("a")

    assert harness.states() == {
        "a": "completed",
        "b": "skipped",
        "c": "skipped",
        "d": "skipped",
        "end": "completed",
    }
    assert harness.status == "completed"


def test_a_node_runs_if_one_dependency_completed_and_another_was_skipped() -> None:
    nodes = {"b": task("b", when=compile_template("{{ false }}"))}
    harness = JobHarness(plan_of({"a": [], "b": [], "c": ["a", "b"]}, nodes))
    harness.begin()

    harness.finish("a")

    assert harness.state("c") == "dispatched"


def test_run_if_skipped_runs_if_all_dependencies_were_skipped() -> None:
    nodes = {
        "a": task("a", when=compile_template("{{ false }}")),
        "b": task("b", run_if_skipped=True),
    }
    harness = JobHarness(plan_of({"a": [], "b": ["a"]}, nodes))

    harness.begin()

    assert harness.states() == {"a": "skipped", "b": "dispatched"}


def test_a_condition_that_fails_to_render_fails_the_node() -> None:
    harness = JobHarness(
        plan_of({"a": []}, {"a": task("a", when=compile_template("{{ nothing.here }}"))})
    )

    harness.begin()

    assert harness.status == "failed"
    assert harness.rows["a"].attempt == 0


def test_the_first_failure_fails_downstream_nodes_and_cancels_the_others() -> None:
    harness = JobHarness(plan_of({"a": [], "b": [], "c": ["a"], "d": ["b"], "end": ["c", "d"]}))
    harness.begin()

    harness.fail("a")

    assert harness.states() == {
        "a": "failed",
        "b": "cancelled",
        "c": "failed",
        "d": "cancelled",
        "end": "failed",
    }
    assert b"upstream_failed" in bytes(harness.rows["c"].error or b"")
    assert harness.cancels == ["job_b_1"]
    assert harness.events[-1] == "job_failed"


def test_without_fail_fast_independent_branches_finish_before_the_job_fails() -> None:
    harness = JobHarness(plan_of({"a": [], "b": [], "c": ["a"], "d": ["b"]}, fail_fast=False))
    harness.begin()

    harness.fail("a")
    harness.finish("b")
    harness.finish("d")

    assert harness.states() == {"a": "failed", "b": "completed", "c": "failed", "d": "completed"}
    assert harness.status == "failed"


def test_an_allowed_failure_counts_as_completed_with_a_null_output() -> None:
    params = compile_template({"got": "{{ a.output }}", "how": "{{ a.status }}"})
    harness = JobHarness(
        plan_of(
            {"a": [], "b": ["a"]},
            {"a": task("a", allow_failure=True), "b": task("b", params=params)},
        )
    )
    harness.begin()

    changes = harness.fail("a")
    harness.finish("b")

    assert changes.tasks[0].params == b'{"got":null,"how":"failed"}'
    assert harness.status == "completed"


def test_a_result_after_the_job_failed_is_recorded_once_and_changes_nothing() -> None:
    harness = JobHarness(plan_of({"a": [], "b": []}))
    harness.begin()
    harness.fail("a")
    before = harness.states()

    harness.finish("b", attempt=1)
    harness.finish("b", attempt=1)

    assert harness.states() == before
    assert harness.events.count("result_ignored b") == 1


def test_a_reported_start_is_recorded_once() -> None:
    harness = JobHarness(plan_of({"a": []}))
    harness.begin()

    harness.start("a")
    harness.start("a")
    harness.finish("a")

    assert harness.events.count("node_started a") == 1


def test_a_task_without_a_report_times_out_after_a_grace_period() -> None:
    harness = JobHarness(plan_of({"a": []}, {"a": task("a", timeout_seconds=10.0)}))
    harness.begin()
    timer = harness.start("a").timers[0]
    harness.now = timer.due_at

    harness.apply(TimerDue("job", TimerKind.NODE_TIMEOUT, "a", 1))
    harness.finish("a", attempt=1)

    assert timer.due_at == T0 + 40 * SECOND
    assert harness.status == "failed"
    assert harness.cancels == ["job_a_1"]
    assert harness.events[-1] == "result_ignored a"


def test_the_timeout_of_an_attempt_counts_from_its_start_and_not_from_the_report() -> None:
    harness = JobHarness(plan_of({"a": []}, {"a": task("a", timeout_seconds=10.0)}))
    harness.begin()
    harness.now += 20 * SECOND

    (timer,) = harness.apply(TaskStarted("job", "a", 1, "w1", T0 + 5 * SECOND)).timers

    assert timer == timer_of(harness.restored(), harness.restored().attempts[0])
    assert timer.due_at == T0 + 45 * SECOND


def test_an_attempt_timeout_that_fires_too_early_is_set_again() -> None:
    harness = JobHarness(plan_of({"a": []}, {"a": task("a", timeout_seconds=10.0)}))
    harness.begin()
    (timer,) = harness.start("a").timers

    changes = advance(harness.job, timer.message(), timer.due_at - 1)

    assert (changes.timers, changes.events) == ([timer], {})


def test_a_job_that_times_out_fails_and_cancels_its_nodes() -> None:
    harness = JobHarness(plan_of({"a": [], "b": ["a"]}, timeout_seconds=60.0))
    timer = harness.begin().timers[0]

    harness.apply(TimerDue("job", TimerKind.JOB_TIMEOUT))

    assert timer.due_at == T0 + 60 * SECOND
    assert harness.states() == {"a": "cancelled", "b": "cancelled"}
    assert harness.status == "failed"
    assert harness.cancels == ["job_a_1"]


def test_a_cancel_stops_all_tasks_and_is_idempotent() -> None:
    harness = JobHarness(plan_of({"a": [], "b": ["a"]}))
    harness.begin()

    first = harness.apply(CancelRequested("job", "r1"))
    second = harness.apply(CancelRequested("job", "r2"))

    assert (harness.status, harness.cancels) == ("cancelled", ["job_a_1"])
    assert (first.requests, second.requests) == (["r1"], ["r2"])
    assert harness.events.count("job_cancelled") == 1


def test_a_job_cancelled_before_its_start_dispatches_nothing() -> None:
    harness = JobHarness(plan_of({"a": []}))

    harness.apply(CancelRequested("job", "r1"), Submitted("job"))

    assert (harness.status, harness.dispatched) == ("cancelled", [])


def test_a_wide_fan_out_is_dispatched_in_bounded_turns() -> None:
    width = TURN_READY_MAX + 10
    harness = JobHarness(plan_of({"a": [], **{f"n{i}": ["a"] for i in range(width)}}))
    harness.begin()

    first = harness.finish("a")
    second = harness.apply(Continue("job"))

    assert (len(first.tasks), first.unfinished_turns) == (TURN_READY_MAX, ["job"])
    assert (len(second.tasks), second.unfinished_turns) == (10, [])


def test_events_have_gapless_numbers() -> None:
    harness = JobHarness(plan_of(DIAMOND))
    harness.begin()
    for node in DIAMOND:
        harness.finish(node)

    numbers = [event.seq for changes in harness.applied for event in changes.events.get("job", [])]

    assert numbers == list(range(2, 2 + len(numbers)))


def test_a_job_without_tasks_completes_at_once() -> None:
    harness = JobHarness(plan_of({"start": [], "end": ["start"]}))

    harness.begin()

    assert harness.events == ["job_created", "node_ready end", "job_started", "job_completed"]


def test_a_scheduled_job_starts_at_its_time() -> None:
    harness = JobHarness(plan_of({"a": []}))
    harness.job.spec = structs.replace(harness.job.spec, scheduled_at=T0 + 60 * SECOND)

    timer = harness.begin().timers[0]
    before = harness.dispatched
    harness.now = timer.due_at
    harness.apply(TimerDue("job", TimerKind.BEGIN))

    assert (timer.due_at, before, harness.dispatched) == (T0 + 60 * SECOND, [], ["a"])


@pytest.mark.parametrize("reports_start", [True, False])
def test_an_attempt_that_its_worker_handed_back_starts_again(reports_start: bool) -> None:
    harness = JobHarness(plan_of({"a": []}))
    harness.begin()
    harness.start("a", "w0")
    harness.now += SECOND
    if reports_start:
        harness.start("a", "w1")
    harness.finish("a")

    assert harness.events[-5:] == [
        "node_started a",
        "task_redelivered a",
        "node_started a",
        "node_completed a",
        "job_completed",
    ]
    assert harness.rows["a"].worker_id == "w1"


def test_a_start_that_is_delivered_again_after_a_redelivery_changes_nothing() -> None:
    harness = JobHarness(plan_of({"a": []}))
    harness.begin()
    first = TaskStarted("job", "a", 1, "w0", harness.now)
    harness.apply(first)
    harness.now += SECOND
    harness.start("a", "w1")
    before = len(harness.events)

    harness.apply(first)

    assert len(harness.events) == before


def test_the_end_of_a_node_names_its_worker() -> None:
    harness = JobHarness(plan_of({"a": []}))
    harness.begin()

    changes = harness.finish("a")

    [completed] = [event for event in changes.events["job"] if event.type == "node_completed"]
    assert msgspec.json.decode(completed.data or b"") == {"attempt_number": 1, "worker_id": "w1"}


HOUR = 3_600 * SECOND


@pytest.mark.parametrize(("wall", "status"), [(T0 + HOUR, "running"), (T0, "pending")])
def test_scheduled_job_begins_by_the_wall_clock(wall: int, status: str) -> None:
    flow = plan_of({"a": []})
    spec = JobSpec("job", flow.workflow_id, flow.version, Raw(b"{}"), T0, scheduled_at=T0 + HOUR)
    job = Job(flow, JobRecord(spec))

    changes = advance(job, Submitted("job"), T0, wall=wall)

    assert job.state.status == status
    assert [timer.due_at for timer in changes.timers] == (
        [T0 + HOUR] if status == "pending" else []
    )


def test_timeout_of_a_job_does_not_follow_the_wall_clock() -> None:
    flow = structs.replace(plan_of({"a": []}), timeout_seconds=60.0)
    job = Job(flow, JobRecord(JobSpec("job", flow.workflow_id, flow.version, Raw(b"{}"), T0)))
    advance(job, Submitted("job"), T0, wall=T0 + HOUR)

    early = advance(
        job, TimerDue("job", TimerKind.JOB_TIMEOUT), T0 + 59 * SECOND, wall=T0 + 2 * HOUR
    )
    status = job.state.status
    advance(job, TimerDue("job", TimerKind.JOB_TIMEOUT), T0 + 60 * SECOND, wall=T0 - HOUR)

    assert [timer.due_at for timer in early.timers] == [T0 + 60 * SECOND]
    assert (status, job.state.status) == ("running", "failed")
