"""The rules of loops: a window of iterations over a recorded collection, in order, each ended once."""

from typing import Any

import msgspec
import pytest

from simulation.plans import plan_of
from tests.core.loop_story import SECOND, LoopStory
from windlass.core.messages import CancelRequested, RetryRequested, TaskLost, TimerDue
from windlass.core.plan import LoopPlan, NodePlan, RetryOnError
from windlass.core.templates.template import compile_template

ITEMS = b'{"items": [10, 20, 30, 40]}'


def looping(
    window: int = 2, *, collection: object = "{{ input.items }}", on_error: int = 1, when: str | None = None,
    params: object = None, **loop: Any,
) -> NodePlan:  # fmt: skip
    mode = loop.pop("mode", "async")
    return NodePlan(
        id="each",
        handler="echo",
        params=compile_template(params if params is not None else {"x": "{{ item }}", "i": "{{ index }}"}),
        when=None if when is None else compile_template(when),
        on_error=RetryOnError(attempts_max=on_error, initial_delay_seconds=2.0, jitter=0.0),
        loop=LoopPlan(compile_template(collection), window=window, mode=mode, **loop),
    )


def loop_story(node: NodePlan, input: bytes = ITEMS, **edges: list[str]) -> LoopStory:
    return LoopStory(plan_of({"each": [], **edges}, {"each": node}), input)


def test_only_the_window_is_dispatched() -> None:
    story = loop_story(looping(2))

    story.begin()

    assert story.dispatched == ["job_each[0]_1", "job_each[1]_1"]
    assert story.params() == [{"x": 10, "i": 0}, {"x": 20, "i": 1}]


def test_an_end_makes_room_for_the_next() -> None:
    story = loop_story(looping(2))
    story.begin()

    story.finish("each", 1)

    assert story.dispatched[2:] == ["job_each[2]_1"]


def test_outputs_come_in_the_order_of_the_collection() -> None:
    story = loop_story(looping(4))
    story.begin()

    for index in (2, 0, 3, 1):
        story.finish("each", index, str(index * 100).encode())
    story.gather()

    assert story.output("each") == [0, 100, 200, 300]
    assert story.meta("each") == {"total": 4, "succeeded": 4, "failed": 0, "success_rate": 1.0}
    assert story.status == "completed"


def test_a_loop_tells_its_whole_story_in_events() -> None:
    story = loop_story(looping(1), b'{"items": [7]}')
    story.begin()
    story.finish("each", 0)
    story.gather()

    assert story.events == [
        "job_created",
        "node_ready each",
        "node_dispatched each",
        "job_started",
        "iterator_started each",
        "iteration_dispatched each[0]",
        "node_started each",
        "iteration_started each[0]",
        "iteration_completed each[0]",
        "iterator_completed each",
        "node_completed each",
        "job_completed",
    ]


def test_an_empty_collection_completes_at_once() -> None:
    story = loop_story(looping(), b'{"items": []}')

    story.begin()

    assert (story.status, story.output("each")) == ("completed", [])


@pytest.mark.parametrize(
    ("collection", "kind"),
    [
        ("{{ input.missing }}", "template_failed"),
        ("{{ job.id }}", "collection_invalid"),
        ({"a": 1}, "collection_invalid"),
    ],
)
def test_what_is_no_list_fails_the_node(collection: object, kind: str) -> None:
    story = loop_story(looping(collection=collection))

    story.begin()

    assert story.status == "failed"
    assert msgspec.json.decode(story.job.state.error or b"")["type"] == kind


def test_chunks_pass_lists_and_bring_lists() -> None:
    story = loop_story(looping(9, chunk_size=3))
    story.begin()

    story.finish("each", 1, b"[4]")
    story.finish("each", 0, b"[1, 2, 3]")
    story.gather()

    assert story.params() == [{"x": [10, 20, 30], "i": 0}, {"x": [40], "i": 1}]
    assert story.output("each") == [1, 2, 3, 4]


def test_a_chunk_that_brings_no_list_fails() -> None:
    story = loop_story(looping(9, chunk_size=3))
    story.begin()

    story.finish("each", 0, b'{"a": 1}')

    assert story.status == "failed"


def test_the_first_failure_fails_the_node_and_stops_the_others() -> None:
    story = loop_story(looping(2))
    story.begin()

    story.fail("each", 0)

    assert story.states("each") == ["failed", "cancelled", "pending", "pending"]
    assert story.cancels == ["job_each[1]_1"]
    assert story.status == "failed"


def test_a_tolerant_loop_completes_with_null_where_it_failed() -> None:
    story = loop_story(looping(4, tolerant=True))
    story.begin()
    story.fail("each", 1)
    for index in (0, 2, 3):
        story.finish("each", index)

    story.gather()

    assert story.output("each") == [1, None, 1, 1]
    assert story.meta("each") == {"total": 4, "succeeded": 3, "failed": 1, "success_rate": 0.75}


def test_a_condition_that_names_the_element_is_asked_for_each() -> None:
    story = loop_story(looping(4, when="{{ item > 15 }}"))
    story.begin()
    for index in (1, 2, 3):
        story.finish("each", index)

    story.gather()

    assert story.states_of_rows("each") == ["skipped", "completed", "completed", "completed"]
    assert story.output("each") == [None, 1, 1, 1]


def test_a_condition_that_names_no_element_is_asked_once() -> None:
    story = loop_story(looping(when="{{ input.items | length > 9 }}"))

    story.begin()

    assert (story.state("each"), story.dispatched) == ("skipped", [])


def test_an_iteration_that_waits_for_its_next_attempt_leaves_its_slot() -> None:
    story = loop_story(looping(1, on_error=2))
    story.begin()

    story.fail("each", 0)

    assert story.states("each")[:2] == ["waiting", "dispatched"]


def test_an_iteration_whose_wait_is_over_comes_before_those_not_begun() -> None:
    story = loop_story(looping(1, on_error=2))
    story.begin()
    story.fail("each", 0)
    story.wake("each", 0)

    story.finish("each", 1)

    assert story.dispatched == ["job_each[0]_1", "job_each[1]_1", "job_each[0]_2"]


def test_a_loop_in_order_waits_for_the_next_attempt() -> None:
    story = loop_story(looping(1, on_error=2, mode="sequential"))
    story.begin()

    story.fail("each", 0)

    assert story.states("each")[:2] == ["waiting", "pending"]


def test_a_retried_loop_in_order_keeps_it_when_one_waits() -> None:
    story = loop_story(looping(1, on_error=3, mode="sequential", tolerant=True))
    story.begin()
    story.fail("each", 0, retryable=False)
    story.fail("each", 1, retryable=False)
    story.tell(CancelRequested("job", "c"), RetryRequested("job", "r"))
    assert story.dispatched[-1] == "job_each[0]_2"

    story.fail("each", 0)
    story.wake("each", 0)

    assert story.dispatched[-1] == "job_each[0]_3"


def test_a_retry_runs_only_what_is_missing() -> None:
    story = loop_story(looping(2))
    story.begin()
    story.finish("each", 0, b'"kept"')
    story.fail("each", 1)
    story.tell(RetryRequested("job", "r"))

    assert story.dispatched[3:] == ["job_each[1]_2", "job_each[2]_2"]
    for index in (1, 2, 3):
        story.finish("each", index)
    story.gather()

    assert story.output("each") == ["kept", 1, 1, 1]


def test_a_retry_takes_waiting_leftovers_up_in_order() -> None:
    story = loop_story(looping(4, tolerant=False))
    story.begin()
    story.fail("each", 0)
    for round_ in (1, 2):
        story.tell(RetryRequested("job", f"r{round_}"), CancelRequested("job", f"c{round_}"))

    story.tell(RetryRequested("job", "last"))

    assert story.dispatched[-4:] == [f"job_each[{index}]_4" for index in range(4)]


def test_a_loop_that_runs_anew_never_uses_a_task_id_twice() -> None:
    story = loop_story(looping(4))
    story.begin()
    for index in range(4):
        story.finish("each", index)
    story.gather()

    story.tell(RetryRequested("job", "r", from_node="each"))

    assert story.dispatched[4:] == [f"job_each[{index}]_2" for index in range(4)]
    keys = [task.idempotency_key for task in story.tasks]
    assert len(set(keys)) == 8


def test_a_late_result_of_an_earlier_run_is_not_taken_by_the_next() -> None:
    story = loop_story(looping(4))
    story.begin()
    story.finish("each", 1)
    story.tell(CancelRequested("job", "c"), RetryRequested("job", "r", from_node="each"))

    story.finish("each", 0, b'"old"', attempt=1)

    assert story.states("each")[0] == "dispatched"


def test_a_loop_that_took_too_long_fails() -> None:
    story = loop_story(looping(1, timeout_seconds=5.0))
    story.begin()
    timer = next(timer for timer in story.timers if timer.kind == "loop_timeout")
    assert timer.due_at == story.now + 5 * SECOND

    story.now = timer.due_at
    story.tell(TimerDue("job", "loop_timeout", "each", timer.attempt))

    assert story.status == "failed"
    assert msgspec.json.decode(story.job.state.error or b"")["type"] == "timeout"


def test_the_bound_of_an_earlier_run_changes_nothing() -> None:
    story = loop_story(looping(1, timeout_seconds=5.0))
    story.begin()
    story.fail("each", 0)
    story.tell(RetryRequested("job", "r"))

    story.now += 9 * SECOND
    story.tell(TimerDue("job", "loop_timeout", "each", 1))

    assert story.state("each") == "dispatched"


def test_a_bound_that_is_told_of_too_early_is_waited_for() -> None:
    story = loop_story(looping(1, timeout_seconds=5.0))
    story.begin()

    changes = story.tell(TimerDue("job", "loop_timeout", "each", 1))

    assert story.state("each") == "dispatched"
    assert [timer.due_at for timer in changes.timers] == [story.now + 5 * SECOND]


def test_losses_count_for_the_iteration_that_was_lost() -> None:
    story = loop_story(looping(2))
    story.begin()

    story.tell(TaskLost("job", "each", 1, "w", 1, index=1))

    assert [story.loop("each").attempts[index].losses for index in (0, 1)] == [0, 1]


def test_an_iteration_that_kills_its_workers_fails_in_the_end() -> None:
    story = loop_story(looping(2, tolerant=True))
    story.begin()

    for losses in range(1, story.plan.nodes[0].redeliveries_max + 2):
        story.tell(TaskLost("job", "each", 1, "w", losses, index=0))

    assert story.states("each")[0] == "failed"
    assert "job_each[0]_1" in story.cancels


def test_a_task_that_nobody_waits_for_is_dropped_when_it_is_lost() -> None:
    story = loop_story(looping(2))
    story.begin()
    story.finish("each", 0)

    story.tell(TaskLost("job", "each", 1, "w", 1, index=0))

    assert story.cancels == ["job_each[0]_1"]


def test_a_restart_finds_every_iteration_where_it_was() -> None:
    story = loop_story(looping(3, on_error=2))
    story.begin()
    story.finish("each", 1)
    story.fail("each", 0)
    story.start("each", 2)

    story.restart()

    assert story.states("each") == ["waiting", "completed", "running", "dispatched"]
    assert story.loop("each").busy == 2


def test_outputs_asked_for_before_a_retry_are_not_taken() -> None:
    story = loop_story(looping(4, tolerant=True))
    story.begin()
    story.fail("each", 0)
    for index in (1, 2, 3):
        story.finish("each", index)
    old = story.gathered(story.merges[0])
    story.tell(CancelRequested("job", "c"), RetryRequested("job", "r"))
    story.finish("each", 0)

    story.tell(old)
    assert story.state("each") == "running"
    story.gather()

    assert story.output("each") == [1, 1, 1, 1]


def test_an_iteration_that_can_not_be_rendered_fails_without_a_dispatch() -> None:
    story = loop_story(looping(2, tolerant=True, params={"x": "{{ item.name }}"}), b'{"items": [{"name": "a"}, {}]}')

    story.begin()

    assert story.dispatched == ["job_each[0]_1"]
    assert (story.rows("each")[1].status, story.rows("each")[1].dispatched_at) == ("failed", None)
