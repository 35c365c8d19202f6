"""Stored definitions written as documents: readable, and read back as the same definition."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.spec import definition_json, definition_text, read_definition

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.yaml"))
EVERYTHING = r"""
workflow_id: everything
description: "A text: with 'marks' and \"more\""
input: {type: object, properties: {day: {type: string, default: "yes"}, n: {type: number, maximum: 1.0e-7}}}
on_failure: continue
timeout_seconds: 2h
schedule: {every: 15m, anchor: "2026-01-01T00:00:00Z", jitter: 30s, input: {day: "007", n: 0}}
constraints: {max_concurrent_runs: 2, catch_up: all, pre_run_hook: {url: "https://example.org/x", timeout: 1.5s}}
actions: {on_failure: {type: trigger_job, parameters: {workflow_id: other, input: {weight: 2.0}}}}
run_retry: 3
hook: {secret: hook_key}
nodes:
  start: {type: start, next: [fetch, "true"]}
  fetch:
    handler: http
    params: {url: "https://example.org/{{ input.day }}", "odd key: #": [1, 2.0, null, true, "null", "1e5", ""]}
    timeout_seconds: 30
    retry:
      on_error: {max_attempts: 3, initial_delay: 0.5s, when: "{{ error.status != 404 }}"}
      on_success:
        {while: "{{ response.next }}", next_call: {page: "{{ response.next }}"}, collect: append, merge_path: a.b}
      max_redeliveries: 1
    sink: {tool: sqlite, table: rows, mode: upsert, key: [id], database: "out.db"}
  "true": {handler: echo, allow_failure: true, queue: far.away, priority: -3}
  each:
    handler: python
    dependencies: [fetch, "true"]
    when: "{{ 'x' in item }}"
    run_if_skipped: true
    loop: {collection: ["a\tb", " b", "ü ", "😀\u2028"], mode: async, concurrency: 1, on_failure: continue}
    params:
      code: |
        def main(item):
            return [item, "x"]  # a mark

      other: "two\nlines \n"
      last: "two\nlines"
  quiet: {handler: webhook, dependencies: [each], params: {url: "https://example.org/"}, retry: 1}
  end: {type: end, dependencies: [quiet]}
"""


def stored(text: str | dict[str, Any]) -> msgspec.Raw:
    return definition_json(read_definition(text)[0])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_read_back_as_the_same_definition(path: Path) -> None:
    once = stored(path.read_text())

    assert stored(definition_text(once)) == once


def test_a_definition_with_all_keys_is_read_back() -> None:
    once = stored(EVERYTHING)

    assert stored(definition_text(once)) == once


def test_a_document_has_block_style_and_a_fixed_order_of_keys() -> None:
    text = definition_text(stored(EVERYTHING))

    keys = [line.partition(":")[0] for line in text.splitlines() if line[:1].isalpha()]
    assert keys == [
        "workflow_id", "description", "input", "schedule", "constraints", "actions", "run_retry", "hook", "on_failure",
        "timeout_seconds", "nodes",
    ]  # fmt: skip
    assert "  fetch:\n    handler: http\n    dependencies:\n      - start\n    params:\n" in text
    assert "timeout_seconds: 7200\n" in text
    assert (
        '      code: |\n        def main(item):\n            return [item, "x"]  # a mark\n' in text
    )


def test_writing_a_document_is_deterministic() -> None:
    text = definition_text(stored(EVERYTHING))

    assert definition_text(stored(text)) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{}\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=9), inner,
        max_size=3,
    ),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text("ab-_ é:#", min_size=1), JSON, max_size=3))
def test_any_value_among_the_params_is_read_back(params: dict[str, Any]) -> None:
    once = stored({"workflow_id": "any", "nodes": {"only": {"handler": "echo", "params": params}}})

    assert stored(definition_text(once)) == once
