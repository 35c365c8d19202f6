"""Fixed workflows: to enumerate crash points, and to reach cases that random ones rarely reach."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import Random

from msgspec import Struct

from simulation.faults import Fault, FaultAtCall, SimulatedProcess, can_happen
from simulation.processes import SystemConfig
from simulation.simulator import Simulation, SimulationReport
from simulation.small_bounds import LARGE_BYTES
from simulation.workflow_drafts import (
    DIES,
    ERROR,
    FATAL,
    FLAKY,
    KILLS,
    OK,
    HandlerScript,
    NodeDraft,
    compiled,
    loop_over,
    paging,
    polling,
)
from windlass.core.plan import Collect, NodeKind, Plan, RetryOnError
from windlass.core.submit_request import SubmitRequest

_QUICK = RetryOnError(attempts_max=3, initial_delay_seconds=0.1, jitter=0.0)


class ReferenceWorkflow(Struct, frozen=True):
    """A workflow, and the requests made after it was submitted."""

    plan: Plan
    requests: Callable[[Simulation, str], Awaitable[None]] | None = None


def thirty_nodes() -> ReferenceWorkflow:
    """Return a workflow with everything but loops: fans, a join, skips, retries, allowed failures."""
    drafts = [NodeDraft("start", [], NodeKind.START), NodeDraft("first", ["start"], reads=[])]
    drafts += [NodeDraft(f"wide{n}", ["first"], reads=["first"]) for n in range(12)]
    drafts[2].script, drafts[2].on_error = HandlerScript((FLAKY, ERROR, OK)), _QUICK
    drafts[3].script, drafts[3].on_error = HandlerScript((DIES, OK)), _QUICK
    drafts[4].script, drafts[4].allow_failure = HandlerScript((FATAL,)), True
    drafts[5].script = HandlerScript(work_seconds=0.5)
    drafts[6].script, drafts[6].allow_failure = HandlerScript((ERROR,)), True
    drafts[6].on_error = RetryOnError(attempts_max=2, initial_delay_seconds=0.0, jitter=0.0)
    wide = [f"wide{n}" for n in range(12)]
    drafts += [NodeDraft("join", wide, reads=wide)]
    drafts += [
        NodeDraft("never", ["join"], when="{{ input.off }}"),
        NodeDraft("nor_this", ["never"]),
    ]
    drafts += [NodeDraft("anyway", ["nor_this"], run_if_skipped=True, reads=["nor_this"])]
    drafts += [
        NodeDraft("left", ["join"], reads=["join"]),
        NodeDraft("right", ["join"], reads=["join"]),
    ]
    drafts += [NodeDraft("diamond", ["left", "right"], reads=["left", "right"])]
    drafts += [
        NodeDraft(f"chain{n}", [f"chain{n - 1}" if n else "diamond"], priority=n % 2)
        for n in range(7)
    ]
    drafts += [
        NodeDraft(
            "last",
            ["chain6", "anyway", "nor_this"],
            when="{{ join.output.flag }}",
            reads=["anyway"],
        )
    ]
    drafts += [NodeDraft("end", ["last"], NodeKind.END)]
    return ReferenceWorkflow(compiled("thirty_nodes", drafts, fail_fast=False))


def pages_in_a_loop() -> ReferenceWorkflow:
    """Return a loop of paginated iterations that write to a sink; one call fails once, one loses its process."""
    actions = ((OK, FLAKY, OK), (OK,), (DIES, OK))
    pages = NodeDraft(
        "pages", ["source"], reads=["source"], partial_reads=["source"], on_error=_QUICK, sinks=True
    )
    pages.script = HandlerScript(
        work_seconds=0.05, pages=2, iteration_actions=actions, bulk=LARGE_BYTES
    )
    pages.loop = loop_over("{{ source.output.list }}", window=2)
    pages.calls = paging(Collect.APPEND)
    drafts = [
        NodeDraft("source", [], script=HandlerScript(width=3, bulk=LARGE_BYTES)),
        pages,
        NodeDraft(
            "reader",
            ["pages"],
            reads=["pages"],
            partial_reads=["pages"],
            when="{{ pages.output | length == 3 }}",
        ),
    ]
    return ReferenceWorkflow(compiled("pages_in_a_loop", drafts))


def loops_of_all_kinds() -> ReferenceWorkflow:
    """Return sequential, chunked, tolerant and time-limited loops; cancelled, retried and run again."""
    order = NodeDraft("order", ["source"], reads=["source"], on_error=_QUICK, sinks=True)
    order.script = HandlerScript(
        work_seconds=0.3, iteration_actions=((FATAL, FLAKY, OK), (FATAL, FLAKY, OK), (OK,), (OK,))
    )
    order.loop = loop_over("{{ input.items }}", mode="sequential", tolerant=True)
    chunks = NodeDraft("chunks", ["source"], on_error=_QUICK, reads=["source"], sinks=True)
    chunks.script = HandlerScript(
        work_seconds=0.2, bulk=LARGE_BYTES, iteration_actions=((OK,), (FLAKY, OK))
    )
    chunks.loop = loop_over("{{ source.output.list }}", window=2, chunk_size=2)
    polls = NodeDraft("polls", ["source"], on_error=_QUICK, when="{{ index != 1 }}")
    polls.script = HandlerScript(work_seconds=0.1)
    polls.loop = loop_over([1, 2, "{{ input.off }}"], window=3)
    polls.calls = polling(Collect.COLLECT, delay_seconds=0.2)
    bounded = NodeDraft(
        "bounded", ["source"], allow_failure=True, script=HandlerScript(work_seconds=0.4)
    )
    bounded.loop = loop_over(list(range(40)), window=1, timeout_seconds=1.0)
    drafts = [
        NodeDraft("source", [], script=HandlerScript(width=5)),
        *(order, chunks, polls, bounded),
        NodeDraft(
            "reader", ["order", "chunks", "polls", "bounded"], reads=["order", "chunks", "polls"]
        ),
    ]
    return ReferenceWorkflow(
        compiled("loops_of_all_kinds", drafts, fail_fast=False), _cancel_and_retry_often
    )


def a_task_that_kills() -> ReferenceWorkflow:
    """Return a task that kills its worker until it fails; then it is published again."""
    drafts = [
        NodeDraft("poison", [], script=HandlerScript((KILLS,)), allow_failure=True),
        NodeDraft("items", [], script=HandlerScript(iteration_actions=((KILLS,), (OK,)))),
    ]
    drafts[1].loop = loop_over([1, 2], window=1, tolerant=True)
    return ReferenceWorkflow(compiled("a_task_that_kills", drafts, fail_fast=False), _publish_again)


def a_bounded_job() -> ReferenceWorkflow:
    """Return a job that ends within its timeout, unless the time of its first round counts for the second."""
    drafts = [NodeDraft("work", [], script=HandlerScript(work_seconds=0.8))]
    return ReferenceWorkflow(
        compiled("a_bounded_job", drafts, timeout_seconds=1.0), _cancel_and_retry
    )


async def _cancel_and_retry(simulation: Simulation, job_id: str) -> None:
    await asyncio.sleep(0.5)
    await simulation.cancel(job_id)
    await simulation.retry(job_id)


async def _publish_again(simulation: Simulation, job_id: str) -> None:
    await simulation.settle()
    await simulation.supervisor.publish_again()


async def _cancel_and_retry_often(simulation: Simulation, job_id: str) -> None:
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


Disruption = Callable[[Simulation], None]


def run_reference(
    reference: ReferenceWorkflow,
    fault_plan: FaultAtCall,
    config: SystemConfig,
    disruption: Disruption | None = None,
) -> SimulationReport:
    """Run a reference workflow with a fault at one call, or a disruption just before it."""
    simulation = Simulation(config, fault_plan, Random(1))
    # Moving shards between engines takes time too.
    simulation.undisturbed = fault_plan.fault is None and disruption is None and not config.engines
    # What a stopped process was about to send arrives when it continues.
    simulation.results_are_final &= fault_plan.fault is not Fault.STOP
    if disruption is not None:
        fault_plan.disruption = lambda: disruption(simulation)
    plan = reference.plan

    async def main() -> None:
        await simulation.deploy(plan)
        given = {"off": False, "items": [1, 2, 3, 4]}
        job_id = await simulation.submit(
            SubmitRequest(plan.workflow_id, given, plan.version, "the-key")
        )
        if reference.requests is not None and job_id is not None:
            await reference.requests(simulation, job_id)
        await simulation.settle()

    return simulation.run(main)


# The systems in which crash points are enumerated.
REFERENCE_CONFIGS = {
    "the broker dies with the engine": SystemConfig(embedded=True),
    "the broker survives the engine": SystemConfig(
        embedded=False, workers=2, concurrency=4, tight=True
    ),
}

# Two engines that take over from each other.
SHARED_CONFIG = SystemConfig(
    embedded=False,
    workers=2,
    engines=2,
    shards=2,
    lease_seconds=3.0,
    sweep_seconds=2.0,
    tight=True,
    # The first engine owns all shards until the second one joins, and then gives one back.
    join_seconds_max=1.0,
)


Points = Iterator[tuple[str, SimulationReport]]


def _calls(reference: ReferenceWorkflow, config: SystemConfig) -> list[tuple[int, str]]:
    """Return the numbers and names of the calls in a run without faults."""
    counter = FaultAtCall()
    run_reference(reference, counter, config)
    return list(enumerate(counter.calls))


def crash_points(
    reference: ReferenceWorkflow, config: SystemConfig, fault: Fault, every: int = 1
) -> Points:
    """Run the workflow with the fault at each call (or one in `every`); yield the call and the report."""
    calls = [
        (number, call)
        for number, call in _calls(reference, config)
        if can_happen(fault, call.partition(".")[2])
    ]
    for number, call in calls[::every]:
        yield (
            f"call {number} ({call})",
            run_reference(reference, FaultAtCall(number, fault), config),
        )


def flush_points(reference: ReferenceWorkflow, config: SystemConfig, every: int = 1) -> Points:
    """Run the workflow with the broker losing its contents just before each call."""
    for number, call in _calls(reference, config)[::every]:
        plan = FaultAtCall(number)
        report = run_reference(
            reference, plan, config, lambda simulation: simulation.supervisor.flush_broker()
        )
        yield f"call {number} ({call})", report


def lost_commit_points(
    reference: ReferenceWorkflow, config: SystemConfig, every: int = 1
) -> Points:
    """Run the workflow with each commit failing while all workers die: only the inbox has the results."""
    commits = [
        (number, call) for number, call in _calls(reference, config) if call == "store.commit"
    ]
    for number, call in commits[::every]:
        plan = FaultAtCall(number, Fault.FAIL_BEFORE)
        report = run_reference(
            reference, plan, config, lambda simulation: simulation.supervisor.kill_workers()
        )
        yield f"call {number} ({call})", report


def former_owner_resumes() -> SimulationReport:
    """Pause an engine beyond its lease, and resume it before another engine has read the newest result."""
    # No sweep checks the ownership of the shard in the meantime.
    config = SystemConfig(embedded=False, engines=2, shards=1, sweep_seconds=60.0)
    simulation = Simulation(config, FaultAtCall(), Random(1))
    drafts = [
        NodeDraft("a", [], script=HandlerScript(work_seconds=8.0)),
        NodeDraft("b", ["a"], script=HandlerScript(work_seconds=2.0)),
    ]
    plan = compiled("former_owner", drafts)

    async def owner() -> SimulatedProcess:
        [lease] = (await simulation.store.leases.ownership()).leases
        processes = [
            engine_slot.process
            for engine_slot in simulation.supervisor.engine_slots
            if engine_slot.process is not None
        ]
        return next(process for process in processes if process.name == lease.owner)

    async def main() -> None:
        await simulation.deploy(plan)
        await simulation.submit(SubmitRequest(plan.workflow_id, {}, plan.version, "the-key"))
        await asyncio.sleep(1.0)
        former = await owner()
        former.pause()
        # The other engine owns the shard now, and the first node has ended there.
        await asyncio.sleep(8.5)
        (await owner()).kill()
        # The second node has ended too, and the dead engine's lease is valid. Only the inbox has the result.
        await asyncio.sleep(1.5)
        simulation.supervisor.kill_workers()
        former.resume()
        await simulation.settle()

    return simulation.run(main)
