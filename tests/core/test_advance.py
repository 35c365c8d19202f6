"""The rules of a job's execution."""

import pytest
from msgspec import Raw, structs

from simulation.plans import plan_of
from tests.core.story import SECOND, T0, Story
from windlass.core.dispatch import TURN_READY_MAX
from windlass.core.errors import IllegalMove
from windlass.core.messages import (
    CancelRequested,
    Continue,
    Submitted,
    Succeeded,
    TimerDue,
)
from windlass.core.plan import NodePlan, RetryOnError
from windlass.core.states import JOB_FINAL, NODE_FINAL, NodeMove, NodeStatus, node_after
from windlass.core.templates.template import compile_template

ECHO = {"start": [], "echo_handler": ["start"], "end": ["echo_handler"]}
DIAMOND = {"top": [], "left": ["top"], "right": ["top"], "join": ["left", "right"]}


def task(node_id: str, **settings: object) -> NodePlan:
    return NodePlan(id=node_id, handler="echo", **settings)  # type: ignore[arg-type]


def test_the_echo_workflow_yields_the_timeline_of_its_design() -> None:
    story = Story(plan_of(ECHO))

    story.begin()
    story.finish("echo_handler")

    assert story.events == [
        "job_created",
        "node_ready echo_handler",
        "node_dispatched echo_handler",
        "job_started",
        "node_started echo_handler",
        "node_completed echo_handler",
        "node_ready end",
        "job_completed",
    ]


def test_final_states_are_those_that_no_ordinary_move_leaves() -> None:
    assert {state.label for state in NODE_FINAL} == {"completed", "failed", "skipped", "cancelled"}
    assert {state.value for state in JOB_FINAL} == {"completed", "failed", "cancelled"}


def test_a_move_that_no_table_lists_raises() -> None:
    with pytest.raises(IllegalMove, match="completed cannot dispatch"):
        node_after(NodeStatus.COMPLETED, NodeMove.DISPATCH)


def test_a_fan_in_fires_once_when_its_parents_finish_together() -> None:
    story = Story(plan_of(DIAMOND))
    story.begin()
    story.finish("top")

    story.finish("left")
    story.finish("right", attempt=1)
    story.finish("right", attempt=1)

    assert story.dispatched.count("join") == 1


def test_a_message_delivered_twice_changes_nothing() -> None:
    story = Story(plan_of(DIAMOND))
    story.begin()
    message = story.finished("top", Succeeded(Raw(b"1")))
    story.tell(message)

    again = story.tell(message)

    assert not again
    assert not again.tasks


def test_params_read_the_outputs_of_nodes_before() -> None:
    params = compile_template({"total": "{{ a.output.n + 1 }}", "who": "{{ name }}"})
    story = Story(plan_of({"a": [], "b": ["a"]}, {"b": task("b", params=params)}), b'{"name":"ada"}')
    story.begin()

    changes = story.finish("a", b'{"n":41}')

    assert changes.tasks[0].params == b'{"total":42,"who":"ada"}'


def test_a_node_without_params_gets_the_jobs_input() -> None:
    story = Story(plan_of({"a": []}), b'{"message":"hello"}')

    changes = story.begin()

    assert changes.tasks[0].params == b'{"message":"hello"}'


def test_a_template_that_fails_fails_its_node_and_is_not_retried() -> None:
    node = NodePlan(id="b", handler="echo", params=compile_template({"x": "{{ a.output.missing }}"}),
                    on_error=RetryOnError(attempts_max=5))  # fmt: skip
    story = Story(plan_of({"a": [], "b": ["a"]}, {"b": node}))
    story.begin()

    story.finish("a", b"{}")

    assert story.status == "failed"
    assert b"template_failed" in bytes(story.rows["b"].error or b"")
    assert b"missing" in bytes(story.rows["b"].error or b"")


def test_a_false_condition_skips_the_node_and_those_that_only_follow_it() -> None:
    nodes = {"b": task("b", when=compile_template("{{ false }}"))}
    story = Story(plan_of({"a": [], "b": ["a"], "c": ["b"], "d": ["c"], "end": ["d"]}, nodes))
    story.begin()

    story.finish("a")

    assert story.states() == {"a": "completed", "b": "skipped", "c": "skipped", "d": "skipped", "end": "completed"}
    assert story.status == "completed"


def test_a_node_with_one_live_dependency_runs_although_another_was_skipped() -> None:
    nodes = {"b": task("b", when=compile_template("{{ false }}"))}
    story = Story(plan_of({"a": [], "b": [], "c": ["a", "b"]}, nodes))
    story.begin()

    story.finish("a")

    assert story.state("c") == "dispatched"


def test_run_if_skipped_runs_after_nothing_but_skips() -> None:
    nodes = {"a": task("a", when=compile_template("{{ false }}")), "b": task("b", run_if_skipped=True)}
    story = Story(plan_of({"a": [], "b": ["a"]}, nodes))

    story.begin()

    assert story.states() == {"a": "skipped", "b": "dispatched"}


def test_a_condition_that_fails_to_render_fails_the_node() -> None:
    story = Story(plan_of({"a": []}, {"a": task("a", when=compile_template("{{ nothing.here }}"))}))

    story.begin()

    assert story.status == "failed"
    assert story.rows["a"].attempt == 0


def test_the_first_failure_fails_what_is_after_it_and_cancels_the_rest() -> None:
    story = Story(plan_of({"a": [], "b": [], "c": ["a"], "d": ["b"], "end": ["c", "d"]}))
    story.begin()

    story.fail("a")

    assert story.states() == {"a": "failed", "b": "cancelled", "c": "failed", "d": "cancelled", "end": "failed"}
    assert b"upstream_failed" in bytes(story.rows["c"].error or b"")
    assert story.cancels == ["job_b_1"]
    assert story.events[-1] == "job_failed"


def test_continue_lets_independent_branches_finish_and_fails_the_job_at_the_end() -> None:
    story = Story(plan_of({"a": [], "b": [], "c": ["a"], "d": ["b"]}, fail_fast=False))
    story.begin()

    story.fail("a")
    story.finish("b")
    story.finish("d")

    assert story.states() == {"a": "failed", "b": "completed", "c": "failed", "d": "completed"}
    assert story.status == "failed"


def test_an_allowed_failure_counts_as_done_with_a_null_output() -> None:
    params = compile_template({"got": "{{ a.output }}", "how": "{{ a.status }}"})
    story = Story(plan_of({"a": [], "b": ["a"]}, {"a": task("a", allow_failure=True), "b": task("b", params=params)}))
    story.begin()

    changes = story.fail("a")
    story.finish("b")

    assert changes.tasks[0].params == b'{"got":null,"how":"failed"}'
    assert story.status == "completed"


def test_a_result_after_the_job_failed_is_recorded_once_and_changes_nothing() -> None:
    story = Story(plan_of({"a": [], "b": []}))
    story.begin()
    story.fail("a")
    before = story.states()

    story.finish("b", attempt=1)
    story.finish("b", attempt=1)

    assert story.states() == before
    assert story.events.count("result_ignored b") == 1


def test_a_long_task_is_running_from_its_own_report_on() -> None:
    story = Story(plan_of({"a": []}))
    story.begin()

    story.start("a")
    story.start("a")
    story.finish("a")

    assert story.events.count("node_started a") == 1


def test_a_worker_that_never_answers_is_given_up() -> None:
    story = Story(plan_of({"a": []}, {"a": task("a", timeout_seconds=10.0)}))
    story.begin()
    timer = story.start("a").timers[0]
    story.now = timer.due_at

    story.tell(TimerDue("job", "node_timeout", "a", 1))
    story.finish("a", attempt=1)

    assert timer.due_at == T0 + 40 * SECOND
    assert story.status == "failed"
    assert story.cancels == ["job_a_1"]
    assert story.events[-1] == "result_ignored a"


def test_a_job_beyond_its_bound_fails_and_stops_what_runs() -> None:
    story = Story(plan_of({"a": [], "b": ["a"]}, timeout_seconds=60.0))
    timer = story.begin().timers[0]

    story.tell(TimerDue("job", "job_timeout"))

    assert timer.due_at == T0 + 60 * SECOND
    assert story.states() == {"a": "cancelled", "b": "cancelled"}
    assert story.status == "failed"
    assert story.cancels == ["job_a_1"]


def test_cancel_stops_everything_and_is_idempotent() -> None:
    story = Story(plan_of({"a": [], "b": ["a"]}))
    story.begin()

    first = story.tell(CancelRequested("job", "r1"))
    second = story.tell(CancelRequested("job", "r2"))

    assert (story.status, story.cancels) == ("cancelled", ["job_a_1"])
    assert (first.requests, second.requests) == (["r1"], ["r2"])
    assert story.events.count("job_cancelled") == 1


def test_cancel_before_the_start_leaves_nothing_to_run() -> None:
    story = Story(plan_of({"a": []}))

    story.tell(CancelRequested("job", "r1"), Submitted("job"))

    assert (story.status, story.dispatched) == ("cancelled", [])


def test_a_wide_fan_goes_out_in_bounded_turns() -> None:
    width = TURN_READY_MAX + 10
    story = Story(plan_of({"a": [], **{f"n{i}": ["a"] for i in range(width)}}))
    story.begin()

    first = story.finish("a")
    second = story.tell(Continue("job"))

    assert (len(first.tasks), first.unfinished_turns) == (TURN_READY_MAX, ["job"])
    assert (len(second.tasks), second.unfinished_turns) == (10, [])


def test_events_have_gapless_numbers() -> None:
    story = Story(plan_of(DIAMOND))
    story.begin()
    for node in DIAMOND:
        story.finish(node)

    numbers = [event.seq for changes in story.told for event in changes.events.get("job", [])]

    assert numbers == list(range(2, 2 + len(numbers)))


def test_a_job_without_tasks_runs_to_its_end_at_once() -> None:
    story = Story(plan_of({"start": [], "end": ["start"]}))

    story.begin()

    assert story.events == ["job_created", "node_ready end", "job_started", "job_completed"]


def test_a_job_scheduled_for_later_begins_then() -> None:
    story = Story(plan_of({"a": []}))
    story.job.spec = structs.replace(story.job.spec, scheduled_at=T0 + 60 * SECOND)

    timer = story.begin().timers[0]
    before = story.dispatched
    story.now = timer.due_at
    story.tell(TimerDue("job", "begin"))

    assert (timer.due_at, before, story.dispatched) == (T0 + 60 * SECOND, [], ["a"])
