"""Params of nodes: rendered, or as written."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.harness import API, System

FLOW = """
workflow_id: flow
nodes:
  start: {type: start, next: [first]}
  first: {handler: echo, params: {n: "{{ input.n }}", who: "{{ input.who }} of {{ job.workflow_id }}"}}
  second: {handler: echo, dependencies: [first], params: {seen: "{{ first.output.echoed_params.n }}", plain: 1}}
  plain: {handler: echo, dependencies: [first], params: {mark: 7}}
  bare: {handler: echo, dependencies: [first]}
  held: {handler: echo, queue: far, dependencies: [second], params: {n: "{{ second.output.echoed_params.seen }}"}}
  never: {handler: echo, dependencies: [held], params: {n: "{{ held.output.n }}"}}
  end: {type: end, dependencies: [never, plain, bare]}
"""
EACH = """
workflow_id: each
nodes:
  make: {handler: echo, params: {factor: 3}}
  each:
    handler: echo
    dependencies: [make]
    loop: {collection: "{{ input.items }}", element: n, concurrency: 3}
    params: {n: "{{ n * make.output.echoed_params.factor }}", at: "{{ index }}"}
  chunks:
    handler: python
    dependencies: [make]
    loop: {collection: "{{ input.items }}", element: some, chunk_size: 700}
    params: {some: "{{ some }}", code: "def main(some): return some"}
"""
LARGE = """
workflow_id: large
nodes:
  big:
    handler: python
    params: {size: "{{ input.size }}", code: "def main(size): return {'text': 'x' * size, 'n': 5}"}
  whole: {handler: echo, dependencies: [big], params: {all: "{{ big.output }}"}}
  part: {handler: echo, dependencies: [big], params: {n: "{{ big.output.n }}"}}
"""
AGGREGATES = """
workflow_id: aggregates
nodes:
  big: {handler: python, params: {code: "def main(): return {'text': 'x' * 300000, 'n': 5}"}}
  small: {handler: echo, params: {x: 1}}
  join:
    handler: echo
    dependencies: [big, small]
    params:
      ids: "{{ nodes | keys | sort }}"
      all: "{{ parents }}"
      at: "{{ nodes[input.id | default('small')].output }}"
"""
BROKEN = """
workflow_id: broken
nodes:
  first: {handler: echo}
  second: {handler: echo, dependencies: [first], params: {n: "{{ first.output.absent.deeper }}"}}
"""
PAGES = """
workflow_id: pages
nodes:
  page:
    handler: page
    queue: far
    params: {size: "{{ input.size }}", at: 0}
    retry: {on_success: {while: "{{ response.next is not none }}", next_call: {at: "{{ response.next }}"}}}
"""


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[System]:
    """A system without a worker for the queue `far`."""
    async with System.running(tmp_path, queues=("default",)) as system:
        yield system


async def params(
    system: System, job_id: str, node_id: str, index: int | None = None
) -> dict[str, Any]:
    response = await response_for(system, job_id, node_id, index)
    assert response.status_code == 200, response.text
    return response.json()


async def response_for(system: System, job_id: str, node_id: str, index: int | None = None) -> Any:
    query = {} if index is None else {"index": index}
    return await system.client.get(f"{API}/jobs/{job_id}/nodes/{node_id}/params", params=query)


async def test_params_are_shown_as_the_attempt_received_them(held: System) -> None:
    await held.deploy_text(FLOW)
    job_id = await held.submit("flow", input_data={"n": 5, "who": "Ada"})
    await held.dispatched(job_id, "held")

    assert await params(held, job_id, "first") == {
        "params": {"n": 5, "who": "Ada of flow"},
        "rendered": True,
    }
    assert await params(held, job_id, "second") == {
        "params": {"seen": 5, "plain": 1},
        "rendered": True,
    }
    assert await params(held, job_id, "held") == {"params": {"n": 5}, "rendered": True}


async def test_params_without_templates_are_always_rendered(held: System) -> None:
    await held.deploy_text(FLOW)
    job_id = await held.submit("flow", input_data={"n": 5, "who": "Ada"})

    assert await params(held, job_id, "plain") == {"params": {"mark": 7}, "rendered": True}
    assert await params(held, job_id, "bare") == {
        "params": {"n": 5, "who": "Ada"},
        "rendered": True,
    }
    assert await params(held, job_id, "end") == {"params": None, "rendered": False}


async def test_params_of_an_unstarted_node_are_shown_as_written(held: System) -> None:
    await held.deploy_text(FLOW)
    job_id = await held.submit("flow", input_data={"n": 5, "who": "Ada"})
    await held.dispatched(job_id, "held")

    assert await params(held, job_id, "never") == {
        "params": {"n": "{{ held.output.n }}"},
        "rendered": False,
    }


async def test_params_that_cannot_be_rendered_are_shown_as_written(system: System) -> None:
    await system.deploy_text(BROKEN)
    job_id = await system.submit("broken")
    assert (await system.ended(job_id))["status"] == "failed"

    shown = await params(system, job_id, "second")
    assert shown == {"params": {"n": "{{ first.output.absent.deeper }}"}, "rendered": False}


async def test_each_iteration_has_its_own_params(system: System) -> None:
    await system.deploy_text(EACH)
    job_id = await system.submit("each", input_data={"items": list(range(2_500))})
    assert (await system.ended(job_id))["status"] == "completed"

    assert await params(system, job_id, "each", 0) == {
        "params": {"n": 0, "at": 0},
        "rendered": True,
    }
    assert await params(system, job_id, "each", 2_401) == {
        "params": {"n": 7_203, "at": 2_401},
        "rendered": True,
    }
    # Elements are stored in blocks of a thousand; a chunk may span two blocks.
    chunk = (await params(system, job_id, "chunks", 1))["params"]["some"]
    assert chunk == list(range(700, 1_400))
    assert len((await params(system, job_id, "chunks", 3))["params"]["some"]) == 400


async def test_a_loop_itself_has_its_params_as_written(system: System) -> None:
    await system.deploy_text(EACH)
    job_id = await system.submit("each", input_data={"items": [1]})
    await system.ended(job_id)

    shown = await params(system, job_id, "each")
    assert (shown["rendered"], shown["params"]["at"]) == (False, "{{ index }}")


async def test_params_of_an_unknown_iteration_or_node_are_not_found(system: System) -> None:
    await system.deploy_text(EACH)
    job_id = await system.submit("each", input_data={"items": [1]})
    await system.ended(job_id)

    assert (await response_for(system, job_id, "each", 1)).status_code == 404
    assert (await response_for(system, job_id, "make", 1)).status_code == 404
    assert (await response_for(system, job_id, "nothing")).status_code == 404
    assert (await response_for(system, "nothing", "each")).status_code == 404
    assert (await params(system, job_id, "make", 0))["rendered"]


@pytest.mark.parametrize(("size", "shown"), [(300_000, 300_000), (2_000_000, None)])
async def test_large_outputs_in_params_are_limited(
    system: System, size: int, shown: int | None
) -> None:
    await system.deploy_text(LARGE)
    job_id = await system.submit("large", input_data={"size": size})
    assert (await system.ended(job_id))["status"] == "completed"

    assert await params(system, job_id, "part") == {"params": {"n": 5}, "rendered": True}
    passed = (await params(system, job_id, "whole"))["params"]["all"]
    if shown is None:
        assert passed["_truncated"]
        assert passed["_size"] > size
    else:
        assert len(passed["text"]) == shown


async def test_params_with_all_nodes_and_parents_are_rendered(system: System) -> None:
    await system.deploy_text(AGGREGATES)
    job_id = await system.submit("aggregates")
    assert (await system.ended(job_id))["status"] == "completed"

    big = {"text": "x" * 300_000, "n": 5}
    small = {"echoed_params": {"x": 1}}
    assert await params(system, job_id, "join") == {
        "params": {"ids": ["big", "small"], "all": {"big": big, "small": small}, "at": small},
        "rendered": True,
    }


async def test_params_with_a_part_that_does_not_exist_are_shown_as_written(system: System) -> None:
    await system.deploy_text(LARGE.replace("big.output.n", "big.output.m"))
    job_id = await system.submit("large", input_data={"size": 300_000})
    assert (await system.ended(job_id))["status"] == "failed"

    shown = await params(system, job_id, "part")
    assert shown == {"params": {"n": "{{ big.output.m }}"}, "rendered": False}


async def test_params_of_a_further_page_include_its_patch(held: System) -> None:
    await held.deploy_text(PAGES)
    job_id = await held.submit("pages", input_data={"size": 10})
    worker = {"worker_id": "w1", "queues": ["far"], "wait": "10s"}
    claimed = (await held.client.post(f"{API}/tasks/claim", json=worker)).json()["tasks"][0]
    done = {"task_id": claimed["task_id"], "job_id": job_id, "node_id": "page", "status": "completed",
            "worker_id": "w1", "output": {"next": 10}}  # fmt: skip
    assert (await held.client.post(f"{API}/callbacks/task-result", json=done)).status_code == 200
    again = (await held.client.post(f"{API}/tasks/claim", json=worker)).json()["tasks"][0]

    assert again["params"] == {"size": 10, "at": 10}
    assert await params(held, job_id, "page") == {
        "params": {"size": 10, "at": 10},
        "rendered": True,
    }
