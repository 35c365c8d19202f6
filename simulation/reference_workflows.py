"""Workflows that are run the same way each time: to enumerate crash points, and to reach what chance seldom does."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import Random

import msgspec
from msgspec import Raw, Struct

from simulation.faults import Fault, FaultAt, Life, can_happen
from simulation.processes import Setting
from simulation.simulator import Report, Simulation
from simulation.small_bounds import LARGE_BYTES
from simulation.workflow_drafts import (
    DIES,
    ERROR,
    FATAL,
    FLAKY,
    KILLS,
    OK,
    NodeDraft,
    Script,
    compiled,
    loop_over,
    paging,
    polling,
)
from windlass.core.plan import Collect, NodeKind, Plan, RetryOnError
from windlass.ports.control import Submit

_QUICK = RetryOnError(attempts_max=3, initial_delay_seconds=0.1, jitter=0.0)


class Reference(Struct, frozen=True):
    """A workflow, and what is asked of it once it was submitted."""

    plan: Plan
    acts: Callable[[Simulation, str], Awaitable[None]] | None = None


def thirty_nodes() -> Reference:
    """Everything a workflow without loops may have: fans, a join, skips, retries, failures that are allowed."""
    drafts = [NodeDraft("start", [], NodeKind.START), NodeDraft("first", ["start"], reads=[])]
    drafts += [NodeDraft(f"wide{n}", ["first"], reads=["first"]) for n in range(12)]
    drafts[2].script, drafts[2].on_error = Script((FLAKY, ERROR, OK)), _QUICK
    drafts[3].script, drafts[3].on_error = Script((DIES, OK)), _QUICK
    drafts[4].script, drafts[4].allow_failure = Script((FATAL,)), True
    drafts[5].script = Script(work_seconds=0.5)
    drafts[6].script, drafts[6].allow_failure = Script((ERROR,)), True
    drafts[6].on_error = RetryOnError(attempts_max=2, initial_delay_seconds=0.0, jitter=0.0)
    wide = [f"wide{n}" for n in range(12)]
    drafts += [NodeDraft("join", wide, reads=wide)]
    drafts += [NodeDraft("never", ["join"], when="{{ input.off }}"), NodeDraft("nor_this", ["never"])]
    drafts += [NodeDraft("anyway", ["nor_this"], run_if_skipped=True, reads=["nor_this"])]
    drafts += [NodeDraft("left", ["join"], reads=["join"]), NodeDraft("right", ["join"], reads=["join"])]
    drafts += [NodeDraft("diamond", ["left", "right"], reads=["left", "right"])]
    drafts += [NodeDraft(f"chain{n}", [f"chain{n - 1}" if n else "diamond"], priority=n % 2) for n in range(7)]
    drafts += [NodeDraft("last", ["chain6", "anyway", "nor_this"], when="{{ join.output.flag }}", reads=["anyway"])]
    drafts += [NodeDraft("end", ["last"], NodeKind.END)]
    return Reference(compiled("thirty_nodes", drafts, fail_fast=False))


def pages_in_a_loop() -> Reference:
    """A loop whose iterations page by themselves into a sink; one call flakes, one loses its process."""
    acts = ((OK, FLAKY, OK), (OK,), (DIES, OK))
    pages = NodeDraft("pages", ["source"], reads=["source"], glances=["source"], on_error=_QUICK, sinks=True)
    pages.script = Script(work_seconds=0.05, pages=2, others=acts, bulk=LARGE_BYTES)
    pages.loop = loop_over("{{ source.output.list }}", window=2)
    pages.calls = paging(Collect.APPEND)
    drafts = [
        NodeDraft("source", [], script=Script(width=3, bulk=LARGE_BYTES)),
        pages,
        NodeDraft("reader", ["pages"], reads=["pages"], glances=["pages"], when="{{ pages.output | length == 3 }}"),
    ]
    return Reference(compiled("pages_in_a_loop", drafts))


def loops_of_all_kinds() -> Reference:
    """Loops in order, in chunks, tolerant, bounded; cancelled in the middle, retried, and run anew."""
    order = NodeDraft("order", ["source"], reads=["source"], on_error=_QUICK, sinks=True)
    order.script = Script(work_seconds=0.3, others=((FATAL, FLAKY, OK), (FATAL, FLAKY, OK), (OK,), (OK,)))
    order.loop = loop_over("{{ input.items }}", mode="sequential", tolerant=True)
    chunks = NodeDraft("chunks", ["source"], on_error=_QUICK, reads=["source"], sinks=True)
    chunks.script = Script(work_seconds=0.2, bulk=LARGE_BYTES, others=((OK,), (FLAKY, OK)))
    chunks.loop = loop_over("{{ source.output.list }}", window=2, chunk_size=2)
    polls = NodeDraft("polls", ["source"], on_error=_QUICK, when="{{ index != 1 }}")
    polls.script = Script(work_seconds=0.1)
    polls.loop = loop_over([1, 2, "{{ input.off }}"], window=3)
    polls.calls = polling(Collect.COLLECT, delay_seconds=0.2)
    bounded = NodeDraft("bounded", ["source"], allow_failure=True, script=Script(work_seconds=0.4))
    bounded.loop = loop_over(list(range(40)), window=1, timeout_seconds=1.0)
    drafts = [
        NodeDraft("source", [], script=Script(width=5)),
        *(order, chunks, polls, bounded),
        NodeDraft("reader", ["order", "chunks", "polls", "bounded"], reads=["order", "chunks", "polls"]),
    ]
    return Reference(compiled("loops_of_all_kinds", drafts, fail_fast=False), _disturb)


def a_task_that_kills() -> Reference:
    """A task that ends its worker each time, until it fails for that; then it comes once more."""
    drafts = [
        NodeDraft("poison", [], script=Script((KILLS,)), allow_failure=True),
        NodeDraft("items", [], script=Script(others=((KILLS,), (OK,)))),
    ]
    drafts[1].loop = loop_over([1, 2], window=1, tolerant=True)
    return Reference(compiled("a_task_that_kills", drafts, fail_fast=False), _publish_again)


def a_bounded_job() -> Reference:
    """A job that ends in time, unless the clock of its first round counts for the second."""
    drafts = [NodeDraft("work", [], script=Script(work_seconds=0.8))]
    return Reference(compiled("a_bounded_job", drafts, timeout_seconds=1.0), _begin_again)


async def _begin_again(simulation: Simulation, job_id: str) -> None:
    await asyncio.sleep(0.5)
    await simulation.cancel(job_id)
    await simulation.retry(job_id)


async def _publish_again(simulation: Simulation, job_id: str) -> None:
    await simulation.settle()
    await simulation.crew.publish_again()


async def _disturb(simulation: Simulation, job_id: str) -> None:
    await asyncio.sleep(0.8)
    await simulation.cancel(job_id)
    await simulation.settle()
    await simulation.retry(job_id)
    await asyncio.sleep(0.5)
    await simulation.cancel(job_id)
    await simulation.retry(job_id)
    await simulation.settle()
    await simulation.retry(job_id, "source")
    await simulation.settle()


Disaster = Callable[[Simulation], None]


def run_reference(reference: Reference, chooser: FaultAt, setting: Setting, disaster: Disaster | None = None) -> Report:
    """A reference once, with a fault at one call, or with something else that happens just before it."""
    simulation = Simulation(setting, chooser, Random(1))
    # Shards that change hands take their time, too.
    simulation.undisturbed = chooser.fault is None and disaster is None and not setting.engines
    # What a process was about to send when it was stopped arrives when it goes on.
    simulation.results_last &= chooser.fault is not Fault.STOP
    if disaster is not None:
        chooser.disaster = lambda: disaster(simulation)
    plan = reference.plan

    async def play() -> None:
        await simulation.deploy(plan)
        body = Raw(msgspec.json.encode({"off": False, "items": [1, 2, 3, 4]}))
        job_id = await simulation.submit(Submit(plan.workflow_id, plan.version, body, 0, "the key", "the digest"))
        if reference.acts is not None and job_id is not None:
            await reference.acts(simulation, job_id)
        await simulation.settle()

    return simulation.run(play)


# How references are run to enumerate their crash points.
REFERENCE_SETTINGS = {
    "the broker dies with the engine": Setting(embedded=True),
    "the broker survives the engine": Setting(embedded=False, workers=2, concurrency=4, tight=True),
}


# Engines that take over from one another as soon as one does not answer.
SHARED_SETTING = Setting(
    embedded=False, workers=2, engines=2, shards=2, lease_seconds=3.0, sweep_seconds=2.0, tight=True
)


def crash_points(reference: Reference, setting: Setting, fault: Fault) -> Iterator[tuple[str, Report]]:
    """The reference once for each call it makes, with the fault at that call; which call, and what came of it."""
    counter = FaultAt()
    run_reference(reference, counter, setting)
    for number, call in enumerate(counter.calls):
        if can_happen(fault, call.partition(".")[2]):
            yield f"call {number} ({call})", run_reference(reference, FaultAt(number, fault), setting)


def flush_points(reference: Reference, setting: Setting) -> Iterator[tuple[str, Report]]:
    """The reference once for each call it makes, with the broker losing everything just before that call."""
    counter = FaultAt()
    run_reference(reference, counter, setting)
    for number, call in enumerate(counter.calls):
        report = run_reference(reference, FaultAt(number), setting, lambda simulation: simulation.crew.flush_broker())
        yield f"call {number} ({call})", report


def forgotten_points(reference: Reference, setting: Setting) -> Iterator[tuple[str, Report]]:
    """The reference once for each commit, which fails when all workers die: only the inbox knows the results."""
    counter = FaultAt()
    run_reference(reference, counter, setting)
    for number, call in enumerate(counter.calls):
        if call == "store.commit":
            chooser = FaultAt(number, Fault.FAIL_BEFORE)
            report = run_reference(reference, chooser, setting, lambda simulation: simulation.crew.kill_workers())
            yield f"call {number} ({call})", report


def former_owner_reads_on() -> Report:
    """An engine is stopped past its lease, and goes on while nobody who could has read the newest result yet."""
    # Nobody looks whose the shard is for a long time.
    setting = Setting(embedded=False, engines=2, shards=1, sweep_seconds=60.0)
    simulation = Simulation(setting, FaultAt(), Random(1))
    drafts = [
        NodeDraft("a", [], script=Script(work_seconds=8.0)),
        NodeDraft("b", ["a"], script=Script(work_seconds=2.0)),
    ]
    plan = compiled("former_owner", drafts)

    async def owner() -> Life:
        [lease] = (await simulation.store.leases.ownership()).leases
        lives = [post.life for post in simulation.crew.posts if post.life is not None]
        return next(life for life in lives if life.name == lease.owner)

    async def play() -> None:
        await simulation.deploy(plan)
        await simulation.submit(Submit(plan.workflow_id, plan.version, Raw(b"{}"), 0, "the key", "the digest"))
        await asyncio.sleep(1.0)
        former = await owner()
        former.pause()
        # The other one has the shard by now, and the first node has ended there.
        await asyncio.sleep(8.5)
        (await owner()).kill()
        # The second node has ended, too, and the lease of the dead one lasts. Nobody else remembers the result.
        await asyncio.sleep(1.5)
        simulation.crew.kill_workers()
        former.resume()
        await simulation.settle()

    return simulation.run(play)
