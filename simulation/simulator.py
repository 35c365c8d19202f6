"""The simulator: real engines and workers on virtual time, driven and disturbed by a seed, then checked.

A seed decides everything: the workflows, what is asked of them, what goes wrong and when. The same seed runs the same.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from msgspec import Raw, Struct

from simulation.checker import check, check_job
from simulation.checks.memory import check_memory, check_room
from simulation.faults import Chooser, adopt_tasks
from simulation.history import Acknowledged, Execution, History, JobHistory, LoopRecords, Violation
from simulation.ledger import Ledger
from simulation.memory_sink import MemorySink
from simulation.probes import lost_bounds, lost_tasks, lost_waits
from simulation.processes import EXPECTED, Crew, Post, Setting, World
from simulation.small_bounds import tightened
from windlass.core.errors import IdempotencyConflict, JobNotFound, RequestRefused
from windlass.core.plan import Plan
from windlass.engine.engine import Engine
from windlass.engine.shard import Shard
from windlass.ports.control import Submit
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.memory.store import MemoryStore
from windlass.stores.memory.tables import JobRows
from windlass.testing.virtual_time import VirtualClock, close, virtual_loop

# Once nothing goes wrong any more, everything must have ended within this time.
SETTLE_SECONDS_MAX = 900.0
IDLE_SECONDS_MAX = 120.0
RUN_SECONDS_MAX = 3_000.0
# Looks at memory and rows: one in so many idle moments.
LOOK_EVERY = 6
ASK_SECONDS_MAX = 20.0
ASKS_MAX = 5

# A shard at rest waits for messages and is in none of these calls.
_UNDER_WAY = (
    "commit", "publish", "cancel", "acknowledge", "send", "rewind", "leases.take", "jobs.unfinished", "jobs.restore",
    "workflows.get", "jobs.restore_all", "leases.claim", "leases.renew",
)  # fmt: skip


class Complaints(logging.Handler):
    """Collects exceptions that the code under test logged and that no fault explains."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what is unexpected."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not (isinstance(error, EXPECTED) and "already" not in str(error)):
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


class Simulation:
    """One system: a store that survives everything, and processes that do not."""

    def __init__(self, setting: Setting, chooser: Chooser, chance: Random) -> None:
        self.setting = setting
        self.chooser = chooser
        self.chance = chance
        self.loop = virtual_loop(Random(chance.random()) if setting.shuffled else None, self._look)
        adopt_tasks(self.loop)
        self.clock = VirtualClock(self.loop)
        # The database's own clock, which nobody sets.
        self.store = MemoryStore(VirtualClock(self.loop))
        self.artifacts = MemoryArtifacts()
        self.sink = MemorySink()
        self.plans: dict[tuple[str, int], Plan] = {}
        self.ledger = Ledger(self.store, self.clock)
        self.acknowledged: list[Acknowledged] = []
        self.violations: list[Violation] = []
        world = World(self.clock, self.store, self.artifacts, self.sink, self.ledger, self.plans)
        self.crew = Crew(setting, chooser, chance, world)
        self.clocks_steady = True
        # No fault at all: what takes time anyway is held to stricter bounds.
        self.undisturbed = False
        # Deliveries are never repeated and the broker forgets nothing: a result once accepted is not worked out again.
        self.results_last = not setting.embedded
        self._looks = 0

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
            self.crew.end()
            close(self.loop)
        self.violations += [Violation("unexpected", "-", text) for text in complaints.found]
        return self._report()

    async def _play(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        keepers = self.crew.keepers()
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

    def blame(self, invariant: str, job_id: str, evidence: str) -> None:
        """Note a violation."""
        self.violations.append(Violation(invariant, job_id, evidence))

    # Callers

    async def deploy(self, plan: Plan) -> None:
        """Make a workflow known."""
        self.plans[plan.workflow_id, plan.version] = plan
        await self.store.workflows.put(plan.workflow_id, Raw(b"{}"), f"digest {plan.version}", self.clock.now())

    async def ask(self, call: Callable[[Engine], Coroutine[Any, Any, Any]]) -> Any:
        """Ask the engine of the moment for something; TimeoutError when the answer cannot be known."""
        await self.crew.up.wait()
        posts = [post for post in self.crew.posts if post.engine is not None]
        post = posts[0] if len(posts) == 1 else self.chance.choice(posts)
        engine, life = post.engine, post.life
        assert engine is not None
        assert life is not None
        asking = life.spawn(call(engine))
        await asyncio.wait([asking], timeout=ASK_SECONDS_MAX)
        if not asking.done():
            asking.cancel()
        if not asking.done() or asking.cancelled() or isinstance(asking.exception(), EXPECTED):
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
            told = Acknowledged(job.job_id, wanted.workflow_id, wanted.idempotency_key, wanted.request_digest)
            self.acknowledged.append(told)
            return job.job_id
        return None

    def _check_conflict(self, wanted: Submit) -> None:
        key = (wanted.workflow_id, wanted.idempotency_key)
        rows = [self.store.rows(job_id).job for job_id in self.store.job_ids()]
        if not any(
            (r.spec.workflow_id, r.spec.idempotency_key) == key and r.spec.request_digest != wanted.request_digest
            for r in rows
        ):
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
        if any(self.store.rows(job_id).job.state.status in ("pending", "running") for job_id in self.store.job_ids()):
            return False
        return all(applied for _, applied in self.store.asked())

    async def _left(self) -> list[str]:
        left = [f"{worker.running} attempts running" for worker in self.crew.workers if worker and worker.running]
        shards = [shard for post in self.crew.posts if post.engine is not None for shard in post.engine.held]
        left += [f"jobs {sorted(shard.jobs)} in memory of shard {shard.number}" for shard in shards if shard.jobs]
        if self.crew.broker is not None:
            tasks = list(self.ledger.task_ids)
            left += sorted(set(tasks) - set(await self.crew.broker.missing(tasks)))
        return left + (await self._misplaced() if self.setting.engines else [])

    async def _misplaced(self) -> list[str]:
        """Shards that no engine has, and engines that have more than their part."""
        up = {post.life.name for post in self.crew.posts if post.owns and post.engine is not None and post.life}
        leases = (await self.store.leases.ownership()).leases
        owners = {row.shard: row.owner for row in leases if row.owner in up and not row.expired}
        left = [f"shard {shard} without an owner" for shard in range(self.setting.shards) if shard not in owners]
        fair = -(-self.setting.shards // max(1, len(up)))
        parts = Counter(owners.values())
        return left + [f"{count} shards at {owner}" for owner, count in parts.items() if count > fair]

    def _look(self) -> None:
        """At a moment when nothing is left to do: compare the memory of the engines with the rows."""
        self._looks += 1
        if self._looks % LOOK_EVERY or self.violations:
            return
        self.violations += self.crew.found()
        if any(not zombie.dead for zombie in self.crew.zombies):
            return  # the rows may be another's for a moment
        for post in self.crew.posts:
            if post.engine is not None and post.life is not None and not post.life.is_paused:
                self._look_at(post, post.engine)

    def _look_at(self, post: Post, engine: Engine) -> None:
        store, broker = post.store, post.broker
        assert store is not None
        assert broker is not None
        if broker.inside["gather"] < len(engine.held) or any(store.active[c] or broker.active[c] for c in _UNDER_WAY):
            return
        # After a failure a shard's memory is wrong until it notices; it may have to be told by the end of a wait.
        failed = {shard for call, shard in store.failed | broker.failed if call in _UNDER_WAY}
        if None in failed:
            return
        for shard in engine.held:
            # One that was taken over has an old owner that had no occasion to notice.
            if shard.number not in failed and self.store.owner_epoch(shard.number) == shard.epoch:
                self._look_into(shard)

    def _look_into(self, shard: Shard) -> None:
        jobs = list(shard.jobs.values())
        for job in jobs:
            self.violations += check_memory(job, self.store.rows(job.id))
            self.violations += check_room(job)
        if not self.crew.is_flushed:
            assert self.crew.broker is not None
            self.violations += lost_tasks(jobs, self.crew.broker)
            # A clock that was set makes waits longer or shorter.
            if self.clocks_steady:
                now = self.clock.now()
                self.violations += [*lost_waits(jobs, now), *lost_bounds(jobs, now)]
        for job_id in shard.quarantined:
            self.blame("quarantine", job_id, "was set aside")
        if not self._looks % (LOOK_EVERY * 16):
            for job_id in shard.jobs:
                self.violations += check_job(self._job_history(job_id), clocks_steady=self.clocks_steady)

    def _job_history(self, job_id: str, executions: list[Execution] | None = None) -> JobHistory:
        restored = self.store.rows(job_id)
        job = restored.job
        plan = self.plans[job.spec.workflow_id, job.spec.version]
        requests = [held for held in self.store.asked() if held[0].job_id == job_id]
        return JobHistory(
            job=job,
            plan=plan,
            nodes=restored.all_nodes(),
            events=self.store.log(job_id),
            requests=requests,
            executions=executions or [],
            is_ledger_whole=executions is not None,
            loops=loop_records(self.store.job_rows(job_id)),
            artifacts={key: body for key, body in self.artifacts.kept.items() if key.startswith(job_id)},
            sunk=[one for one in self.sink.table if one.identity.startswith(job_id)],
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
        self.violations += [found for found in self.crew.found() if found not in self.violations]
        self.violations += check(history)
        for job_id in self.store.rewritten:
            self.blame("I10", job_id, "a collection was recorded a second time, and differently")
        if self.results_last and not self.crew.is_flushed:
            self.violations += [Violation("I6", "-", f"{task_id} ran again, though its result was accepted")
                                for task_id in self.ledger.repeated]  # fmt: skip
        return Report(
            violations=self.violations,
            jobs=len(history.jobs),
            events=sum(len(job.events) for job in history.jobs),
            executions=len(self.ledger.executions),
            calls=sum(wire.calls for wire in self.crew.wires),
            restarts=self.crew.restarts,
            seconds=self.loop.time(),
        )


def loop_records(rows: JobRows) -> LoopRecords:
    """Return what a job's rows hold of its loops and paginated nodes."""
    collections: dict[tuple[int, int], list[bytes]] = {}
    for (number, generation, _), body in sorted(rows.chunks.items()):
        collections.setdefault((number, generation), []).append(body)
    return LoopRecords(list(rows.iterations.values()), collections, dict(rows.call_outputs))
