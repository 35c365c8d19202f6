"""Loops that tolerate failures: their bounds, the failures of a completed job, and the retry of failed iterations."""

import json
from typing import Any

import pytest

from simulation.plans import plan_of
from tests.core.loop_harness import LoopHarness
from tests.core.test_loops import ITEMS, harness_of, looping
from windlass.core.messages import RetryRequested
from windlass.core.plan import NodePlan
from windlass.core.templates.template import compile_template


def tolerant(**options: Any) -> NodePlan:
    return looping(4, tolerant=True, **options)


def failed_iterations(harness: LoopHarness, *indexes: int) -> None:
    for index in indexes:
        harness.fail("each", index, message=f"boom {index}")


def error_of(harness: LoopHarness) -> dict[str, Any]:
    assert harness.job.state.error is not None
    return json.loads(bytes(harness.job.state.error))


def test_a_loop_whose_iterations_all_failed_is_failed() -> None:
    harness = harness_of(tolerant())
    harness.begin()

    failed_iterations(harness, 2, 0, 1, 3)

    assert (harness.status, harness.state("each")) == ("failed", "failed")
    error = error_of(harness)
    assert error["type"] == "too_many_failures"
    assert "4 of 4" in error["message"]
    assert "iteration 2: boom 2" in error["message"]


def test_a_loop_with_one_completed_iteration_completes_with_failures() -> None:
    harness = harness_of(tolerant())
    harness.begin()
    failed_iterations(harness, 0, 1, 2)
    harness.finish("each", 3)
    harness.merge_outputs()

    assert harness.status == "completed"
    assert harness.job.state.failures == 3
    completed = harness.store.log("job")[-1]
    assert completed.type == "job_completed"
    assert json.loads(bytes(completed.data or b"{}")) == {"failures": 3}


def test_skipped_iterations_are_not_counted_as_completed_ones() -> None:
    harness = harness_of(tolerant(when="{{ item > 20 }}"))
    harness.begin()

    failed_iterations(harness, 2, 3)

    assert harness.status == "failed"
    assert "2 of 2" in error_of(harness)["message"]


def test_a_loop_without_iterations_that_ran_completes() -> None:
    harness = harness_of(tolerant(when="{{ item > 100 }}"))
    harness.begin()
    harness.merge_outputs()

    assert harness.status == "completed"
    assert harness.meta("each")["success_rate"] == 1.0


def test_skipped_iterations_do_not_lower_the_success_rate() -> None:
    harness = harness_of(tolerant(when="{{ item > 10 }}"))
    harness.begin()
    harness.fail("each", 1)
    harness.finish("each", 2)
    harness.finish("each", 3)
    harness.merge_outputs()

    assert harness.meta("each")["success_rate"] == pytest.approx(2 / 3)


def test_a_loop_fails_as_soon_as_it_has_too_many_failures() -> None:
    harness = harness_of(looping(3, tolerant=True, failed_max=1))
    harness.begin()

    failed_iterations(harness, 1, 0)

    assert harness.status == "failed"
    assert "max_failed is 1" in error_of(harness)["message"]
    assert harness.states("each") == ["failed", "failed", "cancelled", "cancelled"]
    assert "job_each[2]_1" in harness.cancels


def test_a_loop_fails_as_soon_as_its_failure_rate_is_exceeded_for_certain() -> None:
    harness = harness_of(tolerant(failure_rate_max=0.25))
    harness.begin()

    harness.fail("each", 0)
    assert harness.status == "running"
    harness.fail("each", 1)

    assert harness.status == "failed"
    assert "max_failure_rate is 0.25" in error_of(harness)["message"]


def test_an_iteration_that_is_skipped_may_exceed_the_failure_rate() -> None:
    harness = harness_of(looping(2, tolerant=True, failure_rate_max=0.25, when="{{ item != 30 }}"))
    harness.begin()
    harness.fail("each", 0)
    assert harness.status == "failed"


def test_a_rate_that_is_equal_to_the_bound_is_allowed() -> None:
    harness = harness_of(
        looping(100, tolerant=True, failure_rate_max=0.29),
        json.dumps({"items": list(range(100))}).encode(),
    )
    harness.begin()
    failed_iterations(harness, *range(29))

    assert harness.status == "running"


def test_a_bound_of_one_allows_every_iteration_to_fail() -> None:
    harness = harness_of(tolerant(failure_rate_max=1.0))
    harness.begin()
    failed_iterations(harness, 0, 1, 2, 3)
    harness.merge_outputs()

    assert harness.status == "completed"
    assert harness.job.state.failures == 4


def test_the_first_failure_is_known_after_a_reload() -> None:
    harness = harness_of(tolerant())
    harness.begin()
    failed_iterations(harness, 3)
    harness.reload()

    failed_iterations(harness, 0, 1, 2)

    assert "iteration 3: boom 3" in error_of(harness)["message"]


def test_an_allowed_failure_of_a_node_is_counted() -> None:
    plan = plan_of({"a": [], "b": ["a"]}, {"a": NodePlan("a", allow_failure=True)})
    harness = LoopHarness(plan)
    harness.begin()
    harness.fail("a")
    harness.finish("b")

    assert (harness.status, harness.job.state.failures) == ("completed", 1)


def completed_with_failures(**nodes: NodePlan) -> LoopHarness:
    """Return a completed job: iterations 1 and 3 of `each` failed; `after` ran, `other` does not depend on it."""
    after = NodePlan("after", params=compile_template({"got": "{{ each.output }}"}))
    plan = plan_of(
        {"each": [], "after": ["each"], "other": []}, {"each": tolerant(), "after": after, **nodes}
    )
    harness = LoopHarness(plan, ITEMS)
    harness.begin()
    harness.finish("other")
    for index in range(4):
        if index % 2:
            harness.fail("each", index)
        else:
            harness.finish("each", index, b'"first"')
    harness.merge_outputs()
    harness.finish("after")
    assert (harness.status, harness.job.state.failures) == ("completed", 2)
    harness.tasks.clear()
    return harness


@pytest.mark.parametrize("is_reloaded", [False, True])
def test_a_retry_of_a_completed_job_runs_only_failed_iterations_and_what_is_downstream(
    is_reloaded: bool,
) -> None:
    harness = completed_with_failures()
    if is_reloaded:
        harness.reload()

    harness.apply(RetryRequested("job", "request"))
    assert harness.dispatched == ["job_each[1]_2", "job_each[3]_2"]
    assert harness.job.state.failures == 0
    harness.finish("each", 1, b'"second"')
    harness.finish("each", 3, b'"second"')
    harness.merge_outputs()
    assert harness.dispatched[2:] == ["job_after_2"]
    harness.finish("after")

    assert (harness.status, harness.job.state.failures) == ("completed", 0)
    assert harness.output("each") == ["first", "second", "first", "second"]
    assert harness.meta("each")["failed"] == 0


def test_an_iteration_that_fails_again_can_be_retried_again() -> None:
    harness = completed_with_failures()
    harness.apply(RetryRequested("job", "first"))
    harness.finish("each", 1)
    harness.fail("each", 3)
    harness.merge_outputs()
    harness.finish("after")
    assert (harness.status, harness.job.state.failures) == ("completed", 1)
    harness.tasks.clear()
    harness.reload()

    harness.apply(RetryRequested("job", "second"))

    assert harness.dispatched == ["job_each[3]_3"]


def test_a_retry_from_a_node_does_not_retry_other_failures() -> None:
    harness = completed_with_failures()

    harness.apply(RetryRequested("job", "request", "after"))

    assert harness.dispatched == ["job_after_2"]
    assert harness.job.state.failures == 2


def test_a_retry_from_a_loop_runs_all_its_iterations_again() -> None:
    harness = completed_with_failures()

    harness.apply(RetryRequested("job", "request", "each"))

    assert [task.index for task in harness.tasks] == [0, 1, 2, 3]


def test_a_retry_of_a_completed_job_repeats_allowed_failures() -> None:
    plan = plan_of({"a": [], "b": ["a"]}, {"a": NodePlan("a", allow_failure=True)})
    harness = LoopHarness(plan)
    harness.begin()
    harness.fail("a")
    harness.finish("b")
    harness.tasks.clear()

    harness.apply(RetryRequested("job", "request"))
    harness.finish("a")
    harness.finish("b")

    assert harness.dispatched == ["job_a_2", "job_b_2"]
    assert (harness.status, harness.job.state.failures) == ("completed", 0)


def test_a_retry_of_a_completed_job_without_failures_changes_nothing() -> None:
    harness = LoopHarness(plan_of({"a": []}))
    harness.begin()
    harness.finish("a")
    harness.tasks.clear()

    harness.apply(RetryRequested("job", "request"))

    assert (harness.status, harness.dispatched) == ("completed", [])


def test_a_loop_that_exceeded_its_bound_runs_failed_and_cancelled_iterations_after_a_retry() -> (
    None
):
    harness = harness_of(looping(2, tolerant=True, failed_max=0))
    harness.begin()
    harness.finish("each", 0)
    harness.fail("each", 1)
    assert harness.status == "failed"
    harness.tasks.clear()

    harness.apply(RetryRequested("job", "request"))

    assert harness.dispatched == ["job_each[1]_2", "job_each[2]_2"]
