"""Simulations of schedules and runs: several engines on virtual time that crash around the slots."""

import asyncio
from array import array
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any

import msgspec
from msgspec import Raw, Struct

from simulation.checks.runs import Observations, RunChecks, ToldCall, room_violations
from simulation.execution_log import ExecutionLog
from simulation.faults import Fault, NoFaults, RandomFaults, SimulatedProcess, adopt_tasks
from simulation.memory_sink import MemorySink
from simulation.processes import EXPECTED, Environment, ProcessSupervisor, SystemConfig
from simulation.simulator import collected_errors
from windlass.core.errors import FatalError, NotFound, RequestRefused
from windlass.core.events import EventType
from windlass.core.instants import MICROSECONDS
from windlass.core.plan import DEFAULT_QUEUE, NodePlan, Plan
from windlass.core.runs.cron import Schedule, slots_between
from windlass.core.runs.registry import BUSY
from windlass.core.runs.rows import RunRow
from windlass.core.runs.rules import RunRules
from windlass.core.runs.states import RUN_FINAL, RunState
from windlass.core.submit_request import SubmitRequest
from windlass.engine.engine import Engine
from windlass.engine.shard import Shard
from windlass.ports.handler import Context, Handler
from windlass.ports.handler_declaration import declared, handler
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.memory.store import MemoryStore
from windlass.testing.virtual_time import VirtualClock, close, virtual_loop

# After the last fault, everything must have ended within this time.
SETTLE_SECONDS_MAX = 900.0
SUBMIT_SECONDS_MAX = 60.0
CALL_SECONDS_MAX = 5.0
# The interval between checks of the engines' memory.
CHECK_SECONDS = 2.7
MINUTE = 60_000_000
UNFINISHED = ("pending", "running")
# A queue that no worker takes tasks from.
NOBODY = "nobody"
# Last characters of the ids of calls that forbid their run: one in four.
VETOES = tuple("01234567")
# Those of calls that fail: one in eight.
UNREACHABLE = tuple("89ab")
# Characters of ids, by which the duration of a call is chosen: the second last one.
ID_CHARACTERS = "0123456789abcdefghjkmnpqrstvwxyz"
CALL_SECONDS_STEP = 0.1


class CrashesAtSlots(NoFaults):
    """Crashes of engines in the first seconds of a minute, before or after a call that fires a slot."""

    def __init__(self, random: Random, clock: VirtualClock, rate: float, seconds: float) -> None:
        self.active = True
        self.crashes = 0
        self._random = random
        self._clock = clock
        self._rate = rate
        self._crash_window = round(seconds * MICROSECONDS)

    def choose(self, process: SimulatedProcess, port: str, call: str) -> Fault | None:
        """Return a crash, sometimes, of an engine that commits, publishes or acknowledges."""
        if (
            not self.active
            or not process.name.startswith("engine")
            or call not in ("commit", "publish", "acknowledge")
        ):
            return None
        if self._clock.now() % MINUTE > self._crash_window or self._random.random() >= self._rate:
            return None
        self.crashes += 1
        return self._random.choice((Fault.KILL_BEFORE, Fault.KILL_AFTER))

    def latency_seconds(self) -> float:
        """Return a little, so that calls overlap."""
        return self._random.random() * 0.002


class RunReport(Struct, frozen=True):
    """The result of a simulation of runs."""

    violations: list[str]
    runs: int
    slots: int
    missed: int
    crashes: int
    restarts: int
    # The most jobs of each workflow that ran at the same time.
    peaks: dict[str, int]
    rows: list[RunRow]


class RunSimulation:
    """A system with several engines, workflows with runs, and a handler that takes some time."""

    def __init__(
        self,
        seed: int,
        *,
        engines: int = 3,
        shards: int = 8,
        crash_rate: float = 0.0,
        crash_seconds: float = 5.0,
        rates: Mapping[Fault, float] | None = None,
    ) -> None:
        self.random = Random(seed)
        self.loop = virtual_loop(Random(self.random.random()))
        adopt_tasks(self.loop)
        self.clock = VirtualClock(self.loop)
        self.store = MemoryStore(VirtualClock(self.loop))
        self.plans: dict[tuple[str, int], Plan] = {}
        self.peaks: Counter[str] = Counter()
        self._live: Counter[str] = Counter()
        self.observed = Observations()
        self.crashes = CrashesAtSlots(self.random, self.clock, crash_rate, crash_seconds)
        self.faults = None if rates is None else RandomFaults(self.random, rates, 0.002)
        config = SystemConfig(
            embedded=False, workers=1, concurrency=2_000, engines=engines, shards=shards
        )
        environment = Environment(
            clock=self.clock,
            store=self.store,
            artifacts=MemoryArtifacts(),
            sink=MemorySink(),
            execution_log=ExecutionLog(self.store, self.clock),
            plans=self.plans,
            handlers={"work": self._handler(), "webhook": self._receiver()},
        )
        self.supervisor = ProcessSupervisor(
            config, self.faults or self.crashes, self.random, environment
        )
        self.violations: list[str] = []

    def _handler(self) -> Handler:
        @handler("work")
        async def work(
            ctx: Context, name: str, seconds: float = 1.0, fails: bool = False, failures: int = 0
        ) -> None:
            """Wait, and count the handlers that run; the first `failures` executions of a job fail."""
            self._live[name] += 1
            self.peaks[name] = max(self.peaks[name], self._live[name])
            self.observed.executions[ctx.job_id] += 1
            try:
                await asyncio.sleep(seconds)
            finally:
                self._live[name] -= 1
            if fails or self.observed.executions[ctx.job_id] <= failures:
                raise ValueError("requested failure")

        return declared(work)

    def _receiver(self) -> Handler:
        @handler("webhook")
        async def webhook(
            ctx: Context,
            url: str,
            type: str = "",
            data: Any = None,
            timeout: float = 1.0,
            workflow_id: str | None = None,
            timestamp: str | None = None,
        ) -> dict[str, Any]:
            """Answer a call for a run; the answer and its delay depend only on the call."""
            run_id: str = data["run_id"]
            # Long enough for other runs to end during some calls.
            await asyncio.sleep(ID_CHARACTERS.index(ctx.job_id[-2]) * CALL_SECONDS_STEP)
            told = ToldCall(type, data["outcome"], data["reason"])
            self.observed.told.setdefault(run_id, []).append(told)
            if ctx.job_id.endswith(UNREACHABLE):
                raise FatalError("the receiver cannot be reached")
            allow = not ctx.job_id.endswith(VETOES)
            if type == "run.starting":
                self.observed.answers.setdefault(run_id, []).append(allow)
            return {"status": 200, "webhook_id": "x", "response": {"allow": allow}}

        return declared(webhook)

    async def deploy(
        self,
        workflow_id: str,
        rules: RunRules,
        version: int = 1,
        *,
        queue: str = DEFAULT_QUEUE,
        start_timeout_seconds: float | None = None,
    ) -> None:
        """Deploy a workflow whose jobs are runs: one node that takes its params from the input."""
        node = NodePlan(
            "work", handler="work", queue=queue, start_timeout_seconds=start_timeout_seconds
        )
        self.plans[workflow_id, version] = Plan(
            workflow_id, version, [node], {"work": 0}, [()], [()], array("l", [0]), runs=rules
        )  # fmt: skip
        body = b"{}" if rules.schedule is None else b'{"schedule":{}}'
        await self.store.workflows.put(
            workflow_id, Raw(body), f"digest {version}", self.clock.now()
        )

    async def submit(self, workflow_id: str, given: dict[str, Any]) -> str:
        """Submit until an engine acknowledges it; repeated submits return the same job."""
        key = f"key {self.random.getrandbits(60):x}"
        request = SubmitRequest(workflow_id, given, 1, idempotency_key=key)
        until = self.loop.time() + SUBMIT_SECONDS_MAX
        while self.loop.time() < until:
            task = await self._spawned(lambda engine: engine.jobs.submit(request))
            if task.done() and not task.cancelled() and task.exception() is None:
                return task.result().job.spec.job_id
            task.cancel()
        raise TimeoutError(
            f"no engine accepted a job of {workflow_id} within {SUBMIT_SECONDS_MAX:g} s"
        )

    async def call_engine(self, call: Callable[[Engine], Coroutine[Any, Any, Any]]) -> None:
        """Call an engine once; expected failures are ignored."""
        task = await self._spawned(call)
        if not task.done():
            task.cancel()
        elif not task.cancelled() and not isinstance(
            task.exception(), (*EXPECTED, NotFound, RequestRefused)
        ):
            task.result()

    async def _spawned(
        self, call: Callable[[Engine], Coroutine[Any, Any, Any]]
    ) -> "asyncio.Task[Any]":
        """Start a call in a random running engine and wait some seconds for it."""
        await self.supervisor.up.wait()
        running = [
            engine_slot
            for engine_slot in self.supervisor.engine_slots
            if engine_slot.engine is not None
        ]
        engine_slot = self.random.choice(running)
        assert engine_slot.engine is not None
        assert engine_slot.process is not None
        task = engine_slot.process.spawn(call(engine_slot.engine))
        await asyncio.wait([task], timeout=CALL_SECONDS_MAX)
        return task

    async def settled(self) -> None:
        """Wait until every job and every run has ended, except planned runs."""
        self.crashes.active = False
        if self.faults is not None:
            self.faults.active = False
            for engine_slot in self.supervisor.engine_slots:
                if engine_slot.process is not None:
                    engine_slot.process.resume()
        until = self.loop.time() + SETTLE_SECONDS_MAX
        while left := self._left():
            if self.loop.time() > until:
                self.violations += [f"{one} after {SETTLE_SECONDS_MAX:g} s" for one in left[:5]]
                return
            await asyncio.sleep(1.0)

    def _left(self) -> list[str]:
        rows = [
            row
            for row in self.store.runs.all_runs()
            if row.state not in RUN_FINAL and not is_planned(row)
        ]
        jobs = [self.store.rows(job_id).job for job_id in self.store.job_ids()]
        found = [f"{row.run_id} is still {row.state}" for row in rows]
        return found + [
            f"job {job.spec.job_id} is still {job.state.status}"
            for job in jobs
            if job.state.status in UNFINISHED
        ]

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> RunReport:
        """Run a scenario to its end and check every run."""
        self.loop.set_exception_handler(lambda loop, context: None)
        with collected_errors() as errors:
            try:
                self.loop.run_until_complete(self._run(main))
            finally:
                self.supervisor.end()
                close(self.loop)
        self.violations += errors.found
        rows = list(self.store.runs.all_runs())
        self.violations += [found.evidence for found in self.supervisor.found()]
        self.violations += RunChecks(self.store, self.plans, self.observed).violations()
        return RunReport(
            violations=self.violations,
            runs=len(rows),
            slots=sum(row.detail.origin == "schedule" and not is_planned(row) for row in rows),
            missed=sum(len(missed_slots(self, workflow_id)) for workflow_id, _ in self.plans),
            crashes=self.crashes.crashes,
            restarts=self.supervisor.restarts,
            peaks=dict(self.peaks),
            rows=rows,
        )

    async def _run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        processes = self.supervisor.start()
        try:
            checking = asyncio.ensure_future(self._check_memory())
            await main()
            checking.cancel()
        finally:
            for process in processes:
                process.cancel()
            await asyncio.wait(processes)

    async def _check_memory(self) -> None:
        """Compare from time to time the runs in the engines' memory with the rows, except for uncommitted changes."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for engine_slot in self.supervisor.engine_slots:
                if (
                    engine_slot.engine is None
                    or engine_slot.process is None
                    or engine_slot.process.is_paused
                    or engine_slot.process.is_dead
                ):
                    continue
                for shard in engine_slot.engine.shard_owner.shards:
                    if (
                        shard.ready.is_set()
                        and self.store.owner_epoch(shard.number) == shard.lease.epoch
                    ):
                        self._compare(shard)
                        self.violations += room_violations(shard.runs.registry)

    def _compare(self, shard: Shard) -> None:
        ahead = shard.runs_ahead()
        stored = {row.run_id: row for row in self.store.runs.all_runs()}
        for run in shard.runs.registry.runs():
            if run.id in ahead or run.is_planned:
                continue
            if stored.get(run.id) != run.row():
                self.violations.append(f"{run.id}: the memory differs from the row")

    def busy_max(self, workflow_id: str) -> int:
        """Return how many runs of a workflow were active at the same time at most, by their transitions."""
        steps: list[tuple[int, int]] = []
        for row in self.store.runs.all_runs():
            if row.workflow_id == workflow_id:
                busy = False
                for one in row.detail.transitions:
                    if (one.state in BUSY) != busy:
                        busy = not busy
                        steps.append((one.at, 1 if busy else -1))
        most = now = 0
        # Ends sort before starts of the same instant.
        for _, step in sorted(steps):
            now += step
            most = max(most, now)
        return most


def is_planned(row: RunRow) -> bool:
    """Return whether a run is the next one of its schedule and not yet due."""
    return row.state is RunState.PRE_RUN and row.detail.origin == "schedule"


def missed_slots(simulation: RunSimulation, workflow_id: str) -> list[tuple[int, int]]:
    """Return the ranges of slots (first, last) that were recorded as missed."""
    found: list[tuple[int, int]] = []
    for event in simulation.store.runs.log(workflow_id):
        if EventType(event.type) is EventType.SLOTS_MISSED and event.data is not None:
            data = msgspec.json.decode(event.data, type=dict[str, Any])
            found.append((data["first"], data["last"]))
    return found


def check_slots(
    simulation: RunSimulation, workflow_id: str, schedule: Schedule, since: int, until: int
) -> list[str]:
    """Check that every slot of a time range has exactly one run or one record that it was missed.

    The planned run of the first missed slot is cancelled; the record has this slot as well.
    """
    rows = {
        row.scheduled_at: row
        for row in simulation.store.runs.all_runs()
        if row.workflow_id == workflow_id and row.state is not RunState.CANCELLED
    }
    missed = missed_slots(simulation, workflow_id)
    wrong: list[str] = []
    expected = [
        round(slot * MICROSECONDS)
        for slot in slots_between(schedule, since / MICROSECONDS, until / MICROSECONDS, 100_000)
    ]
    for slot in expected:
        reasons = sum(first <= slot <= last for first, last in missed) + (slot in rows)
        if reasons != 1:
            wrong.append(f"{workflow_id}: the slot {slot} has {reasons} runs or records")
    wrong += [
        f"{workflow_id}: {slot} is not a slot"
        for slot in rows
        if since < slot <= until and slot not in expected
    ]
    return wrong
