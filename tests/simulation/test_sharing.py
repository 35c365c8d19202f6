"""Engines that share shards: which one may commit, publish and receive."""

from random import Random
from typing import Any

import pytest

from simulation.call_observer import CallObserver
from simulation.faults import Fault, FaultAtCall
from simulation.processes import SystemConfig
from simulation.reference_workflows import SHARED_CONFIG, former_owner_resumes
from simulation.scenarios import SHARING_EVERY, prepare_seed
from simulation.shared_broker import SharedBroker, SharedBrokerClient
from simulation.simulator import Simulation
from simulation.workflow_drafts import NodeDraft, compiled
from windlass.brokers.memory import MemoryBroker
from windlass.core.changes import Task
from windlass.core.messages import Submitted
from windlass.core.submit_request import SubmitRequest
from windlass.ports.broker import TaskClaim
from windlass.ports.store.leases import Lease
from windlass.testing.virtual_time import VirtualClock

SEEDS = range(SHARING_EVERY - 1, 60, SHARING_EVERY)


def chain_simulation(
    fault_plan: FaultAtCall, config: SystemConfig = SHARED_CONFIG
) -> tuple[Simulation, Any]:
    """Return a simulation with a chain of three nodes."""
    simulation = Simulation(config, fault_plan, Random(1))
    plan = compiled("chain", [NodeDraft("a", []), NodeDraft("b", ["a"]), NodeDraft("c", ["b"])])

    async def main() -> None:
        await simulation.deploy(plan)
        await simulation.submit(SubmitRequest(plan.workflow_id, {}, plan.version, "key"))
        await simulation.settle()

    return simulation, main


def call_number(wanted: str, place: int) -> int:
    """Return the number of a call of this kind in a run without faults."""
    counter = FaultAtCall()
    simulation, main = chain_simulation(counter)
    simulation.run(main)
    return [number for number, call in enumerate(counter.calls) if call == wanted][place]


def test_engine_stopped_after_its_commit_publishes_nothing() -> None:
    # The first commit dispatches the first node.
    fault_plan = FaultAtCall(call_number("store.commit", 0), Fault.STOP)
    simulation, main = chain_simulation(fault_plan)

    report = simulation.run(main)

    published = [call for call in fault_plan.calls if call == "broker.publish"]
    assert report.violations == []
    assert (report.executions, len(published)) == (3, 3)


def test_shards_of_a_stopped_engine_are_taken_over() -> None:
    simulation, main = chain_simulation(FaultAtCall(call_number("store.commit", 0), Fault.STOP))

    simulation.run(main)

    assert max(simulation.store.owner_epoch(shard) for shard in range(SHARED_CONFIG.shards)) > 1


def test_former_owner_acknowledges_nothing() -> None:
    report = former_owner_resumes()

    assert (report.violations, report.executions) == ([], 2)


def test_seeds_contain_engines_that_share_and_take_over() -> None:
    prepared = [prepare_seed(seed) for seed in SEEDS]
    for simulation, scenario in prepared:
        simulation.run(scenario.run)

    assert {simulation.config.engines for simulation, _ in prepared} == {2, 3}
    taken = [simulation.store.owner_epoch(0) for simulation, _ in prepared]
    assert sum(epoch > 2 for epoch in taken) > len(prepared) // 3


# The witness


def witness() -> CallObserver:
    found = CallObserver(is_shared=True, has_one_broker=True)
    found.call_finished("one", "leases.claim", (0, "one", 3.0), Lease(1, abandoned=False))
    return found


def describe(found: CallObserver) -> list[str]:
    return [violation.invariant for violation in found.violations]


def task(task_id: str = "j_a_1") -> Task:
    return Task(task_id=task_id, job_id="j", node_id="a", attempt=1, shard=0, handler="work", queue="default",
                priority=0, params=b"{}", timeout_seconds=1.0, idempotency_key="j_a")  # fmt: skip


def test_owner_may_commit_and_publish() -> None:
    found = witness()

    found.call_finished("one", "commit", (0, 1, None), None)
    found.call_started("one", "publish", ([task()],))

    assert describe(found) == []


def test_commit_with_an_old_epoch_is_a_violation() -> None:
    found = witness()
    found.call_finished("two", "leases.claim", (0, "two", 3.0), Lease(2, abandoned=True))

    found.call_finished("one", "commit", (0, 1, None), None)

    assert describe(found) == ["I5"]


def test_commit_with_the_epoch_of_another_is_a_violation() -> None:
    found = witness()

    found.call_finished("two", "commit", (0, 1, None), None)

    assert describe(found) == ["I5"]


def test_commit_after_the_lease_was_released_is_a_violation() -> None:
    found = witness()
    found.call_finished("one", "leases.release", (0, 1), None)

    found.call_finished("one", "commit", (0, 1, None), None)

    assert describe(found) == ["I5"]


def test_epoch_with_two_owners_is_a_violation() -> None:
    found = witness()

    found.call_finished("two", "leases.claim", (0, "two", 3.0), Lease(1, abandoned=True))

    assert describe(found) == ["I5"]


def test_refused_claim_changes_nothing() -> None:
    found = witness()

    found.call_finished("two", "leases.claim", (0, "two", 3.0), None)
    found.call_finished("one", "commit", (0, 1, None), None)

    assert describe(found) == []


def test_publish_by_a_former_owner_is_a_violation() -> None:
    found = witness()
    found.call_finished("two", "leases.claim", (0, "two", 3.0), Lease(2, abandoned=True))

    found.call_started("one", "publish", ([task()],))

    assert describe(found) == ["I5"]


@pytest.mark.parametrize(
    ("between", "arguments", "expected"),
    [
        ("extend", ("w1", ["j_a_1"]), ["I4"]),
        ("return_tasks", ("w1", ["j_a_1"]), []),
        ("cancel", (["j_a_1"],), []),
    ],
)
def test_task_held_by_two_workers_is_a_violation(
    between: str, arguments: tuple[Any, ...], expected: list[str]
) -> None:
    found = witness()
    found.call_finished("w1", "claim", ("w1", ["default"], 1, 0.0), [TaskClaim(task(), 1)])
    found.call_finished("w1", between, arguments, None)

    found.call_finished("w2", "claim", ("w2", ["default"], 1, 0.0), [TaskClaim(task(), 1)])

    assert describe(found) == expected


def test_delivery_after_a_loss_is_allowed() -> None:
    found = witness()
    found.call_finished("w1", "claim", ("w1", ["default"], 1, 0.0), [TaskClaim(task(), 1)])

    found.call_finished("w2", "claim", ("w2", ["default"], 1, 0.0), [TaskClaim(task(), 2)])

    assert describe(found) == []


# The broker that several processes share


def clients(count: int) -> list[SharedBrokerClient]:
    server = SharedBroker(VirtualClock())
    return [SharedBrokerClient(server) for _ in range(count)]


async def test_former_owner_that_keeps_reading_removes_nothing() -> None:
    former, owner = clients(2)
    await owner.send(0, [Submitted("a"), Submitted("b")])
    await former.receive(0, 10, 0.0)
    await owner.receive(0, 1, 0.0)
    await former.receive(0, 10, 0.0)
    await owner.acknowledge(0, 1)
    await owner.rewind(0)

    assert list(await owner.receive(0, 10, 0.0)) == [Submitted("b")]


async def test_process_acknowledges_only_what_it_received() -> None:
    owner, other = clients(2)
    await owner.send(0, [Submitted("a")])
    await owner.receive(0, 10, 0.0)
    await owner.send(0, [Submitted("b")])
    await owner.acknowledge(0, 5)

    assert list(await other.receive(0, 10, 0.0)) == [Submitted("b")]


async def test_acknowledgement_after_a_flush_removes_no_new_message() -> None:
    server = SharedBroker(VirtualClock())
    owner = SharedBrokerClient(server)
    await owner.send(0, [Submitted("a")])
    await owner.receive(0, 10, 0.0)
    server.lose_everything()
    await owner.send(0, [Submitted("b")])
    await owner.acknowledge(0, 1)

    assert list(await owner.receive(0, 10, 0.0)) == [Submitted("b")]


def test_client_of_a_shared_broker_has_every_call() -> None:
    [seat] = clients(1)
    calls = [name for name in vars(MemoryBroker) if not name.startswith("_")]

    assert [name for name in calls if not callable(getattr(seat, name))] == []
