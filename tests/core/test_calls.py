"""The rules of series of calls: pages and polling, alone and inside loops, and what becomes of their answers."""

from typing import Any

import msgspec
import pytest

from simulation.plans import plan_of
from tests.core.loop_story import SECOND, LoopStory
from windlass.core.artifacts import INLINE_BYTES_MAX, is_reference, read_reference, reference
from windlass.core.messages import CancelRequested, RetryRequested
from windlass.core.plan import Collect, LoopPlan, NodePlan, RetryOnError, RetryOnSuccess, SinkPlan
from windlass.core.templates.template import compile_template

NEXT_PAGE = {"query": {"page": "{{ response.page + 1 }}"}}
PARAMS = {"url": "{{ input.url }}", "query": {"page": 1, "size": 5}}


def series(
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


def call_story(node: NodePlan, input: bytes = b'{"url": "u", "items": [1, 2]}') -> LoopStory:
    return LoopStory(plan_of({"fetch": []}, {"fetch": node}), input)


def page(number: int, *, more: bool = True, data: object = None) -> bytes:
    found = [f"row {number}"] if data is None else data
    return msgspec.json.encode({"page": number, "more": more, "data": found})


def test_each_page_is_an_attempt_with_the_params_laid_over() -> None:
    story = call_story(series())
    story.begin()

    story.finish("fetch", output=page(1))
    story.finish("fetch", output=page(2))

    assert story.dispatched == ["job_fetch_1", "job_fetch_2", "job_fetch_3"]
    assert [params["query"] for params in story.params()] == [
        {"page": 1, "size": 5},
        {"page": 2, "size": 5},
        {"page": 3, "size": 5},
    ]


def test_what_one_call_laid_over_stays_for_those_after_it() -> None:
    story = call_story(series(next_call={**NEXT_PAGE, "once": "{{ response.once }}"}))
    story.begin()

    story.finish("fetch", output=b'{"page": 1, "more": true, "data": [], "once": {"a": 1}}')
    story.finish("fetch", output=b'{"page": 2, "more": true, "data": [], "once": {"b": 2}}')

    assert story.params()[2]["once"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("collect", "expected"),
    [
        (Collect.APPEND, ["row 1", "row 2", "row 3"]),
        (Collect.REPLACE, {"page": 3, "more": False, "data": ["row 3"]}),
        (Collect.COLLECT, [msgspec.json.decode(page(n, more=n < 3)) for n in (1, 2, 3)]),
    ],
)
def test_the_answers_are_collected_as_the_rule_says(collect: Collect, expected: object) -> None:
    story = call_story(series(collect))
    story.begin()
    for number in (1, 2, 3):
        story.finish("fetch", output=page(number, more=number < 3))

    story.gather()

    assert story.output("fetch") == expected
    assert story.status == "completed"


@pytest.mark.parametrize(
    ("collect", "expected"),
    [(Collect.APPEND, ["row 1"]), (Collect.COLLECT, [{"page": 1, "more": False, "data": ["row 1"]}])],
)
def test_a_single_call_is_collected_like_several(collect: Collect, expected: object) -> None:
    story = call_story(series(collect))
    story.begin()

    story.finish("fetch", output=page(1, more=False))

    assert story.output("fetch") == expected


def test_calls_end_at_their_bound() -> None:
    story = call_story(series(calls_max=2))
    story.begin()
    story.finish("fetch", output=page(1))

    changes = story.finish("fetch", output=page(2))

    told = next(event for event in changes.events["job"] if event.type == "retry_sequence_completed")
    assert msgspec.json.decode(told.data or b"") == {"total_attempts": 2, "collect": "append", "is_exhausted": True}
    assert not changes.tasks


def test_a_series_tells_its_whole_story_in_events() -> None:
    story = call_story(series())
    story.begin()
    story.finish("fetch", output=page(1))
    story.finish("fetch", output=page(2, more=False))
    story.gather()

    assert story.events[2:] == [
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


def test_polling_waits_between_its_calls() -> None:
    story = call_story(series(Collect.REPLACE, next_call=None, delay_seconds=3.0))
    story.begin()

    story.finish("fetch", output=page(1))
    assert (story.state("fetch"), story.timers[-1].due_at) == ("waiting", story.now + 3 * SECOND)
    story.restart()
    story.wake("fetch")

    assert story.dispatched == ["job_fetch_1", "job_fetch_2"]
    assert story.params()[0] == story.params()[1]


def test_every_call_has_all_attempts_of_its_own() -> None:
    story = call_story(series(on_error=2))
    story.begin()
    story.fail("fetch")
    story.wake("fetch")
    story.finish("fetch", output=page(1))

    story.fail("fetch")

    assert story.state("fetch") == "waiting"


def test_a_call_that_failed_is_made_again_with_the_same_params() -> None:
    story = call_story(series(on_error=2))
    story.begin()
    story.finish("fetch", output=page(1))
    story.fail("fetch")
    story.restart()

    story.wake("fetch")

    assert story.params()[1] == story.params()[2]
    assert story.tasks[1].idempotency_key == story.tasks[2].idempotency_key


def test_every_call_is_a_piece_of_work_of_its_own() -> None:
    story = call_story(series(sink=True))
    story.begin()
    story.finish("fetch", output=page(1))
    story.finish("fetch", output=page(2))

    assert [task.idempotency_key for task in story.tasks] == ["job_fetch", "job_fetch#2", "job_fetch#3"]
    assert [task.sink and task.sink.path for task in story.tasks] == [("data",)] * 3


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (b'{"page": 1, "more": true}', "merge_failed"),
        (b'{"page": 1, "more": true, "data": {"a": 1}}', "merge_failed"),
        (b'{"more": true, "data": []}', "template_failed"),
        (b"null", "template_failed"),
    ],
)
def test_an_answer_that_the_rule_can_not_follow_fails_the_node(output: bytes, kind: str) -> None:
    story = call_story(series(on_error=5))
    story.begin()

    story.finish("fetch", output=output)

    assert story.status == "failed"
    assert msgspec.json.decode(story.job.state.error or b"")["type"] == kind


def test_pages_survive_a_restart_while_they_are_put_together() -> None:
    story = call_story(series())
    story.begin()
    story.finish("fetch", output=page(1))
    story.finish("fetch", output=page(2, more=False))

    story.restart()
    assert story.state("fetch") == "waiting"
    story.gather()

    assert story.output("fetch") == ["row 1", "row 2"]


def test_a_retry_starts_the_series_over() -> None:
    story = call_story(series())
    story.begin()
    story.finish("fetch", output=page(1))
    story.fail("fetch")

    story.tell(RetryRequested("job", "r"))

    assert story.params()[-1] == story.params()[0]
    assert story.tasks[-1].idempotency_key == story.tasks[0].idempotency_key


def test_parts_asked_for_before_a_retry_are_not_taken() -> None:
    story = call_story(series())
    story.begin()
    story.finish("fetch", output=page(1))
    story.finish("fetch", output=page(2, more=False))
    old = story.gathered(story.merges.pop())
    story.tell(CancelRequested("job", "c"), RetryRequested("job", "r"))
    story.finish("fetch", output=page(1, data=["new 1"]))
    story.finish("fetch", output=page(2, more=False, data=["new 2"]))

    story.tell(old)
    assert story.state("fetch") == "waiting"
    story.gather()

    assert story.output("fetch") == ["new 1", "new 2"]


def test_each_iteration_pages_by_itself() -> None:
    loop = LoopPlan(compile_template("{{ input.items }}"), window=2, mode="async")
    story = call_story(series(loop=loop))
    story.begin()

    story.finish("fetch", 1, page(1, data=["b1"]))
    story.finish("fetch", 0, page(1, more=False, data=["a1"]))
    story.finish("fetch", 1, page(2, more=False, data=["b2"]))
    story.gather()
    story.gather()

    assert story.output("fetch") == [["a1"], ["b1", "b2"]]
    assert [task.idempotency_key for task in story.tasks] == ["job_fetch[0]", "job_fetch[1]", "job_fetch[1]#2"]


def test_a_further_call_keeps_its_slot_in_the_loop() -> None:
    loop = LoopPlan(compile_template("{{ input.items }}"), window=1, mode="async")
    story = call_story(series(loop=loop))
    story.begin()

    story.finish("fetch", 0, page(1))

    assert story.states("fetch") == ["dispatched", "pending"]


@pytest.mark.parametrize("collect", [Collect.APPEND, Collect.COLLECT])
def test_a_single_large_answer_ends_in_the_artifact_store(collect: Collect) -> None:
    rows = ["x" * INLINE_BYTES_MAX]
    story = call_story(series(collect))
    story.begin()
    body = page(1, more=False, data=rows)
    key = story.put(body)

    story.finish("fetch", output=bytes(reference(key, len(body))))
    story.gather()

    output = story.job.outputs[0]
    assert output is not None
    assert is_reference(output)
    expected = rows if collect is Collect.APPEND else [msgspec.json.decode(body)]
    assert msgspec.json.decode(story.artifacts.kept[read_reference(output).key]) == expected


def test_a_part_that_is_gone_fails_the_node_and_nothing_else() -> None:
    story = call_story(series(Collect.COLLECT))
    story.begin()
    body = page(1, data=["x" * INLINE_BYTES_MAX])
    story.finish("fetch", output=bytes(reference(story.put(body), len(body))))
    story.finish("fetch", output=page(2, more=False))
    story.artifacts.kept.clear()

    story.gather()

    assert msgspec.json.decode(story.job.state.error or b"")["type"] == "artifact_not_found"


def test_a_large_chunk_that_is_no_list_fails_the_node() -> None:
    loop = LoopPlan(compile_template("{{ input.items }}"), window=2, mode="async", chunk_size=2)
    node = NodePlan(id="fetch", handler="echo", params=compile_template({"x": "{{ item }}"}), loop=loop)
    story = call_story(node)
    story.begin()
    body = msgspec.json.encode({"a": "x" * INLINE_BYTES_MAX})

    story.finish("fetch", 0, bytes(reference(story.put(body), len(body))))
    story.gather()

    assert msgspec.json.decode(story.job.state.error or b"")["type"] == "chunk_invalid"
