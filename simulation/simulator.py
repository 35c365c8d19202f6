"""The simulator: real engines and workers on virtual time, run under random faults and then checked.

A seed determines everything: the workflows, the requests, the faults and their times. The same seed gives the same run.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

from msgspec import Raw, Struct

from simulation.checker import check, check_job
from simulation.checks.memory import check_memory, check_window
from simulation.execution_log import ExecutionLog
from simulation.faults import FaultPlan, adopt_tasks
from simulation.history import AcknowledgedSubmit, Execution, History, JobHistory, Violation
from simulation.memory_sink import MemorySink
from simulation.probes import lost_deadlines, lost_tasks, lost_waits
from simulation.processes import EXPECTED, EngineSlot, Environment, ProcessSupervisor, SystemConfig
from simulation.small_bounds import small_bounds
from windlass.core.errors import IdempotencyConflict, JobNotFound, RequestRefused
from windlass.core.plan import Plan
from windlass.core.submit_request import SubmitRequest
from windlass.engine.engine import Engine
from windlass.engine.shard import Shard
from windlass.ports.store.jobs import SubmitResult
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.memory.store import MemoryStore
from windlass.testing.virtual_time import VirtualClock, close, virtual_loop

# After the last fault, everything must have ended within this time.
SETTLE_SECONDS_MAX = 900.0
IDLE_SECONDS_MAX = 120.0
RUN_SECONDS_MAX = 3_000.0
# One in this many idle moments is used to compare memory and rows.
CHECK_EVERY = 6
CALL_SECONDS_MAX = 20.0
SUBMITS_MAX = 5
# After a loss of the broker's contents, the tasks in flight are published again within this time.
RECOVERED_SECONDS = 5.0
# A shard that waits for messages may notice a failure only at the end of the wait.
UNNOTICED_SECONDS_MAX = 6.0
# The regular check of tasks in flight finds those that were lost alone.
FOUND_SECONDS = 100.0

# An idle shard waits for messages and makes none of these calls.
_BUSY_CALLS = (
    "commit", "publish", "cancel", "acknowledge", "send", "rewind", "leases.take", "jobs.unfinished", "jobs.restore",
    "workflows.get", "jobs.restore_all", "leases.claim", "leases.renew", "register_owner", "tasks_of",
)  # fmt: skip


class ErrorCollector(logging.Handler):
    """Collects logged exceptions that no fault explains."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep an unexpected exception."""
        error = record.exc_info[1] if record.exc_info else getattr(record, "outage", None)
        if error is None:
            return
        is_expected = isinstance(error, EXPECTED) and "already" not in str(error)
        if not is_expected:
            self.found.append(f"{record.getMessage()}: {type(error).__name__}: {error}")


@contextmanager
def collected_errors() -> Generator[ErrorCollector]:
    """Collect the logged exceptions of the package inside the block instead of showing them."""
    collector = ErrorCollector()
    logger = logging.getLogger("windlass")
    propagate = logger.propagate
    logger.addHandler(collector)
    logger.propagate = False
    try:
        yield collector
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagate


class SimulationReport(Struct, frozen=True):
    """The result of a simulation."""

    violations: list[Violation]
    jobs: int
    events: int
    executions: int
    calls: int
    restarts: int
    seconds: float


class Simulation:
    """One simulated system: a store that survives all faults, and processes that do not."""

    def __init__(self, config: SystemConfig, fault_plan: FaultPlan, random: Random) -> None:
        self.config = config
        self.fault_plan = fault_plan
        self.random = random
        order = Random(random.random()) if config.shuffled else None
        self.loop = virtual_loop(order, self._on_idle)
        adopt_tasks(self.loop)
        self.clock = VirtualClock(self.loop)
        # The database has its own clock, which is never set.
        self.store = MemoryStore(VirtualClock(self.loop))
        self.artifacts = MemoryArtifacts()
        self.sink = MemorySink()
        self.plans: dict[tuple[str, int], Plan] = {}
        self.execution_log = ExecutionLog(self.store, self.clock)
        self.acknowledged: list[AcknowledgedSubmit] = []
        self.violations: list[Violation] = []
        environment = Environment(
            clock=self.clock,
            store=self.store,
            artifacts=self.artifacts,
            sink=self.sink,
            execution_log=self.execution_log,
            plans=self.plans,
        )
        self.supervisor = ProcessSupervisor(config, fault_plan, random, environment)
        # Whether there are no faults at all; stricter checks apply then.
        self.undisturbed = False
        # Whether an accepted result is final: no delivery is repeated and the broker loses nothing.
        self.results_are_final = not config.embedded
        # Since when the broker lacks tasks in flight, by shard.
        self._lost_since: dict[int, dict[Violation, float]] = {}
        # When the last fault ended.
        self._settling_at = math.inf
        self._idle_moments = 0

    @property
    def clocks_steady(self) -> bool:
        """Whether all instants in the rows are by one time: that of engines never steps, but begins with the wall."""
        return not self.supervisor.is_reanchored

    # Running

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> SimulationReport:
        """Run a scenario to its end and check the result."""
        self.loop.set_exception_handler(lambda loop, context: None)
        with collected_errors() as errors:
            try:
                with small_bounds(tight=self.config.tight):
                    self.loop.run_until_complete(self._run(main))
            finally:
                self.supervisor.end()
                close(self.loop)
        for text in errors.found:
            self.report("unexpected", "-", text)
        return self._report()

    async def _run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        processes = self.supervisor.start()
        scenario = asyncio.ensure_future(main())
        await asyncio.wait(
            [scenario, *processes], timeout=RUN_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED
        )
        for process in processes:
            process.cancel()
        await asyncio.wait(processes)
        if scenario.done():
            await scenario
            return
        scenario.cancel()
        for process in processes:
            if not process.cancelled():
                # Raises the error that ended it.
                process.result()
        evidence = f"not finished after {RUN_SECONDS_MAX:g} s: the engine does not start or does not answer"
        self.report("I14", "-", evidence)

    def report(self, invariant: str, job_id: str, evidence: str) -> None:
        """Add a violation."""
        self.violations.append(Violation(invariant, job_id, evidence))

    # Requests

    async def deploy(self, plan: Plan) -> None:
        """Deploy a workflow."""
        self.plans[plan.workflow_id, plan.version] = plan
        await self.store.workflows.put(
            plan.workflow_id, Raw(b"{}"), f"digest {plan.version}", self.clock.now()
        )

    async def call_engine(self, call: Callable[[Engine], Coroutine[Any, Any, Any]]) -> Any:
        """Call a running engine. Raises TimeoutError when the result is unknown."""
        await self.supervisor.up.wait()
        running = [
            engine_slot
            for engine_slot in self.supervisor.engine_slots
            if engine_slot.engine is not None
        ]
        engine_slot = running[0] if len(running) == 1 else self.random.choice(running)
        engine, process = engine_slot.engine, engine_slot.process
        assert engine is not None
        assert process is not None
        task = process.spawn(call(engine))
        await asyncio.wait([task], timeout=CALL_SECONDS_MAX)
        if not task.done():
            task.cancel()
            raise TimeoutError
        if task.cancelled() or isinstance(task.exception(), EXPECTED):
            raise TimeoutError
        return task.result()

    async def submit(self, request: SubmitRequest) -> str | None:
        """Submit until it is acknowledged; only once without an idempotency key, to avoid a second job."""
        tries = 1 if request.idempotency_key is None else SUBMITS_MAX
        for _ in range(tries):
            try:
                result: SubmitResult = await self.call_engine(
                    lambda engine: engine.jobs.submit(request)
                )
            except TimeoutError:
                continue
            except IdempotencyConflict:
                self._check_conflict(request)
                return None
            self.acknowledged.append(
                AcknowledgedSubmit(
                    job_id=result.job.spec.job_id,
                    workflow_id=request.workflow_id,
                    idempotency_key=request.idempotency_key,
                    request_digest=_digest_of(request),
                )
            )
            return result.job.spec.job_id
        return None

    def _check_conflict(self, request: SubmitRequest) -> None:
        key = (request.workflow_id, request.idempotency_key)
        for job_id in self.store.job_ids():
            spec = self.store.rows(job_id).job.spec
            if (
                spec.workflow_id,
                spec.idempotency_key,
            ) == key and spec.request_digest != request.digest:
                return
        self.report(
            "I25", "-", f"the key {request.idempotency_key!r} was refused without a conflict"
        )

    async def cancel(self, job_id: str) -> None:
        """Request the cancellation of a job."""
        with suppress(TimeoutError, JobNotFound):
            await self.call_engine(lambda engine: engine.jobs.cancel(job_id))

    async def retry(self, job_id: str, from_node: str | None = None) -> None:
        """Request the retry of a finished job."""
        with suppress(TimeoutError, JobNotFound, RequestRefused):
            await self.call_engine(lambda engine: engine.jobs.retry(job_id, from_node))

    # The end

    async def settle(self) -> None:
        """Wait until all jobs have ended, all requests are applied and nothing runs, within limits."""
        self._settling_at = self.loop.time()
        deadline = self.loop.time() + SETTLE_SECONDS_MAX
        while not self._has_ended() and self.loop.time() < deadline:
            await self.clock.sleep(1.0)
        if not self._has_ended():
            # The checker reports the jobs that have not ended.
            return
        deadline = self.loop.time() + IDLE_SECONDS_MAX
        while (left := await self._left()) and self.loop.time() < deadline:
            await self.clock.sleep(1.0)
        if left:
            self.report("I33", "-", f"left after all jobs have ended: {left}")

    def _has_ended(self) -> bool:
        if any(
            self.store.rows(job_id).job.state.status in ("pending", "running")
            for job_id in self.store.job_ids()
        ):
            return False
        return all(applied for _, applied in self.store.asked())

    async def _left(self) -> list[str]:
        """Describe what is still running or in memory."""
        left = [
            f"{worker.running} attempts running"
            for worker in self.supervisor.workers
            if worker and worker.running
        ]
        engines = [
            engine_slot.engine
            for engine_slot in self.supervisor.engine_slots
            if engine_slot.engine is not None
        ]
        shards = [shard for engine in engines for shard in engine.shard_owner.shards if shard.jobs]
        left += [f"jobs {sorted(shard.jobs)} in memory of shard {shard.number}" for shard in shards]
        if self.supervisor.broker is not None:
            tasks = list(self.execution_log.task_ids)
            left += sorted(set(tasks) - set(await self.supervisor.broker.missing(tasks)))
        if self.config.engines:
            left += await self._misplaced_shards()
        return left

    async def _misplaced_shards(self) -> list[str]:
        """Describe shards without an owner and engines with more than their share."""
        owning = [
            slot for slot in self.supervisor.engine_slots if slot.owns and slot.engine is not None
        ]
        running = {slot.process.name for slot in owning if slot.process is not None}
        leases = (await self.store.leases.ownership()).leases
        owners = {
            row.shard: row.owner for row in leases if row.owner in running and not row.expired
        }
        found = [
            f"shard {shard} without an owner"
            for shard in range(self.config.shards)
            if shard not in owners
        ]
        share = -(-self.config.shards // max(1, len(running)))
        for owner, count in Counter(owners.values()).items():
            if count > share:
                found.append(f"{count} shards at {owner}")
        return found

    # Checks at idle moments

    def _on_idle(self) -> None:
        """Compare the memory of the engines with the rows, at a moment when nothing is left to do."""
        self._idle_moments += 1
        if self._idle_moments % CHECK_EVERY or self.violations:
            return
        self.violations += self.supervisor.found()
        if any(not zombie.is_dead for zombie in self.supervisor.zombies):
            # Another process may be writing the rows.
            return
        for engine_slot in self.supervisor.engine_slots:
            process = engine_slot.process
            if engine_slot.engine is not None and process is not None and not process.is_paused:
                self._check_engine(engine_slot, engine_slot.engine)

    def _check_engine(self, engine_slot: EngineSlot, engine: Engine) -> None:
        store, broker = engine_slot.store, engine_slot.broker
        assert store is not None
        assert broker is not None
        is_busy = any(store.active[call] or broker.active[call] for call in _BUSY_CALLS)
        if is_busy or broker.inside["receive"] < len(engine.shard_owner.shards):
            return
        # After a failed call the memory of a shard is wrong until the shard notices, maybe only at the end of a wait.
        failed = {shard for call, shard in store.failed | broker.failed if call in _BUSY_CALLS}
        if None in failed:
            return
        for shard in engine.shard_owner.shards:
            # The former owner of a shard that was taken over may not have noticed it yet.
            if (
                shard.ready.is_set()
                and shard.number not in failed
                and self.store.owner_epoch(shard.number) == shard.lease.epoch
            ):
                self._check_shard(shard)

    def _check_lost_tasks(self, shard: Shard, found: Sequence[Violation]) -> None:
        """Report tasks that the broker has lacked for longer than a shard may fail to notice."""
        now = self.loop.time()
        before = self._lost_since.get(shard.number, {})
        since = {violation: before.get(violation, now) for violation in found}
        self._lost_since[shard.number] = since
        self.violations += [
            violation for violation, at in since.items() if now - at > UNNOTICED_SECONDS_MAX
        ]

    def _knows_lost_tasks(self) -> bool:
        """Whether the engines have had time to compare their tasks with the contents of the broker."""
        flushed_at = self.supervisor.flushed_at
        if flushed_at is None:
            return True
        if self.supervisor.evicted_at > 0 and not self.clocks_steady:
            # The regular check goes by the age of tasks.
            return False
        # Other faults may delay it.
        known_at = max(
            flushed_at + RECOVERED_SECONDS,
            self._settling_at + RECOVERED_SECONDS,
            self.supervisor.evicted_at + FOUND_SECONDS,
        )
        return self.loop.time() > known_at

    def _check_shard(self, shard: Shard) -> None:
        jobs = list(shard.jobs.values())
        for job in jobs:
            self.violations += check_memory(job, self.store.rows(job.id))
            self.violations += check_window(job)
        if self._knows_lost_tasks():
            assert self.supervisor.broker is not None
            self._check_lost_tasks(shard, lost_tasks(jobs, self.supervisor.broker))
            # Waits that began before a clock was set end by the new time after a restart.
            if self.clocks_steady:
                now = self.clock.now()
                self.violations += lost_waits(jobs, now)
                self.violations += lost_deadlines(jobs, now)
        for job_id in shard.table.quarantined:
            self.report("quarantine", job_id, "was quarantined")
        if not self._idle_moments % (CHECK_EVERY * 16):
            for job_id in shard.jobs:
                self.violations += check_job(
                    self._job_history(job_id), clocks_steady=self.clocks_steady
                )

    # The result

    def _job_history(self, job_id: str, executions: list[Execution] | None = None) -> JobHistory:
        restored = self.store.rows(job_id)
        job = restored.job
        plan = self.plans[job.spec.workflow_id, job.spec.version]
        requests = [request for request in self.store.asked() if request[0].job_id == job_id]
        return JobHistory(
            job=job,
            plan=plan,
            nodes=restored.all_nodes(),
            events=self.store.log(job_id),
            requests=requests,
            executions=executions or [],
            is_execution_log_complete=executions is not None,
            loops=self.store.records(job_id),
            artifacts={
                key: body for key, body in self.artifacts.kept.items() if key.startswith(job_id)
            },
            sink_rows=[row for row in self.sink.table if row.identity.startswith(job_id)],
        )

    def history(self) -> History:
        """Return everything that happened, for the checker."""
        by_job: dict[str, list[Execution]] = {}
        for execution in self.execution_log.executions:
            by_job.setdefault(execution.job_id, []).append(execution)
        return History(
            jobs=[
                self._job_history(job_id, by_job.get(job_id, [])) for job_id in self.store.job_ids()
            ],
            acknowledged=self.acknowledged,
            settled=True,
            undisturbed=self.undisturbed and not self.execution_log.has_killed,
            clocks_steady=self.clocks_steady,
        )

    def _report(self) -> SimulationReport:
        history = self.history()
        self.violations += [
            violation for violation in self.supervisor.found() if violation not in self.violations
        ]
        self.violations += check(history)
        for job_id in self.store.rewritten:
            self.report(
                "I10", job_id, "a collection was recorded a second time with different elements"
            )
        if self.results_are_final and self.supervisor.flushed_at is None:
            for task_id in self.execution_log.repeated:
                self.report("I6", "-", f"{task_id} ran again after its result was accepted")
        return SimulationReport(
            violations=self.violations,
            jobs=len(history.jobs),
            events=sum(len(job.events) for job in history.jobs),
            executions=len(self.execution_log.executions),
            calls=sum(connection.calls for connection in self.supervisor.connections),
            restarts=self.supervisor.restarts,
            seconds=self.loop.time(),
        )


def _digest_of(request: SubmitRequest) -> str | None:
    if request.idempotency_key is None:
        return None
    return request.digest
