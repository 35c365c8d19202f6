"""Scenarios for the simulator: what a seed makes of itself."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from msgspec import Struct

from simulation.faults import Fault, RandomFaults
from simulation.processes import Post, Setting
from simulation.simulator import Report, Simulation
from simulation.small_bounds import LARGE_BYTES
from simulation.workload import random_input, random_plan
from windlass.core.plan import Plan
from windlass.ports.control import Submit

FAULT_SECONDS_MAX = 12.0
JOBS_MAX = 6
CLOCK_JUMP_SECONDS_MAX = 90.0
# Of so many seeds, one has several engines that share shards under leases.
SHARING_EVERY = 4
# How long an engine is stopped or cut off, in lives of its lease; a worker, in seconds.
AWAY_LEASES = (0.3, 3.0)
WORKER_AWAY_SECONDS = (2.0, 15.0)
# What gets lost on its way: all that goes to one of the ports, or the heartbeats alone.
CUTS = ("store", "broker", "leases.renew", "leases.renew")


class Troubles(Struct, frozen=True):
    """How much goes wrong under a seed."""

    rates: dict[Fault, float]
    latency: float
    kills: int
    worker_kills: int
    pauses: int
    flushes: int
    jumps: int
    # Only where engines share: those that stop in good order, ports or heartbeats that do not get through for a while.
    leaves: int = 0
    cuts: int = 0
    worker_pauses: int = 0

    @property
    def none(self) -> bool:
        """Whether nothing goes wrong at all."""
        counts = (self.kills, self.worker_kills, self.pauses, self.flushes, self.jumps)
        return not any(self.rates.values()) and not any(counts)

    @property
    def is_late(self) -> bool:
        """Whether something that was sent may arrive after its sender has lost its shard."""
        return bool(self.pauses or self.cuts or self.worker_pauses or self.rates.keys() & {Fault.DELAY, Fault.STOP})


def run_seed(seed: int) -> Report:
    """Play the scenario that a seed stands for."""
    simulation, scenario = prepare_seed(seed)
    return simulation.run(scenario.play)


def prepare_seed(seed: int) -> "tuple[Simulation, Scenario]":
    """All that a seed decides, before it is played."""
    chance = Random(seed)
    if seed % SHARING_EVERY == SHARING_EVERY - 1:
        setting, troubles = _sharing(chance, tight=seed % 3 == 0), sharing_troubles(chance)
    else:
        embedded = chance.random() < 0.5
        setting = Setting(
            tight=seed % 3 == 0,
            embedded=embedded,
            workers=chance.choice([1, 1, 2, 3]),
            concurrency=chance.choice([1, 4, 16]),
            sweep_seconds=chance.choice([1.0, 2.0]),
            shuffled=chance.random() < 0.5,
        )
        troubles = random_troubles(chance, embedded=embedded)
    faults = RandomFaults(Random(chance.random()), troubles.rates, troubles.latency)
    simulation = Simulation(setting, faults, Random(chance.random()))
    # Shards that change hands take their time, too.
    simulation.undisturbed = troubles.none and not setting.engines
    if Fault.REPEAT in troubles.rates or (setting.engines and troubles.is_late):
        simulation.results_last = False
    return simulation, Scenario(simulation, faults, troubles, Random(chance.random()))


def _sharing(chance: Random, *, tight: bool) -> Setting:
    """Two or three engines that share a few shards, all at once or one after the other."""
    return Setting(
        tight=tight,
        embedded=False,
        workers=chance.choice([1, 2, 3]),
        concurrency=chance.choice([1, 4, 16]),
        sweep_seconds=2.0,
        shuffled=chance.random() < 0.5,
        engines=chance.choice([2, 2, 3]),
        shards=chance.choice([1, 2, 3, 4]),
        lease_seconds=chance.choice([1.5, 3.0]),
        has_server=chance.random() < 0.3,
        join_seconds_max=chance.choice([0.0, FAULT_SECONDS_MAX]),
    )


def sharing_troubles(chance: Random) -> Troubles:
    """What happens to engines that share; from engines that come and go to all of it at once."""
    if chance.random() < 0.3:
        # Engines that die or leave, and nothing else: then what a broker accepted must not even be worked out again.
        kills, leaves = chance.choice([0, 1, 3]), chance.choice([0, 1, 2])
        return Troubles({}, chance.choice([0.0, 0.01, 0.1]), kills, 0, 0, 0, 0, leaves)
    scale = chance.choice([0.0, 0.003, 0.01, 0.03])
    wanted = [fault for fault in Fault if chance.random() < 0.6]
    weights = {Fault.KILL_BEFORE: 0.2, Fault.KILL_AFTER: 0.2, Fault.SHUFFLE: 4.0, Fault.REPEAT: 3.0}
    return Troubles(
        rates={fault: scale * weights.get(fault, 1.0) for fault in wanted},
        latency=chance.choice([0.0, 0.01, 0.1]),
        kills=chance.choice([0, 0, 1, 2]),
        worker_kills=chance.choice([0, 0, 1, 2]),
        pauses=chance.choice([0, 1, 2, 3]),
        flushes=chance.choice([0, 0, 0, 1]),
        jumps=chance.choice([0, 0, 0, 0, 1, 2]),
        leaves=chance.choice([0, 0, 1]),
        cuts=chance.choice([0, 1, 2]),
        worker_pauses=chance.choice([0, 0, 1]),
    )


def random_troubles(chance: Random, *, embedded: bool) -> Troubles:
    """From none at all to a very bad day."""
    if chance.random() < 0.15:
        return Troubles({}, chance.choice([0.0, 0.01]), 0, 0, 0, 0, 0)
    if chance.random() < 0.25:
        # Crashes and nothing else: then what a broker accepted must not even be worked out again.
        rates = {Fault.KILL_BEFORE: 0.01, Fault.KILL_AFTER: 0.01}
        return Troubles(rates, chance.choice([0.0, 0.01, 0.1]), 2, 0, 0, 0, 0)
    scale = chance.choice([0.0, 0.003, 0.01, 0.03])
    # Where nobody else can take over, a process that is stopped is only late.
    wanted = [fault for fault in Fault if fault is not Fault.STOP and chance.random() < 0.6]
    weights = {Fault.KILL_BEFORE: 0.3, Fault.KILL_AFTER: 0.3, Fault.SHUFFLE: 4.0, Fault.REPEAT: 3.0}
    return Troubles(
        rates={fault: scale * weights.get(fault, 1.0) for fault in wanted},
        latency=chance.choice([0.0, 0.0, 0.01, 0.1]),
        kills=chance.choice([0, 0, 1, 2]),
        worker_kills=chance.choice([0, 0, 1, 2]),
        pauses=chance.choice([0, 0, 0, 1]) if embedded else 0,
        flushes=chance.choice([0, 0, 0, 1]) if not embedded else 0,
        jumps=chance.choice([0, 0, 0, 0, 1, 2]),
    )


class Scenario:
    """Submits, cancels and retries by chance while faults happen; then calm, and the end."""

    def __init__(self, simulation: Simulation, faults: RandomFaults, troubles: Troubles, chance: Random) -> None:
        self._simulation = simulation
        self._faults = faults
        self._troubles = troubles
        self._chance = chance
        self._plans: list[Plan] = []
        self._job_ids: list[str] = []

    async def play(self) -> None:
        """The whole course of events."""
        chance, simulation = self._chance, self._simulation
        for number in range(chance.randint(1, 3)):
            plan = random_plan(f"flow{number}", chance, LARGE_BYTES if simulation.setting.tight else 0)
            self._plans.append(plan)
            await simulation.deploy(plan)
        acts = [self._submit() for _ in range(chance.randint(1, JOBS_MAX))]
        acts += [self._cancel() for _ in range(chance.choice([0, 0, 1, 2]))]
        acts += [self._retry() for _ in range(chance.choice([0, 0, 1, 3]))]
        acts += self._disasters()
        await asyncio.gather(*acts)
        self._faults.active = False
        for zombie in simulation.crew.zombies:
            zombie.kill()
        await simulation.settle()
        if chance.random() < 0.3 and not simulation.violations:
            await asyncio.gather(*(self._retry(0.5) for _ in range(3)))
            await simulation.settle()

    def _disasters(self) -> list[asyncio.Future[None]]:
        troubles = self._troubles
        planned: list[tuple[int, Callable[[], None]]] = [
            (troubles.kills, self._kill_engine),
            (troubles.worker_kills, self._kill_worker),
            (troubles.flushes, self._simulation.crew.flush_broker),
            (troubles.jumps, self._jump),
        ]
        acts = [asyncio.ensure_future(self._later(act)) for count, act in planned for _ in range(count)]
        longer: list[tuple[int, Callable[[], Coroutine[Any, Any, None]]]] = [
            (troubles.pauses, self._stop_engine if self._simulation.setting.engines else self._pause),
            (troubles.leaves, self._leave),
            (troubles.cuts, self._cut),
            (troubles.worker_pauses, self._stop_worker),
        ]
        return [*acts, *(asyncio.ensure_future(act()) for count, act in longer for _ in range(count))]

    async def _later(self, act: Callable[[], None]) -> None:
        await asyncio.sleep(self._chance.random() * FAULT_SECONDS_MAX)
        act()

    async def _submit(self) -> None:
        chance = self._chance
        await asyncio.sleep(chance.random() * FAULT_SECONDS_MAX / 2)
        plan = chance.choice(self._plans)
        key = f"key{chance.randint(0, 3)}" if chance.random() < 0.4 else None
        wanted = Submit(
            workflow_id=plan.workflow_id,
            version=plan.version,
            input=random_input(chance),
            priority=chance.randint(0, 2),
            idempotency_key=key,
            request_digest=None if key is None else f"body{chance.randint(0, 1)}",
        )
        job_id = await self._simulation.submit(wanted)
        if job_id is not None:
            self._job_ids.append(job_id)

    async def _cancel(self) -> None:
        await asyncio.sleep(self._chance.random() * FAULT_SECONDS_MAX)
        if self._job_ids:
            await self._simulation.cancel(self._chance.choice(self._job_ids))

    async def _retry(self, after: float = 1.0) -> None:
        chance = self._chance
        await asyncio.sleep((after + chance.random()) * FAULT_SECONDS_MAX / 2)
        if not self._job_ids:
            return
        job_id = chance.choice(self._job_ids)
        job = self._simulation.store.rows(job_id).job
        nodes = self._simulation.plans[job.spec.workflow_id, job.spec.version].nodes
        from_node = chance.choice(nodes).id if chance.random() < 0.4 else None
        await self._simulation.retry(job_id, from_node)

    def _kill_engine(self) -> None:
        life = self._post().life
        if life is not None:
            life.kill()

    def _post(self) -> Post:
        posts = self._simulation.crew.posts
        return posts[0] if len(posts) == 1 else self._chance.choice(posts)

    def _kill_worker(self) -> None:
        life = self._chance.choice(self._simulation.crew.worker_lives)
        if life is not None:
            life.kill()

    def _jump(self) -> None:
        self._simulation.clocks_steady = False
        self._simulation.clock.jump(self._chance.uniform(-CLOCK_JUMP_SECONDS_MAX, CLOCK_JUMP_SECONDS_MAX))

    async def _pause(self) -> None:
        await asyncio.sleep(self._chance.random() * FAULT_SECONDS_MAX)
        life = self._simulation.crew.usurp()
        await asyncio.sleep(self._chance.random() * FAULT_SECONDS_MAX)
        if life is not None:
            for zombie in self._simulation.crew.zombies:
                zombie.resume()

    async def _away(self) -> None:
        leases = self._chance.uniform(*AWAY_LEASES)
        await asyncio.sleep(leases * self._simulation.setting.lease_seconds)

    async def _stop_engine(self) -> None:
        """Stop an engine in its tracks, perhaps beyond its lease; then it goes on, unaware."""
        await asyncio.sleep(self._chance.random() * FAULT_SECONDS_MAX)
        life = self._post().life
        if life is not None:
            life.pause()
            await self._away()
            life.resume()

    async def _stop_worker(self) -> None:
        """The same with a worker; perhaps its tasks are another's when it goes on."""
        await asyncio.sleep(self._chance.random() * FAULT_SECONDS_MAX)
        life = self._chance.choice(self._simulation.crew.worker_lives)
        if life is not None:
            life.pause()
            await asyncio.sleep(self._chance.uniform(*WORKER_AWAY_SECONDS))
            life.resume()

    async def _cut(self) -> None:
        """Cut an engine off from the store or the broker, or lose its heartbeats, for a while."""
        await asyncio.sleep(self._chance.random() * FAULT_SECONDS_MAX)
        life, what = self._post().life, self._chance.choice(CUTS)
        if life is not None:
            life.cut.add(what)
            await self._away()
            life.cut.discard(what)

    async def _leave(self) -> None:
        await asyncio.sleep(self._chance.random() * FAULT_SECONDS_MAX)
        await self._simulation.crew.leave(self._post())
