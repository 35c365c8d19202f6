"""The names `nodes` and `parents`: what templates read of the nodes before theirs."""

from typing import Any

import msgspec
import pytest

from tests.core.loop_harness import LoopHarness
from windlass.core.artifact_parts import part_of
from windlass.core.artifacts import INLINE_BYTES_MAX, TaskArtifact, fill_params, reference
from windlass.core.changes import Task
from windlass.core.templates.json_values import RENDERED_BYTES_MAX
from windlass.spec import compile_plan, read_definition

# Larger than an output that is stored inline, and larger than what a template may render.
LARGE = "x" * INLINE_BYTES_MAX
HUGE = "y" * (RENDERED_BYTES_MAX + 1)
OUTPUT: dict[str, Any] = {"text": LARGE, "rows": [[1, HUGE], {"id": 7}], "n": 5}


def harness_of(
    nodes: dict[str, Any], input: bytes = b"{}", start: str | None = None
) -> LoopHarness:
    made: dict[str, Any] = {name: {"handler": "echo", **node} for name, node in nodes.items()}
    if start is not None:
        made[start] = {"type": "start"}
    definition, _ = read_definition({"workflow_id": "w", "nodes": made})
    harness = LoopHarness(compile_plan(definition, 1), input)
    harness.begin()
    return harness


def after_two(
    reader: dict[str, Any], input: bytes = b"{}", outputs: tuple[bytes, bytes] = (b"1", b'{"x":2}')
) -> LoopHarness:
    """Return a job of a chain a, b, c whose last node reads; another node beside it has not finished."""
    chain = {
        "a": {},
        "b": {"dependencies": "a"},
        "aside": {"dependencies": "a"},
        "c": {"dependencies": "b", **reader},
    }
    harness = harness_of(chain, input)
    for node_id, output in zip("ab", outputs, strict=True):
        finish(harness, node_id, output)
    return harness


def finish(harness: LoopHarness, node_id: str, output: bytes) -> None:
    """Finish a node as a worker does: a large output becomes an artifact."""
    if len(output) > INLINE_BYTES_MAX:
        output = bytes(reference(harness.put_artifact(output), len(output)))
    harness.finish(node_id, output=output)


def params_of(harness: LoopHarness, node_id: str) -> Any:
    (task,) = [task for task in harness.tasks if task.node_id == node_id]
    return msgspec.json.decode(task.params)


def view(output: object) -> dict[str, object]:
    return {"output": output, "result": output, "status": "completed", "meta": {}}


def error_of(harness: LoopHarness) -> dict[str, Any]:
    assert harness.job.state.error is not None
    return msgspec.json.decode(harness.job.state.error)


# nodes


def test_nodes_are_all_upstream_nodes() -> None:
    harness = after_two({"params": {"all": "{{ nodes }}"}})

    assert params_of(harness, "c") == {"all": {"a": view(1), "b": view({"x": 2})}}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("nodes | length", 2),
        ("nodes | keys", ["a", "b"]),
        ("nodes | values | map(attribute='output') | list", [1, {"x": 2}]),
        ("nodes['b'].output.x", 2),
        ("nodes.a.status", "completed"),
        ("nodes[input.k].output", {"x": 2}),
        ("nodes[input.k]['output'].x + nodes.a.output", 3),
        ("'a' in nodes and 'c' not in nodes and 'aside' not in nodes", True),
        ("nodes == {'a': nodes.a, 'b': nodes.b}", True),
        ("nodes.a | tojson", msgspec.json.encode(view(1)).decode()),
        ("nodes[input.absent | default('a')].output", 1),
    ],
)
def test_nodes_mean_the_same_in_every_expression(expression: str, expected: object) -> None:
    harness = after_two({"params": {"found": "{{ " + expression + " }}"}}, b'{"k":"b"}')

    assert params_of(harness, "c") == {"found": expected}


@pytest.mark.parametrize("neighbour", [{}, {"other": "{{ nodes.b.output }}"}])
def test_a_computed_subscript_does_not_depend_on_other_params(neighbour: dict[str, str]) -> None:
    params = {"found": "{{ nodes[input.k].output }}", **neighbour}

    assert params_of(after_two({"params": params}, b'{"k":"a"}'), "c")["found"] == 1


def test_nodes_in_a_text_are_listed_in_topological_order() -> None:
    text = "{% for id in nodes %}{{ id }}={{ nodes[id].output | tojson }};{% endfor %}"

    assert params_of(after_two({"params": {"text": text}}), "c") == {"text": 'a=1;b={"x":2};'}


def test_a_condition_reads_nodes() -> None:
    harness = after_two(
        {"when": "{{ nodes | length == 2 and nodes[input.k].output == 1 }}"}, b'{"k":"a"}'
    )

    assert harness.state("c") == "dispatched"


def test_a_loop_runs_over_nodes() -> None:
    reader = {
        "loop": {"collection": "{{ nodes | items }}", "element": "pair", "concurrency": 5},
        "params": {"of": "{{ pair[0] }}", "output": "{{ nodes[pair[0]].output }}"},
    }
    harness = after_two(reader)

    params = [msgspec.json.decode(task.params) for task in harness.tasks if task.node_id == "c"]
    assert params == [{"of": "a", "output": 1}, {"of": "b", "output": {"x": 2}}]


def test_retry_rules_and_sinks_read_nodes() -> None:
    reader = {
        "sink": {"tool": "file", "path": "{{ nodes | keys | join('-') }}.jsonl"},
        "retry": {
            "on_error": {"max_attempts": 2, "when": "{{ nodes | length == 2 }}"},
            "on_success": {
                "while": "{{ response.more }}",
                "next_call": {"seen": "{{ nodes[input.k].output }}"},
            },
        },
    }
    harness = after_two(reader, b'{"k":"a"}')
    harness.fail("c")
    harness.fire_retry("c")
    harness.finish("c", output=b'{"more":true}')

    tasks = [task for task in harness.tasks if task.node_id == "c"]
    assert [msgspec.json.decode(task.params) for task in tasks][-1] == {"k": "a", "seen": 1}
    assert {task.sink.options for task in tasks if task.sink is not None} == {
        b'{"path":"a-b.jsonl"}'
    }


@pytest.mark.parametrize("name", ["aside", "c", "absent"])
def test_a_node_that_is_not_upstream_is_not_found(name: str) -> None:
    params = {"found": "{{ nodes[input.k].output }}"}
    harness = after_two({"params": params}, msgspec.json.encode({"k": name}))

    error = error_of(harness)
    assert error["type"] == "template_failed"
    assert f"nodes has no '{name}'; available: a, b" in error["message"]


def test_start_is_one_of_the_nodes_and_not_of_the_parents() -> None:
    params = {"n": "{{ nodes | keys }}", "p": "{{ parents }}"}
    harness = harness_of({"a": {"dependencies": "begin", "params": params}}, start="begin")

    assert params_of(harness, "a") == {"n": ["begin"], "p": {}}


def test_a_node_with_the_name_of_a_fixed_name_does_not_hide_it() -> None:
    harness = harness_of(
        {"input": {}, "c": {"dependencies": "input", "params": {"x": "{{ input.output }}"}}},
        b'{"output":"of the input"}',
    )
    finish(harness, "input", msgspec.json.encode(LARGE))

    assert params_of(harness, "c") == {"x": "of the input"}


# parents


def fan_in(reader: dict[str, Any], *, is_skipped: bool = False) -> LoopHarness:
    nodes = {
        "top": {},
        "left": {"dependencies": "top"},
        "right": {"dependencies": "top", **({"when": False} if is_skipped else {})},
        "join": {"dependencies": ["left", "right"], **reader},
    }
    return harness_of(nodes)


def test_parents_are_the_outputs_of_the_direct_dependencies() -> None:
    harness = fan_in({"params": "{{ parents }}"})
    for node_id, output in {"top": b"0", "left": b'{"n":1}', "right": b"[2]"}.items():
        harness.finish(node_id, output=output)

    assert params_of(harness, "join") == {"left": {"n": 1}, "right": [2]}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("parents.left", 3),
        ("parents['right']", 4),
        ("parents | values | sum", 7),
        ("parents | length", 2),
        ("parents[parents | keys | first]", 3),
        ("'top' in parents", False),
        ("parents | items | list", [["left", 3], ["right", 4]]),
    ],
)
def test_parents_can_be_used_in_expressions(expression: str, expected: object) -> None:
    harness = fan_in({"params": {"found": "{{ " + expression + " }}"}})
    for node_id, output in {"top": b"0", "left": b"3", "right": b"4"}.items():
        harness.finish(node_id, output=output)

    assert params_of(harness, "join") == {"found": expected}


def test_a_parent_that_was_skipped_has_null() -> None:
    harness = fan_in({"params": {"all": "{{ parents }}"}}, is_skipped=True)
    harness.finish("top")
    harness.finish("left", output=b"3")

    assert params_of(harness, "join") == {"all": {"left": 3, "right": None}}


# Large outputs


def after_large(reader: dict[str, Any], *, is_kept: bool = True) -> LoopHarness:
    """Return a job whose last node reads a large output, which may be gone before that."""
    harness = harness_of(
        {"a": {}, "b": {"dependencies": "a"}, "c": {"dependencies": "b", **reader}}
    )
    harness.finish("a", output=b"1")
    body = msgspec.json.encode(OUTPUT)
    output = reference(harness.put_artifact(body), len(body))
    if not is_kept:
        harness.artifacts.kept.clear()
    harness.finish("b", output=bytes(output))
    harness.put_artifact(body)
    return harness


def tasks_of(harness: LoopHarness, node_id: str) -> list[Task]:
    return [task for task in harness.tasks if task.node_id == node_id]


def filled_params(harness: LoopHarness, task: Task) -> Any:
    """Return the params of a task as its handler gets them."""
    values = [
        (artifact, part_of(harness.artifacts.kept[artifact.key], artifact.path, artifact.label))
        for artifact in task.artifacts
    ]
    return msgspec.json.decode(fill_params(task.params, values))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ b.output }}", OUTPUT),
        ("{{ b.output.rows }}", OUTPUT["rows"]),
        ("{{ b.result.rows[0][1] }}", HUGE),
        ("{{ b['output']['rows'][1].id }}", 7),
        ("{{ nodes['b'].output.rows }}", OUTPUT["rows"]),
        ("{{ nodes.b.result }}", OUTPUT),
        ("{{ parents.b.n }}", 5),
        ("{{ parents }}", {"b": OUTPUT}),
        ("{{ b }}", view(OUTPUT)),
        ("{{ nodes }}", {"a": view(1), "b": view(OUTPUT)}),
        ("{{ b.status }}", "completed"),
        ("{{ b.status ~ b.meta }}", "completed{}"),
        ("{{ nodes.b.status | upper }}", "COMPLETED"),
    ],
)
def test_a_plain_reference_to_a_large_output_is_never_read_by_the_engine(
    template: str, expected: object
) -> None:
    harness = after_large({"params": {"deep": [{"found": template}]}}, is_kept=False)

    (task,) = tasks_of(harness, "c")
    assert filled_params(harness, task) == {"deep": [{"found": expected}]}
    assert len(task.params) < 1_000


def test_a_part_of_a_large_output_may_be_all_params() -> None:
    harness = after_large({"params": "{{ b.output.rows[1] }}"}, is_kept=False)

    (task,) = tasks_of(harness, "c")
    assert filled_params(harness, task) == {"id": 7}


def test_an_expression_over_a_large_output_reads_it() -> None:
    harness = after_large(
        {
            "params": {
                "n": "{{ b.output.n + 1 }}",
                "k": "{{ nodes[input.x | default('b')].output.n }}",
            }
        }
    )

    (task,) = tasks_of(harness, "c")
    assert task.artifacts == ()
    assert msgspec.json.decode(task.params) == {"n": 6, "k": 5}


def test_an_expression_over_a_large_output_that_is_gone_fails() -> None:
    harness = after_large(
        {"params": {"n": "{{ nodes[input.x | default('b')].output.n }}"}}, is_kept=False
    )

    assert "artifact not found" in error_of(harness)["message"]


def test_a_computed_value_that_is_too_large_names_the_plain_reference() -> None:
    harness = after_large({"params": {"x": "{{ b.output.rows[0][1] | upper }}"}})

    assert "'{{ name }}' alone" in error_of(harness)["message"]


def test_large_outputs_beyond_the_limit_together_are_not_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "windlass.core.prefetch.READ_BYTES_MAX", len(msgspec.json.encode(LARGE)) * 2
    )
    nodes = {name: {} for name in "abc"}
    reader = {"dependencies": ["a", "b", "c"], "params": {"n": "{{ nodes | length }}"}}
    failing = {"dependencies": ["a", "b", "c"], "params": {"n": "{{ parents | values | length }}"}}
    harness = harness_of({**nodes, "counts": reader, "reads": failing})
    for name in nodes:
        finish(harness, name, msgspec.json.encode(name + LARGE))

    assert msgspec.json.decode(tasks_of(harness, "counts")[0].params) == {"n": 3}
    assert "too much to read" in error_of(harness)["message"]


def test_small_outputs_beyond_the_limit_together_are_not_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("windlass.core.scopes.AGGREGATE_BYTES_MAX", 1_000)
    nodes = {f"n{at}": {} for at in range(20)}
    after = {"dependencies": list(nodes)}
    harness = harness_of(
        {
            **nodes,
            "counts": {**after, "params": {"n": "{{ nodes | length }}"}},
            "once": {**after, "params": {"n": "{{ nodes.n3.output ~ nodes.n3.output }}"}},
            "reads": {**after, "params": {"all": "{{ parents | values }}"}},
        }
    )
    for name in nodes:
        harness.finish(name, output=msgspec.json.encode("z" * 400))

    assert [task.node_id for task in harness.tasks[20:]] == ["counts", "once"]
    assert "too much to read" in error_of(harness)["message"]


def test_changes_of_later_pages_are_merged_into_large_values() -> None:
    pages = {"while": "{{ response.more }}", "next_call": "{{ response.next }}"}
    params = {
        "query": "{{ b.output.rows[1] }}",
        "rows": "{{ b.output.rows }}",
        "whole": {"b": "{{ b.output }}"},
        "list": ["{{ b.output.n }}"],
    }
    harness = after_large({"params": params, "retry": {"on_success": pages}})
    changes = {"query": {"page": 2}, "rows": "none", "whole": 1, "list": {"x": 1}}
    harness.finish("c", output=msgspec.json.encode({"more": True, "next": changes}))
    harness.finish("c", output=msgspec.json.encode({"more": True, "next": {"query": {"id": 8}}}))

    first, second, third = [filled_params(harness, task) for task in tasks_of(harness, "c")]
    assert first == {
        "query": {"id": 7},
        "rows": OUTPUT["rows"],
        "whole": {"b": OUTPUT},
        "list": [5],
    }
    assert second == {**changes, "query": {"id": 7, "page": 2}}
    assert third == {**changes, "query": {"id": 8, "page": 2}}


def test_iterations_pass_parts_of_large_outputs_by_reference() -> None:
    reader = {
        "loop": {"collection": [1, 2], "concurrency": 2},
        "params": {"n": "{{ item }}", "rows": "{{ b.output.rows }}"},
    }
    harness = after_large(reader, is_kept=False)

    params = [filled_params(harness, task) for task in tasks_of(harness, "c")]
    assert params == [{"n": n, "rows": OUTPUT["rows"]} for n in (1, 2)]


@pytest.mark.parametrize(
    "collection", ["{{ b.output.rows }}", "{{ nodes['b'].output.rows }}", "{{ parents.b.rows }}"]
)
def test_large_elements_of_a_large_output_are_passed_by_reference(collection: str) -> None:
    reader = {
        "loop": {"collection": collection, "concurrency": 2},
        "params": {"all": "{{ item }}", "last": "{{ item[1] | default('none') | length }}"},
    }
    harness = after_large(reader)
    harness.reload()

    first, second = tasks_of(harness, "c")
    assert first.artifacts == (
        TaskArtifact(
            next(iter(harness.artifacts.kept)), ("rows", 0), first.artifacts[0].label, ("all",)
        ),
    )
    assert filled_params(harness, first) == {"all": OUTPUT["rows"][0], "last": len(HUGE)}
    assert second.artifacts == ()
    assert msgspec.json.decode(second.params) == {"all": {"id": 7}, "last": 4}


def test_chunks_of_a_large_output_are_passed_by_value() -> None:
    rows = ["x" * INLINE_BYTES_MAX, "y" * INLINE_BYTES_MAX, 3]
    loop = {"collection": "{{ b.output }}", "chunk_size": 2, "concurrency": 2}
    chunks = {"dependencies": "b", "loop": loop, "params": {"all": "{{ item }}"}}
    harness = harness_of({"b": {}, "c": chunks})
    body = msgspec.json.encode(rows)

    harness.finish("b", output=bytes(reference(harness.put_artifact(body), len(body))))

    params = [filled_params(harness, task) for task in tasks_of(harness, "c")]
    assert params == [{"all": rows[:2]}, {"all": rows[2:]}]


def test_a_webhook_gets_small_parts_of_large_outputs_by_value() -> None:
    hook = {"url": "http://hook", "payload": {"n": "{{ b.output.n }}", "all": "{{ b.output }}"}}
    harness = after_large({"handler": "webhook", "params": hook})

    (task,) = tasks_of(harness, "c")
    assert [artifact.place for artifact in task.artifacts] == [("payload", "all")]
    assert filled_params(harness, task)["payload"] == {"n": 5, "all": OUTPUT}
