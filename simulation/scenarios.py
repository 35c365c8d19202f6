"""Scenarios for the simulator: what a seed makes of itself."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from msgspec import Struct

from simulation.faults import Fault, RandomFaults
from simulation.processes import EngineSlot, SystemConfig
from simulation.simulator import Simulation, SimulationReport
from simulation.small_bounds import LARGE_BYTES
from simulation.workload import random_input, random_plan
from windlass.core.plan import Plan
from windlass.ports.control import Submit

FAULT_SECONDS_MAX = 12.0
JOBS_MAX = 6
CLOCK_JUMP_SECONDS_MAX = 90.0
# Of so many seeds, one has several engines that share shards under leases.
SHARING_EVERY = 4
# How long an engine is stopped or cut off, in processes of its lease; a worker, in seconds.
AWAY_LEASES = (0.3, 3.0)
WORKER_AWAY_SECONDS = (2.0, 15.0)
# What gets lost on its way: all that goes to one of the ports, or the heartbeats alone.
CUTS = ("store", "broker", "beat", "beat")


class FaultProfile(Struct, frozen=True):
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


def run_seed(seed: int) -> SimulationReport:
    """Play the scenario that a seed stands for."""
    simulation, scenario = prepare_seed(seed)
    return simulation.run(scenario.play)


def prepare_seed(seed: int) -> "tuple[Simulation, Scenario]":
    """All that a seed decides, before it is played."""
    random = Random(seed)
    if seed % SHARING_EVERY == SHARING_EVERY - 1:
        config, profile = _sharing(random, tight=seed % 3 == 0), shared_fault_profile(random)
    else:
        embedded = random.random() < 0.5
        config = SystemConfig(
            tight=seed % 3 == 0,
            embedded=embedded,
            workers=random.choice([1, 1, 2, 3]),
            concurrency=random.choice([1, 4, 16]),
            sweep_seconds=random.choice([1.0, 2.0]),
            shuffled=random.random() < 0.5,
        )
        profile = random_fault_profile(random, embedded=embedded)
    faults = RandomFaults(Random(random.random()), profile.rates, profile.latency)
    simulation = Simulation(config, faults, Random(random.random()))
    # Shards that change hands take their time, too.
    simulation.undisturbed = profile.none and not config.engines
    if Fault.REPEAT in profile.rates or (config.engines and profile.is_late):
        simulation.results_are_final = False
    return simulation, Scenario(simulation, faults, profile, Random(random.random()))


def _sharing(random: Random, *, tight: bool) -> SystemConfig:
    """Two or three engines that share a few shards, all at once or one after the other."""
    return SystemConfig(
        tight=tight,
        embedded=False,
        workers=random.choice([1, 2, 3]),
        concurrency=random.choice([1, 4, 16]),
        sweep_seconds=2.0,
        shuffled=random.random() < 0.5,
        engines=random.choice([2, 2, 3]),
        shards=random.choice([1, 2, 3, 4]),
        lease_seconds=random.choice([1.5, 3.0]),
        has_server=random.random() < 0.3,
        join_seconds_max=random.choice([0.0, FAULT_SECONDS_MAX]),
    )


def shared_fault_profile(random: Random) -> FaultProfile:
    """What happens to engines that share; from engines that come and go to all of it at once."""
    if random.random() < 0.3:
        # Engines that die or leave, and nothing else: then what a broker accepted must not even be worked out again.
        kills, leaves = random.choice([0, 1, 3]), random.choice([0, 1, 2])
        return FaultProfile({}, random.choice([0.0, 0.01, 0.1]), kills, 0, 0, 0, 0, leaves)
    scale = random.choice([0.0, 0.003, 0.01, 0.03])
    wanted = [fault for fault in Fault if random.random() < 0.6]
    weights = {Fault.KILL_BEFORE: 0.2, Fault.KILL_AFTER: 0.2, Fault.SHUFFLE: 4.0, Fault.REPEAT: 3.0}
    return FaultProfile(
        rates={fault: scale * weights.get(fault, 1.0) for fault in wanted},
        latency=random.choice([0.0, 0.01, 0.1]),
        kills=random.choice([0, 0, 1, 2]),
        worker_kills=random.choice([0, 0, 1, 2]),
        pauses=random.choice([0, 1, 2, 3]),
        flushes=random.choice([0, 0, 0, 1]),
        jumps=random.choice([0, 0, 0, 0, 1, 2]),
        leaves=random.choice([0, 0, 1]),
        cuts=random.choice([0, 1, 2]),
        worker_pauses=random.choice([0, 0, 1]),
    )


def random_fault_profile(random: Random, *, embedded: bool) -> FaultProfile:
    """From none at all to a very bad day."""
    if random.random() < 0.15:
        return FaultProfile({}, random.choice([0.0, 0.01]), 0, 0, 0, 0, 0)
    if random.random() < 0.25:
        # Crashes and nothing else: then what a broker accepted must not even be worked out again.
        rates = {Fault.KILL_BEFORE: 0.01, Fault.KILL_AFTER: 0.01}
        return FaultProfile(rates, random.choice([0.0, 0.01, 0.1]), 2, 0, 0, 0, 0)
    scale = random.choice([0.0, 0.003, 0.01, 0.03])
    # Where nobody else can take over, a process that is stopped is only late.
    wanted = [fault for fault in Fault if fault is not Fault.STOP and random.random() < 0.6]
    weights = {Fault.KILL_BEFORE: 0.3, Fault.KILL_AFTER: 0.3, Fault.SHUFFLE: 4.0, Fault.REPEAT: 3.0}
    return FaultProfile(
        rates={fault: scale * weights.get(fault, 1.0) for fault in wanted},
        latency=random.choice([0.0, 0.0, 0.01, 0.1]),
        kills=random.choice([0, 0, 1, 2]),
        worker_kills=random.choice([0, 0, 1, 2]),
        pauses=random.choice([0, 0, 0, 1]) if embedded else 0,
        flushes=random.choice([0, 0, 0, 1]) if not embedded else 0,
        jumps=random.choice([0, 0, 0, 0, 1, 2]),
    )


class Scenario:
    """Submits, cancels and retries by random while faults happen; then calm, and the end."""

    def __init__(self, simulation: Simulation, faults: RandomFaults, profile: FaultProfile, random: Random) -> None:
        self._simulation = simulation
        self._faults = faults
        self._profile = profile
        self._random = random
        self._plans: list[Plan] = []
        self._job_ids: list[str] = []

    async def play(self) -> None:
        """The whole course of events."""
        random, simulation = self._random, self._simulation
        for number in range(random.randint(1, 3)):
            plan = random_plan(f"flow{number}", random, LARGE_BYTES if simulation.config.tight else 0)
            self._plans.append(plan)
            await simulation.deploy(plan)
        acts = [self._submit() for _ in range(random.randint(1, JOBS_MAX))]
        acts += [self._cancel() for _ in range(random.choice([0, 0, 1, 2]))]
        acts += [self._retry() for _ in range(random.choice([0, 0, 1, 3]))]
        acts += self._disasters()
        await asyncio.gather(*acts)
        self._faults.active = False
        for zombie in simulation.supervisor.zombies:
            zombie.kill()
        await simulation.settle()
        if random.random() < 0.3 and not simulation.violations:
            await asyncio.gather(*(self._retry(0.5) for _ in range(3)))
            await simulation.settle()

    def _disasters(self) -> list[asyncio.Future[None]]:
        profile = self._profile
        planned: list[tuple[int, Callable[[], None]]] = [
            (profile.kills, self._kill_engine),
            (profile.worker_kills, self._kill_worker),
            (profile.flushes, self._simulation.supervisor.flush_broker),
            (profile.jumps, self._jump),
        ]
        acts = [asyncio.ensure_future(self._later(act)) for count, act in planned for _ in range(count)]
        longer: list[tuple[int, Callable[[], Coroutine[Any, Any, None]]]] = [
            (profile.pauses, self._stop_engine if self._simulation.config.engines else self._pause),
            (profile.leaves, self._leave),
            (profile.cuts, self._cut),
            (profile.worker_pauses, self._stop_worker),
        ]
        return [*acts, *(asyncio.ensure_future(act()) for count, act in longer for _ in range(count))]

    async def _later(self, act: Callable[[], None]) -> None:
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        act()

    async def _submit(self) -> None:
        random = self._random
        await asyncio.sleep(random.random() * FAULT_SECONDS_MAX / 2)
        plan = random.choice(self._plans)
        key = f"key{random.randint(0, 3)}" if random.random() < 0.4 else None
        wanted = Submit(
            workflow_id=plan.workflow_id,
            version=plan.version,
            input=random_input(random),
            priority=random.randint(0, 2),
            idempotency_key=key,
            body_digest=None if key is None else f"body{random.randint(0, 1)}",
        )
        job_id = await self._simulation.submit(wanted)
        if job_id is not None:
            self._job_ids.append(job_id)

    async def _cancel(self) -> None:
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        if self._job_ids:
            await self._simulation.cancel(self._random.choice(self._job_ids))

    async def _retry(self, after: float = 1.0) -> None:
        random = self._random
        await asyncio.sleep((after + random.random()) * FAULT_SECONDS_MAX / 2)
        if not self._job_ids:
            return
        job_id = random.choice(self._job_ids)
        job = self._simulation.store.rows(job_id).job
        nodes = self._simulation.plans[job.workflow_id, job.version].nodes
        from_node = random.choice(nodes).id if random.random() < 0.4 else None
        await self._simulation.retry(job_id, from_node)

    def _kill_engine(self) -> None:
        process = self._engine_slot().process
        if process is not None:
            process.kill()

    def _engine_slot(self) -> EngineSlot:
        engine_slots = self._simulation.supervisor.engine_slots
        return engine_slots[0] if len(engine_slots) == 1 else self._random.choice(engine_slots)

    def _kill_worker(self) -> None:
        process = self._random.choice(self._simulation.supervisor.worker_processes)
        if process is not None:
            process.kill()

    def _jump(self) -> None:
        self._simulation.clocks_steady = False
        self._simulation.clock.jump(self._random.uniform(-CLOCK_JUMP_SECONDS_MAX, CLOCK_JUMP_SECONDS_MAX))

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        process = self._simulation.supervisor.usurp()
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        if process is not None:
            for zombie in self._simulation.supervisor.zombies:
                zombie.resume()

    async def _away(self) -> None:
        leases = self._random.uniform(*AWAY_LEASES)
        await asyncio.sleep(leases * self._simulation.config.lease_seconds)

    async def _stop_engine(self) -> None:
        """Stop an engine in its tracks, perhaps beyond its lease; then it goes on, unaware."""
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        process = self._engine_slot().process
        if process is not None:
            process.pause()
            await self._away()
            process.resume()

    async def _stop_worker(self) -> None:
        """The same with a worker; perhaps its tasks are another's when it goes on."""
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        process = self._random.choice(self._simulation.supervisor.worker_processes)
        if process is not None:
            process.pause()
            await asyncio.sleep(self._random.uniform(*WORKER_AWAY_SECONDS))
            process.resume()

    async def _cut(self) -> None:
        """Cut an engine off from the store or the broker, or lose its heartbeats, for a while."""
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        process, what = self._engine_slot().process, self._random.choice(CUTS)
        if process is not None:
            process.cut.add(what)
            await self._away()
            process.cut.discard(what)

    async def _leave(self) -> None:
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        await self._simulation.supervisor.leave(self._engine_slot())
