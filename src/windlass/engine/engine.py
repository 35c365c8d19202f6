"""The engine: owns shards, runs the duties around them, and is where jobs are submitted, stopped and waited for."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from random import Random

from windlass.core.changes import Changes
from windlass.core.errors import IdempotencyConflict, NodeNotFound, RequestRefused
from windlass.core.messages import CancelRequested, Message, RetryRequested, Submitted
from windlass.core.plan import Plan
from windlass.core.states import JOB_FINAL, JOB_STATES, JobState
from windlass.engine.duties import every, kept
from windlass.engine.ids import Ids
from windlass.engine.intake import Intake
from windlass.engine.plans import Plans
from windlass.engine.pruner import PRUNE_EVERY_SECONDS, Pruner
from windlass.engine.shard import Shard
from windlass.engine.sweeper import Sweeper
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.control import Submit
from windlass.ports.store import NewJob, Request, Store, StoredJob, Submission

# A worker that was silent for so long is dead: its tasks go to another.
SILENT_SECONDS = 15.0
REAP_SECONDS = 5.0
SHARD = 0
ENDED_MAX = 10_000
MICROSECONDS = 1_000_000
# A request is durable before it is applied. When the shard is busy recovering, its caller need not wait for all of it.
APPLIED_SECONDS_MAX = 5.0


class Engine:
    """Runs jobs durably on a store and a broker."""

    def __init__(
        self,
        store: Store,
        broker: Broker,
        clock: Clock,
        plans: Plans,
        chance: Random,
        *,
        owner: str,
        sweep_seconds: float = 1.0,
        retention_days: float = 7.0,
        only_new_jobs: bool = False,
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._plans = plans
        self._ids = Ids(chance)
        self._intake = Intake(store)
        self._shard = Shard(SHARD, owner, store, broker, clock, plans, self._listen)
        if only_new_jobs:
            self._shard.admitted = set()
        self._sweeper = Sweeper(self._shard, store, broker, clock)
        self._pruner = Pruner(store, clock, retention_days)
        self._sweep_seconds = sweep_seconds
        self._reaped_at = clock.now()
        self._duties: list[asyncio.Task[None]] = []
        self._running: asyncio.Task[None] | None = None
        self._ends: dict[str, list[asyncio.Future[None]]] = {}
        # Jobs that ended lately: those who ask for them need no look at the database.
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._asked: dict[str, asyncio.Future[None]] = {}
        self._watched: dict[str, list[asyncio.Event]] = {}

    @property
    def shard(self) -> Shard:
        """The shard this engine owns."""
        return self._shard

    async def start(self) -> None:
        """Take the shard over and recover what was unfinished; ready for work when it returns."""
        self._running = asyncio.create_task(self._shard.run())
        ready = asyncio.create_task(self._shard.ready.wait())
        await asyncio.wait((ready, self._running), return_when=asyncio.FIRST_COMPLETED)
        if self._running.done():
            ready.cancel()
            await self._running
        self._keep("the sweeper", self._sweep_seconds, self._sweeper.sweep)
        self._keep("the reaper", REAP_SECONDS, self._reap)
        self._keep("the pruner", PRUNE_EVERY_SECONDS, self._pruner.prune)

    def _keep(self, name: str, seconds: float, duty: Callable[[], Awaitable[object]]) -> None:
        self._duties.append(asyncio.create_task(kept(name, lambda: every(seconds, duty, self._clock), self._clock)))

    async def _reap(self) -> None:
        """Take back what silent workers hold, unless it is this process that was stopped for a while."""
        now = self._clock.now()
        stalled = now - self._reaped_at > 2 * REAP_SECONDS * MICROSECONDS
        self._reaped_at = now
        if not stalled:
            await self._broker.reclaim(SILENT_SECONDS)

    async def stop(self) -> None:
        """End after the batch at hand and give the shard back. Workers must have stopped before."""
        for duty in self._duties:
            duty.cancel()
        await asyncio.gather(*self._duties, return_exceptions=True)
        if self._running is not None:
            await self._shard.stop()
            await self._running
            await self._shard.release()

    @property
    def shards(self) -> Sequence[int]:
        """The shards that this process runs now."""
        return [SHARD] if self._shard.ready.is_set() else []

    @property
    def lost(self) -> asyncio.Task[None] | None:
        """The task that ends early only when the shard was lost to another owner."""
        return self._running

    # What people ask for

    async def plan(self, workflow_id: str, version: int) -> Plan:
        """The compiled plan of a version; WorkflowNotFound."""
        return await self._plans.get(workflow_id, version)

    async def submit(self, wanted: Submit) -> StoredJob:
        """Store a job and let it begin; once this returns, the job is never lost. IdempotencyConflict."""
        job = self._new_job(wanted)
        with self._shard.expecting([job]):
            answer = await self._intake.submit(job)
            self._admit([answer])
        if answer.conflict:
            raise IdempotencyConflict(
                f"the idempotency key {wanted.idempotency_key!r} was used for job {answer.job.job_id} with another "
                "input or version; send the same request again, or use a new key"
            )
        await self._begin([answer])
        return answer.job

    async def submit_all(self, wanted: Sequence[Submit]) -> Sequence[Submission]:
        """Store many jobs in one transaction; an answer for each, conflicts among them."""
        jobs = [self._new_job(one) for one in wanted]
        with self._shard.expecting(jobs):
            answers = await self._store.submit(jobs)
            self._admit(answers)
        await self._begin(answers)
        return answers

    def _new_job(self, wanted: Submit) -> NewJob:
        now = self._clock.now()
        return NewJob(
            job_id=self._ids.new(now),
            workflow_id=wanted.workflow_id,
            version=wanted.version,
            input=wanted.input,
            created_at=now,
            shard=SHARD,
            priority=wanted.priority,
            idempotency_key=wanted.idempotency_key,
            body_digest=wanted.body_digest,
            scheduled_at=wanted.scheduled_at,
        )

    def _admit(self, answers: Sequence[Submission]) -> None:
        for answer in answers:
            if answer.created:
                self._shard.admit(answer.job)

    async def _begin(self, answers: Sequence[Submission]) -> None:
        hints = [Submitted(answer.job.job_id) for answer in answers if answer.created]
        if hints:
            await self._broker.send(SHARD, hints)

    async def resume(self, job_id: str) -> StoredJob:
        """Take up one unfinished job, in an engine that otherwise leaves old jobs alone."""
        job = await self._store.job(job_id)
        if JOB_STATES[job.status] in JOB_FINAL:
            raise RequestRefused(f"job {job_id} is {job.status}: there is nothing left to resume")
        await self._shard.take_up(job_id)
        return job

    async def cancel(self, job_id: str, reason: str | None = None) -> None:
        """Stop a job; one that has ended stays as it is. JobNotFound."""
        now = self._clock.now()
        request = Request(self._ids.new(now), job_id, "cancel", now, reason=reason)
        await self._ask(request, CancelRequested(job_id, request.request_id, reason))

    async def retry(self, job_id: str, from_node: str | None = None) -> None:
        """Run what failed or was cancelled again, or a node and all after it. RequestRefused, JobNotFound."""
        job = await self._store.job(job_id)
        state = JOB_STATES[job.status]
        if state not in JOB_FINAL:
            raise RequestRefused(f"job {job_id} is {job.status}: only a finished job can be retried")
        if state is JobState.COMPLETED and from_node is None:
            raise RequestRefused(f"job {job_id} completed: name the node to start again from")
        if from_node is not None and from_node not in (await self.plan(job.workflow_id, job.version)).index:
            raise NodeNotFound(f"workflow {job.workflow_id} has no node {from_node!r}")
        now = self._clock.now()
        request = Request(self._ids.new(now), job_id, "retry", now, from_node=from_node)
        await self._ask(request, RetryRequested(job_id, request.request_id, from_node))

    async def _ask(self, request: Request, message: Message) -> None:
        """Store a request and wait until it was applied, so that whoever looks next sees what came of it."""
        applied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked[request.request_id] = applied
        try:
            await self._store.request(request)
            await self._broker.send(SHARD, [message])
            await asyncio.wait((applied,), timeout=APPLIED_SECONDS_MAX)
        finally:
            del self._asked[request.request_id]

    # Waiting

    async def wait(self, job_id: str) -> None:
        """Return once the job has ended and its end is durable."""
        if job_id in self._ended:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ends.setdefault(job_id, []).append(future)
        try:
            if job_id not in self._shard.jobs and job_id not in self._shard.fresh:
                job = await self._store.job(job_id)
                if JOB_STATES[job.status] in JOB_FINAL:
                    return
            await future
        finally:
            waiting = self._ends.get(job_id, [])
            if future in waiting:
                waiting.remove(future)
                if not waiting:
                    del self._ends[job_id]

    @contextmanager
    def news(self, job_id: str) -> Generator[asyncio.Event]:
        """An event that is set whenever something was stored about the job, until the block ends."""
        event = asyncio.Event()
        self._watched.setdefault(job_id, []).append(event)
        try:
            yield event
        finally:
            self._watched[job_id].remove(event)
            if not self._watched[job_id]:
                del self._watched[job_id]

    def _listen(self, changes: Changes) -> None:
        """After a commit: tell those who wait."""
        if self._watched:
            for job_id in changes.events.keys() & self._watched.keys():
                for event in self._watched[job_id]:
                    event.set()
        for request_id in changes.requests:
            applied = self._asked.get(request_id)
            if applied is not None and not applied.done():
                applied.set_result(None)
        for job_id, row in changes.jobs.items():
            if row.status == "running":
                self._ended.pop(job_id, None)
        for job_id in changes.finished:
            self._ended[job_id] = None
            for future in self._ends.pop(job_id, ()):
                if not future.done():
                    future.set_result(None)
        while len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)
