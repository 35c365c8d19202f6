"""Puts the parts together: which of them a process runs, and in which order they start and stop."""

import asyncio
import gc
import hashlib
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random
from typing import Any

from msgspec import Raw, Struct

from windlass import __version__
from windlass.clock import SystemClock
from windlass.connections.named import Connections
from windlass.connections.secrets import Secrets
from windlass.core.errors import StoreUnavailable
from windlass.core.events import Event
from windlass.core.jobs import JobRecord
from windlass.core.plan import Plan
from windlass.core.states import JOB_FINAL, JobStatus
from windlass.engine.engine import Duties, Engine, Sharing
from windlass.engine.plan_cache import Plans
from windlass.factory import (
    compiled,
    connections_of,
    is_shared,
    open_artifacts,
    open_broker,
    open_store,
    owned,
    registry_of,
    sinks_of,
    sqlite_path,
)
from windlass.ports.artifacts import Artifacts
from windlass.ports.broker import ALL_QUEUES, Broker
from windlass.ports.control import Submit
from windlass.ports.handler import Handler
from windlass.ports.sink import Sink
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobFilter
from windlass.ports.store.workflows import StoredWorkflow
from windlass.settings import Settings, process_environment
from windlass.spec.compile import definition_json, digest
from windlass.spec.inputs import check_input
from windlass.spec.model import Definition
from windlass.stores.sqlite.store import SqliteStore
from windlass.views.job_detail import nodes_shown, result_of, values_shown
from windlass.views.outputs import Outputs
from windlass.wire import Node
from windlass.worker.heartbeat import Heartbeat
from windlass.worker.log_writer import LogWriter
from windlass.worker.worker import Worker

EVENTS_PAGE = 1_000
# What commands print of a job's outputs, all together.
RESULT_BYTES_MAX = 16 << 20
WATCH_SECONDS = 1.0
# A job that says so much at once is not asked again for a moment: each look takes from the time of the engine itself.
BUSY_EVENTS = 100
BUSY_SECONDS = 0.2
# Python lets a thread hold its lock this long while others wait. The writer thread needs it for moments only, many
# times a commit: with the default of 5 ms, a busy engine would make each commit wait for tens of milliseconds.
SWITCH_SECONDS = 0.0001
# The engine makes many objects that live for one batch and no cycles: looking for cycles after every 700 of them, and
# again and again through all that was imported, is a tenth of its time.
COLLECT_AFTER = (20_000, 20, 50)


class Roles(Struct, frozen=True):
    """What a process does besides what it is asked: own shards and drive their jobs, run tasks."""

    engine: bool = False
    worker: bool = False


ALL_ROLES = Roles(engine=True, worker=True)


class JobResult(Struct, frozen=True):
    """A job with its nodes and, as one JSON object, the outputs of those that completed."""

    job: JobRecord
    nodes: list[Node]
    result_data: Raw


class Reader(Struct, frozen=True):
    """The embedded database, for looking only."""

    store: Store
    artifacts: Artifacts
    plans: Plans


class Server(Struct, frozen=True):
    """A server's insides: the engine, the API before it, and the handlers, which may be replaced while it runs."""

    embedded: "Embedded"
    app: Any
    handlers: dict[str, Handler]
    connections: Connections
    # Set it when the server is about to stop: streams and long polls end.
    closing: asyncio.Event


class Embedded:
    """Everything in one process: store, broker, engine and worker."""

    def __init__(self, store: Store, engine: Engine, plans: Plans, artifacts: Artifacts) -> None:
        self.store = store
        self.artifacts = artifacts
        self._engine = engine
        self._plans = plans
        self._clock = SystemClock()

    async def deploy(self, definition: Definition) -> StoredWorkflow:
        """Store a definition, as a new version if it differs from the newest."""
        return await self.deploy_encoded(definition.workflow_id, definition_json(definition))

    async def deploy_encoded(self, workflow_id: str, encoded: Raw) -> StoredWorkflow:
        """Store a definition that was checked, encoded since: a large one takes a fraction of the memory so."""
        return await self.store.workflows.put(workflow_id, encoded, digest(encoded), self._clock.now())

    async def plan(self, workflow_id: str, version: int) -> Plan:
        """The plan of a version. WorkflowNotFound."""
        return await self._plans.get(workflow_id, version)

    async def submit(
        self, workflow_id: str, input: object, *, version: int | None = None, idempotency_key: str | None = None
    ) -> JobRecord:
        """Check the input and start a job; durable when it returns. InputInvalid, WorkflowNotFound."""
        if version is None:
            version = (await self.store.workflows.get(workflow_id)).version
        plan = await self._plans.get(workflow_id, version)
        checked = check_input(plan.input_schema, input)
        body = hashlib.sha256(b"%d:%s" % (version, bytes(checked))).hexdigest()
        key = idempotency_key
        return await self._engine.submit(
            Submit(workflow_id, version, checked, idempotency_key=key, request_digest=body if key is not None else None)
        )

    async def submit_all(self, workflow_id: str, inputs: Sequence[object]) -> Sequence[JobRecord]:
        """Start many jobs of the newest version in one transaction. InputInvalid, and then nothing is stored."""
        version = (await self.store.workflows.get(workflow_id)).version
        plan = await self._plans.get(workflow_id, version)
        wanted = [Submit(workflow_id, version, check_input(plan.input_schema, input)) for input in inputs]
        return [answer.job for answer in await self._engine.submit_all(wanted)]

    async def watch(self, job_id: str) -> AsyncIterator[Event]:
        """Every event of a job, from the first on and then live; ends with the one that ends the job."""
        after, ended = 0, False
        with self._engine.news(job_id) as news:
            while not ended:
                news.clear()
                # In this order: what is stored after the look at the job's state is not missed.
                ended = JobStatus((await self.store.jobs.get(job_id)).state.status) in JOB_FINAL
                before = after
                while events := await self.store.jobs.events(job_id, after, EVENTS_PAGE):
                    for event in events:
                        after = event.seq
                        yield event
                if ended:
                    return
                if after - before >= BUSY_EVENTS:
                    await asyncio.sleep(BUSY_SECONDS)
                await _set_within(news, WATCH_SECONDS)

    async def wait_end(self, job_id: str) -> None:
        """Return once the job has ended."""
        await self._engine.wait(job_id)

    async def wait(self, job_id: str) -> JobRecord:
        """The job, once it has ended."""
        await self._engine.wait(job_id)
        return await self.store.jobs.get(job_id)

    async def cancel(self, job_id: str, reason: str | None = None) -> None:
        """Stop a job."""
        await self._engine.cancel(job_id, reason)

    async def retry(self, job_id: str, from_node: str | None = None) -> None:
        """Run again what failed or was cancelled in a finished job."""
        await self._engine.retry(job_id, from_node)

    async def resume(self, job_id: str) -> JobRecord:
        """Take up an unfinished job."""
        return await self._engine.resume(job_id)

    async def resumable(self, workflow_id: str) -> JobRecord | None:
        """The newest unfinished job of a workflow."""
        found: list[JobRecord] = []
        for status in ("pending", "running"):
            found.extend(await self.store.jobs.list(JobFilter(workflow_id=workflow_id, status=status, limit=1)))
        return max(found, key=lambda job: (job.spec.created_at, job.spec.job_id), default=None)

    async def result(self, job_id: str, bytes_max: int = RESULT_BYTES_MAX) -> JobResult:
        """The job with its nodes and outputs, as far as they have no more bytes together."""
        return await job_result(Reader(self.store, self.artifacts, self._plans), job_id, bytes_max)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    # Not asyncio.wait_for: in Python 3.11 it can lose a cancel that comes as its future is done.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def job_result(reader: Reader, job_id: str, bytes_max: int = RESULT_BYTES_MAX) -> JobResult:
    """A job's nodes and outputs, as far as they have no more bytes together; markers stand for the others."""
    found = await reader.store.jobs.snapshot(job_id)
    plan = await reader.plans.get(found.job.spec.workflow_id, found.job.spec.version)
    values = await values_shown(Outputs(reader.artifacts, bytes_max, bytes_max), found.nodes)
    nodes = await nodes_shown(reader.store, plan, found.nodes, values)
    return JobResult(found.job, nodes, result_of(found.nodes, values))


class _Parts(Struct, frozen=True):
    """What one process is made of."""

    process: str
    clock: SystemClock
    store: Store
    broker: Broker
    plans: Plans
    engine: Engine
    handlers: dict[str, Handler]
    artifacts: Artifacts
    connections: Connections
    sinks: dict[str, Sink]


@asynccontextmanager
async def open_embedded(settings: Settings, *, only_new_jobs: bool = False) -> AsyncGenerator[Embedded]:
    """A running engine and worker. With `only_new_jobs` it leaves unfinished jobs of earlier processes alone."""
    async with _open(settings, ALL_ROLES, (ALL_QUEUES,), only_new_jobs=only_new_jobs) as parts:
        yield Embedded(parts.store, parts.engine, parts.plans, parts.artifacts)


@asynccontextmanager
async def open_server(settings: Settings, roles: Roles = ALL_ROLES) -> AsyncGenerator[Server]:
    """The API, with an engine and a worker behind it as far as the roles say; on SQLite always both."""
    # FastAPI takes a third of a second to import, which no other command needs to wait for.
    from windlass.api.app import create_app
    from windlass.api.state import LOOPBACK_HOSTS, ApiState

    async with _open(settings, roles if is_shared(settings) else ALL_ROLES, settings.worker.queues) as parts:
        state = ApiState(
            store=parts.store,
            artifacts=parts.artifacts,
            broker=parts.broker,
            control=parts.engine,
            clock=parts.clock,
            handlers=parts.handlers,
            chance=Random(),
            version=__version__,
            allowed_hosts=(*LOOPBACK_HOSTS, *settings.server.allowed_hosts),
            artifact_bytes_max=settings.artifacts.bytes_max,
            secrets=Secrets(settings.secrets),
        )
        embedded = Embedded(parts.store, parts.engine, parts.plans, parts.artifacts)
        yield Server(embedded, create_app(state), parts.handlers, parts.connections, state.closing)


@asynccontextmanager
async def open_process(settings: Settings, roles: Roles) -> AsyncGenerator[str]:
    """An engine, a worker, or both, on a shared database; its name. StoreUnavailable on one that cannot be shared."""
    if not is_shared(settings):
        raise StoreUnavailable(
            f"several processes share a database like postgresql://user@host/name, not {settings.database_url}; "
            "set database_url (WINDLASS_DATABASE_URL), or use `windlass server`, which is all of it in one process"
        )
    async with _open(settings, roles, settings.worker.queues) as parts:
        yield parts.process


@asynccontextmanager
async def _open(
    settings: Settings, roles: Roles, queues: Sequence[str], *, only_new_jobs: bool = False
) -> AsyncGenerator[_Parts]:
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    clock = SystemClock()
    # Names this life of the process: what an earlier one held under the same number is not its own.
    process = f"{os.uname().nodename}:{os.getpid()}:{clock.now():x}"
    async with AsyncExitStack() as stack:
        if not is_shared(settings):
            stack.enter_context(owned(sqlite_path(settings)))
        store = await open_store(settings, clock)
        stack.push_async_callback(store.close)
        artifacts = open_artifacts(settings)
        stack.push_async_callback(artifacts.aclose)
        broker = await open_broker(settings, clock)
        stack.push_async_callback(broker.close)
        plans = Plans(store, compiled)
        engine = _engine(settings, roles, process, store, broker, plans, artifacts, only_new_jobs=only_new_jobs)
        stack.push_async_callback(engine.stop)
        await engine.start()
        connections = connections_of(settings)
        stack.push_async_callback(connections.aclose)
        sinks = sinks_of(settings, connections)
        for sink in sinks.values():
            stack.push_async_callback(sink.aclose)
        registry = registry_of(settings, connections)
        parts = _Parts(process, clock, store, broker, plans, engine, registry, artifacts, connections, sinks)
        if roles.worker:
            await _start_worker(stack, settings, parts, queues)
        yield parts


def _engine(settings: Settings, roles: Roles, process: str, store: Store, broker: Broker, plans: Plans,
            artifacts: Artifacts, *, only_new_jobs: bool) -> Engine:  # fmt: skip
    wanted = settings.engine
    sharing = Sharing(wanted.shards, wanted.lease_seconds, owns=roles.engine) if is_shared(settings) else None
    return Engine(
        store,
        broker,
        SystemClock(),
        plans,
        artifacts,
        Random(),
        owner=process,
        artifact_bytes_max=settings.artifacts.bytes_max,
        duties=Duties(
            sweep_seconds=wanted.sweep_seconds,
            retention_days=wanted.retention_days,
            silent_seconds=wanted.worker_silent_seconds,
            reap_seconds=wanted.reap_seconds,
            flight_seconds=wanted.flight_seconds,
            run_heartbeat_seconds=wanted.run_heartbeat_seconds,
            run_heartbeats_missed_max=wanted.run_heartbeats_missed_max or None,
        ),
        only_new_jobs=only_new_jobs,
        sharing=sharing,
        prepare=check_input,
    )


async def _start_worker(stack: AsyncExitStack, settings: Settings, parts: _Parts, queues: Sequence[str]) -> None:
    logs = LogWriter(parts.store.logs.append, parts.clock)
    writing = asyncio.create_task(logs.run())
    stack.push_async_callback(_close_logs, logs, writing)
    worker = _worker(settings, parts, parts.process, queues, logs)
    working = asyncio.create_task(worker.run())
    # Alone, the process is asked to stop by somebody who waits; shared, others wait for what it holds.
    drain_seconds = settings.worker.drain_seconds if is_shared(settings) else 0.0
    stack.push_async_callback(_stop, worker, working, drain_seconds)


def _worker(settings: Settings, parts: _Parts, process: str, queues: Sequence[str], logs: LogWriter) -> Worker:
    wanted = settings.worker
    return Worker(
        parts.broker,
        parts.handlers,
        parts.clock,
        worker_id=process,
        queues=queues,
        concurrency=wanted.concurrency,
        threads=wanted.threads,
        processes=wanted.processes,
        heartbeat_seconds=wanted.heartbeat_seconds,
        environment=process_environment(),
        log_sink=logs,
        artifacts=parts.artifacts,
        sinks=parts.sinks,
        output_bytes_max=settings.artifacts.bytes_max,
        pulse=Heartbeat(lambda: open_broker(settings, parts.clock), wanted.heartbeat_seconds)
        if is_shared(settings)
        else None,
    )


async def _close_logs(logs: LogWriter, writing: "asyncio.Task[None]") -> None:
    await logs.aclose()
    await writing


async def _stop(worker: Worker, working: "asyncio.Task[None]", drain_seconds: float) -> None:
    await worker.stop(drain_seconds)
    await working


@asynccontextmanager
async def open_reader(settings: Settings) -> AsyncGenerator[Reader]:
    """The database, for looking only; also while other processes work on it."""
    async with AsyncExitStack() as stack:
        if is_shared(settings):
            store: Store = await open_store(settings, SystemClock())
        else:
            store = await SqliteStore.open_reader(sqlite_path(settings))
        stack.push_async_callback(store.close)
        artifacts = open_artifacts(settings)
        stack.push_async_callback(artifacts.aclose)
        yield Reader(store, artifacts, Plans(store, compiled))


def require_unowned(settings: Settings) -> None:
    """DatabaseInUse while another process owns the embedded database; a look ahead, which holds nothing."""
    if not is_shared(settings):
        with owned(sqlite_path(settings)):
            pass
