"""Random workflows for simulations, with loops, pagination and sinks."""

from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from simulation.workflow_drafts import (
    DIES,
    ELEMENT,
    ERROR,
    EVICTED,
    FATAL,
    FLAKY,
    KILLS,
    LATER,
    LIMITED,
    NULL,
    OK,
    SLOW,
    STUBBORN,
    HandlerScript,
    NodeDraft,
    compiled,
    loop_over,
    paging,
    polling,
)
from windlass.core.plan import (
    FAIL_EXHAUSTED,
    Backoff,
    Collect,
    LoopPlan,
    NodeKind,
    Plan,
    RetryOnError,
    RetryOnSuccess,
)

NODES_MAX = 14
ITERATIONS_MAX = 7


class WorkloadProfile(Struct, frozen=True):
    """The character of the nodes of one workflow."""

    # Whether handlers rarely fail.
    reliable: bool
    # The shares of nodes with loops, with pagination, and with sinks.
    loops: float
    calls: float
    sinks: float
    # The size of large outputs, or 0 for none.
    large_bytes: int = 0


def random_plan(workflow_id: str, random: Random, large_bytes: int = 0) -> Plan:
    """Return a workflow of a random shape whose nodes have random rules and scripts."""
    looping = random.random() < 0.6
    profile = WorkloadProfile(
        reliable=random.random() < 0.4,
        loops=random.choice([0.15, 0.4]) if looping else 0.0,
        calls=random.choice([0.0, 0.2, 0.4]) if looping else 0.0,
        sinks=random.choice([0.0, 0.4]),
        large_bytes=large_bytes if random.random() < 0.7 else 0,
    )
    edges = _shape(random, NODES_MAX if not looping else NODES_MAX // 2)
    drafts: dict[str, NodeDraft] = {}
    for name, parents in edges.items():
        drafts[name] = _draft(name, parents, random, profile, drafts)
    nodes = list(drafts.values())
    # Without drawing from `random`, so that the other plans of known seeds stay as they are.
    extra = Random(sum(random.getstate()[1][:4]))
    if extra.random() < 0.4:
        for draft in nodes:
            _add_bounds(draft, extra)
    evicting = Random(sum(random.getstate()[1][1:5]))
    if evicting.random() < 0.2:
        for draft in nodes:
            _add_evictions(draft, evicting)
    if random.random() < 0.7:
        nodes = _framed(nodes)
    timeout = random.choice([2.0, 8.0, 30.0]) if random.random() < 0.15 else None
    return compiled(workflow_id, nodes, fail_fast=random.random() < 0.5, timeout_seconds=timeout)


def _add_evictions(draft: NodeDraft, random: Random) -> None:
    """Let the cluster evict the pods of the first attempts."""
    evictions = (EVICTED,) * random.randint(0, 3)
    draft.script = msgspec.structs.replace(
        draft.script,
        actions=(*evictions, *draft.script.actions),
        iteration_actions=tuple(
            (*evictions, *actions) for actions in draft.script.iteration_actions
        ),
    )


def _add_bounds(draft: NodeDraft, random: Random) -> None:
    """Add rate limits, bounds on the failures of a loop, and a rule for too many pages."""
    replace = msgspec.structs.replace
    if random.random() < 0.5:
        limits = (LIMITED,) * random.randint(1, 4)
        script = draft.script
        draft.script = replace(
            script,
            actions=(*limits, *script.actions),
            iteration_actions=tuple(
                (*limits, *actions) if random.random() < 0.5 else actions
                for actions in script.iteration_actions
            ),
        )
        draft.on_error = replace(
            draft.on_error, rate_limited_max_seconds=random.choice([0.0, 1.0, 60.0])
        )
    if draft.loop is not None and draft.loop.tolerant:
        draft.loop = replace(
            draft.loop,
            failed_max=random.choice([None, 0, 1, 3]),
            failure_rate_max=random.choice([None, 0.0, 0.4, 1.0]),
        )
        if random.random() < 0.3:
            # Only some iterations run, and all of those fail.
            draft.loop = replace(draft.loop, failed_max=None, failure_rate_max=None)
            draft.when = "{{ index % 2 == 0 }}"
            draft.script = replace(draft.script, iteration_actions=((FATAL,), (OK,)))
    if draft.calls is not None and random.random() < 0.5:
        draft.calls = replace(draft.calls, on_exhausted=FAIL_EXHAUSTED)


def _framed(drafts: list[NodeDraft]) -> list[NodeDraft]:
    """Add a START before and an END after all nodes."""
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


def _shape(random: Random, nodes_max: int) -> dict[str, list[str]]:
    count = random.randint(1, nodes_max)
    names = [f"n{number}" for number in range(count)]
    match random.choice(["chain", "fan", "diamond", "random", "random", "random"]):
        case "chain":
            return {name: names[:at][-1:] for at, name in enumerate(names)}
        case "fan" if count > 2:
            return {
                names[0]: [],
                **{name: [names[0]] for name in names[1:-1]},
                names[-1]: names[1:-1],
            }
        case "diamond":
            pairs = {name: (at - 1) // 2 * 2 for at, name in enumerate(names)}
            return {
                name: names[max(0, end - 1) : end + 1] if end >= 0 else []
                for name, end in pairs.items()
            }
        case _:
            return {
                name: sorted(
                    random.sample(names[:at], random.randint(0, min(at, 3))), key=names.index
                )
                for at, name in enumerate(names)
            }


def _draft(
    name: str,
    parents: list[str],
    random: Random,
    profile: WorkloadProfile,
    known: dict[str, NodeDraft],
) -> NodeDraft:
    reliable = profile.reliable
    draft = NodeDraft(name, list(parents))
    draft.reads = [parent for parent in parents if random.random() < 0.6]
    draft.partial_reads = [parent for parent in parents if random.random() < 0.3]
    script = HandlerScript(
        actions=_actions(random, reliable=reliable),
        work_seconds=random.choice([0.0, 0.0, 0.01, 0.1, 0.4, 2.0]),
        flag=random.random() < 0.7,
        width=random.choice([0, 1, 3, 5]),
        bulk=profile.large_bytes if profile.large_bytes and random.random() < 0.5 else 0,
    )
    draft.priority = random.randint(-1, 1)
    if random.random() < 0.25:
        draft.when = _condition(parents, random, known)
    draft.allow_failure = random.random() < 0.15
    draft.run_if_skipped = random.random() < 0.2
    draft.bad_template = not reliable and random.random() < 0.02
    if random.random() < (0.3 if reliable else 0.6):
        draft.on_error = _rule(random)
    if random.random() < profile.loops:
        draft.loop = _loop(parents, random, known)
        draft.when = _condition_of_iterations(random) if random.random() < 0.3 else draft.when
        iteration_actions = tuple(
            _actions(random, reliable=reliable) for _ in range(random.randint(1, 4))
        )
        script = msgspec.structs.replace(
            script, iteration_actions=iteration_actions, work_seconds=min(script.work_seconds, 0.4)
        )
    if random.random() < profile.calls:
        draft.calls = _calls(
            random, chunked=draft.loop is not None and draft.loop.chunk_size is not None
        )
        script = msgspec.structs.replace(script, pages=random.choice([0, 1, 2, 3, 4]))
    draft.redeliveries_max = random.choice([0, 1, 2, 5])
    draft.sinks = random.random() < profile.sinks
    draft.script = script
    all_actions = {
        action for actions in (script.actions, *script.iteration_actions) for action in actions
    }
    if SLOW in all_actions or STUBBORN in all_actions:
        draft.timeout_seconds = random.choice([0.2, 1.0, 3.0])
    return draft


def _actions(random: Random, *, reliable: bool) -> tuple[str, ...]:
    if random.random() < (0.9 if reliable else 0.6):
        return (NULL,) if random.random() < 0.05 else (OK,)
    bad = [ERROR, ERROR, FLAKY, FLAKY, LATER, FATAL, SLOW, STUBBORN, DIES]
    if not reliable and random.random() < 0.1:
        bad = [KILLS]
    failures = tuple(random.choice(bad) for _ in range(random.randint(1, 3)))
    if random.random() < 0.3:
        failures = (OK, *failures)
    return failures if random.random() < 0.2 else (*failures, OK)


def _condition(parents: list[str], random: Random, known: dict[str, NodeDraft]) -> str:
    if parents and random.random() < 0.5:
        # A condition on the output of a skipped or failed parent fails, which must be handled too.
        parent = random.choice(parents)
        if _brings_list(known[parent]):
            return f"{{{{ {parent}.output | length > 1 }}}}"
        if random.random() < 0.2:
            return f"{{{{ {parent}.output.flag }}}}"
        return f"{{{{ {parent}.output and {parent}.output.flag }}}}"
    return "{{ input.flag }}" if random.random() < 0.7 else "{{ not input.flag }}"


def _condition_of_iterations(random: Random) -> str:
    text = [
        "{{ index != 1 }}",
        "{{ index % 2 == 0 }}",
        f"{{{{ {ELEMENT} and input.flag }}}}",
        f"{{{{ {ELEMENT} != 2 and index < 3 }}}}",
        f"{{{{ {ELEMENT}.nothing_of_this_name }}}}",
    ]
    return random.choices(text, [4, 4, 4, 4, 1])[0]


def _brings_list(draft: NodeDraft) -> bool:
    return draft.loop is not None or (
        draft.calls is not None and draft.calls.collect is not Collect.REPLACE
    )


def _loop(parents: list[str], random: Random, known: dict[str, NodeDraft]) -> LoopPlan:
    mode = random.choice(["async", "async", "sequential"])
    return loop_over(
        _collection(parents, random, known),
        window=1 if mode == "sequential" else random.choice([1, 2, 3, 20]),
        chunk_size=random.choice([None, None, None, 2, 3]),
        tolerant=random.random() < 0.4,
        timeout_seconds=random.choice([1.0, 5.0]) if random.random() < 0.1 else None,
        mode=mode,
    )


def _collection(parents: list[str], random: Random, known: dict[str, NodeDraft]) -> object:
    roll = random.random()
    if parents and roll < 0.5:
        parent = random.choice(parents)
        if _brings_list(known[parent]):
            return f"{{{{ {parent}.output or [] }}}}"
        return f"{{{{ {parent}.output.list if {parent}.output else [7] }}}}"
    if roll < 0.75:
        return "{{ input.items }}"
    if roll < 0.8:
        return "{{ input.n }}"
    if roll < 0.9 and known:
        # The states of other branches change over time, so they must be read once.
        return [f"{{{{ nodes.{name}.status }}}}" for name in known]
    return [*range(random.randint(0, ITERATIONS_MAX)), "{{ input.n }}"]


def _calls(random: Random, *, chunked: bool) -> RetryOnSuccess:
    make = random.choice([paging, paging, polling])
    # The output of a chunk must be a list.
    collect = random.choice([Collect.APPEND, Collect.COLLECT] if chunked else list(Collect))
    return make(
        collect,
        calls_max=random.choice([1, 2, 3, 10]),
        delay_seconds=random.choice([0.0, 0.0, 0.05, 0.7]),
    )


def _rule(random: Random) -> RetryOnError:
    return RetryOnError(
        attempts_max=random.randint(1, 4),
        backoff=random.choice(list(Backoff)),
        initial_delay_seconds=random.choice([0.0, 0.05, 0.5, 2.0]),
        multiplier=random.choice([1.0, 2.0, 3.0]),
        max_delay_seconds=random.choice([0.2, 3.0]),
        jitter=random.choice([0.0, 0.1, 1.0]),
    )


def random_input(random: Random) -> dict[str, Any]:
    """Return a random input of a job."""
    items = [random.randint(0, 9) for _ in range(random.randint(0, ITERATIONS_MAX))]
    return {"flag": random.random() < 0.7, "n": random.randint(0, 9), "items": items}
