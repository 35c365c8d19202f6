"""The processes of a simulation: engines and workers that start, crash, pause, stop and restart."""

import asyncio
import math
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
from windlass.engine.config import Duties, Sharing
from windlass.engine.engine import Engine
from windlass.engine.plan_cache import Plans
from windlass.ports.handler import Handler
from windlass.ports.store.workflows import StoredWorkflow
from windlass.spec import check_input
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.memory.store import MemoryStore
from windlass.testing.virtual_time import VirtualClock
from windlass.worker.worker import Worker

RESTART_SECONDS_MAX = 3.0
# An engine that has not stopped after this time is killed, as a supervisor would do.
STOP_SECONDS_MAX = 20.0
# The errors that simulated faults raise.
EXPECTED = (BrokerUnavailable, CommitUnknown, StoreUnavailable, StaleLease)

# Short timeouts for engines that share: every second of virtual time costs computing time.
_DUTIES = Duties(
    sweep_seconds=1.0,
    retention_days=7.0,
    worker_timeout_seconds=15.0,
    worker_retention_seconds=300.0,
    worker_check_seconds=5.0,
    in_flight_check_seconds=30.0,
    run_heartbeat_seconds=10.0,
    run_heartbeats_missed_max=360,
)
_SHARING_DUTIES = structs.replace(
    _DUTIES, worker_timeout_seconds=6.0, worker_check_seconds=2.0, in_flight_check_seconds=10.0
)
_OUTPUT_BYTES_MAX = 16 * 1024 * 1024
_HEARTBEAT_SECONDS, _SHARING_HEARTBEAT_SECONDS = 5.0, 2.0


class SystemConfig(Struct, frozen=True):
    """The structure of the simulated system."""

    # Whether the broker lives in the engine's process and dies with it. Otherwise it is separate, as Redis is.
    embedded: bool = True
    workers: int = 1
    concurrency: int = 16
    sweep_seconds: float = 1.0
    # Whether callbacks that are ready together run in a random order.
    shuffled: bool = False
    # Whether the engine's limits are so small that small workflows reach them.
    tight: bool = False
    # Engines that share the shards under leases. 0 means one engine that owns the only shard.
    engines: int = 0
    shards: int = 1
    lease_seconds: float = 3.0
    # Whether there is also a process that only submits and waits.
    has_server: bool = False
    # The longest time after which another engine joins the first.
    join_seconds_max: float = 0.0


class EngineSlot:
    """A place for one engine at a time."""

    def __init__(self, *, owns: bool, joins_after: float) -> None:
        self.owns = owns
        self.joins_after = joins_after
        self.process: SimulatedProcess | None = None
        # Set once the engine has started.
        self.engine: Engine | None = None
        self.store: FaultyConnection | None = None
        self.broker: FaultyConnection | None = None


class Environment(Struct, frozen=True):
    """What survives every process."""

    clock: VirtualClock
    store: MemoryStore
    artifacts: MemoryArtifacts
    sink: MemorySink
    execution_log: ExecutionLog
    plans: dict[tuple[str, int], Plan]
    # Handlers besides the scripted one.
    handlers: dict[str, Handler] = {}


class ProcessSupervisor:
    """Starts the processes of a simulation, and restarts those that die."""

    def __init__(
        self, config: SystemConfig, fault_plan: FaultPlan, random: Random, environment: Environment
    ) -> None:
        self.engine_slots = _engine_slots(config, random)
        self.workers: list[Worker | None] = [None] * config.workers
        self.worker_processes: list[SimulatedProcess | None] = [None] * config.workers
        # Paused processes that were replaced.
        self.zombies: list[SimulatedProcess] = []
        self.connections: list[FaultyConnection] = []
        self.restarts = 0
        # When the separate broker lost its contents for the last time.
        self.flushed_at: float | None = None
        # When it lost some of its tasks for the last time.
        self.evicted_at = -math.inf
        # Whether an engine has started after the wall clock was set: instants of its predecessors are then by another
        # time than its own.
        self.is_reanchored = False
        self.violations: list[Violation] = []
        # Set while an engine is running.
        self.up = asyncio.Event()
        self._config = config
        self._fault_plan = fault_plan
        self._random = random
        self._environment = environment
        self._observer = CallObserver(
            is_shared=bool(config.engines), has_one_broker=not config.embedded
        )
        self._shared = SharedBroker(environment.clock)
        self._embedded: MemoryBroker | None = None
        self._engine_port: Callable[[], object] = lambda: None
        self._process_count = 0
        self._published: list[Task] = []
        self._registry = {
            workflow_drafts.HANDLER: environment.execution_log.handler(),
            **environment.handlers,
        }

    def found(self) -> list[Violation]:
        """Return the violations found so far."""
        return [*self.violations, *self._observer.violations]

    @property
    def broker(self) -> MemoryBroker | None:
        """The current broker."""
        return self._embedded if self._config.embedded else self._shared.broker

    def start(self) -> "list[asyncio.Task[None]]":
        """Start all processes; the returned tasks keep them running and never end."""
        tasks = [
            asyncio.ensure_future(self._keep_engine(engine_slot))
            for engine_slot in self.engine_slots
        ]
        tasks += [
            asyncio.ensure_future(self._keep_worker(number))
            for number in range(self._config.workers)
        ]
        return tasks

    def end(self) -> None:
        """Kill all processes."""
        engines = [engine_slot.process for engine_slot in self.engine_slots]
        for process in (*engines, *self.worker_processes, *self.zombies):
            if process is not None:
                process.kill()
        for worker in self.workers:
            if worker is not None:
                worker.abort()

    def _connect(self, name: str, port: Callable[[], object], process: SimulatedProcess) -> Any:
        connection = FaultyConnection(name, port, process, self._fault_plan, self)
        self.connections.append(connection)
        return connection

    def _new_process(self, kind: str) -> SimulatedProcess:
        self._process_count += 1
        return SimulatedProcess(f"{kind}-{self._process_count}")

    def _broker_port(self) -> Callable[[], object]:
        """Return the broker for a new process."""
        if self._config.embedded:
            own = self._embedded = MemoryBroker(self._environment.clock)
            return lambda: own
        client = SharedBrokerClient(self._shared)
        return lambda: client

    def _compile(self, stored: StoredWorkflow) -> Plan:
        return self._environment.plans[stored.workflow_id, stored.version]

    # Observed calls

    def call_started(self, process: str, call: str, arguments: tuple[Any, ...]) -> None:
        """A process is about to make a call."""
        self._observer.call_started(process, call, arguments)

    def call_finished(
        self, process: str, call: str, arguments: tuple[Any, ...], answer: Any
    ) -> None:
        """A call took effect."""
        self._observer.call_finished(process, call, arguments, answer)
        if call == "finish":
            now = asyncio.get_running_loop().time()
            for report in arguments[1]:
                self._environment.execution_log.accepted.setdefault(report.task_id, now)
        elif call == "publish":
            self._published.extend(arguments[0])

    # Engines

    async def _keep_engine(self, engine_slot: EngineSlot) -> None:
        """Start an engine, and a new one whenever it dies."""
        if engine_slot.joins_after:
            await asyncio.sleep(engine_slot.joins_after)
        while True:
            process = engine_slot.process = self._new_process("engine")
            await self._run_engine(engine_slot, process)
            self._after_engine(engine_slot, process)
            self.restarts += 1
            await asyncio.sleep(self._random.random() * RESTART_SECONDS_MAX)

    async def _run_engine(self, engine_slot: EngineSlot, process: SimulatedProcess) -> None:
        """Start an engine and wait until it dies or ends."""
        engine = self._new_engine(engine_slot, process)
        starting = process.spawn(engine.start())
        died = asyncio.ensure_future(process.died.wait())
        await asyncio.wait([starting, died], return_when=asyncio.FIRST_COMPLETED)
        if starting.done() and not process.is_dead and self._has_started(starting):
            engine_slot.engine = engine
            self.up.set()
            lost = None if self._config.engines else engine.shard_owner.running
            if lost is None:
                await died
            else:
                await asyncio.wait([lost, died], return_when=asyncio.FIRST_COMPLETED)
                if lost.done() and not process.is_dead:
                    self._report_end(lost)
        died.cancel()

    def _new_engine(self, engine_slot: EngineSlot, process: SimulatedProcess) -> Engine:
        config, environment = self._config, self._environment
        self._engine_port = self._broker_port()
        store = engine_slot.store = self._connect("store", lambda: environment.store, process)
        broker = engine_slot.broker = self._connect("broker", self._engine_port, process)
        sharing = None
        duties = _DUTIES
        if config.engines:
            sharing = Sharing(config.shards, config.lease_seconds, owns=engine_slot.owns)
            duties = _SHARING_DUTIES
        random = Random(self._random.random())
        self.is_reanchored = self.is_reanchored or environment.clock.is_set
        return Engine(
            store=store,
            broker=broker,
            clock=environment.clock.of_new_process(),
            plans=Plans(store, self._compile),
            artifacts=self._connect("artifacts", lambda: environment.artifacts, process),
            random=random,
            owner=process.name,
            artifact_bytes_max=_OUTPUT_BYTES_MAX,
            duties=structs.replace(duties, sweep_seconds=config.sweep_seconds),
            check_input=check_input,
            sharing=sharing,
        )

    def _has_started(self, starting: "asyncio.Task[Any]") -> bool:
        error = None if starting.cancelled() else starting.exception()
        if self._config.engines and isinstance(error, EXPECTED):
            # It reports the reason, and is started again.
            return False
        self._report_end(starting)
        return True

    def _report_end(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not (isinstance(error, StaleLease) and self.zombies):
            evidence = f"the engine ended unexpectedly: {type(error).__name__}: {error}"
            self.violations.append(Violation("I5", "-", evidence))

    def _after_engine(self, engine_slot: EngineSlot, process: SimulatedProcess) -> None:
        self._take_down(engine_slot)
        if process in self.zombies:
            return
        process.kill()
        if self._config.embedded:
            self.kill_workers()

    def _take_down(self, engine_slot: EngineSlot) -> None:
        engine_slot.engine = None
        if not any(other.engine for other in self.engine_slots):
            self.up.clear()

    async def stop_engine(self, engine_slot: EngineSlot) -> None:
        """Stop an engine gracefully; a new one is started in its place."""
        process, engine = engine_slot.process, engine_slot.engine
        if process is None or engine is None:
            return
        self._take_down(engine_slot)
        stopping = process.spawn(engine.stop())
        await asyncio.wait([stopping], timeout=STOP_SECONDS_MAX)
        if (
            stopping.done()
            and not stopping.cancelled()
            and not isinstance(stopping.exception(), EXPECTED)
        ):
            self._report_end(stopping)
        process.kill()

    def pause_and_replace(self) -> SimulatedProcess | None:
        """Pause the embedded process and start another one in its place; return the paused one."""
        [engine_slot] = self.engine_slots
        process = engine_slot.process
        if process is None or process.is_dead or engine_slot.engine is None:
            return None
        process.pause()
        self.zombies.append(process)
        for number, worker_process in enumerate(self.worker_processes):
            if worker_process is not None and not worker_process.is_dead:
                worker_process.pause()
                self.zombies.append(worker_process)
                self.workers[number] = None
                worker_process.died.set()
        process.died.set()
        return process

    # Workers

    async def _keep_worker(self, number: int) -> None:
        """Start a worker, and a new one whenever it dies."""
        while True:
            if self._config.embedded:
                await self.up.wait()
            process = self.worker_processes[number] = self._new_process("worker")
            worker = self.workers[number] = self._new_worker(process)
            process.spawn(worker.run())
            await process.died.wait()
            if process not in self.zombies:
                worker.abort()
            await asyncio.sleep(self._random.random() * RESTART_SECONDS_MAX)

    def _new_worker(self, process: SimulatedProcess) -> Worker:
        config, environment = self._config, self._environment
        port = self._engine_port if config.embedded else self._broker_port()
        return Worker(
            self._connect("broker", port, process),
            self._registry,
            environment.clock.of_new_process(),
            worker_id=process.name,
            queues=("default",),
            concurrency=config.concurrency,
            threads=64,
            processes=4,
            output_bytes_max=_OUTPUT_BYTES_MAX,
            random=Random(self._random.random()),
            artifacts=self._connect("artifacts", lambda: environment.artifacts, process),
            sinks={workflow_drafts.SINK: self._connect("sink", lambda: environment.sink, process)},
            heartbeat_seconds=_SHARING_HEARTBEAT_SECONDS if config.engines else _HEARTBEAT_SECONDS,
        )

    def kill_workers(self) -> None:
        """Kill all workers; new ones are started in their places."""
        for process in self.worker_processes:
            if process is not None:
                process.kill()

    # The broker

    async def publish_again(self) -> None:
        """Publish again everything that was ever published."""
        assert self.broker is not None
        await self.broker.publish(self._published)

    def flush_broker(self) -> None:
        """Let the separate broker lose its contents."""
        self._shared.lose_everything()
        self._observer.broker_flushed()
        self.flushed_at = asyncio.get_running_loop().time()

    async def evict_from_broker(self, random: Random) -> None:
        """Let the separate broker lose some of its tasks, which nothing tells but a look at each of them."""
        await self._shared.forget(random)
        self._observer.broker_flushed()
        self.evicted_at = self.flushed_at = asyncio.get_running_loop().time()

    def save_broker(self) -> None:
        """Keep the contents of the separate broker."""
        self._shared.save()

    async def restore_broker(self) -> None:
        """Let the separate broker have the contents that were kept."""
        await self._shared.restore()
        self._observer.broker_flushed()
        self.flushed_at = asyncio.get_running_loop().time()


def _engine_slots(config: SystemConfig, random: Random) -> list[EngineSlot]:
    delays = [0.0, *(random.random() * config.join_seconds_max for _ in range(1, config.engines))]
    slots = [EngineSlot(owns=True, joins_after=delay) for delay in delays]
    if config.has_server:
        slots.append(EngineSlot(owns=False, joins_after=0.0))
    return slots
