"""The processes of a simulation: engines and workers that start, die, are paused, leave and come again."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct, structs

from simulation import workflow_drafts
from simulation.faults import Chooser, Life, Wire
from simulation.history import Violation
from simulation.ledger import Ledger
from simulation.memory_sink import MemorySink
from simulation.shared_broker import Seat, SharedBroker
from simulation.witness import Witness
from windlass.brokers.memory import MemoryBroker
from windlass.core.changes import Task
from windlass.core.errors import BrokerUnavailable, CommitUnknown, StaleLease, StoreUnavailable
from windlass.core.plan import Plan
from windlass.engine.engine import Duties, Engine, Sharing
from windlass.engine.plan_cache import Plans
from windlass.ports.handler import Handler
from windlass.ports.store.workflows import StoredWorkflow
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


class Setting(Struct, frozen=True):
    """How the simulated system is built."""

    # The broker lives in the engine's process and dies with it; else it stands apart and survives, as Redis would.
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


class Post:
    """A place in which one engine runs after another."""

    def __init__(self, *, owns: bool, joins_after: float) -> None:
        self.owns = owns
        self.joins_after = joins_after
        self.life: Life | None = None
        # Once it is up.
        self.engine: Engine | None = None
        self.store: Wire | None = None
        self.broker: Wire | None = None


class World(Struct, frozen=True):
    """What outlives every process."""

    clock: VirtualClock
    store: MemoryStore
    artifacts: MemoryArtifacts
    sink: MemorySink
    ledger: Ledger
    plans: dict[tuple[str, int], Plan]
    # Besides the scripted one.
    handlers: dict[str, Handler] = {}


class Crew:
    """Keeps the processes of a simulation running, whatever is done to them."""

    def __init__(self, setting: Setting, chooser: Chooser, chance: Random, world: World) -> None:
        self.posts = _posts(setting, chance)
        self.workers: list[Worker | None] = [None] * setting.workers
        self.worker_lives: list[Life | None] = [None] * setting.workers
        # Paused processes whose place another one has.
        self.zombies: list[Life] = []
        self.wires: list[Wire] = []
        self.restarts = 0
        # Whether the broker that stands apart lost everything once.
        self.is_flushed = False
        self.violations: list[Violation] = []
        self.up = asyncio.Event()
        self._setting = setting
        self._chooser = chooser
        self._chance = chance
        self._world = world
        self._witness = Witness(is_shared=bool(setting.engines), has_one_broker=not setting.embedded)
        self._shared = SharedBroker(world.clock)
        self._embedded: MemoryBroker | None = None
        self._engine_port: Callable[[], object] = lambda: None
        self._named = 0
        self._published: list[Task] = []
        self._registry = {workflow_drafts.HANDLER: world.ledger.handler(), **world.handlers}

    def found(self) -> list[Violation]:
        """What was noticed so far."""
        return [*self.violations, *self._witness.violations]

    @property
    def broker(self) -> MemoryBroker | None:
        """The queues of the moment."""
        return self._embedded if self._setting.embedded else self._shared.broker

    def keepers(self) -> "list[asyncio.Task[None]]":
        """Start everything; these tasks never end."""
        keepers = [asyncio.ensure_future(self._keep_engine(post)) for post in self.posts]
        return keepers + [asyncio.ensure_future(self._keep_worker(slot)) for slot in range(self._setting.workers)]

    def end(self) -> None:
        """End everything at once."""
        for life in (*(post.life for post in self.posts), *self.worker_lives, *self.zombies):
            if life is not None:
                life.kill()
        for worker in self.workers:
            if worker is not None:
                worker.abort()

    def _wire(self, name: str, port: Callable[[], object], life: Life) -> Any:
        wire = Wire(name, port, life, self._chooser, self)
        self.wires.append(wire)
        return wire

    def _new_life(self, kind: str) -> Life:
        self._named += 1
        return Life(f"{kind}-{self._named}")

    def _broker_port(self) -> Callable[[], object]:
        """The broker as a new process has it."""
        if self._setting.embedded:
            own = self._embedded = MemoryBroker(self._world.clock)
            return lambda: own
        seat = Seat(self._shared)
        return lambda: seat

    def _compile(self, stored: StoredWorkflow) -> Plan:
        return self._world.plans[stored.workflow_id, stored.version]

    # What is seen of the calls

    def begun(self, process: str, call: str, arguments: tuple[Any, ...]) -> None:
        """A process is about to make a call."""
        self._witness.begun(process, call, arguments)

    def done(self, process: str, call: str, arguments: tuple[Any, ...], answer: Any) -> None:
        """A call took effect."""
        self._witness.done(process, call, arguments, answer)
        if call == "finish":
            now = asyncio.get_running_loop().time()
            for report in arguments[1]:
                self._world.ledger.accepted.setdefault(report.task_id, now)
        elif call == "publish":
            self._published.extend(arguments[0])

    # Engines

    async def _keep_engine(self, post: Post) -> None:
        """Start an engine, and another one when it dies."""
        if post.joins_after:
            await asyncio.sleep(post.joins_after)
        while True:
            life = post.life = self._new_life("engine")
            engine = self._new_engine(post, life)
            starting = life.spawn(engine.start())
            died = asyncio.ensure_future(life.died.wait())
            await asyncio.wait([starting, died], return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not life.dead and self._has_started(starting):
                post.engine = engine
                self.up.set()
                lost = None if self._setting.engines else engine.lost
                await asyncio.wait([died] if lost is None else [lost, died], return_when=asyncio.FIRST_COMPLETED)
                if lost is not None and lost.done() and not life.dead:
                    self._note_end(lost)
            died.cancel()
            self._after_engine(post, life)
            self.restarts += 1
            await asyncio.sleep(self._chance.random() * RESTART_SECONDS_MAX)

    def _new_engine(self, post: Post, life: Life) -> Engine:
        setting = self._setting
        self._engine_port = self._broker_port()
        store = post.store = self._wire("store", lambda: self._world.store, life)
        broker = post.broker = self._wire("broker", self._engine_port, life)
        sharing = Sharing(setting.shards, setting.lease_seconds, owns=post.owns) if setting.engines else None
        duties = _SHARING_DUTIES if setting.engines else Duties()
        chance = Random(self._chance.random())
        return Engine(
            store,
            broker,
            self._world.clock,
            Plans(store, self._compile),
            self._wire("artifacts", lambda: self._world.artifacts, life),
            chance,
            owner=life.name,
            duties=structs.replace(duties, sweep_seconds=setting.sweep_seconds),
            sharing=sharing,
        )

    def _has_started(self, starting: "asyncio.Task[Any]") -> bool:
        error = None if starting.cancelled() else starting.exception()
        if self._setting.engines and isinstance(error, EXPECTED):
            return False  # it says why, and its supervisor starts it again
        self._note_end(starting)
        return True

    def _note_end(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not (isinstance(error, StaleLease) and self.zombies):
            told = f"the engine ended by itself: {type(error).__name__}: {error}"
            self.violations.append(Violation("I5", "-", told))

    def _after_engine(self, post: Post, life: Life) -> None:
        self._take_down(post)
        if life not in self.zombies:
            life.kill()
        if self._setting.embedded and life not in self.zombies:
            self.kill_workers()

    def _take_down(self, post: Post) -> None:
        post.engine = None
        if not any(other.engine for other in self.posts):
            self.up.clear()

    async def leave(self, post: Post) -> None:
        """Have an engine stop in good order; another comes in its place."""
        life, engine = post.life, post.engine
        if life is None or engine is None:
            return
        self._take_down(post)
        stopping = life.spawn(engine.stop())
        await asyncio.wait([stopping], timeout=LEAVE_SECONDS_MAX)
        if stopping.done() and not stopping.cancelled() and not isinstance(stopping.exception(), EXPECTED):
            self._note_end(stopping)
        life.kill()

    def usurp(self) -> Life | None:
        """Pause the embedded process; another one takes its place. The paused one is given back, to be resumed."""
        [post] = self.posts
        life = post.life
        if life is None or life.dead or post.engine is None:
            return None
        life.pause()
        self.zombies.append(life)
        for slot, worker_life in enumerate(self.worker_lives):
            if worker_life is not None and not worker_life.dead:
                worker_life.pause()
                self.zombies.append(worker_life)
                self.workers[slot] = None
                worker_life.died.set()
        life.died.set()
        return life

    # Workers

    async def _keep_worker(self, slot: int) -> None:
        """Start a worker, and another one when it dies."""
        setting, world = self._setting, self._world
        heartbeat_seconds = _SHARING_HEARTBEAT_SECONDS if setting.engines else _HEARTBEAT_SECONDS
        while True:
            if setting.embedded:
                await self.up.wait()
            life = self.worker_lives[slot] = self._new_life("worker")
            port = self._engine_port if setting.embedded else self._broker_port()
            worker = self.workers[slot] = Worker(
                self._wire("broker", port, life),
                self._registry,
                world.clock,
                worker_id=life.name,
                concurrency=setting.concurrency,
                random=Random(self._chance.random()),
                artifacts=self._wire("artifacts", lambda: world.artifacts, life),
                sinks={workflow_drafts.SINK: self._wire("sink", lambda: world.sink, life)},
                heartbeat_seconds=heartbeat_seconds,
            )
            life.spawn(worker.run())
            await life.died.wait()
            if life not in self.zombies:
                worker.abort()
            await asyncio.sleep(self._chance.random() * RESTART_SECONDS_MAX)

    def kill_workers(self) -> None:
        """End all workers at once; others come in their places."""
        for life in self.worker_lives:
            if life is not None:
                life.kill()

    # The broker

    async def publish_again(self) -> None:
        """Everything that was ever published is published once more."""
        assert self.broker is not None
        await self.broker.publish(self._published)

    def flush_broker(self) -> None:
        """The broker that stands apart loses everything."""
        self._shared.lose_everything()
        self._witness.lost_everything()
        self.is_flushed = True


def _posts(setting: Setting, chance: Random) -> list[Post]:
    first = Post(owns=True, joins_after=0.0)
    others = [
        Post(owns=True, joins_after=chance.random() * setting.join_seconds_max) for _ in range(1, setting.engines)
    ]
    return [first, *others, *([Post(owns=False, joins_after=0.0)] if setting.has_server else [])]
