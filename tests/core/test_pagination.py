"""Pagination and polling, in nodes and in iterations of loops: calls, retries and merged outputs."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from simulation.plans import plan_of
from tests.core.loop_harness import SECOND, LoopHarness
from windlass.core.artifacts import INLINE_BYTES_MAX, is_reference, read_reference, reference
from windlass.core.messages import CancelRequested, RetryRequested, Succeeded
from windlass.core.plan import Collect, LoopPlan, NodePlan, RetryOnError, RetryOnSuccess, SinkPlan
from windlass.core.templates.template import compile_template

NEXT_PAGE = {"query": {"page": "{{ response.page + 1 }}"}}
PARAMS = {"url": "{{ input.url }}", "query": {"page": 1, "size": 5}}


def paginating(
    collect: Collect = Collect.APPEND, *, next_call: object = NEXT_PAGE, on_error: int = 1,
    loop: LoopPlan | None = None,
    condition: str = "{{ response.more }}", path: tuple[str, ...] = ("data",), sink: bool = False, **rule: Any,
) -> NodePlan:  # fmt: skip
    return NodePlan(
        id="fetch",
        handler="http",
        params=compile_template(PARAMS),
        on_error=RetryOnError(attempts_max=on_error, jitter=0.0),
        on_success=RetryOnSuccess(
            compile_template(condition),
            None if next_call is None else compile_template(next_call),
            collect,
            path,
            **rule,
        ),
        loop=loop,
        sink=SinkPlan("table", compile_template({"table": "t"})) if sink else None,
    )


def harness_of(node: NodePlan, input: bytes = b'{"url": "u", "items": [1, 2]}') -> LoopHarness:
    return LoopHarness(plan_of({"fetch": []}, {"fetch": node}), input)


def page(number: int, *, more: bool = True, data: object = None) -> bytes:
    found = [f"row {number}"] if data is None else data
    return msgspec.json.encode({"page": number, "more": more, "data": found})


def test_each_page_is_an_attempt_with_patched_params() -> None:
    harness = harness_of(paginating())
    harness.begin()

    harness.finish("fetch", output=page(1))
    harness.finish("fetch", output=page(2))

    assert harness.dispatched == ["job_fetch_1", "job_fetch_2", "job_fetch_3"]
    assert [params["query"] for params in harness.params()] == [
        {"page": 1, "size": 5},
        {"page": 2, "size": 5},
        {"page": 3, "size": 5},
    ]


def test_each_page_may_wait_for_a_rate_limited_server() -> None:
    node = structs.replace(paginating(), on_error=RetryOnError(rate_limited_max_seconds=30.0))
    harness = harness_of(node)
    harness.begin()
    for number in (1, 2, 3):
        harness.fail("fetch", status=429, retry_after_seconds=20.0)
        harness.fire_retry("fetch")
        harness.finish("fetch", output=page(number, more=number < 3))

    harness.merge_outputs()

    assert harness.output("fetch") == ["row 1", "row 2", "row 3"]


def test_patches_of_earlier_calls_apply_to_later_calls() -> None:
    harness = harness_of(paginating(next_call={**NEXT_PAGE, "once": "{{ response.once }}"}))
    harness.begin()

    harness.finish("fetch", output=b'{"page": 1, "more": true, "data": [], "once": {"a": 1}}')
    harness.finish("fetch", output=b'{"page": 2, "more": true, "data": [], "once": {"b": 2}}')

    assert harness.params()[2]["once"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("collect", "expected"),
    [
        (Collect.APPEND, ["row 1", "row 2", "row 3"]),
        (Collect.REPLACE, {"page": 3, "more": False, "data": ["row 3"]}),
        (Collect.COLLECT, [msgspec.json.decode(page(n, more=n < 3)) for n in (1, 2, 3)]),
    ],
)
def test_responses_are_merged_by_the_collect_mode(collect: Collect, expected: object) -> None:
    harness = harness_of(paginating(collect))
    harness.begin()
    for number in (1, 2, 3):
        harness.finish("fetch", output=page(number, more=number < 3))

    harness.merge_outputs()

    assert harness.output("fetch") == expected
    assert harness.status == "completed"


@pytest.mark.parametrize(
    ("collect", "expected"),
    [
        (Collect.APPEND, ["row 1"]),
        (Collect.COLLECT, [{"page": 1, "more": False, "data": ["row 1"]}]),
    ],
)
def test_the_response_of_a_single_call_is_merged_too(collect: Collect, expected: object) -> None:
    harness = harness_of(paginating(collect))
    harness.begin()

    harness.finish("fetch", output=page(1, more=False))

    assert harness.output("fetch") == expected


def test_the_number_of_calls_is_limited() -> None:
    harness = harness_of(paginating(calls_max=2))
    harness.begin()
    harness.finish("fetch", output=page(1))

    changes = harness.finish("fetch", output=page(2))

    completed = next(
        event for event in changes.events["job"] if event.type == "retry_sequence_completed"
    )
    assert msgspec.json.decode(completed.data or b"") == {
        "total_attempts": 2,
        "collect": "append",
        "is_exhausted": True,
    }
    assert not changes.tasks


def test_pagination_emits_an_event_for_each_transition() -> None:
    harness = harness_of(paginating())
    harness.begin()
    harness.finish("fetch", output=page(1))
    harness.finish("fetch", output=page(2, more=False))
    harness.merge_outputs()

    assert harness.events[2:] == [
        "node_dispatched fetch",
        "job_started",
        "node_started fetch",
        "node_retrying fetch",
        "node_ready fetch",
        "node_dispatched fetch",
        "node_started fetch",
        "retry_sequence_completed fetch",
        "node_completed fetch",
        "job_completed",
    ]


def test_polling_waits_between_calls() -> None:
    harness = harness_of(paginating(Collect.REPLACE, next_call=None, delay_seconds=3.0))
    harness.begin()

    harness.finish("fetch", output=page(1))
    assert (harness.state("fetch"), harness.timers[-1].due_at) == (
        "waiting",
        harness.now + 3 * SECOND,
    )
    harness.reload()
    harness.fire_retry("fetch")

    assert harness.dispatched == ["job_fetch_1", "job_fetch_2"]
    assert harness.params()[0] == harness.params()[1]


@pytest.mark.parametrize(
    ("loop", "first_type"),
    [
        (None, "node_started"),
        (
            LoopPlan(compile_template([1]), tolerant=True, failure_rate_max=1.0),
            "iteration_started",
        ),
    ],
)
def test_the_failure_of_a_later_page_links_to_the_first_event(
    loop: LoopPlan | None, first_type: str
) -> None:
    harness = harness_of(paginating(loop=loop))
    harness.begin()
    harness.finish("fetch", output=page(1))

    changes = harness.fail("fetch", retryable=False)

    (failed,) = [
        event
        for event in changes.events["job"]
        if event.type in ("node_failed", "iteration_failed")
    ]
    first = next(event for event in harness.store.log("job") if event.type == first_type)
    assert failed.parent_seq == first.seq


def test_each_call_has_its_own_number_of_attempts() -> None:
    harness = harness_of(paginating(on_error=2))
    harness.begin()
    harness.fail("fetch")
    harness.fire_retry("fetch")
    harness.finish("fetch", output=page(1))

    harness.fail("fetch")

    assert harness.state("fetch") == "waiting"


def test_a_failed_call_is_retried_with_the_same_params() -> None:
    harness = harness_of(paginating(on_error=2))
    harness.begin()
    harness.finish("fetch", output=page(1))
    harness.fail("fetch")
    harness.reload()

    harness.fire_retry("fetch")

    assert harness.params()[1] == harness.params()[2]
    assert harness.tasks[1].idempotency_key == harness.tasks[2].idempotency_key


def test_each_call_has_its_own_idempotency_key() -> None:
    harness = harness_of(paginating(sink=True))
    harness.begin()
    harness.finish("fetch", output=page(1))
    harness.finish("fetch", output=page(2))

    assert [task.idempotency_key for task in harness.tasks] == [
        "job_fetch",
        "job_fetch#2",
        "job_fetch#3",
    ]
    assert [task.sink and task.sink.path for task in harness.tasks] == [("data",)] * 3


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (b'{"page": 1, "more": true}', "merge_failed"),
        (b'{"page": 1, "more": true, "data": {"a": 1}}', "merge_failed"),
        (b'{"more": true, "data": []}', "template_failed"),
        (b"null", "template_failed"),
    ],
)
def test_a_response_that_does_not_match_the_rule_fails_the_node(output: bytes, kind: str) -> None:
    harness = harness_of(paginating(on_error=5))
    harness.begin()

    harness.finish("fetch", output=output)

    assert harness.status == "failed"
    assert msgspec.json.decode(harness.job.state.error or b"")["type"] == kind


def test_pages_survive_a_reload_while_they_are_merged() -> None:
    harness = harness_of(paginating())
    harness.begin()
    harness.finish("fetch", output=page(1))
    harness.finish("fetch", output=page(2, more=False))

    harness.reload()
    assert harness.state("fetch") == "waiting"
    harness.merge_outputs()

    assert harness.output("fetch") == ["row 1", "row 2"]


def test_a_retry_starts_again_at_the_first_page() -> None:
    harness = harness_of(paginating())
    harness.begin()
    harness.finish("fetch", output=page(1))
    harness.fail("fetch")

    harness.apply(RetryRequested("job", "r"))

    assert harness.params()[-1] == harness.params()[0]
    assert harness.tasks[-1].idempotency_key == harness.tasks[0].idempotency_key


def test_outputs_merged_for_an_earlier_retry_are_ignored() -> None:
    harness = harness_of(paginating())
    harness.begin()
    harness.finish("fetch", output=page(1))
    harness.finish("fetch", output=page(2, more=False))
    old = harness.merged(harness.merges.pop())
    harness.apply(CancelRequested("job", "c"), RetryRequested("job", "r"))
    harness.finish("fetch", output=page(1, data=["new 1"]))
    harness.finish("fetch", output=page(2, more=False, data=["new 2"]))

    harness.apply(old)
    assert harness.state("fetch") == "waiting"
    harness.merge_outputs()

    assert harness.output("fetch") == ["new 1", "new 2"]


def test_each_iteration_has_its_own_pages() -> None:
    loop = LoopPlan(compile_template("{{ input.items }}"), window=2, mode="async")
    harness = harness_of(paginating(loop=loop))
    harness.begin()

    harness.finish("fetch", 1, page(1, data=["b1"]))
    harness.finish("fetch", 0, page(1, more=False, data=["a1"]))
    harness.finish("fetch", 1, page(2, more=False, data=["b2"]))
    harness.merge_outputs()
    harness.merge_outputs()

    assert harness.output("fetch") == [["a1"], ["b1", "b2"]]
    assert [task.idempotency_key for task in harness.tasks] == [
        "job_fetch[0]",
        "job_fetch[1]",
        "job_fetch[1]#2",
    ]


def test_the_next_page_of_an_iteration_keeps_its_slot() -> None:
    loop = LoopPlan(compile_template("{{ input.items }}"), window=1, mode="async")
    harness = harness_of(paginating(loop=loop))
    harness.begin()

    harness.finish("fetch", 0, page(1))

    assert harness.states("fetch") == ["dispatched", "pending"]


@pytest.mark.parametrize("collect", [Collect.APPEND, Collect.COLLECT])
def test_a_single_large_response_is_stored_as_an_artifact(collect: Collect) -> None:
    rows = ["x" * INLINE_BYTES_MAX]
    harness = harness_of(paginating(collect))
    harness.begin()
    body = page(1, more=False, data=rows)
    key = harness.put_artifact(body)

    harness.finish("fetch", output=bytes(reference(key, len(body))))
    harness.merge_outputs()

    output = harness.job.outputs[0]
    assert output is not None
    assert is_reference(output)
    expected = rows if collect is Collect.APPEND else [msgspec.json.decode(body)]
    assert msgspec.json.decode(harness.artifacts.kept[read_reference(output).key]) == expected


def test_a_missing_artifact_fails_the_node() -> None:
    harness = harness_of(paginating(Collect.COLLECT))
    harness.begin()
    body = page(1, data=["x" * INLINE_BYTES_MAX])
    harness.finish("fetch", output=bytes(reference(harness.put_artifact(body), len(body))))
    harness.finish("fetch", output=page(2, more=False))
    harness.artifacts.kept.clear()

    harness.merge_outputs()

    assert msgspec.json.decode(harness.job.state.error or b"")["type"] == "artifact_not_found"


def test_a_large_chunk_output_that_is_not_a_list_fails_the_node() -> None:
    loop = LoopPlan(compile_template("{{ input.items }}"), window=2, mode="async", chunk_size=2)
    node = NodePlan(
        id="fetch", handler="echo", params=compile_template({"x": "{{ item }}"}), loop=loop
    )
    harness = harness_of(node)
    harness.begin()
    body = msgspec.json.encode({"a": "x" * INLINE_BYTES_MAX})

    harness.finish("fetch", 0, bytes(reference(harness.put_artifact(body), len(body))))
    harness.merge_outputs()

    assert msgspec.json.decode(harness.job.state.error or b"")["type"] == "chunk_invalid"


@pytest.mark.parametrize("collect", list(Collect))
def test_pages_beyond_the_maximum_are_named_in_the_meta(collect: Collect) -> None:
    harness = harness_of(paginating(collect, calls_max=2))
    harness.begin()
    harness.finish("fetch", output=page(1))
    harness.finish("fetch", output=page(2))
    harness.reload()
    harness.merge_outputs()

    assert harness.state("fetch") == "completed"
    assert harness.meta("fetch")["retry"] == {
        "retry_type": "on_success",
        "pages": 2,
        "max_attempts": 2,
        "is_exhausted": True,
    }


def test_the_meta_of_the_handler_is_kept_beside_the_number_of_pages() -> None:
    harness = harness_of(paginating())
    harness.begin()
    outcome = Succeeded(Raw(page(1, more=False)), Raw(b'{"status": 200}'))
    harness.apply(harness.finished("fetch", 0, outcome, None))

    meta = harness.meta("fetch")
    assert (meta["status"], meta["retry"]["pages"], meta["retry"]["is_exhausted"]) == (
        200,
        1,
        False,
    )


def test_a_node_with_too_many_pages_fails_if_its_author_wants_that() -> None:
    harness = harness_of(paginating(calls_max=2, on_exhausted="fail"))
    harness.begin()
    harness.finish("fetch", output=page(1))
    harness.finish("fetch", output=page(2))

    assert harness.status == "failed"
    error = msgspec.json.decode(harness.job.state.error or b"{}")
    assert error["type"] == "pages_exhausted"
    assert "max_attempts: 2" in error["message"]


def test_a_node_whose_last_page_is_the_maximum_completes() -> None:
    harness = harness_of(paginating(calls_max=2, on_exhausted="fail"))
    harness.begin()
    harness.finish("fetch", output=page(1))
    harness.finish("fetch", output=page(2, more=False))
    harness.merge_outputs()

    assert harness.status == "completed"
