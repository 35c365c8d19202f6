"""Workflows for simulations before they are compiled: nodes whose handlers follow a script."""

from array import array
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from windlass.core.plan import (
    NO_RETRY,
    Collect,
    LoopPlan,
    NodeKind,
    NodePlan,
    Plan,
    RetryOnError,
    RetryOnSuccess,
    SinkPlan,
)
from windlass.core.templates.template import compile_template

HANDLER = "scripted"
SINK = "table"
ELEMENT = "item"

# How one attempt of a scripted node goes.
OK, NULL, ERROR, FLAKY, LATER, FATAL, SLOW, STUBBORN, DIES, KILLS = (
    "ok", "null", "error", "flaky", "later", "fatal", "slow", "stubborn", "dies", "kills",
)  # fmt: skip


class Script(Struct, frozen=True, omit_defaults=True):
    """What a node's handler does: attempt n follows the n-th act, and those beyond the last one follow the last."""

    acts: tuple[str, ...] = (OK,)
    work_seconds: float = 0.0
    # What the output says in `flag`, which conditions read.
    flag: bool = True
    # How many elements the list in the output has, which loops read.
    width: int = 0
    # Pages of a series; 0 for polling that ends by the number of the attempt.
    pages: int = 0
    # Bytes that the output has too many.
    bulk: int = 0
    # The acts of iterations: those of number i are followed by the i-th, i + n-th, … of them.
    others: tuple[tuple[str, ...], ...] = ()

    def act(self, attempt: int, index: int | None) -> str:
        """What this attempt does."""
        acts = self.acts
        if self.others and index is not None:
            acts = self.others[index % len(self.others)]
        return acts[min(attempt, len(acts)) - 1]


class NodeDraft(Struct):
    """A node before it is compiled: its id, what it depends on, and all that an author may say about it."""

    id: str
    parents: list[str]
    kind: NodeKind = NodeKind.TASK
    script: Script = Script()
    reads: list[str] = []
    # Of whose outputs a part is passed on: those cannot stay where they are when they are large.
    glances: list[str] = []
    when: str | None = None
    timeout_seconds: float = 300.0
    priority: int = 0
    allow_failure: bool = False
    run_if_skipped: bool = False
    on_error: RetryOnError = NO_RETRY
    bad_template: bool = False
    loop: LoopPlan | None = None
    calls: RetryOnSuccess | None = None
    sinks: bool = False
    redeliveries_max: int = 5


def loop_over(collection: object, window: int = 1, *, tolerant: bool = False, chunk_size: int | None = None,
              timeout_seconds: float | None = None, mode: str = "async") -> LoopPlan:  # fmt: skip
    """A loop over what a template gives."""
    return LoopPlan(compile_template(collection), ELEMENT, window, chunk_size, tolerant, timeout_seconds, mode)


def paging(collect: Collect = Collect.APPEND, *, calls_max: int = 10, delay_seconds: float = 0.0) -> RetryOnSuccess:
    """Calls for one page after the other."""
    # The marks differ from call to call, and each stays for all calls after it.
    next_call = {"query": {"page": "{{ response.next }}", "marks": "{{ response.marks }}"}}
    path = ("found", "items") if collect is Collect.APPEND else ()
    return RetryOnSuccess(
        compile_template("{{ response.more }}"), compile_template(next_call), collect, path, calls_max, delay_seconds
    )


def polling(collect: Collect = Collect.REPLACE, *, calls_max: int = 10, delay_seconds: float = 0.0) -> RetryOnSuccess:
    """The same call until its answer is there."""
    path = ("found", "items") if collect is Collect.APPEND else ()
    return RetryOnSuccess(compile_template("{{ response.more }}"), None, collect, path, calls_max, delay_seconds)


def compiled(workflow_id: str, drafts: Sequence[NodeDraft], *, fail_fast: bool = True,
             timeout_seconds: float | None = None, version: int = 1) -> Plan:  # fmt: skip
    """The plan of drafts that stand in topological order."""
    index = {draft.id: number for number, draft in enumerate(drafts)}
    parents = [tuple(index[parent] for parent in draft.parents) for draft in drafts]
    children: list[list[int]] = [[] for _ in drafts]
    for child, numbers in enumerate(parents):
        for parent in numbers:
            children[parent].append(child)
    nodes = [_node(draft) for draft in drafts]
    return Plan(
        workflow_id=workflow_id,
        version=version,
        nodes=nodes,
        index=index,
        parents=parents,
        children=[tuple(numbers) for numbers in children],
        dependency_counts=array("l", [len(numbers) for numbers in parents]),
        fail_fast=fail_fast,
        timeout_seconds=timeout_seconds,
        has_series=any(node.on_success is not None for node in nodes),
    )


def _node(draft: NodeDraft) -> NodePlan:
    if draft.kind is not NodeKind.TASK:
        return NodePlan(id=draft.id, kind=draft.kind)
    return NodePlan(
        id=draft.id,
        handler=HANDLER,
        params=compile_template(_params(draft)),
        when=None if draft.when is None else compile_template(draft.when),
        timeout_seconds=draft.timeout_seconds,
        priority=draft.priority,
        allow_failure=draft.allow_failure,
        run_if_skipped=draft.run_if_skipped,
        on_error=draft.on_error,
        on_success=draft.calls,
        redeliveries_max=draft.redeliveries_max,
        loop=draft.loop,
        sink=_sink(draft) if draft.sinks else None,
    )


def _params(draft: NodeDraft) -> dict[str, Any]:
    params: dict[str, Any] = {
        "script": msgspec.to_builtins(draft.script),
        "reads": {parent: f"{{{{ {parent}.output }}}}" for parent in draft.reads},
    }
    if draft.glances:
        params["glances"] = [
            f"{{{{ {parent}.output | length if {parent}.output else 0 }}}}" for parent in draft.glances
        ]
    if draft.bad_template:
        params["broken"] = "{{ input.nothing_of_this_name }}"
    if draft.loop is not None:
        params |= {"element": f"{{{{ {ELEMENT} }}}}", "index": "{{ index }}"}
    if draft.calls is not None:
        params["query"] = {"page": 1, "size": 3}
    return params


def _sink(draft: NodeDraft) -> SinkPlan:
    about = "{{ index }}" if draft.loop is not None else "{{ input.n }}"
    return SinkPlan(SINK, compile_template({"table": "rows", "about": about}))
