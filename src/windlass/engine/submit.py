"""Submitting jobs: from a request to a stored job, for the API, webhooks, triggered schedules and programs alike."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random

from msgspec import Struct, structs

from windlass.core.errors import IdempotencyConflict, WindlassError
from windlass.core.ids import JobId
from windlass.core.jobs import JobSpec
from windlass.core.messages import Message, Submitted
from windlass.core.plan import Plan
from windlass.core.shards import shard_of
from windlass.core.submit_request import SubmitRequest, digest_of
from windlass.engine.context import EngineContext
from windlass.engine.hints import send_hints
from windlass.engine.new_job_cache import hint
from windlass.engine.shard_owner import ShardOwner
from windlass.engine.submit_batcher import SubmitBatcher
from windlass.engine.version_selection import VersionCache, VersionResolver
from windlass.ports.store.jobs import SubmitResult


class _BatchCache(Struct, frozen=True):
    """What the requests of one batch have in common: versions as they were read, and the plans of equal requests."""

    versions: VersionCache = {}
    plans: dict[tuple[str, int | str | None], Plan] = {}


class Submitter:
    """Turns requests into stored jobs and notifies the shards that run them."""

    def __init__(self, context: EngineContext, shards: ShardOwner, random: Random) -> None:
        self._store = context.store
        self._broker = context.broker
        self._clock = context.clock
        self._plans = context.plans
        self._ids = context.ids
        self._check_input = context.check_input
        self._shards = shards
        self._random = random
        self._versions = VersionResolver(context.store, context.plans)
        self._batcher = SubmitBatcher(self.store)

    async def submit(
        self, request: SubmitRequest, asked: object = None, *, repeats: JobId | None = None
    ) -> SubmitResult:
        """Store a job, or return the one that the idempotency key names.

        `asked` is what the caller sent, where the request was derived from it: the digest is then of that.
        `repeats` is the job whose rerun it is.
        InputInvalid, WorkflowNotFound, IdempotencyConflict.
        """
        spec = await self._job_spec(request, _BatchCache(), asked)
        if repeats is not None:
            spec = structs.replace(spec, origin="rerun", parent_job_id=repeats)
        result = await self._batcher.submit(spec)
        if result.conflict:
            raise conflict(result)
        return result

    async def submit_all(self, requests: Sequence[SubmitRequest]) -> Sequence[SubmitResult]:
        """Store jobs in one transaction. An invalid request or a conflict raises; an invalid one stores nothing."""
        cache = _BatchCache()
        results = await self.store([await self._job_spec(request, cache) for request in requests])
        for result in results:
            if result.conflict:
                raise conflict(result)
        return results

    async def submit_each(
        self, requests: Sequence[SubmitRequest]
    ) -> Sequence[SubmitResult | WindlassError]:
        """Store the jobs of valid requests in one transaction; a result or an error for each request."""
        cache = _BatchCache()
        outcomes = [await self._job_spec_or_error(request, cache) for request in requests]
        stored = iter(
            await self.store([outcome for outcome in outcomes if isinstance(outcome, JobSpec)])
        )
        answers: list[SubmitResult | WindlassError] = []
        for outcome in outcomes:
            if isinstance(outcome, WindlassError):
                answers.append(outcome)
                continue
            result = next(stored)
            answers.append(conflict(result) if result.conflict else result)
        return answers

    async def _job_spec_or_error(
        self, request: SubmitRequest, cache: _BatchCache
    ) -> JobSpec | WindlassError:
        try:
            return await self._job_spec(request, cache)
        except WindlassError as error:
            return error

    async def _job_spec(
        self, request: SubmitRequest, cache: _BatchCache, asked: object = None
    ) -> JobSpec:
        """Return the job of a request: its version resolved, its input checked and with defaults."""
        plan = cache.plans.get((request.workflow_id, request.version))
        if plan is None:
            plan = await self._resolve(request, cache)
        checked = self._check_input(plan.input_schema, request.input_data)
        digest = None
        if request.idempotency_key is not None:
            digest = request.digest if asked is None else digest_of(asked)
        now = self._clock.now()
        job_id = self._ids.new(now)
        shard_key = plan.shard_key
        return JobSpec(
            job_id=job_id,
            workflow_id=plan.workflow_id,
            version=plan.version,
            input=checked,
            created_at=now,
            shard=shard_of(shard_key or job_id, self._shards.total),
            priority=request.priority,
            idempotency_key=request.idempotency_key,
            request_digest=digest,
            scheduled_at=request.scheduled_microseconds,
            shard_key=shard_key,
        )

    async def _resolve(self, request: SubmitRequest, cache: _BatchCache) -> Plan:
        """Return the plan of the version that a request names. WorkflowNotFound."""
        version = await self._versions.resolve(
            request.workflow_id, request.version, self._random.randrange, cache.versions
        )
        plan = await self._plans.get(request.workflow_id, version)
        if not self._versions.names_alias(request.workflow_id, request.version, cache.versions):
            # An alias may select another version for the next request.
            cache.plans[request.workflow_id, request.version] = plan
        return plan

    async def store(self, specs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        """Store jobs in one transaction and notify their shards; a result for each, conflicts among them."""
        if not specs:
            return []
        with self._storing(specs):
            results = await self._store.jobs.insert(specs)
            for result in results:
                shard = self._shards.find(result.job.spec.shard)
                if result.created and shard is not None:
                    shard.table.add_stored(result.job.spec)
        await self._notify_shards(results)
        return results

    @contextmanager
    def _storing(self, specs: Sequence[JobSpec]) -> Generator[None]:
        """Prepare the shards of this process for jobs that are stored inside the block: they start without a read."""
        by_shard: dict[int, list[JobSpec]] = {}
        for spec in specs:
            by_shard.setdefault(spec.shard, []).append(spec)
        with ExitStack() as stack:
            for number, own in by_shard.items():
                shard = self._shards.find(number)
                if shard is not None:
                    stack.enter_context(shard.table.new_jobs.storing(own))
            yield

    async def _notify_shards(self, results: Sequence[SubmitResult]) -> None:
        hints: dict[int, list[Message]] = {}
        for result in results:
            if not result.created:
                continue
            spec = result.job.spec
            # A shard of this process has the spec already.
            message = (
                hint(spec) if self._shards.find(spec.shard) is None else Submitted(spec.job_id)
            )
            hints.setdefault(spec.shard, []).append(message)
        # Concurrently: a broker combines messages to several shards.
        await asyncio.gather(
            *(send_hints(self._broker, shard, messages) for shard, messages in hints.items())
        )


def conflict(result: SubmitResult) -> IdempotencyConflict:
    """Return the error of a key that was used for another request."""
    spec = result.job.spec
    return IdempotencyConflict(
        f"idempotency key {spec.idempotency_key!r} was used for job {spec.job_id} with another request; "
        "send the same request again, or use a new key"
    )
