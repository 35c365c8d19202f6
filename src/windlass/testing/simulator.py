"""The simulator: real engines and workers on virtual time, driven and disturbed by a seed, then checked.

A seed decides everything: the workflows, what is asked of them, what goes wrong and when. The same seed runs the same.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from msgspec import Raw, Struct

from windlass.brokers.memory import MemoryBroker
from windlass.core.changes import Task
from windlass.core.errors import (
    CommitUnknown,
    IdempotencyConflict,
    JobNotFound,
    RequestRefused,
    StaleLease,
    StoreUnavailable,
)
from windlass.core.plan import Plan
from windlass.engine.engine import Duties, Engine
from windlass.engine.plans import Plans
from windlass.ports.control import Submit
from windlass.ports.store import StoredWorkflow
from windlass.testing import drafts
from windlass.testing.bounds import tightened
from windlass.testing.checker import check, check_job
from windlass.testing.checking_memory import check_memory, check_room
from windlass.testing.faults import Chooser, Life, Wire, adopt_tasks
from windlass.testing.history import Acknowledged, Execution, History, JobHistory, Violation
from windlass.testing.ledger import Ledger
from windlass.testing.looking import lost_bounds, lost_tasks, lost_waits
from windlass.testing.memory_artefacts import MemoryArtefacts
from windlass.testing.memory_sink import MemorySink
from windlass.testing.memory_store import MemoryStore
from windlass.testing.virtual import VirtualClock, close, virtual_loop
from windlass.worker.worker import Worker

# Once nothing goes wrong any more, everything must have ended within this time.
SETTLE_SECONDS_MAX = 900.0
IDLE_SECONDS_MAX = 120.0
RUN_SECONDS_MAX = 3_000.0
RESTART_SECONDS_MAX = 3.0
# Looks at memory and rows: one in so many idle moments.
LOOK_EVERY = 6
ASK_SECONDS_MAX = 20.0
ASKS_MAX = 5

# A shard at rest waits for messages and is in none of these calls.
_UNDER_WAY = (
    "commit", "publish", "cancel", "acknowledge", "send", "rewind", "take_lease", "unfinished", "restore", "workflow",
)  # fmt: skip
_EXPECTED = (CommitUnknown, StoreUnavailable, ConnectionError, StaleLease)


class Complaints(logging.Handler):
    """Collects exceptions that the code under test logged and that no fault explains."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what is unexpected."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not (isinstance(error, _EXPECTED) and "already" not in str(error)):
            self.found.append(f"{record.getMessage()}: {type(error).__name__}: {error}")


class Report(Struct, frozen=True):
    """What a simulation came to."""

    violations: list[Violation]
    jobs: int
    events: int
    executions: int
    calls: int
    restarts: int
    seconds: float


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


class Simulation:
    """One system: a store that survives everything, and processes that do not."""

    def __init__(self, setting: Setting, chooser: Chooser, chance: Random) -> None:
        self.setting = setting
        self.chooser = chooser
        self.chance = chance
        self.loop = virtual_loop(Random(chance.random()) if setting.shuffled else None, self._look)
        adopt_tasks(self.loop)
        self.clock = VirtualClock(self.loop)
        self.store = MemoryStore()
        self.artefacts = MemoryArtefacts()
        self.sink = MemorySink()
        self.plans: dict[tuple[str, int], Plan] = {}
        self.ledger = Ledger(self.store, self.clock)
        self.acknowledged: list[Acknowledged] = []
        self.violations: list[Violation] = []
        self.engine: Engine | None = None
        self.engine_life: Life | None = None
        self.worker_lives: list[Life | None] = [None] * setting.workers
        self.zombies: list[Life] = []
        self.clocks_steady = True
        # No fault at all: what takes time anyway is held to stricter bounds.
        self.undisturbed = False
        # Deliveries are never repeated and the broker forgets nothing: a result once accepted is not worked out again.
        self.results_last = not setting.embedded
        self.restarts = 0
        self._broker: MemoryBroker | None = None
        self._flushed = False
        self._wires: list[Wire] = []
        self._engine_wires: tuple[Wire, Wire] | None = None
        self._engine_port: Callable[[], object] = lambda: None
        self._workers: list[Worker | None] = [None] * setting.workers
        self._started = asyncio.Event()
        self._looks = 0
        self._named = 0
        self._published: list[Task] = []
        self._registry = {drafts.HANDLER: self.ledger.handler()}

    # Running

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> Report:
        """Run a scenario to its end and check everything."""
        complaints = Complaints()
        logger = logging.getLogger("windlass")
        before = (logger.propagate, logger.level)
        logger.addHandler(complaints)
        logger.propagate = False
        self.loop.set_exception_handler(lambda loop, context: None)
        try:
            with tightened(tight=self.setting.tight):
                self.loop.run_until_complete(self._play(main))
        finally:
            logger.removeHandler(complaints)
            logger.propagate = before[0]
            self._end_processes()
            close(self.loop)
        self.violations += [Violation("unexpected", "-", text) for text in complaints.found]
        return self._report()

    async def _play(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        keepers = [asyncio.ensure_future(self._keep_engine())]
        keepers += [asyncio.ensure_future(self._keep_worker(slot)) for slot in range(self.setting.workers)]
        scenario = asyncio.ensure_future(main())
        await asyncio.wait([scenario, *keepers], timeout=RUN_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED)
        for keeper in keepers:
            keeper.cancel()
        await asyncio.wait(keepers)
        if not scenario.done():
            scenario.cancel()
            for keeper in keepers:
                if not keeper.cancelled():
                    keeper.result()
            self.blame(
                "I14", "-", f"no end after {RUN_SECONDS_MAX:g} s: the engine does not come up, or answers nobody"
            )
            return
        await scenario

    def _end_processes(self) -> None:
        for life in (self.engine_life, *self.worker_lives, *self.zombies):
            if life is not None:
                life.kill()
        for worker in self._workers:
            if worker is not None:
                worker.abort()

    def blame(self, invariant: str, job_id: str, evidence: str) -> None:
        """Note a violation."""
        self.violations.append(Violation(invariant, job_id, evidence))

    # Processes

    def _wire(self, name: str, port: Callable[[], object], life: Life) -> Any:
        wire = Wire(name, port, life, self.chooser)
        self._wires.append(wire)
        return wire

    def _new_life(self, kind: str) -> Life:
        self._named += 1
        return Life(f"{kind}-{self._named}")

    def _broker_port(self) -> Callable[[], object]:
        if self.setting.embedded:
            own = MemoryBroker(self.clock)
            self._broker = own
            return lambda: own
        if self._broker is None:
            self._broker = MemoryBroker(self.clock)
        return lambda: self._broker

    async def _keep_engine(self) -> None:
        """Start an engine, and another one when it dies."""
        while True:
            life = self.engine_life = self._new_life("engine")
            self._engine_port = self._broker_port()
            store = self._wire("store", lambda: self.store, life)
            broker = self._wire("broker", self._engine_port, life)
            chance = Random(self.chance.random())
            plans = Plans(store, self._compile)
            engine = Engine(
                store,
                broker,
                self.clock,
                plans,
                self._wire("artefacts", lambda: self.artefacts, life),
                chance,
                owner=life.name,
                duties=Duties(sweep_seconds=self.setting.sweep_seconds),
            )
            self._engine_wires = (store, broker)
            broker.on_done = self._note_published
            starting = life.spawn(engine.start())
            died = asyncio.ensure_future(life.died.wait())
            await asyncio.wait([starting, died], return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not life.dead:
                self._note_end(starting)
                self.engine = engine
                self._started.set()
                lost = engine.lost
                assert lost is not None
                await asyncio.wait([lost, died], return_when=asyncio.FIRST_COMPLETED)
                if lost.done() and not life.dead:
                    self._note_end(lost)
            died.cancel()
            self._after_engine(life)
            self.restarts += 1
            await asyncio.sleep(self.chance.random() * RESTART_SECONDS_MAX)

    def _note_end(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not (isinstance(error, StaleLease) and self.zombies):
            self.blame("I5", "-", f"the engine ended by itself: {type(error).__name__}: {error}")

    def _after_engine(self, life: Life) -> None:
        self.engine = None
        self._started.clear()
        if life not in self.zombies:
            life.kill()
        if self.setting.embedded:
            for worker_life in self.worker_lives:
                if worker_life is not None and life not in self.zombies:
                    worker_life.kill()

    async def _keep_worker(self, slot: int) -> None:
        """Start a worker, and another one when it dies."""
        while True:
            if self.setting.embedded:
                await self._started.wait()
            life = self.worker_lives[slot] = self._new_life("worker")
            port = self._engine_port if self.setting.embedded else self._broker_port()
            wire = self._wire("broker", port, life)
            wire.on_done = self._note_result
            worker = self._workers[slot] = Worker(
                wire,
                self._registry,
                self.clock,
                worker_id=life.name,
                concurrency=self.setting.concurrency,
                random=Random(self.chance.random()),
                artefacts=self._wire("artefacts", lambda: self.artefacts, life),
                sinks={drafts.SINK: self._wire("sink", lambda: self.sink, life)},
            )
            life.spawn(worker.run())
            await life.died.wait()
            if life not in self.zombies:
                worker.abort()
            await asyncio.sleep(self.chance.random() * RESTART_SECONDS_MAX)

    def _note_result(self, call: str, arguments: tuple[Any, ...]) -> None:
        if call == "finish":
            for report in arguments[1]:
                self.ledger.accepted.setdefault(report.task_id, self.loop.time())

    def _note_published(self, call: str, arguments: tuple[Any, ...]) -> None:
        if call == "publish":
            self._published.extend(arguments[0])

    async def publish_again(self) -> None:
        """Everything that was ever published is published once more."""
        assert self._broker is not None
        await self._broker.publish(self._published)

    def usurp(self) -> Life | None:
        """Pause the embedded process; another one takes its place. The paused one is given back, to be resumed."""
        life = self.engine_life
        if life is None or life.dead or self.engine is None:
            return None
        life.pause()
        self.zombies.append(life)
        for slot, worker_life in enumerate(self.worker_lives):
            if worker_life is not None and not worker_life.dead:
                worker_life.pause()
                self.zombies.append(worker_life)
                self._workers[slot] = None
                worker_life.died.set()
        life.died.set()
        return life

    def flush_broker(self) -> None:
        """The broker that stands apart loses everything."""
        self._broker = MemoryBroker(self.clock)
        self.results_last = False
        self._flushed = True

    def _compile(self, stored: StoredWorkflow) -> Plan:
        return self.plans[stored.workflow_id, stored.version]

    # Callers

    async def deploy(self, plan: Plan) -> None:
        """Make a workflow known."""
        self.plans[plan.workflow_id, plan.version] = plan
        await self.store.put_workflow(plan.workflow_id, Raw(b"{}"), f"digest {plan.version}", self.clock.now())

    async def ask(self, call: Callable[[Engine], Coroutine[Any, Any, Any]]) -> Any:
        """Ask the engine of the moment for something; TimeoutError when the answer can not be known."""
        await self._started.wait()
        engine, life = self.engine, self.engine_life
        assert engine is not None
        assert life is not None
        asking = life.spawn(call(engine))
        await asyncio.wait([asking], timeout=ASK_SECONDS_MAX)
        if not asking.done():
            asking.cancel()
        if not asking.done() or asking.cancelled() or isinstance(asking.exception(), _EXPECTED):
            raise TimeoutError
        return asking.result()

    async def submit(self, wanted: Submit) -> str | None:
        """Submit until it is acknowledged, as often as can be done without risking a second job."""
        for _ in range(ASKS_MAX if wanted.idempotency_key is not None else 1):
            try:
                job = await self.ask(lambda engine: engine.submit(wanted))
            except TimeoutError:
                continue
            except IdempotencyConflict:
                self._check_conflict(wanted)
                return None
            told = Acknowledged(job.job_id, wanted.workflow_id, wanted.idempotency_key, wanted.body_digest)
            self.acknowledged.append(told)
            return job.job_id
        return None

    def _check_conflict(self, wanted: Submit) -> None:
        key = (wanted.workflow_id, wanted.idempotency_key)
        rows = [self.store.rows(job_id).job for job_id in self.store.job_ids()]
        if not any((r.workflow_id, r.idempotency_key) == key and r.body_digest != wanted.body_digest for r in rows):
            self.blame("I25", "-", f"the key {wanted.idempotency_key!r} was called a conflict without one")

    async def cancel(self, job_id: str) -> None:
        """Ask for a job to stop."""
        with suppress(TimeoutError, JobNotFound):
            await self.ask(lambda engine: engine.cancel(job_id))

    async def retry(self, job_id: str, from_node: str | None = None) -> None:
        """Ask for a finished job to be taken up again."""
        with suppress(TimeoutError, JobNotFound, RequestRefused):
            await self.ask(lambda engine: engine.retry(job_id, from_node))

    # The end

    async def settle(self) -> None:
        """Wait until every job has ended, every request is applied and nothing runs any more, within bounds."""
        give_up_at = self.loop.time() + SETTLE_SECONDS_MAX
        while not self._ended() and self.loop.time() < give_up_at:
            await self.clock.sleep(1.0)
        if not self._ended():
            return  # the checker tells which jobs did not, and what they wait for
        give_up_at = self.loop.time() + IDLE_SECONDS_MAX
        while (left := await self._left()) and self.loop.time() < give_up_at:
            await self.clock.sleep(1.0)
        if left:
            self.blame("I33", "-", f"all jobs have ended, and still there is: {left}")

    def _ended(self) -> bool:
        if any(self.store.rows(job_id).job.status in ("pending", "running") for job_id in self.store.job_ids()):
            return False
        return all(applied for _, applied in self.store.asked())

    async def _left(self) -> list[str]:
        left = [f"{worker.running} attempts running" for worker in self._workers if worker and worker.running]
        if self.engine is not None and self.engine.shard.jobs:
            left.append(f"jobs {sorted(self.engine.shard.jobs)} in memory")
        if self._broker is not None:
            tasks = list(self.ledger.task_ids)
            left += sorted(set(tasks) - set(await self._broker.missing(tasks)))
        return left

    def _look(self) -> None:
        """At a moment when nothing is left to do: compare the memory of the engine with the rows."""
        self._looks += 1
        if self._looks % LOOK_EVERY or self.engine is None or self.violations:
            return
        if any(not zombie.dead for zombie in self.zombies):
            return  # the rows may be another's for a moment
        assert self._engine_wires is not None
        store, broker = self._engine_wires
        if not broker.inside["gather"] or any(store.active[c] or broker.active[c] for c in _UNDER_WAY):
            return
        # After a failure the shard's memory is wrong until it notices; it may have to be told by the end of a wait.
        if not (store.failed | broker.failed).isdisjoint(_UNDER_WAY):
            return
        shard = self.engine.shard
        if self.store.owner_epoch(shard.number) != shard.epoch:
            return  # the shard was taken over, and its old owner has had no occasion to notice
        jobs = list(shard.jobs.values())
        for job in jobs:
            self.violations += check_memory(job, self.store.rows(job.id))
            self.violations += check_room(job)
        if not self._flushed:
            assert self._broker is not None
            self.violations += lost_tasks(jobs, self._broker)
            # A clock that was set makes waits longer or shorter.
            if self.clocks_steady:
                now = self.clock.now()
                self.violations += [*lost_waits(jobs, now), *lost_bounds(jobs, now)]
        for job_id in shard.quarantined:
            self.blame("quarantine", job_id, "was set aside")
        if not self._looks % (LOOK_EVERY * 16):
            for job_id in shard.jobs:
                self.violations += check_job(self._job_history(job_id, []), clocks_steady=self.clocks_steady)

    def _job_history(self, job_id: str, executions: list[Execution]) -> JobHistory:
        restored = self.store.rows(job_id)
        job, nodes = restored.job, restored.nodes
        plan = self.plans[job.workflow_id, job.version]
        requests = [held for held in self.store.asked() if held[0].job_id == job_id]
        return JobHistory(
            job,
            plan,
            nodes,
            self.store.log(job_id),
            requests,
            executions,
            self.store.records(job_id),
            {key: body for key, body in self.artefacts.kept.items() if key.startswith(job_id)},
            [one for one in self.sink.table if one.identity.startswith(job_id)],
        )

    def history(self) -> History:
        """Everything that happened, as the checker wants it."""
        by_job: dict[str, list[Execution]] = {}
        for execution in self.ledger.executions:
            by_job.setdefault(execution.job_id, []).append(execution)
        jobs = [self._job_history(job_id, by_job.get(job_id, [])) for job_id in self.store.job_ids()]
        undisturbed = self.undisturbed and not self.ledger.has_killed
        return History(jobs, self.acknowledged, settled=True, undisturbed=undisturbed, clocks_steady=self.clocks_steady)

    def _report(self) -> Report:
        history = self.history()
        self.violations += check(history)
        for job_id in self.store.rewritten:
            self.blame("I10", job_id, "a collection was recorded a second time, and differently")
        if self.results_last:
            self.violations += [Violation("I6", "-", f"{task_id} ran again, though its result was accepted")
                                for task_id in self.ledger.repeated]  # fmt: skip
        return Report(
            violations=self.violations,
            jobs=len(history.jobs),
            events=sum(len(job.events) for job in history.jobs),
            executions=len(self.ledger.executions),
            calls=sum(wire.calls for wire in self._wires),
            restarts=self.restarts,
            seconds=self.loop.time(),
        )
