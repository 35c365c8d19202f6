"""Workflows of simulations before they are compiled: nodes whose handlers follow a script."""

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

# What one attempt of a scripted handler does.
OK, NULL, ERROR, FLAKY, LATER, LIMITED, FATAL, SLOW, STUBBORN, DIES, KILLS, EVICTED = (
    "ok", "null", "error", "flaky", "later", "limited", "fatal", "slow", "stubborn", "dies", "kills",
    "evicted",
)  # fmt: skip


class HandlerScript(Struct, frozen=True, omit_defaults=True):
    """What a handler does: attempt n takes the n-th action; attempts beyond the last action repeat it."""

    actions: tuple[str, ...] = (OK,)
    work_seconds: float = 0.0
    # The value of `flag` in the output, which conditions read.
    flag: bool = True
    # The length of `list` in the output, which loops read.
    width: int = 0
    # The number of pages; 0 for polling, which ends with an attempt number.
    pages: int = 0
    # Bytes added to the output to make it large.
    bulk: int = 0
    # The actions of iterations, used in turn by index.
    iteration_actions: tuple[tuple[str, ...], ...] = ()

    def action(self, attempt: int, index: int | None) -> str:
        """Return what this attempt does."""
        actions = self.actions
        if self.iteration_actions and index is not None:
            actions = self.iteration_actions[index % len(self.iteration_actions)]
        return actions[min(attempt, len(actions)) - 1]


class NodeDraft(Struct):
    """A node before it is compiled: its id, its dependencies and its options."""

    id: str
    parents: list[str]
    kind: NodeKind = NodeKind.TASK
    script: HandlerScript = HandlerScript()
    reads: list[str] = []
    # Nodes whose outputs are rendered in part, so that large ones must be loaded.
    partial_reads: list[str] = []
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
    """Return a loop over the value of a template."""
    return LoopPlan(
        compile_template(collection), ELEMENT, window, chunk_size, tolerant, timeout_seconds, mode
    )


def paging(
    collect: Collect = Collect.APPEND, *, calls_max: int = 10, delay_seconds: float = 0.0
) -> RetryOnSuccess:
    """Return a rule that requests one page after the other."""
    # Each call adds a mark that all following calls keep.
    next_call = {"query": {"page": "{{ response.next }}", "marks": "{{ response.marks }}"}}
    path = ("found", "items") if collect is Collect.APPEND else ()
    return RetryOnSuccess(
        compile_template("{{ response.more }}"),
        compile_template(next_call),
        collect,
        path,
        calls_max,
        delay_seconds,
    )


def polling(
    collect: Collect = Collect.REPLACE, *, calls_max: int = 10, delay_seconds: float = 0.0
) -> RetryOnSuccess:
    """Return a rule that repeats a call until its response is complete."""
    path = ("found", "items") if collect is Collect.APPEND else ()
    return RetryOnSuccess(
        compile_template("{{ response.more }}"), None, collect, path, calls_max, delay_seconds
    )


def compiled(workflow_id: str, drafts: Sequence[NodeDraft], *, fail_fast: bool = True,
             timeout_seconds: float | None = None, version: int = 1) -> Plan:  # fmt: skip
    """Return the plan of drafts in topological order."""
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
        has_pagination=any(node.on_success is not None for node in nodes),
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
        "reads": _reads(draft),
    }
    if draft.partial_reads:
        params["partial_reads"] = [
            f"{{{{ {parent}.output | length if {parent}.output else 0 }}}}"
            for parent in draft.partial_reads
        ]
    if draft.bad_template:
        params["broken"] = "{{ input.nothing_of_this_name }}"
    if draft.loop is not None:
        params |= {"element": f"{{{{ {ELEMENT} }}}}", "index": "{{ index }}"}
    if draft.calls is not None:
        params["query"] = {"page": 1, "size": 3}
    return params


def _reads(draft: NodeDraft) -> object:
    """Return templates for the outputs of other nodes; a fan-in that reads all its parents does so at once."""
    if len(draft.reads) > 1 and sorted(draft.reads) == sorted(draft.parents):
        return "{{ parents }}"
    return {parent: f"{{{{ {parent}.output }}}}" for parent in draft.reads}


def _sink(draft: NodeDraft) -> SinkPlan:
    about = "{{ index }}" if draft.loop is not None else "{{ input.n }}"
    return SinkPlan(SINK, compile_template({"table": "rows", "about": about}))
