"""The processes of a simulation: engines and workers that start, die, are paused, leave and come again."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct, structs

from simulation import workflow_drafts
from simulation.call_observer import CallObserver
from simulation.execution_log import ExecutionLog
from simulation.faults import FaultPlan, FaultyConnection, SimulatedProcess
from simulation.history import Violation
from simulation.memory_sink import MemorySink
from simulation.shared_broker import SharedBroker, SharedBrokerClient
from windlass.brokers.memory import MemoryBroker
from windlass.core.changes import Task
from windlass.core.errors import BrokerUnavailable, CommitUnknown, StaleLease, StoreUnavailable
from windlass.core.plan import Plan
from windlass.engine.engine import Duties, Engine, Sharing
from windlass.engine.plan_cache import Plans
from windlass.ports.handler import Handler
from windlass.ports.store import StoredWorkflow
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.memory.store import MemoryStore
from windlass.testing.virtual_time import VirtualClock
from windlass.worker.worker import Worker

RESTART_SECONDS_MAX = 3.0
# An engine that was asked to stop and did not by then is killed, as a supervisor would.
LEAVE_SECONDS_MAX = 20.0
# What simulated faults make calls raise.
EXPECTED = (BrokerUnavailable, CommitUnknown, StoreUnavailable, StaleLease)

# Engines that share notice quickly who is gone: seconds of virtual time cost computing.
_SHARING_DUTIES = Duties(silent_seconds=6.0, reap_seconds=2.0, flight_seconds=10.0)
_HEARTBEAT_SECONDS, _SHARING_HEARTBEAT_SECONDS = 5.0, 2.0


class SystemConfig(Struct, frozen=True):
    """How the simulated system is built."""

    # The broker processes in the engine's process and dies with it; else it stands apart and survives, as Redis would.
    embedded: bool = True
    workers: int = 1
    concurrency: int = 16
    sweep_seconds: float = 1.0
    shuffled: bool = False
    # Whether the engine's bounds are so small that small workflows reach them.
    tight: bool = False
    # Engines that share the shards under leases; 0 is one engine that owns the only shard outright.
    engines: int = 0
    shards: int = 1
    lease_seconds: float = 3.0
    # A process that only submits and waits, besides the engines.
    has_server: bool = False
    # The longest time after which an engine joins the first.
    join_seconds_max: float = 0.0


class EngineSlot:
    """A place in which one engine runs after another."""

    def __init__(self, *, owns: bool, joins_after: float) -> None:
        self.owns = owns
        self.joins_after = joins_after
        self.process: SimulatedProcess | None = None
        # Once it is up.
        self.engine: Engine | None = None
        self.store: FaultyConnection | None = None
        self.broker: FaultyConnection | None = None


class World(Struct, frozen=True):
    """What outlives every process."""

    clock: VirtualClock
    store: MemoryStore
    artifacts: MemoryArtifacts
    sink: MemorySink
    execution_log: ExecutionLog
    plans: dict[tuple[str, int], Plan]
    # Besides the scripted one.
    handlers: dict[str, Handler] = {}


class ProcessSupervisor:
    """Keeps the processes of a simulation running, whatever is done to them."""

    def __init__(self, config: SystemConfig, fault_plan: FaultPlan, random: Random, world: World) -> None:
        self.engine_slots = _engine_slots(config, random)
        self.workers: list[Worker | None] = [None] * config.workers
        self.worker_processes: list[SimulatedProcess | None] = [None] * config.workers
        # Paused processes whose place another one has.
        self.zombies: list[SimulatedProcess] = []
        self.connections: list[FaultyConnection] = []
        self.restarts = 0
        # Whether the broker that stands apart lost everything once.
        self.is_flushed = False
        self.violations: list[Violation] = []
        self.up = asyncio.Event()
        self._config = config
        self._fault_plan = fault_plan
        self._random = random
        self._world = world
        self._observer = CallObserver(is_shared=bool(config.engines), has_one_broker=not config.embedded)
        self._shared = SharedBroker(world.clock)
        self._embedded: MemoryBroker | None = None
        self._engine_port: Callable[[], object] = lambda: None
        self._named = 0
        self._published: list[Task] = []
        self._registry = {workflow_drafts.HANDLER: world.execution_log.handler(), **world.handlers}

    def found(self) -> list[Violation]:
        """What was noticed so far."""
        return [*self.violations, *self._observer.violations]

    @property
    def broker(self) -> MemoryBroker | None:
        """The queues of the moment."""
        return self._embedded if self._config.embedded else self._shared.broker

    def keepers(self) -> "list[asyncio.Task[None]]":
        """Start everything; these tasks never end."""
        keepers = [asyncio.ensure_future(self._keep_engine(engine_slot)) for engine_slot in self.engine_slots]
        return keepers + [asyncio.ensure_future(self._keep_worker(slot)) for slot in range(self._config.workers)]

    def end(self) -> None:
        """End everything at once."""
        for process in (
            *(engine_slot.process for engine_slot in self.engine_slots),
            *self.worker_processes,
            *self.zombies,
        ):
            if process is not None:
                process.kill()
        for worker in self.workers:
            if worker is not None:
                worker.abort()

    def _wire(self, name: str, port: Callable[[], object], process: SimulatedProcess) -> Any:
        wire = FaultyConnection(name, port, process, self._fault_plan, self)
        self.connections.append(wire)
        return wire

    def _new_process(self, kind: str) -> SimulatedProcess:
        self._named += 1
        return SimulatedProcess(f"{kind}-{self._named}")

    def _broker_port(self) -> Callable[[], object]:
        """The broker as a new process has it."""
        if self._config.embedded:
            own = self._embedded = MemoryBroker(self._world.clock)
            return lambda: own
        seat = SharedBrokerClient(self._shared)
        return lambda: seat

    def _compile(self, stored: StoredWorkflow) -> Plan:
        return self._world.plans[stored.workflow_id, stored.version]

    # What is seen of the calls

    def begun(self, process: str, call: str, arguments: tuple[Any, ...]) -> None:
        """A process is about to make a call."""
        self._observer.begun(process, call, arguments)

    def done(self, process: str, call: str, arguments: tuple[Any, ...], answer: Any) -> None:
        """A call took effect."""
        self._observer.done(process, call, arguments, answer)
        if call == "finish":
            now = asyncio.get_running_loop().time()
            for report in arguments[1]:
                self._world.execution_log.accepted.setdefault(report.task_id, now)
        elif call == "publish":
            self._published.extend(arguments[0])

    # Engines

    async def _keep_engine(self, engine_slot: EngineSlot) -> None:
        """Start an engine, and another one when it dies."""
        if engine_slot.joins_after:
            await asyncio.sleep(engine_slot.joins_after)
        while True:
            process = engine_slot.process = self._new_process("engine")
            engine = self._new_engine(engine_slot, process)
            starting = process.spawn(engine.start())
            died = asyncio.ensure_future(process.died.wait())
            await asyncio.wait([starting, died], return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not process.dead and self._has_started(starting):
                engine_slot.engine = engine
                self.up.set()
                lost = None if self._config.engines else engine.lost
                await asyncio.wait([died] if lost is None else [lost, died], return_when=asyncio.FIRST_COMPLETED)
                if lost is not None and lost.done() and not process.dead:
                    self._note_end(lost)
            died.cancel()
            self._after_engine(engine_slot, process)
            self.restarts += 1
            await asyncio.sleep(self._random.random() * RESTART_SECONDS_MAX)

    def _new_engine(self, engine_slot: EngineSlot, process: SimulatedProcess) -> Engine:
        config = self._config
        self._engine_port = self._broker_port()
        store = engine_slot.store = self._wire("store", lambda: self._world.store, process)
        broker = engine_slot.broker = self._wire("broker", self._engine_port, process)
        sharing = Sharing(config.shards, config.lease_seconds, owns=engine_slot.owns) if config.engines else None
        duties = _SHARING_DUTIES if config.engines else Duties()
        random = Random(self._random.random())
        return Engine(
            store,
            broker,
            self._world.clock,
            Plans(store, self._compile),
            self._wire("artifacts", lambda: self._world.artifacts, process),
            random,
            owner=process.name,
            duties=structs.replace(duties, sweep_seconds=config.sweep_seconds),
            sharing=sharing,
        )

    def _has_started(self, starting: "asyncio.Task[Any]") -> bool:
        error = None if starting.cancelled() else starting.exception()
        if self._config.engines and isinstance(error, EXPECTED):
            return False  # it says why, and its supervisor starts it again
        self._note_end(starting)
        return True

    def _note_end(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not (isinstance(error, StaleLease) and self.zombies):
            describe = f"the engine ended by itself: {type(error).__name__}: {error}"
            self.violations.append(Violation("I5", "-", describe))

    def _after_engine(self, engine_slot: EngineSlot, process: SimulatedProcess) -> None:
        self._take_down(engine_slot)
        if process not in self.zombies:
            process.kill()
        if self._config.embedded and process not in self.zombies:
            self.kill_workers()

    def _take_down(self, engine_slot: EngineSlot) -> None:
        engine_slot.engine = None
        if not any(other.engine for other in self.engine_slots):
            self.up.clear()

    async def leave(self, engine_slot: EngineSlot) -> None:
        """Have an engine stop in good order; another comes in its place."""
        process, engine = engine_slot.process, engine_slot.engine
        if process is None or engine is None:
            return
        self._take_down(engine_slot)
        stopping = process.spawn(engine.stop())
        await asyncio.wait([stopping], timeout=LEAVE_SECONDS_MAX)
        if stopping.done() and not stopping.cancelled() and not isinstance(stopping.exception(), EXPECTED):
            self._note_end(stopping)
        process.kill()

    def usurp(self) -> SimulatedProcess | None:
        """Pause the embedded process; another one takes its place. The paused one is given back, to be resumed."""
        [engine_slot] = self.engine_slots
        process = engine_slot.process
        if process is None or process.dead or engine_slot.engine is None:
            return None
        process.pause()
        self.zombies.append(process)
        for slot, worker_process in enumerate(self.worker_processes):
            if worker_process is not None and not worker_process.dead:
                worker_process.pause()
                self.zombies.append(worker_process)
                self.workers[slot] = None
                worker_process.died.set()
        process.died.set()
        return process

    # Workers

    async def _keep_worker(self, slot: int) -> None:
        """Start a worker, and another one when it dies."""
        config, world = self._config, self._world
        heartbeat_seconds = _SHARING_HEARTBEAT_SECONDS if config.engines else _HEARTBEAT_SECONDS
        while True:
            if config.embedded:
                await self.up.wait()
            process = self.worker_processes[slot] = self._new_process("worker")
            port = self._engine_port if config.embedded else self._broker_port()
            worker = self.workers[slot] = Worker(
                self._wire("broker", port, process),
                self._registry,
                world.clock,
                worker_id=process.name,
                concurrency=config.concurrency,
                random=Random(self._random.random()),
                artifacts=self._wire("artifacts", lambda: world.artifacts, process),
                sinks={workflow_drafts.SINK: self._wire("sink", lambda: world.sink, process)},
                heartbeat_seconds=heartbeat_seconds,
            )
            process.spawn(worker.run())
            await process.died.wait()
            if process not in self.zombies:
                worker.abort()
            await asyncio.sleep(self._random.random() * RESTART_SECONDS_MAX)

    def kill_workers(self) -> None:
        """End all workers at once; others come in their places."""
        for process in self.worker_processes:
            if process is not None:
                process.kill()

    # The broker

    async def publish_again(self) -> None:
        """Everything that was ever published is published once more."""
        assert self.broker is not None
        await self.broker.publish(self._published)

    def flush_broker(self) -> None:
        """The broker that stands apart loses everything."""
        self._shared.lose_everything()
        self._observer.lost_everything()
        self.is_flushed = True


def _engine_slots(config: SystemConfig, random: Random) -> list[EngineSlot]:
    first = EngineSlot(owns=True, joins_after=0.0)
    others = [
        EngineSlot(owns=True, joins_after=random.random() * config.join_seconds_max) for _ in range(1, config.engines)
    ]
    return [first, *others, *([EngineSlot(owns=False, joins_after=0.0)] if config.has_server else [])]
