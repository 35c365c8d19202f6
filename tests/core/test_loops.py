"""Loops: the window of iterations, the collection, retries, timeouts and merged outputs."""

from typing import Any

import msgspec
import pytest

from simulation.plans import plan_of
from tests.core.loop_harness import SECOND, LoopHarness
from windlass.core import loop_state
from windlass.core.messages import CancelRequested, RetryRequested, TaskLost, TimerDue, TimerKind
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
        params=compile_template(
            params if params is not None else {"x": "{{ item }}", "i": "{{ index }}"}
        ),
        when=None if when is None else compile_template(when),
        on_error=RetryOnError(attempts_max=on_error, initial_delay_seconds=2.0, jitter=0.0),
        loop=LoopPlan(compile_template(collection), window=window, mode=mode, **loop),
    )


def harness_of(node: NodePlan, input: bytes = ITEMS, **edges: list[str]) -> LoopHarness:
    return LoopHarness(plan_of({"each": [], **edges}, {"each": node}), input)


def test_iterations_are_dispatched_up_to_the_window() -> None:
    harness = harness_of(looping(2))

    harness.begin()

    assert harness.dispatched == ["job_each[0]_1", "job_each[1]_1"]
    assert harness.params() == [{"x": 10, "i": 0}, {"x": 20, "i": 1}]


def test_a_finished_iteration_dispatches_the_next_one() -> None:
    harness = harness_of(looping(2))
    harness.begin()

    harness.finish("each", 1)

    assert harness.dispatched[2:] == ["job_each[2]_1"]


def test_outputs_are_in_the_order_of_the_collection() -> None:
    harness = harness_of(looping(4))
    harness.begin()

    for index in (2, 0, 3, 1):
        harness.finish("each", index, str(index * 100).encode())
    harness.merge_outputs()

    assert harness.output("each") == [0, 100, 200, 300]
    assert harness.meta("each") == {"total": 4, "succeeded": 4, "failed": 0, "success_rate": 1.0}
    assert harness.status == "completed"


def test_a_loop_emits_an_event_for_each_transition() -> None:
    harness = harness_of(looping(1), b'{"items": [7]}')
    harness.begin()
    harness.finish("each", 0)
    harness.merge_outputs()

    assert harness.events == [
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
    harness = harness_of(looping(), b'{"items": []}')

    harness.begin()

    assert (harness.status, harness.output("each")) == ("completed", [])


@pytest.mark.parametrize(
    ("collection", "kind"),
    [
        ("{{ input.missing }}", "template_failed"),
        ("{{ job.id }}", "collection_invalid"),
        ({"a": 1}, "collection_invalid"),
    ],
)
def test_a_collection_that_is_not_a_list_fails_the_node(collection: object, kind: str) -> None:
    harness = harness_of(looping(collection=collection))

    harness.begin()

    assert harness.status == "failed"
    assert msgspec.json.decode(harness.job.state.error or b"")["type"] == kind


def test_chunks_take_lists_and_return_lists() -> None:
    harness = harness_of(looping(9, chunk_size=3))
    harness.begin()

    harness.finish("each", 1, b"[4]")
    harness.finish("each", 0, b"[1, 2, 3]")
    harness.merge_outputs()

    assert harness.params() == [{"x": [10, 20, 30], "i": 0}, {"x": [40], "i": 1}]
    assert harness.output("each") == [1, 2, 3, 4]


def test_a_chunk_output_that_is_not_a_list_fails() -> None:
    harness = harness_of(looping(9, chunk_size=3))
    harness.begin()

    harness.finish("each", 0, b'{"a": 1}')

    assert harness.status == "failed"


def test_the_first_failure_fails_the_node_and_cancels_the_other_iterations() -> None:
    harness = harness_of(looping(2))
    harness.begin()

    harness.fail("each", 0)

    assert harness.states("each") == ["failed", "cancelled", "pending", "pending"]
    assert harness.cancels == ["job_each[1]_1"]
    assert harness.status == "failed"


def test_a_tolerant_loop_completes_with_null_for_failed_iterations() -> None:
    harness = harness_of(looping(4, tolerant=True))
    harness.begin()
    harness.fail("each", 1)
    for index in (0, 2, 3):
        harness.finish("each", index)

    harness.merge_outputs()

    assert harness.output("each") == [1, None, 1, 1]
    assert harness.meta("each") == {"total": 4, "succeeded": 3, "failed": 1, "success_rate": 0.75}


def test_a_condition_on_the_element_is_evaluated_for_each_iteration() -> None:
    harness = harness_of(looping(4, when="{{ item > 15 }}"))
    harness.begin()
    for index in (1, 2, 3):
        harness.finish("each", index)

    harness.merge_outputs()

    assert harness.states_of_rows("each") == ["skipped", "completed", "completed", "completed"]
    assert harness.output("each") == [None, 1, 1, 1]


def test_a_condition_without_the_element_is_evaluated_once() -> None:
    harness = harness_of(looping(when="{{ input.items | length > 9 }}"))

    harness.begin()

    assert (harness.state("each"), harness.dispatched) == ("skipped", [])


def test_an_iteration_that_waits_for_its_retry_frees_its_slot() -> None:
    harness = harness_of(looping(1, on_error=2))
    harness.begin()

    harness.fail("each", 0)

    assert harness.states("each")[:2] == ["waiting", "dispatched"]


def test_a_due_retry_is_dispatched_before_iterations_that_have_not_started() -> None:
    harness = harness_of(looping(1, on_error=2))
    harness.begin()
    harness.fail("each", 0)
    harness.fire_retry("each", 0)

    harness.finish("each", 1)

    assert harness.dispatched == ["job_each[0]_1", "job_each[1]_1", "job_each[0]_2"]


def test_a_sequential_loop_waits_for_the_retry_of_an_iteration() -> None:
    harness = harness_of(looping(1, on_error=2, mode="sequential"))
    harness.begin()

    harness.fail("each", 0)

    assert harness.states("each")[:2] == ["waiting", "pending"]


def test_a_retried_sequential_loop_keeps_its_order_while_an_iteration_waits() -> None:
    harness = harness_of(looping(1, on_error=3, mode="sequential", tolerant=True))
    harness.begin()
    harness.fail("each", 0, retryable=False)
    harness.fail("each", 1, retryable=False)
    harness.apply(CancelRequested("job", "c"), RetryRequested("job", "r"))
    assert harness.dispatched[-1] == "job_each[0]_2"

    harness.fail("each", 0)
    harness.fire_retry("each", 0)

    assert harness.dispatched[-1] == "job_each[0]_3"


def test_a_retry_runs_only_iterations_that_did_not_complete() -> None:
    harness = harness_of(looping(2))
    harness.begin()
    harness.finish("each", 0, b'"kept"')
    harness.fail("each", 1)
    harness.apply(RetryRequested("job", "r"))

    assert harness.dispatched[3:] == ["job_each[1]_2", "job_each[2]_2"]
    for index in (1, 2, 3):
        harness.finish("each", index)
    harness.merge_outputs()

    assert harness.output("each") == ["kept", 1, 1, 1]


def test_a_retry_dispatches_unfinished_iterations_in_order() -> None:
    harness = harness_of(looping(4, tolerant=False))
    harness.begin()
    harness.fail("each", 0)
    for round_ in (1, 2):
        harness.apply(RetryRequested("job", f"r{round_}"), CancelRequested("job", f"c{round_}"))

    harness.apply(RetryRequested("job", "last"))

    assert harness.dispatched[-4:] == [f"job_each[{index}]_4" for index in range(4)]


def test_a_loop_that_runs_again_uses_new_task_ids() -> None:
    harness = harness_of(looping(4))
    harness.begin()
    for index in range(4):
        harness.finish("each", index)
    harness.merge_outputs()

    harness.apply(RetryRequested("job", "r", from_node="each"))

    assert harness.dispatched[4:] == [f"job_each[{index}]_2" for index in range(4)]
    keys = [task.idempotency_key for task in harness.tasks]
    assert len(set(keys)) == 8


def test_a_late_result_from_before_a_retry_is_ignored() -> None:
    harness = harness_of(looping(4))
    harness.begin()
    harness.finish("each", 1)
    harness.apply(CancelRequested("job", "c"), RetryRequested("job", "r", from_node="each"))

    harness.finish("each", 0, b'"old"', attempt=1)

    assert harness.states("each")[0] == "dispatched"


def test_a_loop_that_times_out_fails() -> None:
    harness = harness_of(looping(1, timeout_seconds=5.0))
    harness.begin()
    timer = next(timer for timer in harness.timers if timer.kind == "loop_timeout")
    assert timer.due_at == harness.now + 5 * SECOND

    harness.now = timer.due_at
    harness.apply(TimerDue("job", TimerKind.LOOP_TIMEOUT, "each", timer.attempt))

    assert harness.status == "failed"
    assert msgspec.json.decode(harness.job.state.error or b"")["type"] == "timeout"


def test_the_timeout_from_before_a_retry_changes_nothing() -> None:
    harness = harness_of(looping(1, timeout_seconds=5.0))
    harness.begin()
    harness.fail("each", 0)
    harness.apply(RetryRequested("job", "r"))

    harness.now += 9 * SECOND
    harness.apply(TimerDue("job", TimerKind.LOOP_TIMEOUT, "each", 1))

    assert harness.state("each") == "dispatched"


def test_a_loop_timeout_that_fires_too_early_is_set_again() -> None:
    harness = harness_of(looping(1, timeout_seconds=5.0))
    harness.begin()

    changes = harness.apply(TimerDue("job", TimerKind.LOOP_TIMEOUT, "each", 1))

    assert harness.state("each") == "dispatched"
    assert [timer.due_at for timer in changes.timers] == [harness.now + 5 * SECOND]


def test_losses_are_counted_for_each_iteration() -> None:
    harness = harness_of(looping(2))
    harness.begin()

    harness.apply(TaskLost("job", "each", 1, "w", 1, index=1))

    assert [harness.loop("each").attempts[index].losses for index in (0, 1)] == [0, 1]


def test_the_second_worker_of_an_iteration_is_recorded_and_has_the_whole_timeout() -> None:
    harness = harness_of(looping(2))
    harness.begin()
    (first,) = harness.start("each", 1).timers
    harness.now += 290 * SECOND

    harness.apply(TaskLost("job", "each", 1, "w1", 1, index=1))
    row = harness.rows("each")[1]
    changes = harness.start("each", 1, worker_id="w2")

    (second,) = changes.timers
    assert (row.status, row.started_at, row.worker_id) == ("dispatched", None, None)
    assert harness.rows("each")[1].worker_id == "w2"
    assert harness.events[-2:] == ["worker_lost each[1]", "iteration_started each[1]"]
    assert second.due_at == first.due_at + 290 * SECOND
    assert harness.loop("each").in_flight_count == 2


def test_an_iteration_that_is_lost_too_often_fails() -> None:
    harness = harness_of(looping(2, tolerant=True))
    harness.begin()

    for losses in range(1, harness.plan.nodes[0].redeliveries_max + 2):
        harness.apply(TaskLost("job", "each", 1, "w", losses, index=0))

    assert harness.states("each")[0] == "failed"
    assert "job_each[0]_1" in harness.cancels


def test_a_lost_task_of_a_finished_iteration_is_cancelled() -> None:
    harness = harness_of(looping(2))
    harness.begin()
    harness.finish("each", 0)

    harness.apply(TaskLost("job", "each", 1, "w", 1, index=0))

    assert harness.cancels == ["job_each[0]_1"]


def test_a_reload_restores_the_state_of_every_iteration() -> None:
    harness = harness_of(looping(3, on_error=2))
    harness.begin()
    harness.finish("each", 1)
    harness.fail("each", 0)
    harness.start("each", 2)

    harness.reload()

    assert harness.states("each") == ["waiting", "completed", "running", "dispatched"]
    assert harness.loop("each").in_flight_count == 2


def test_outputs_merged_for_an_earlier_retry_are_ignored() -> None:
    harness = harness_of(looping(4, tolerant=True))
    harness.begin()
    harness.fail("each", 0)
    for index in (1, 2, 3):
        harness.finish("each", index)
    old = harness.merged(harness.merges[0])
    harness.apply(CancelRequested("job", "c"), RetryRequested("job", "r"))
    harness.finish("each", 0)

    harness.apply(old)
    assert harness.state("each") == "running"
    harness.merge_outputs()

    assert harness.output("each") == [1, 1, 1, 1]


def test_an_iteration_whose_params_cannot_be_rendered_is_not_dispatched() -> None:
    harness = harness_of(
        looping(2, tolerant=True, params={"x": "{{ item.name }}"}),
        b'{"items": [{"name": "a"}, {}]}',
    )

    harness.begin()

    assert harness.dispatched == ["job_each[0]_1"]
    assert (harness.rows("each")[1].status, harness.rows("each")[1].dispatched_at) == (
        "failed",
        None,
    )


def test_a_loop_begins_no_others_while_too_many_iterations_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_state, "WAITING_MAX", 2)
    harness = harness_of(looping(1, on_error=2), b'{"items": [0, 1, 2, 3, 4]}')
    harness.begin()
    for index in (0, 1, 2):
        harness.fail("each", index)
    before = harness.loop("each").begun

    harness.fire_retry("each", 0)
    harness.finish("each", 0)

    assert (before, harness.loop("each").begun) == (3, 4)
