"""The rules of a job's execution."""

import pytest
from msgspec import Raw, structs

from tests.core.story import SECOND, T0, Story
from windlass.core.errors import IllegalMove
from windlass.core.messages import (
    CancelRequested,
    Proceeded,
    RetryRequested,
    Submitted,
    Succeeded,
    TaskLost,
    TimerDue,
)
from windlass.core.plan import Backoff, NodePlan, RetryOnError
from windlass.core.progress import TURN_READY_MAX
from windlass.core.retries import REDELIVERIES_MAX
from windlass.core.states import JOB_FINAL, NODE_FINAL, NodeMove, NodeState, node_after
from windlass.core.templates import compile_template
from windlass.testing.plans import plan_of

ECHO = {"start": [], "echo_handler": ["start"], "end": ["echo_handler"]}
DIAMOND = {"top": [], "left": ["top"], "right": ["top"], "join": ["left", "right"]}


def task(node_id: str, **settings: object) -> NodePlan:
    return NodePlan(id=node_id, handler="echo", **settings)  # type: ignore[arg-type]


def retrying(node_id: str = "a", **rule: object) -> NodePlan:
    return task(node_id, on_error=RetryOnError(**{"attempts_max": 3, "jitter": 0.0, **rule}))  # type: ignore[arg-type]


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
    assert {state.label for state in JOB_FINAL} == {"completed", "failed", "cancelled"}


def test_a_move_that_no_table_lists_raises() -> None:
    with pytest.raises(IllegalMove, match="completed can not dispatch"):
        node_after(NodeState.COMPLETED, NodeMove.DISPATCH)


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


def test_a_failed_attempt_waits_and_is_made_again() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying(initial_delay_seconds=2.0)}))
    story.begin()

    changes = story.fail("a")
    timer = changes.timers[0]
    assert (timer.due_at, story.state("a")) == (T0 + 2 * SECOND, "waiting")
    story.now = timer.due_at
    changes = story.tell(TimerDue("job", "retry", "a", 1))

    assert [(t.task_id, t.retry_count) for t in changes.tasks] == [("job_a_2", 1)]
    assert story.events[-3:] == ["node_retrying a", "node_ready a", "node_dispatched a"]


def test_attempts_end_at_the_authors_bound() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying()}))
    story.begin()

    for attempt in (1, 2):
        story.fail("a")
        story.tell(TimerDue("job", "retry", "a", attempt))
    story.fail("a")

    assert story.status == "failed"
    assert story.rows["a"].attempt == 3


def test_a_timer_of_an_earlier_attempt_does_nothing() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying()}))
    story.begin()
    story.fail("a")
    story.tell(TimerDue("job", "retry", "a", 1))

    assert not story.tell(TimerDue("job", "retry", "a", 1))


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff.FIXED, [2, 2, 2, 2]),
        (Backoff.LINEAR, [2, 4, 6, 8]),
        (Backoff.EXPONENTIAL, [2, 6, 18, 20]),
    ],
)
def test_backoff_grows_as_declared_up_to_its_bound(backoff: Backoff, delays: list[float]) -> None:
    rule = {"attempts_max": 9, "backoff": backoff, "initial_delay_seconds": 2.0, "multiplier": 3.0}
    story = Story(plan_of({"a": []}, {"a": retrying(max_delay_seconds=20.0, **rule)}))
    story.begin()
    waits = []

    for attempt in range(1, 5):
        waits.append((story.fail("a").timers[0].due_at - story.now) / SECOND)
        story.tell(TimerDue("job", "retry", "a", attempt))

    assert waits == delays


def test_a_server_that_says_when_is_heard_within_the_bound() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying(initial_delay_seconds=1.0, max_delay_seconds=60.0)}))
    story.begin()

    first = story.fail("a", retry_after_seconds=30.0).timers[0].due_at - story.now
    story.tell(TimerDue("job", "retry", "a", 1))
    second = story.fail("a", retry_after_seconds=3600.0).timers[0].due_at - story.now

    assert (first, second) == (30 * SECOND, 60 * SECOND)


def test_jitter_comes_from_the_messages_seed_alone() -> None:
    def wait(seed: int) -> int:
        story = Story(plan_of({"a": []}, {"a": retrying(initial_delay_seconds=10.0, jitter=0.5)}))
        story.begin()
        return story.fail("a", seed=seed).timers[0].due_at - T0

    assert wait(0) == 10 * SECOND
    assert wait(1 << 31) == round(12.5 * SECOND)
    assert wait(1 << 31) == wait(1 << 31)


def test_an_error_that_can_not_get_better_is_not_retried() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying()}))
    story.begin()

    story.fail("a", retryable=False)

    assert story.status == "failed"


def test_when_decides_about_a_retry_alone() -> None:
    when = compile_template("{{ error.status == 404 and attempt < 2 }}")
    story = Story(plan_of({"a": []}, {"a": retrying(attempts_max=9, when=when)}))
    story.begin()

    story.fail("a", retryable=False, status=404)
    story.tell(TimerDue("job", "retry", "a", 1))
    story.fail("a", retryable=True, status=404)

    assert (story.status, story.rows["a"].attempt) == ("failed", 2)


def test_later_attempts_point_to_the_first() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying()}))
    first = story.begin().events["job"][1]
    story.fail("a")
    story.tell(TimerDue("job", "retry", "a", 1))

    done = story.finish("a").events["job"]

    assert first.type == "node_dispatched"
    assert [event.parent_seq for event in done if event.node_id == "a"] == [first.seq, first.seq]


def test_a_lost_worker_costs_the_author_no_attempt() -> None:
    story = Story(plan_of({"a": []}, {"a": task("a")}))
    story.begin()

    story.fail("a", type="worker_lost")

    assert (story.state("a"), story.job.task_id(0)) == ("dispatched", "job_a_2")
    assert "worker_lost a" in story.events


def test_a_task_that_kills_its_workers_fails_in_the_end() -> None:
    story = Story(plan_of({"a": []}))
    story.begin()

    for losses in range(1, REDELIVERIES_MAX + 2):
        story.tell(TaskLost("job", "a", 1, "w", losses))

    assert story.status == "failed"
    assert story.events.count("worker_lost a") == REDELIVERIES_MAX + 1


def test_the_same_loss_reported_twice_counts_once() -> None:
    story = Story(plan_of({"a": []}))
    story.begin()

    story.tell(TaskLost("job", "a", 1, "w", 1), TaskLost("job", "a", 1, "w", 1))

    assert story.events.count("worker_lost a") == 1


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


def test_retry_runs_again_what_failed_and_keeps_what_completed() -> None:
    story = Story(plan_of({"a": [], "b": ["a"], "c": ["b"]}))
    story.begin()
    story.finish("a", b'"kept"')
    story.fail("b")

    changes = story.tell(RetryRequested("job", "r1"))
    story.finish("b")
    story.finish("c")

    assert [t.task_id for t in changes.tasks] == ["job_b_2"]
    assert story.dispatched == ["a", "b", "b", "c"]
    assert story.status == "completed"
    assert bytes(story.job.outputs[0] or b"") == b'"kept"'


def test_retry_from_a_node_runs_it_and_all_after_it_again() -> None:
    story = Story(plan_of({"a": [], "b": ["a"], "c": ["a"], "d": ["b"]}))
    story.begin()
    for node in ("a", "b", "c", "d"):
        story.finish(node)

    story.tell(RetryRequested("job", "r1", from_node="b"))

    assert story.states() == {"a": "completed", "b": "dispatched", "c": "completed", "d": "pending"}


def test_a_retry_gives_the_author_all_attempts_again() -> None:
    story = Story(plan_of({"a": []}, {"a": retrying(attempts_max=2)}))
    story.begin()
    story.fail("a")
    story.tell(TimerDue("job", "retry", "a", 1))
    story.fail("a")
    story.tell(RetryRequested("job", "r1"))

    story.fail("a")

    assert (story.state("a"), story.job.attempt_of(0)) == ("waiting", 3)


def test_a_job_cancelled_before_it_began_can_be_retried() -> None:
    story = Story(plan_of({"a": []}))
    story.tell(CancelRequested("job", "r1"))

    story.tell(RetryRequested("job", "r2"))
    story.finish("a")

    assert story.status == "completed"


def test_a_retry_of_a_running_job_is_a_no_op() -> None:
    story = Story(plan_of({"a": []}))
    story.begin()

    changes = story.tell(RetryRequested("job", "r1"))

    assert changes.requests == ["r1"]
    assert not changes.tasks


def test_a_wide_fan_goes_out_in_bounded_turns() -> None:
    width = TURN_READY_MAX + 10
    story = Story(plan_of({"a": [], **{f"n{i}": ["a"] for i in range(width)}}))
    story.begin()

    first = story.finish("a")
    second = story.tell(Proceeded("job"))

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
    story.job.scheduled_at = T0 + 60 * SECOND

    timer = story.begin().timers[0]
    before = story.dispatched
    story.now = timer.due_at
    story.tell(TimerDue("job", "begin"))

    assert (timer.due_at, before, story.dispatched) == (T0 + 60 * SECOND, [], ["a"])


def test_a_result_that_was_a_row_is_marked_applied_even_when_nobody_waits_for_it() -> None:
    story = Story(plan_of({"a": []}))
    story.begin()
    message = structs.replace(story.finished("a", Succeeded(Raw(b"1"))), result_id="job_a_1")

    first = story.tell(message)
    again = story.tell(message)

    assert (first.results, again.results) == (["job_a_1"], ["job_a_1"])
    assert story.events.count("node_completed a") == 1
