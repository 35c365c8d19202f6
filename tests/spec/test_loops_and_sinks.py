"""Loops, pagination and sinks: their keys, defaults, variables and stored form."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.plan import Collect, LoopPlan, NodePlan, RetryOnSuccess, SinkPlan
from windlass.core.templates.template import Reference, compile_template
from windlass.spec import (
    Definition,
    compile_plan,
    definition_from_json,
    definition_json,
    digest,
    read_definition,
)
from windlass.spec.sections.loops import parameters_of

FULL = """
workflow_id: full
input: {type: object, properties: {api_url: {type: string}, users: {type: array}}, additionalProperties: false}
nodes:
  fetch:
    handler: http
    params: {url: "{{ api_url }}/users", params: {page: 1}}
    retry:
      on_error: {max_attempts: 4, when: "{{ error.retryable and attempt < 3 }}"}
      on_success:
        while: "{{ response.paging.more and attempt < 50 }}"
        next_call: {params: {page: "{{ response.paging.page + 1 }}"}}
        collect: append
        merge_path: data.items
        max_attempts: 60
        delay: 500ms
    sink: {tool: sqlite, database: "{{ input.api_url }}.db", table: pages, mode: upsert, key: [page, id]}
  enrich:
    handler: http
    needs: [fetch]
    when: "{{ user.active and index < 5 }}"
    params: {url: "{{ api_url }}/{{ user.id }}", n: "{{ index }}"}
    loop:
      collection: "{{ fetch.output }}"
      element: user
      mode: async
      concurrency: 7
      chunk_size: 3
      on_failure: continue
      timeout_seconds: 1h
    retry:
      on_error: {max_attempts: 2, when: "{{ user.again and index > 1 and attempt < 2 }}"}
      on_success: {while: "{{ response.more and user.many }}", next_call: {params: {from: "{{ index }}"}}}
    sink: {tool: file, path: "out/{{ user.name }}-{{ index }}.jsonl"}
"""


def read(text: str | dict[str, object]) -> Definition:
    definition, warnings = read_definition(text)
    assert warnings == []
    return definition


def plan_of(text: str | dict[str, object], node: str) -> NodePlan:
    plan = compile_plan(read(text), 1)
    return plan.nodes[plan.index[node]]


def node_plan(**keys: object) -> NodePlan:
    return plan_of({"workflow_id": "w", "nodes": {"a": {"handler": "e", **keys}}}, "a")


def loop_plan(**keys: object) -> LoopPlan:
    plan = node_plan(loop={"collection": [1, 2], **keys}).loop
    assert plan is not None
    return plan


def test_white_space_around_a_template_in_place_of_a_whole_section_is_ignored() -> None:
    plan = plan_of(
        """
workflow_id: blocks
nodes:
  a:
    handler: echo
    when: |
      {{ input.flag }}
    loop:
      collection: >
        {{ input.list }}
    params: |
      {{ input.params }}
    retry:
      on_error:
        when: |
          {{ error.retryable }}
      on_success:
        while: |
          {{ response.more }}
        next_call: |
          {{ response.next }}
""",
        "a",
    )

    assert plan.loop is not None
    assert plan.on_success is not None
    templates = [plan.when, plan.loop.collection, plan.params, plan.on_error.when]
    templates += [plan.on_success.condition, plan.on_success.next_call]
    assert [template.source for template in templates if template is not None] == [
        "{{ input.flag }}",
        "{{ input.list }}",
        "{{ input.params }}",
        "{{ error.retryable }}",
        "{{ response.more }}",
        "{{ response.next }}",
    ]


def test_white_space_around_a_template_inside_params_is_kept() -> None:
    plan = node_plan(params={"body": "{{ input.body }}\n"})

    assert plan.params == compile_template({"body": "{{ input.body }}\n"})


def test_a_loop_is_compiled_with_all_its_keys() -> None:
    plan = plan_of(FULL, "enrich")

    assert plan.loop == LoopPlan(
        collection=compile_template("{{ fetch.output }}"),
        element="user",
        window=7,
        chunk_size=3,
        tolerant=True,
        timeout_seconds=3600.0,
        mode="async",
    )


def test_pagination_is_compiled_with_all_its_keys() -> None:
    assert plan_of(FULL, "fetch").on_success == RetryOnSuccess(
        condition=compile_template("{{ response.paging.more and attempt < 50 }}"),
        next_call=compile_template({"params": {"page": "{{ response.paging.page + 1 }}"}}),
        collect=Collect.APPEND,
        merge_path=("data", "items"),
        calls_max=60,
        delay_seconds=0.5,
    )


def test_a_sink_is_compiled_with_its_options() -> None:
    options = {
        "database": "{{ input.api_url }}.db",
        "table": "pages",
        "mode": "upsert",
        "key": ["page", "id"],
    }

    assert plan_of(FULL, "fetch").sink == SinkPlan("sqlite", compile_template(options))


def test_a_plain_node_has_no_loop_pagination_or_sink() -> None:
    plan = node_plan()

    assert (plan.loop, plan.on_success, plan.sink) == (None, None, None)


@pytest.mark.parametrize(
    ("keys", "mode", "window"),
    [
        ({}, "sequential", 1),
        ({"mode": "sequential"}, "sequential", 1),
        ({"concurrency": 1}, "sequential", 1),
        ({"mode": "sequential", "concurrency": 1}, "sequential", 1),
        ({"concurrency": 2}, "async", 2),
        ({"mode": "async"}, "async", 10),
        ({"mode": "async", "concurrency": 1}, "async", 1),
        ({"mode": "async", "concurrency": 10_000}, "async", 10_000),
    ],
)
def test_mode_and_concurrency_default_to_match_each_other(
    keys: dict[str, object], mode: str, window: int
) -> None:
    loop = loop_plan(**keys)

    assert (loop.mode, loop.window) == (mode, window)


def test_a_loop_with_only_a_collection_has_defaults() -> None:
    assert loop_plan() == LoopPlan(compile_template([1, 2]))


@pytest.mark.parametrize(
    "collection",
    [
        [],
        [1, "a", {"b": None}],
        ["{{ input.a }}", 2],
        "{{ input.a }}",
        "{{ x | list }}",
        "{# all #}{{ x }}",
    ],
)
def test_a_collection_is_a_list_or_a_single_template(collection: object) -> None:
    assert loop_plan(collection=collection).collection.source == collection


@pytest.mark.parametrize(("written", "seconds"), [(90, 90.0), ("1.5m", 90.0), ("1d", 86400.0)])
def test_the_timeout_of_a_loop_is_a_duration(written: object, seconds: float) -> None:
    assert loop_plan(timeout_seconds=written).timeout_seconds == seconds


def test_pagination_keeps_the_last_response_by_default() -> None:
    rule = node_plan(retry={"on_success": {"while": "{{ response.more }}"}}).on_success

    assert rule == RetryOnSuccess(compile_template("{{ response.more }}"), collect=Collect.REPLACE)


def test_pages_that_are_lists_are_appended_without_a_path() -> None:
    rule = node_plan(
        retry={"on_success": {"while": "{{ response }}", "collect": "append"}}
    ).on_success

    assert rule is not None
    assert (rule.collect, rule.merge_path) == (Collect.APPEND, ())


def test_conditions_on_the_element_are_recognized() -> None:
    each = plan_of(FULL, "enrich").when

    assert each is not None
    assert each.references == (Reference("user", ("active",)), Reference("index", ()))


@pytest.mark.parametrize(
    "sink",
    [
        {"tool": "postgres", "table": "t"},
        {
            "tool": "postgres",
            "table": "s.t",
            "connection": "main_db",
            "mode": "upsert",
            "key": "id",
            "rows": "a.b",
        },
        {"tool": "postgres", "table": "t", "schema": "s", "column": "v", "json_column": "body"},
        {
            "tool": "postgres",
            "table": "{{ input.t }}",
            "mode": "{{ input.m }}",
            "key": ["{{ input.k }}"],
        },
        {"tool": "sqlite", "table": "t", "database": "data/x.db", "mode": "replace"},
        {"tool": "file", "path": "x.csv", "format": "csv", "mode": "replace", "rows": "items"},
        {
            "tool": "http",
            "url": "https://x.test/in",
            "method": "PUT",
            "headers": {"X-A": "1"},
            "rows": "items",
        },
        {"tool": "http", "url": "{{ input.base }}/in", "headers": {"X-A": "{{ input.a }}"}},
    ],
)
def test_each_sink_takes_its_options(sink: dict[str, object]) -> None:
    plan = node_plan(sink=sink).sink

    assert plan is not None
    assert {"tool": plan.tool, **msgspec.to_builtins(plan.options.source)} == sink


def test_a_stored_definition_equals_the_original() -> None:
    definition = read(FULL)

    stored = definition_json(definition)
    again = definition_from_json(stored)

    assert again == definition
    assert definition_json(again) == stored
    assert compile_plan(again, 1) == compile_plan(definition, 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("concurrency: 7", "concurrency: 8"),
        ("chunk_size: 3", "chunk_size: 4"),
        ("merge_path: data.items", "merge_path: data"),
        ("collect: append", "collect: collect"),
        ("table: pages", "table: others"),
        ("timeout_seconds: 1h", "timeout_seconds: 2h"),
        ("element: user", "element: user\n      # nothing but a comment"),
    ],
)
def test_only_a_change_of_meaning_changes_the_digest(before: str, after: str) -> None:
    one, other = (
        digest(definition_json(read(text))) for text in (FULL, FULL.replace(before, after))
    )

    assert (one == other) == ("comment" in after)


def test_explicit_defaults_do_not_change_the_definition() -> None:
    short = {"collection": [1]}
    long = {
        "collection": [1],
        "element": "item",
        "mode": "sequential",
        "concurrency": 1,
        "on_failure": "fail",
    }
    texts = [
        {"workflow_id": "w", "nodes": {"a": {"handler": "e", "loop": loop}}}
        for loop in (short, long)
    ]

    assert definition_json(read(texts[0])) == definition_json(read(texts[1]))


def test_the_digest_of_a_plain_definition_is_stable() -> None:
    text = "workflow_id: w\nnodes: {a: {handler: e, params: {x: 1}, retry: 2}, b: {handler: e, needs: a}}\n"

    assert bytes(definition_json(read(text))) == (
        b'{"format":1,"nodes":[{"handler":"e","id":"a","on_error":{"max_attempts":2},"params":{"x":1}},'
        b'{"dependencies":["a"],"handler":"e","id":"b"}],"workflow_id":"w"}'
    )


LOOPS = st.fixed_dictionaries(
    {"collection": st.sampled_from([[], [1, {"a": "{{ input.x }}"}], "{{ input.list }}"])},
    optional={
        "element": st.sampled_from(["item", "user", "_x1"]),
        "concurrency": st.integers(1, 10_000),
        "chunk_size": st.integers(1, 100_000),
        "on_failure": st.sampled_from(["fail", "continue"]),
        "timeout_seconds": st.sampled_from([1, 2.5, "3m"]),
    },
)
PAGES = st.fixed_dictionaries(
    {"while": st.sampled_from([True, False, "{{ response.more }}"])},
    optional={
        "next_call": st.sampled_from([{}, {"page": "{{ attempt + 1 }}"}, "{{ response.next }}"]),
        "collect": st.sampled_from(["append", "replace", "collect"]),
        "merge_path": st.sampled_from(["data", "a.b", "a.$value.c-d"]),
        "max_attempts": st.integers(1, 1_000_000),
        "delay": st.sampled_from([0, 0.5, "2s"]),
    },
)
SINKS = st.fixed_dictionaries(
    {
        "tool": st.sampled_from(["postgres", "sqlite"]),
        "table": st.sampled_from(["t", "s.t", "{{ input.t }}"]),
    },
    optional={
        "connection": st.just("c"),
        "key": st.sampled_from(["id", ["a", "b"]]),
        "rows": st.just("a.b"),
    },
)


@given(st.fixed_dictionaries({}, optional={"loop": LOOPS, "pages": PAGES, "sink": SINKS}))
def test_a_plan_equals_its_document(keys: dict[str, dict[str, object]]) -> None:
    pages = keys.pop("pages", None)
    node = {"handler": "e", **keys, **({"retry": {"on_success": pages}} if pages else {})}
    definition = read_definition({"workflow_id": "w", "nodes": {"a": node}})[0]
    plan = compile_plan(definition, 1).nodes[0]
    loop, sink = keys.get("loop"), keys.get("sink")

    assert definition_from_json(definition_json(definition)) == definition
    assert (plan.loop is None, plan.on_success is None, plan.sink is None) == (
        not loop,
        not pages,
        not sink,
    )
    if loop and plan.loop:
        concurrency = loop.get("concurrency", 1)
        assert (plan.loop.window, plan.loop.mode) == (
            concurrency,
            "sequential" if concurrency == 1 else "async",
        )
        assert plan.loop.collection.source == loop["collection"]
        assert plan.loop.element == loop.get("element", "item")
        assert plan.loop.chunk_size == loop.get("chunk_size")
        assert plan.loop.tolerant == (loop.get("on_failure") == "continue")
        assert (
            plan.loop.timeout_seconds
            == {1: 1.0, 2.5: 2.5, "3m": 180.0, None: None}[loop.get("timeout_seconds")]
        )
    if pages and plan.on_success:
        assert plan.on_success.condition.source == pages["while"]
        assert plan.on_success.collect.name.lower() == pages.get("collect", "replace")
        assert ".".join(plan.on_success.merge_path) == pages.get("merge_path", "")
        assert plan.on_success.calls_max == pages.get("max_attempts", 100)
        assert plan.on_success.delay_seconds == {0: 0.0, 0.5: 0.5, "2s": 2.0}[pages.get("delay", 0)]
    if sink and plan.sink:
        assert {"tool": plan.sink.tool, **msgspec.to_builtins(plan.sink.options.source)} == sink


CODE = "def main(item, other=1): return item"


def params_of(
    code: str, *, element: str = "item", handler: str = "python", **params: object
) -> object:
    node = {
        "handler": handler,
        "params": {"code": code, **params},
        "loop": {"collection": [1], "element": element},
    }
    plan = plan_of({"workflow_id": "w", "nodes": {"a": node}}, "a").params
    assert plan is not None
    return plan.source


def test_code_with_a_parameter_for_the_element_receives_it() -> None:
    assert params_of(CODE) == {"code": CODE, "item": "{{ item }}"}


def test_code_with_a_parameter_for_the_index_receives_it() -> None:
    code = "def main(user, *, index): return [index, user]"

    assert params_of(code, element="user") == {
        "code": code,
        "user": "{{ user }}",
        "index": "{{ index }}",
    }


def test_explicit_params_for_the_element_are_kept() -> None:
    assert params_of(CODE, item="{{ item.name }}") == {"code": CODE, "item": "{{ item.name }}"}


@pytest.mark.parametrize(
    "code",
    [
        "def main(one): return one",
        "def main(item, /): return item",
        "def main(**item): return item",
        "def item(main): return main",
        "class A:\n  def main(item): return item",
        "def main(item): return item\ndef main(x): return x",
        "def main(item: return item",
        "text = '''\ndef main(item):\n'''\ndef main(x): return x",
        "item = " + "(" * 5_000,
        "item = " + "-" * 20_000 + "1",
    ],
)
def test_code_without_a_parameter_for_the_element_is_unchanged(code: str) -> None:
    assert params_of(code) == {"code": code}


@pytest.mark.parametrize(
    "code",
    [
        r'def main(item): return f"\d\N{EM DASH}\"{item}\"", r"\", \w"',
        "def main(\n    item,  # what it is \\\n): return 'it\\'s' + \\\n    item",
        "async def main(ctx, item=None): return item",
    ],
)
def test_parameters_are_found_in_code_with_strings_and_comments(code: str) -> None:
    assert "item" in parameters_of(code)


def test_code_from_a_template_is_unchanged() -> None:
    assert params_of("{{ input.item_code }}") == {"code": "{{ input.item_code }}"}


def test_the_code_of_other_handlers_is_unchanged() -> None:
    assert params_of(CODE, handler="echo") == {"code": CODE}


def test_the_element_for_code_is_part_of_the_stored_definition() -> None:
    node = {"handler": "python", "params": {"code": CODE}, "loop": {"collection": [1]}}
    written = {**node, "params": {"code": CODE, "item": "{{ item }}"}}

    stored = [
        definition_json(read({"workflow_id": "w", "nodes": {"a": one}})) for one in (node, written)
    ]

    assert stored[0] == stored[1]


def test_code_outside_a_loop_receives_no_element() -> None:
    plan = plan_of(
        {"workflow_id": "w", "nodes": {"a": {"handler": "python", "params": {"code": CODE}}}}, "a"
    )

    assert plan.params == compile_template({"code": CODE})


BOUNDED = {
    "workflow_id": "w",
    "nodes": {
        "a": {
            "handler": "http",
            "params": {"url": "https://x.test"},
            "loop": {
                "collection": [1],
                "on_failure": "continue",
                "max_failed": 0,
                "max_failure_rate": 0.5,
            },
            "retry": {
                "on_error": {"max_rate_limited": "2h"},
                "on_success": {"while": "{{ response.more }}", "on_exhausted": "fail"},
            },
        }
    },
}


def test_bounds_on_failures_rate_limits_and_pages_are_read() -> None:
    plan = plan_of(BOUNDED, "a")

    assert plan.loop is not None
    assert (plan.loop.failed_max, plan.loop.failure_rate_max) == (0, 0.5)
    assert plan.on_error.rate_limited_max_seconds == 7200
    assert plan.on_success is not None
    assert plan.on_success.on_exhausted == "fail"


def test_bounds_survive_the_stored_form() -> None:
    definition = read(BOUNDED)

    assert definition_from_json(definition_json(definition)) == definition
