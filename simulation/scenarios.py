"""Scenarios for the simulator: what happens in the run of a seed."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from msgspec import Struct, structs

from simulation.faults import Fault, RandomFaults
from simulation.processes import EngineSlot, SystemConfig
from simulation.simulator import Simulation, SimulationReport
from simulation.small_bounds import LARGE_BYTES
from simulation.workload import random_input, random_plan
from windlass.core.plan import Plan
from windlass.core.submit_request import SubmitRequest

FAULT_SECONDS_MAX = 12.0
JOBS_MAX = 6
CLOCK_JUMP_SECONDS_MAX = 90.0
# One in this many seeds has several engines that share shards under leases.
SHARING_EVERY = 4
# How long an engine is stopped or unreachable, in multiples of its lease; a worker, in seconds.
AWAY_LEASES = (0.3, 3.0)
WORKER_AWAY_SECONDS = (2.0, 15.0)
# What fails while an engine is cut off: all calls to a port, or the heartbeats only.
CUTS = ("store", "broker", "leases.renew", "leases.renew")


class FaultProfile(Struct, frozen=True):
    """The faults of a seed."""

    rates: dict[Fault, float]
    latency: float
    kills: int
    worker_kills: int
    pauses: int
    flushes: int
    jumps: int
    # Only for engines that share: graceful stops, and times when a port or the heartbeats are unreachable.
    stops: int = 0
    cuts: int = 0
    worker_pauses: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there are no faults."""
        counts = (self.kills, self.worker_kills, self.pauses, self.flushes, self.jumps)
        return not any(self.rates.values()) and not any(counts)

    @property
    def is_late(self) -> bool:
        """Whether a call may arrive after its sender has lost its shard."""
        if self.pauses or self.cuts or self.worker_pauses:
            return True
        return Fault.DELAY in self.rates or Fault.STOP in self.rates


def run_seed(seed: int) -> SimulationReport:
    """Run the scenario of a seed."""
    simulation, scenario = prepare_seed(seed)
    return simulation.run(scenario.run)


def prepare_seed(seed: int) -> "tuple[Simulation, Scenario]":
    """Return the simulation and the scenario of a seed, ready to run."""
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
    # Moving shards between engines takes time too.
    simulation.undisturbed = profile.is_empty and not config.engines
    if Fault.REPEAT in profile.rates or (config.engines and profile.is_late):
        simulation.results_are_final = False
    return simulation, Scenario(simulation, faults, profile, Random(random.random()))


def _sharing(random: Random, *, tight: bool) -> SystemConfig:
    """Return a system of two or three engines that share a few shards."""
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
    """Return faults for engines that share: from crashes only to all kinds at once."""
    if random.random() < 0.3:
        # Only crashes and graceful stops: accepted results are final.
        kills, stops = random.choice([0, 1, 3]), random.choice([0, 1, 2])
        return _fault_profile(latency=random.choice([0.0, 0.01, 0.1]), kills=kills, stops=stops)
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
        stops=random.choice([0, 0, 1]),
        cuts=random.choice([0, 1, 2]),
        worker_pauses=random.choice([0, 0, 1]),
    )


def random_fault_profile(random: Random, *, embedded: bool) -> FaultProfile:
    """Return faults for a system with one engine, from none to many."""
    if random.random() < 0.15:
        return _fault_profile(latency=random.choice([0.0, 0.01]))
    if random.random() < 0.25:
        # Only crashes: accepted results are final.
        rates = {Fault.KILL_BEFORE: 0.01, Fault.KILL_AFTER: 0.01}
        return _fault_profile(rates, latency=random.choice([0.0, 0.01, 0.1]), kills=2)
    scale = random.choice([0.0, 0.003, 0.01, 0.03])
    # Without another engine to take over, a stopped process is only late.
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


def _fault_profile(
    rates: dict[Fault, float] | None = None, *, latency: float, kills: int = 0, stops: int = 0
) -> FaultProfile:
    """Return a profile with few kinds of faults."""
    return FaultProfile(
        rates=rates or {},
        latency=latency,
        kills=kills,
        worker_kills=0,
        pauses=0,
        flushes=0,
        jumps=0,
        stops=stops,
    )


class Scenario:
    """Submits, cancels and retries jobs at random times while faults happen; then waits for the end."""

    def __init__(
        self, simulation: Simulation, faults: RandomFaults, profile: FaultProfile, random: Random
    ) -> None:
        self._simulation = simulation
        self._faults = faults
        self._profile = profile
        self._random = random
        self._plans: list[Plan] = []
        self._job_ids: list[str] = []

    async def run(self) -> None:
        """Run the scenario."""
        random, simulation = self._random, self._simulation
        for number in range(random.randint(1, 3)):
            plan = random_plan(
                f"flow{number}", random, LARGE_BYTES if simulation.config.tight else 0
            )
            self._plans.append(plan)
            await simulation.deploy(plan)
        actions = [self._submit() for _ in range(random.randint(1, JOBS_MAX))]
        actions += [self._cancel() for _ in range(random.choice([0, 0, 1, 2]))]
        actions += [self._retry() for _ in range(random.choice([0, 0, 1, 3]))]
        actions += self._disruptions()
        await asyncio.gather(*actions)
        self._faults.active = False
        for zombie in simulation.supervisor.zombies:
            zombie.kill()
        await simulation.settle()
        if random.random() < 0.3 and not simulation.violations:
            await asyncio.gather(*(self._retry(0.5) for _ in range(3)))
            await simulation.settle()

    def _disruptions(self) -> list[asyncio.Task[None]]:
        profile = self._profile
        planned: list[tuple[int, Callable[[], None]]] = [
            (profile.kills, self._kill_engine),
            (profile.worker_kills, self._kill_worker),
            (profile.jumps, self._set_clock),
        ]
        tasks = [
            asyncio.ensure_future(self._later(action))
            for count, action in planned
            for _ in range(count)
        ]
        longer: list[tuple[int, Callable[[], Coroutine[Any, Any, None]]]] = [
            (
                profile.pauses,
                self._pause_engine if self._simulation.config.engines else self._replace_engine,
            ),
            (profile.stops, self._stop_engine),
            (profile.cuts, self._cut_off_engine),
            (profile.worker_pauses, self._pause_worker),
            (profile.flushes, self._lose_broker_contents),
        ]
        tasks += [asyncio.ensure_future(action()) for count, action in longer for _ in range(count)]
        return tasks

    async def _lose_broker_contents(self) -> None:
        """Flush the broker, let it evict tasks, or restore older contents: with tasks that have ended since."""
        supervisor = self._simulation.supervisor
        seconds = self._random.random() * FAULT_SECONDS_MAX
        loss = self._random.choice(("flush", "eviction", "restore"))
        if loss == "flush":
            await asyncio.sleep(seconds)
            supervisor.flush_broker()
            return
        if loss == "eviction":
            await asyncio.sleep(seconds)
            await supervisor.evict_from_broker(self._random)
            return
        await asyncio.sleep(seconds / 2)
        supervisor.save_broker()
        await asyncio.sleep(seconds / 2)
        await supervisor.restore_broker()

    async def _later(self, action: Callable[[], None]) -> None:
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        action()

    async def _submit(self) -> None:
        random = self._random
        await asyncio.sleep(random.random() * FAULT_SECONDS_MAX / 2)
        plan = random.choice(self._plans)
        key = f"key{random.randint(0, 3)}" if random.random() < 0.4 else None
        request = SubmitRequest(
            workflow_id=plan.workflow_id,
            input_data=random_input(random),
            version=plan.version,
            idempotency_key=key,
            priority=random.randint(0, 2),
        )
        if key is not None:
            # One of two requests with this key.
            body = random.randint(0, 1)
            request = structs.replace(
                request, input_data=random_input(Random(f"{key} {body}")), priority=body
            )
        job_id = await self._simulation.submit(request)
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
        nodes = self._simulation.plans[job.spec.workflow_id, job.spec.version].nodes
        from_node = random.choice(nodes).id if random.random() < 0.4 else None
        await self._simulation.retry(job_id, from_node)

    def _kill_engine(self) -> None:
        process = self._random_engine_slot().process
        if process is not None:
            process.kill()

    def _random_engine_slot(self) -> EngineSlot:
        engine_slots = self._simulation.supervisor.engine_slots
        return engine_slots[0] if len(engine_slots) == 1 else self._random.choice(engine_slots)

    def _kill_worker(self) -> None:
        process = self._random.choice(self._simulation.supervisor.worker_processes)
        if process is not None:
            process.kill()

    def _set_clock(self) -> None:
        self._simulation.clock.jump(
            self._random.uniform(-CLOCK_JUMP_SECONDS_MAX, CLOCK_JUMP_SECONDS_MAX)
        )

    async def _replace_engine(self) -> None:
        """Pause the embedded process, start another one in its place, and resume the paused one later."""
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        process = self._simulation.supervisor.pause_and_replace()
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        if process is not None:
            for zombie in self._simulation.supervisor.zombies:
                zombie.resume()

    async def _wait_around_lease(self) -> None:
        leases = self._random.uniform(*AWAY_LEASES)
        await asyncio.sleep(leases * self._simulation.config.lease_seconds)

    async def _pause_engine(self) -> None:
        """Pause an engine, maybe longer than its lease."""
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        process = self._random_engine_slot().process
        if process is not None:
            process.pause()
            await self._wait_around_lease()
            process.resume()

    async def _pause_worker(self) -> None:
        """Pause a worker, maybe until its tasks are reclaimed."""
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        process = self._random.choice(self._simulation.supervisor.worker_processes)
        if process is not None:
            process.pause()
            await asyncio.sleep(self._random.uniform(*WORKER_AWAY_SECONDS))
            process.resume()

    async def _cut_off_engine(self) -> None:
        """Make the store, the broker or the heartbeats of an engine fail for a while."""
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        process, what = self._random_engine_slot().process, self._random.choice(CUTS)
        if process is not None:
            process.unreachable.add(what)
            await self._wait_around_lease()
            process.unreachable.discard(what)

    async def _stop_engine(self) -> None:
        """Stop an engine gracefully."""
        await asyncio.sleep(self._random.random() * FAULT_SECONDS_MAX)
        await self._simulation.supervisor.stop_engine(self._random_engine_slot())
