"""Engines that share, one step at a time: who may write, who may release, who reads what."""

from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from simulation.faults import Fault, FaultAt
from simulation.processes import Setting
from simulation.reference_workflows import SHARED_SETTING, former_owner_reads_on
from simulation.scenarios import SHARING_EVERY, prepare_seed
from simulation.shared_broker import Seat, SharedBroker
from simulation.simulator import Simulation
from simulation.witness import Witness
from simulation.workflow_drafts import NodeDraft, compiled
from windlass.brokers.memory import MemoryBroker
from windlass.core.changes import Task
from windlass.core.messages import Submitted
from windlass.ports.broker import Delivery
from windlass.ports.control import Submit
from windlass.ports.store.leases import Lease
from windlass.testing.virtual_time import VirtualClock

SEEDS = range(SHARING_EVERY - 1, 100, SHARING_EVERY)


def chain_simulation(chooser: FaultAt, setting: Setting = SHARED_SETTING) -> tuple[Simulation, Any]:
    """A job of three nodes in a row."""
    simulation = Simulation(setting, chooser, Random(1))
    plan = compiled("chain", [NodeDraft("a", []), NodeDraft("b", ["a"]), NodeDraft("c", ["b"])])

    async def play() -> None:
        await simulation.deploy(plan)
        await simulation.submit(Submit(plan.workflow_id, plan.version, Raw(msgspec.json.encode({})), 0, "key", "body"))
        await simulation.settle()

    return simulation, play


def call_number(wanted: str, place: int) -> int:
    """The number of one of the calls of a kind in an undisturbed run."""
    counter = FaultAt()
    simulation, play = chain_simulation(counter)
    simulation.run(play)
    return [number for number, call in enumerate(counter.calls) if call == wanted][place]


def test_an_engine_that_was_stopped_after_its_commit_releases_nothing() -> None:
    # The first commit dispatches the first node.
    chooser = FaultAt(call_number("store.commit", 0), Fault.STOP)
    simulation, play = chain_simulation(chooser)

    report = simulation.run(play)

    published = [call for call in chooser.calls if call == "broker.publish"]
    assert report.violations == []
    assert (report.executions, len(published)) == (3, 3)


def test_a_stopped_engines_shards_are_taken_by_another() -> None:
    simulation, play = chain_simulation(FaultAt(call_number("store.commit", 0), Fault.STOP))

    simulation.run(play)

    assert max(simulation.store.owner_epoch(shard) for shard in range(SHARED_SETTING.shards)) > 1


def test_a_former_owner_acknowledges_nothing_that_is_not_its_own() -> None:
    report = former_owner_reads_on()

    assert (report.violations, report.executions) == ([], 2)


def test_seeds_have_engines_that_share_and_take_over() -> None:
    prepared = [prepare_seed(seed) for seed in SEEDS]
    for simulation, scenario in prepared:
        simulation.run(scenario.play)

    assert {simulation.setting.engines for simulation, _ in prepared} == {2, 3}
    taken = [simulation.store.owner_epoch(0) for simulation, _ in prepared]
    assert sum(epoch > 2 for epoch in taken) > len(prepared) // 3


# The witness


def witness() -> Witness:
    found = Witness(is_shared=True, has_one_broker=True)
    found.done("one", "leases.claim", (0, "one", 3.0), Lease(1, abandoned=False))
    return found


def told(found: Witness) -> list[str]:
    return [violation.invariant for violation in found.violations]


def task(task_id: str = "j_a_1") -> Task:
    return Task(task_id=task_id, job_id="j", node_id="a", attempt=1, shard=0, handler="work", queue="default",
                priority=0, params=b"{}", timeout_seconds=1.0, idempotency_key="j_a")  # fmt: skip


def test_an_owner_may_store_and_release() -> None:
    found = witness()

    found.done("one", "commit", (0, 1, None), None)
    found.begun("one", "publish", ([task()],))

    assert told(found) == []


def test_a_commit_under_an_epoch_that_is_over_is_noticed() -> None:
    found = witness()
    found.done("two", "leases.claim", (0, "two", 3.0), Lease(2, abandoned=True))

    found.done("one", "commit", (0, 1, None), None)

    assert told(found) == ["I5"]


def test_a_commit_under_the_epoch_of_another_is_noticed() -> None:
    found = witness()

    found.done("two", "commit", (0, 1, None), None)

    assert told(found) == ["I5"]


def test_a_commit_after_the_shard_was_given_back_is_noticed() -> None:
    found = witness()
    found.done("one", "leases.release", (0, 1), None)

    found.done("one", "commit", (0, 1, None), None)

    assert told(found) == ["I5"]


def test_an_epoch_with_two_owners_is_noticed() -> None:
    found = witness()

    found.done("two", "leases.claim", (0, "two", 3.0), Lease(1, abandoned=True))

    assert told(found) == ["I5"]


def test_a_refused_claim_changes_nothing() -> None:
    found = witness()

    found.done("two", "leases.claim", (0, "two", 3.0), None)
    found.done("one", "commit", (0, 1, None), None)

    assert told(found) == []


def test_a_release_by_a_former_owner_is_noticed() -> None:
    found = witness()
    found.done("two", "leases.claim", (0, "two", 3.0), Lease(2, abandoned=True))

    found.begun("one", "publish", ([task()],))

    assert told(found) == ["I5"]


@pytest.mark.parametrize(
    ("between", "arguments", "expected"),
    [
        ("extend", ("w1", ["j_a_1"]), ["I4"]),
        ("give_back", ("w1", ["j_a_1"]), []),
        ("cancel", (["j_a_1"],), []),
    ],
)
def test_a_task_that_two_hold_at_once_is_noticed(between: str, arguments: tuple[Any, ...], expected: list[str]) -> None:
    found = witness()
    found.done("w1", "consume", ("w1", ["default"], 1, 0.0), [Delivery(task(), 1)])
    found.done("w1", between, arguments, None)

    found.done("w2", "consume", ("w2", ["default"], 1, 0.0), [Delivery(task(), 1)])

    assert told(found) == expected


def test_a_delivery_after_a_loss_is_no_violation() -> None:
    found = witness()
    found.done("w1", "consume", ("w1", ["default"], 1, 0.0), [Delivery(task(), 1)])

    found.done("w2", "consume", ("w2", ["default"], 1, 0.0), [Delivery(task(), 2)])

    assert told(found) == []


# The broker that several processes share


def seats(count: int) -> list[Seat]:
    server = SharedBroker(VirtualClock())
    return [Seat(server) for _ in range(count)]


async def test_a_former_owner_that_reads_on_steals_nothing() -> None:
    former, owner = seats(2)
    await owner.send(0, [Submitted("a"), Submitted("b")])
    await former.gather(0, 10, 0.0)
    await owner.gather(0, 1, 0.0)
    await former.gather(0, 10, 0.0)
    await owner.acknowledge(0, 1)
    await owner.rewind(0)

    assert list(await owner.gather(0, 10, 0.0)) == [Submitted("b")]


async def test_a_process_acknowledges_what_it_gathered_and_nothing_else() -> None:
    owner, other = seats(2)
    await owner.send(0, [Submitted("a")])
    await owner.gather(0, 10, 0.0)
    await owner.send(0, [Submitted("b")])
    await owner.acknowledge(0, 5)

    assert list(await other.gather(0, 10, 0.0)) == [Submitted("b")]


async def test_what_was_gathered_before_everything_was_lost_takes_nothing_new_along() -> None:
    server = SharedBroker(VirtualClock())
    owner = Seat(server)
    await owner.send(0, [Submitted("a")])
    await owner.gather(0, 10, 0.0)
    server.lose_everything()
    await owner.send(0, [Submitted("b")])
    await owner.acknowledge(0, 1)

    assert list(await owner.gather(0, 10, 0.0)) == [Submitted("b")]


def test_a_seat_has_every_call_of_a_broker() -> None:
    [seat] = seats(1)
    calls = [name for name in vars(MemoryBroker) if not name.startswith("_")]

    assert [name for name in calls if not callable(getattr(seat, name))] == []
