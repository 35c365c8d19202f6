"""Random work for simulations: workflows of every shape, and nodes whose handlers follow a script."""

from array import array
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
from msgspec import Raw, Struct

from windlass.core.plan import NO_RETRY, Backoff, NodeKind, NodePlan, Plan, RetryOnError
from windlass.core.templates import compile_template

NODES_MAX = 14
HANDLER = "scripted"

# How one attempt of a scripted node goes.
OK, NULL, ERROR, FLAKY, LATER, FATAL, SLOW, STUBBORN, DIES = (
    "ok", "null", "error", "flaky", "later", "fatal", "slow", "stubborn", "dies",
)  # fmt: skip


class Script(Struct, frozen=True):
    """What a node's handler does: attempt n follows the n-th act, and those beyond the last one follow the last."""

    acts: tuple[str, ...] = (OK,)
    work_seconds: float = 0.0
    # What the output says in `flag`, which conditions read.
    flag: bool = True

    def act(self, attempt: int) -> str:
        """What this attempt does."""
        return self.acts[min(attempt, len(self.acts)) - 1]


class NodeDraft(Struct):
    """A node before it is compiled: its id, what it depends on, and all that an author may say about it."""

    id: str
    parents: list[str]
    kind: NodeKind = NodeKind.TASK
    script: Script = Script()
    reads: list[str] = []
    when: str | None = None
    timeout_seconds: float = 300.0
    priority: int = 0
    allow_failure: bool = False
    run_if_skipped: bool = False
    on_error: RetryOnError = NO_RETRY
    bad_template: bool = False


def compiled(workflow_id: str, drafts: Sequence[NodeDraft], *, fail_fast: bool = True,
             timeout_seconds: float | None = None, version: int = 1) -> Plan:  # fmt: skip
    """The plan of drafts that stand in topological order."""
    index = {draft.id: number for number, draft in enumerate(drafts)}
    parents = [tuple(index[parent] for parent in draft.parents) for draft in drafts]
    children: list[list[int]] = [[] for _ in drafts]
    for child, numbers in enumerate(parents):
        for parent in numbers:
            children[parent].append(child)
    return Plan(
        workflow_id=workflow_id,
        version=version,
        nodes=[_node(draft) for draft in drafts],
        index=index,
        parents=parents,
        children=[tuple(numbers) for numbers in children],
        dependency_counts=array("l", [len(numbers) for numbers in parents]),
        fail_fast=fail_fast,
        timeout_seconds=timeout_seconds,
    )


def _node(draft: NodeDraft) -> NodePlan:
    if draft.kind is not NodeKind.TASK:
        return NodePlan(id=draft.id, kind=draft.kind)
    params: dict[str, Any] = {
        "script": msgspec.to_builtins(draft.script),
        "reads": {parent: f"{{{{ {parent}.output }}}}" for parent in draft.reads},
    }
    if draft.bad_template:
        params["broken"] = "{{ input.nothing_of_this_name }}"
    return NodePlan(
        id=draft.id,
        handler=HANDLER,
        params=compile_template(params),
        when=None if draft.when is None else compile_template(draft.when),
        timeout_seconds=draft.timeout_seconds,
        priority=draft.priority,
        allow_failure=draft.allow_failure,
        run_if_skipped=draft.run_if_skipped,
        on_error=draft.on_error,
    )


def random_plan(workflow_id: str, chance: Random) -> Plan:
    """A workflow of a random shape whose nodes have random rules and scripts."""
    edges = _shape(chance)
    calm = chance.random() < 0.4
    drafts = [_draft(name, parents, chance, calm=calm) for name, parents in edges.items()]
    if chance.random() < 0.7:
        drafts = _framed(drafts)
    timeout = chance.choice([2.0, 8.0, 30.0]) if chance.random() < 0.15 else None
    return compiled(workflow_id, drafts, fail_fast=chance.random() < 0.5, timeout_seconds=timeout)


def _framed(drafts: list[NodeDraft]) -> list[NodeDraft]:
    """With a START before and an END after everything."""
    inner = {parent for draft in drafts for parent in draft.parents}
    for draft in drafts:
        if not draft.parents:
            draft.parents = ["start"]
    last = [draft.id for draft in drafts if draft.id not in inner]
    return [
        NodeDraft("start", [], NodeKind.START),
        *drafts,
        NodeDraft("end", last, NodeKind.END),
    ]


def _shape(chance: Random) -> dict[str, list[str]]:
    count = chance.randint(1, NODES_MAX)
    names = [f"n{number}" for number in range(count)]
    match chance.choice(["chain", "fan", "diamond", "random", "random", "random"]):
        case "chain":
            return {name: names[at - 1 : at] if at else [] for at, name in enumerate(names)}
        case "fan" if count > 2:
            return {names[0]: [], **{name: [names[0]] for name in names[1:-1]}, names[-1]: names[1:-1]}
        case "diamond":
            pairs = {name: (at - 1) // 2 * 2 for at, name in enumerate(names)}
            return {name: names[max(0, end - 1) : end + 1] if end >= 0 else [] for name, end in pairs.items()}
        case _:
            return {
                name: sorted(chance.sample(names[:at], chance.randint(0, min(at, 3))), key=names.index)
                for at, name in enumerate(names)
            }


def _draft(name: str, parents: list[str], chance: Random, *, calm: bool) -> NodeDraft:
    draft = NodeDraft(name, list(parents))
    draft.reads = [parent for parent in parents if chance.random() < 0.6]
    work_seconds = chance.choice([0.0, 0.0, 0.01, 0.1, 0.4, 2.0])
    draft.script = Script(_acts(chance, calm=calm), work_seconds, chance.random() < 0.7)
    draft.priority = chance.randint(-1, 1)
    if chance.random() < 0.25:
        draft.when = _condition(parents, chance)
    draft.allow_failure = chance.random() < 0.15
    draft.run_if_skipped = chance.random() < 0.2
    draft.bad_template = not calm and chance.random() < 0.02
    if SLOW in draft.script.acts or STUBBORN in draft.script.acts:
        draft.timeout_seconds = chance.choice([0.2, 1.0, 3.0])
    if chance.random() < (0.3 if calm else 0.6):
        draft.on_error = _rule(chance)
    return draft


def _acts(chance: Random, *, calm: bool) -> tuple[str, ...]:
    if chance.random() < (0.9 if calm else 0.6):
        return (NULL,) if chance.random() < 0.05 else (OK,)
    bad = [ERROR, ERROR, FLAKY, FLAKY, LATER, FATAL, SLOW, STUBBORN, DIES]
    failures = tuple(chance.choice(bad) for _ in range(chance.randint(1, 3)))
    return failures if chance.random() < 0.2 else (*failures, OK)


def _condition(parents: list[str], chance: Random) -> str:
    if parents and chance.random() < 0.5:
        # A parent that was skipped or failed has no output, and then the condition fails: that is a case too.
        parent = chance.choice(parents)
        if chance.random() < 0.2:
            return f"{{{{ {parent}.output.flag }}}}"
        return f"{{{{ {parent}.output and {parent}.output.flag }}}}"
    return "{{ input.flag }}" if chance.random() < 0.7 else "{{ not input.flag }}"


def _rule(chance: Random) -> RetryOnError:
    return RetryOnError(
        attempts_max=chance.randint(1, 4),
        backoff=chance.choice(list(Backoff)),
        initial_delay_seconds=chance.choice([0.0, 0.05, 0.5, 2.0]),
        multiplier=chance.choice([1.0, 2.0, 3.0]),
        max_delay_seconds=chance.choice([0.2, 3.0]),
        jitter=chance.choice([0.0, 0.1, 1.0]),
    )


def random_input(chance: Random) -> Raw:
    """A job's input."""
    return Raw(msgspec.json.encode({"flag": chance.random() < 0.7, "n": chance.randint(0, 9)}))
