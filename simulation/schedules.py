"""Schedules and runs in simulation: many engines on virtual time, crashed where it hurts, and what must hold then."""

import asyncio
import logging
from array import array
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from random import Random
from typing import Any

import msgspec
from msgspec import Raw, Struct

from simulation.faults import Calm, Fault, Life, RandomFaults, adopt_tasks
from simulation.ledger import Ledger
from simulation.memory_sink import MemorySink
from simulation.processes import EXPECTED, Crew, Setting, World
from simulation.simulator import Complaints
from windlass.core.errors import NotFound, RequestRefused
from windlass.core.instants import MICROSECONDS
from windlass.core.plan import NodePlan, Plan
from windlass.core.runs.cron import Schedule, slots_between
from windlass.core.runs.registry import BUSY
from windlass.core.runs.rows import RunRow
from windlass.core.runs.rules import RunRules
from windlass.core.runs.states import RUN_FINAL, RUN_MOVES, RunState
from windlass.engine.engine import Engine
from windlass.engine.shard import Shard
from windlass.ports.control import Submit
from windlass.ports.handler import Context, Handler
from windlass.ports.handler_declaration import declared, handler
from windlass.stores.memory.artifacts import MemoryArtifacts
from windlass.stores.memory.store import MemoryStore
from windlass.testing.virtual_time import VirtualClock, close, virtual_loop

# Everything must have ended within so long after the faults stopped.
SETTLE_SECONDS_MAX = 900.0
SUBMIT_SECONDS_MAX = 60.0
# Looks at the memory of engines: so many seconds apart.
LOOK_SECONDS = 2.7
MINUTE = 60_000_000
UNFINISHED = ("pending", "running")


class CrashesAtSlots(Calm):
    """Engines die within the first moments of a minute, before or after one of the calls that fire its slots."""

    def __init__(self, chance: Random, clock: VirtualClock, rate: float, seconds: float) -> None:
        self.active = True
        self.crashes = 0
        self._chance = chance
        self._clock = clock
        self._rate = rate
        self._moments = round(seconds * MICROSECONDS)

    def choose(self, life: Life, port: str, call: str) -> Fault | None:
        """A crash, now and then, of an engine that stores or releases something about a slot."""
        if not self.active or not life.name.startswith("engine") or call not in ("commit", "publish", "acknowledge"):
            return None
        if self._clock.now() % MINUTE > self._moments or self._chance.random() >= self._rate:
            return None
        self.crashes += 1
        return self._chance.choice((Fault.KILL_BEFORE, Fault.KILL_AFTER))

    def seconds(self) -> float:
        """A little, so that things overlap."""
        return self._chance.random() * 0.002


class Outcome(Struct, frozen=True):
    """What a simulation came to."""

    violations: list[str]
    runs: int
    slots: int
    missed: int
    crashes: int
    restarts: int
    # The most jobs of one workflow that ran at one time, by workflow.
    peaks: dict[str, int]
    rows: list[RunRow]


class RunWorld:
    """One system with several engines, some workflows that have runs, and a handler that takes a moment."""

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
        self.chance = Random(seed)
        self.loop = virtual_loop(Random(self.chance.random()))
        adopt_tasks(self.loop)
        self.clock = VirtualClock(self.loop)
        self.store = MemoryStore(VirtualClock(self.loop))
        self.plans: dict[tuple[str, int], Plan] = {}
        self.peaks: Counter[str] = Counter()
        self._live: Counter[str] = Counter()
        self.executions: Counter[str] = Counter()
        self.crashes = CrashesAtSlots(self.chance, self.clock, crash_rate, crash_seconds)
        self.faults = None if rates is None else RandomFaults(self.chance, rates, 0.002)
        setting = Setting(embedded=False, workers=1, concurrency=2_000, engines=engines, shards=shards)
        world = World(
            self.clock, self.store, MemoryArtifacts(), MemorySink(), Ledger(self.store, self.clock), self.plans,
            {"work": self._handler()},
        )  # fmt: skip
        self.crew = Crew(setting, self.faults or self.crashes, self.chance, world)
        self.violations: list[str] = []

    def _handler(self) -> Handler:
        @handler("work")
        async def work(ctx: Context, name: str, seconds: float = 1.0, fails: bool = False) -> None:
            """Take a moment, and be counted."""
            self._live[name] += 1
            self.peaks[name] = max(self.peaks[name], self._live[name])
            self.executions[ctx.job_id] += 1
            try:
                await asyncio.sleep(seconds)
            finally:
                self._live[name] -= 1
            if fails:
                raise ValueError("as it was told to")

        return declared(work)

    async def deploy(self, workflow_id: str, rules: RunRules, version: int = 1) -> None:
        """Make a workflow known whose jobs are runs: one node that takes its params from the input."""
        node = NodePlan("work", handler="work")
        self.plans[workflow_id, version] = Plan(
            workflow_id, version, [node], {"work": 0}, [()], [()], array("l", [0]), runs=rules
        )  # fmt: skip
        body = b"{}" if rules.schedule is None else b'{"schedule":{}}'
        await self.store.workflows.put(workflow_id, Raw(body), f"digest {version}", self.clock.now())

    async def submit(self, workflow_id: str, given: dict[str, Any]) -> str:
        """Submit until an engine has acknowledged it; asked again, it is the same job."""
        key = f"key {self.chance.getrandbits(60):x}"
        wanted = Submit(workflow_id, 1, Raw(msgspec.json.encode(given)), idempotency_key=key, request_digest=key)
        until = self.loop.time() + SUBMIT_SECONDS_MAX
        while self.loop.time() < until:
            await self.crew.up.wait()
            post = self.chance.choice([post for post in self.crew.posts if post.engine is not None])
            assert post.engine is not None
            assert post.life is not None
            asking = post.life.spawn(post.engine.submit(wanted))
            await asyncio.wait([asking], timeout=5.0)
            if asking.done() and not asking.cancelled() and asking.exception() is None:
                return asking.result().job_id
            asking.cancel()
        raise TimeoutError(f"nobody took a job of {workflow_id} within {SUBMIT_SECONDS_MAX:g} s")

    async def ask(self, call: Callable[[Engine], Coroutine[Any, Any, Any]]) -> None:
        """Ask an engine for something once, whatever becomes of it."""
        await self.crew.up.wait()
        post = self.chance.choice([post for post in self.crew.posts if post.engine is not None])
        assert post.engine is not None
        assert post.life is not None
        asking = post.life.spawn(call(post.engine))
        await asyncio.wait([asking], timeout=5.0)
        if not asking.done():
            asking.cancel()
        elif not asking.cancelled() and not isinstance(asking.exception(), (*EXPECTED, NotFound, RequestRefused)):
            asking.result()

    async def settled(self) -> None:
        """Wait until every job and every run has ended, but for the planned ones."""
        self.crashes.active = False
        if self.faults is not None:
            self.faults.active = False
            for post in self.crew.posts:
                if post.life is not None:
                    post.life.resume()
        until = self.loop.time() + SETTLE_SECONDS_MAX
        while left := self._left():
            if self.loop.time() > until:
                self.violations += [f"{one} after {SETTLE_SECONDS_MAX:g} s" for one in left[:5]]
                return
            await asyncio.sleep(1.0)

    def _left(self) -> list[str]:
        rows = [row for row in self.store.runs.all_runs() if row.state not in RUN_FINAL and not is_planned(row)]
        jobs = [self.store.rows(job_id).job for job_id in self.store.job_ids()]
        found = [f"{row.run_id} is still {row.state}" for row in rows]
        return found + [
            f"job {job.spec.job_id} is still {job.state.status}" for job in jobs if job.state.status in UNFINISHED
        ]

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> Outcome:
        """Play a scenario to its end, and check what must hold of every run."""
        logger = logging.getLogger("windlass")
        complaints = Complaints()
        before = (logger.propagate, logger.level)
        logger.addHandler(complaints)
        logger.propagate = False
        self.loop.set_exception_handler(lambda loop, context: None)
        try:
            self.loop.run_until_complete(self._play(main))
        finally:
            logger.removeHandler(complaints)
            logger.propagate = before[0]
            self.crew.end()
            close(self.loop)
        self.violations += complaints.found
        rows = list(self.store.runs.all_runs())
        self.violations += [found.evidence for found in self.crew.found()]
        for row in rows:
            self.violations += self._wrongs(row)
        missed = sum(len(missed_slots(self, key[0])) for key in self.plans)
        slots = len([row for row in rows if row.detail.origin == "schedule" and not is_planned(row)])
        restarts = self.crew.restarts
        return Outcome(
            self.violations, len(rows), slots, missed, self.crashes.crashes, restarts, dict(self.peaks), rows
        )

    async def _play(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        keepers = self.crew.keepers()
        try:
            looking = asyncio.ensure_future(self._look_at_memory())
            await main()
            looking.cancel()
        finally:
            for keeper in keepers:
                keeper.cancel()
            await asyncio.wait(keepers)

    async def _look_at_memory(self) -> None:
        """From time to time: what engines know of runs is what the rows tell, as far as nothing is on its way there."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for post in self.crew.posts:
                if post.engine is None or post.life is None or post.life.is_paused or post.life.dead:
                    continue
                for shard in post.engine.held:
                    if shard.ready.is_set() and self.store.owner_epoch(shard.number) == shard.epoch:
                        self._compare(shard)

    def _compare(self, shard: Shard) -> None:
        ahead = shard.ahead()
        stored = {row.run_id: row for row in self.store.runs.all_runs()}
        for shelf in shard.runs.book.shelves.values():
            for run in shelf.runs.values():
                if run.id in ahead or run.is_planned:
                    continue
                row = run.row()
                row.detail.heartbeats = stored[run.id].detail.heartbeats if run.id in stored else 0
                if stored.get(run.id) != row:
                    self.violations.append(f"{run.id}: the memory is not what the rows tell")

    def _wrongs(self, row: RunRow) -> Iterable[str]:
        """What is wrong with one run: its transitions, its events, its job."""
        log = self.store.runs.log(row.run_id)
        if [event.seq for event in log] != list(range(1, len(log) + 1)):
            yield f"{row.run_id}: the numbers of its events have gaps"
        state = RunState.PRE_RUN
        for one in row.detail.transitions:
            if one.state not in RUN_MOVES[state]:
                yield f"{row.run_id}: {state} became {one.state}"
            state = one.state
        if state is not row.state:
            yield f"{row.run_id}: the row says {row.state}, its transitions {state}"
        if row.job_id is not None and row.state is RunState.COMPLETED and not row.detail.is_skipped:
            job = self.store.rows(row.job_id).job
            if job.state.status != "completed":
                yield f"{row.run_id} completed, but its job is {job.state.status}"

    def busy_max(self, workflow_id: str) -> int:
        """The most runs of a workflow that were under way at one time, by their transitions."""
        steps: list[tuple[int, int]] = []
        for row in self.store.runs.all_runs():
            if row.workflow_id == workflow_id:
                busy = False
                for one in row.detail.transitions:
                    if (one.state in BUSY) != busy:
                        busy = not busy
                        steps.append((one.at, 1 if busy else -1))
        most = now = 0
        # What ends in an instant makes room for what begins in it.
        for _, step in sorted(steps):
            now += step
            most = max(most, now)
        return most


def is_planned(row: RunRow) -> bool:
    """Whether a run is the next one of its schedule, whose moment has not come."""
    return row.state is RunState.PRE_RUN and row.detail.origin == "schedule"


def missed_slots(world: RunWorld, workflow_id: str) -> list[tuple[int, int]]:
    """The stretches of slots, first and last, of which it is recorded that they were missed."""
    found: list[tuple[int, int]] = []
    for event in world.store.runs.log(f"{workflow_id}:"):
        if event.type == "slots_missed" and event.data is not None:
            data = msgspec.json.decode(event.data, type=dict[str, Any])
            found.append((data["first"], data["last"]))
    return found


def check_slots(world: RunWorld, workflow_id: str, schedule: Schedule, since: int, until: int) -> list[str]:
    """Every slot of a stretch has exactly one run, or one recorded reason why it has none."""
    rows = {row.scheduled_at: row for row in world.store.runs.all_runs() if row.workflow_id == workflow_id}
    missed = missed_slots(world, workflow_id)
    wrong: list[str] = []
    expected = [
        round(slot * MICROSECONDS)
        for slot in slots_between(schedule, since / MICROSECONDS, until / MICROSECONDS, 100_000)
    ]
    for slot in expected:
        reasons = sum(first <= slot <= last for first, last in missed) + (slot in rows)
        if reasons != 1:
            wrong.append(f"{workflow_id}: the slot {slot} has {reasons} runs or reasons")
    wrong += [f"{workflow_id}: {slot} is no slot" for slot in rows if since < slot <= until and slot not in expected]
    return wrong
