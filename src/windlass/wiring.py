"""Puts the parts together. The only place that names adapters."""

import asyncio
import fcntl
import gc
import hashlib
import importlib
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Raw, Struct

from windlass import __version__
from windlass.brokers.memory import MemoryBroker
from windlass.clock import SystemClock
from windlass.core.changes import Event, NodeRow
from windlass.core.errors import DatabaseInUse, HandlerInvalid, StoreUnavailable
from windlass.core.plan import Plan
from windlass.core.states import JOB_FINAL, JOB_STATES
from windlass.engine.engine import Engine
from windlass.engine.plans import Plans
from windlass.handlers import builtin
from windlass.ports.broker import ALL_QUEUES
from windlass.ports.control import Submit
from windlass.ports.declare import collect
from windlass.ports.handler import Handler
from windlass.ports.store import JobFilter, Store, StoredJob, StoredWorkflow
from windlass.settings import Settings, process_environment
from windlass.spec.compile import compile_plan, definition_from_json, definition_json, digest
from windlass.spec.inputs import check_input
from windlass.spec.model import Definition
from windlass.stores.sqlite import SqliteStore
from windlass.worker.logs import LogWriter
from windlass.worker.worker import Worker

SQLITE_SCHEME = "sqlite:///"
EVENTS_PAGE = 1_000
WATCH_SECONDS = 1.0
# Python lets a thread hold its lock this long while others wait. The writer thread needs it for moments only, many
# times a commit: with the default of 5 ms, a busy engine would make each commit wait for tens of milliseconds.
SWITCH_SECONDS = 0.0005
# The engine makes many objects that live for one batch and no cycles: looking for cycles after every 700 of them, and
# again and again through all that was imported, is a tenth of its time.
COLLECT_AFTER = (20_000, 20, 50)


class JobResult(Struct, frozen=True):
    """A job with its nodes and, as one JSON object, the outputs of those that completed."""

    job: StoredJob
    nodes: list[NodeRow]
    result_data: Raw


class Server(Struct, frozen=True):
    """A server's insides: the engine, the API before it, and the handlers, which may be replaced while it runs."""

    embedded: "Embedded"
    app: Any
    handlers: dict[str, Handler]
    # Set it when the server is about to stop: streams and long polls end.
    closing: asyncio.Event


class Embedded:
    """Everything in one process: store, broker, engine and worker."""

    def __init__(self, store: SqliteStore, engine: Engine, plans: Plans) -> None:
        self.store: Store = store
        self._engine = engine
        self._plans = plans
        self._clock = SystemClock()

    async def deploy(self, definition: Definition) -> StoredWorkflow:
        """Store a definition, as a new version if it differs from the newest."""
        encoded = definition_json(definition)
        return await self.store.put_workflow(definition.workflow_id, encoded, digest(encoded), self._clock.now())

    async def submit(
        self, workflow_id: str, input: object, *, version: int | None = None, idempotency_key: str | None = None
    ) -> StoredJob:
        """Check the input and start a job; durable when it returns. InputInvalid, WorkflowNotFound."""
        if version is None:
            version = (await self.store.workflow(workflow_id)).version
        plan = await self._plans.get(workflow_id, version)
        checked = check_input(plan.input_schema, input)
        body = hashlib.sha256(b"%d:%s" % (version, bytes(checked))).hexdigest()
        key = idempotency_key
        return await self._engine.submit(
            Submit(workflow_id, version, checked, idempotency_key=key, body_digest=body if key is not None else None)
        )

    async def submit_all(self, workflow_id: str, inputs: Sequence[object]) -> Sequence[StoredJob]:
        """Start many jobs of the newest version in one transaction. InputInvalid, and then nothing is stored."""
        version = (await self.store.workflow(workflow_id)).version
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
                ended = JOB_STATES[(await self.store.job(job_id)).status] in JOB_FINAL
                while events := await self.store.events(job_id, after, EVENTS_PAGE):
                    for event in events:
                        after = event.seq
                        yield event
                if not ended:
                    await _set_within(news, WATCH_SECONDS)

    async def wait_end(self, job_id: str) -> None:
        """Return once the job has ended."""
        await self._engine.wait(job_id)

    async def wait(self, job_id: str) -> StoredJob:
        """The job, once it has ended."""
        await self._engine.wait(job_id)
        return await self.store.job(job_id)

    async def cancel(self, job_id: str, reason: str | None = None) -> None:
        """Stop a job."""
        await self._engine.cancel(job_id, reason)

    async def retry(self, job_id: str, from_node: str | None = None) -> None:
        """Run again what failed or was cancelled in a finished job."""
        await self._engine.retry(job_id, from_node)

    async def resume(self, job_id: str) -> StoredJob:
        """Take up an unfinished job."""
        return await self._engine.resume(job_id)

    async def resumable(self, workflow_id: str) -> StoredJob | None:
        """The newest unfinished job of a workflow."""
        found: list[StoredJob] = []
        for status in ("pending", "running"):
            found.extend(await self.store.jobs(JobFilter(workflow_id=workflow_id, status=status, limit=1)))
        return max(found, key=lambda job: (job.created_at, job.job_id), default=None)

    async def result(self, job_id: str) -> JobResult:
        """The job with its nodes and outputs."""
        return await job_result(self.store, job_id)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    # Not asyncio.wait_for: in Python 3.11 it can lose a cancel that comes as its future is done.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def job_result(store: Store, job_id: str) -> JobResult:
    """A job's nodes and outputs. START and END have none; nor has a node that did not end well."""
    job = await store.job(job_id)
    nodes = list(await store.nodes(job_id))
    outputs = {row.node_id: row.output for row in nodes if row.output is not None}
    return JobResult(job, nodes, Raw(msgspec.json.encode(outputs)))


def registry_of(settings: Settings) -> dict[str, Handler]:
    """The handlers built in and those of the modules that the settings name."""
    handlers = builtin(allow_private=settings.http.allow_private, environment=process_environment())
    for name in settings.worker.imports:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise HandlerInvalid(f"the module {name} can not be imported: {error}") from error
        handlers.update(collect(module))
    return handlers


def compiled(stored: StoredWorkflow) -> Plan:
    """The plan of a stored version."""
    return compile_plan(definition_from_json(stored.definition), stored.version)


def sqlite_path(settings: Settings) -> str:
    """The file behind the database URL; StoreUnavailable when it is not SQLite's."""
    url = settings.database_url
    if not url.startswith(SQLITE_SCHEME) or url == SQLITE_SCHEME:
        raise StoreUnavailable(f"the embedded engine needs a database URL like sqlite:///path/to/file.db, not {url!r}")
    return url.removeprefix(SQLITE_SCHEME)


class _Parts(Struct, frozen=True):
    """What one process is made of."""

    clock: SystemClock
    store: SqliteStore
    broker: MemoryBroker
    plans: Plans
    engine: Engine
    handlers: dict[str, Handler]


@asynccontextmanager
async def open_embedded(settings: Settings, *, only_new_jobs: bool = False) -> AsyncGenerator[Embedded]:
    """A running engine and worker. With `only_new_jobs` it leaves unfinished jobs of earlier processes alone."""
    async with _open(settings, (ALL_QUEUES,), only_new_jobs=only_new_jobs) as parts:
        yield Embedded(parts.store, parts.engine, parts.plans)


@asynccontextmanager
async def open_server(settings: Settings) -> AsyncGenerator[Server]:
    """The embedded engine and the API in front of it; every unfinished job is taken up."""
    # FastAPI takes a third of a second to import, which no other command needs to wait for.
    from windlass.api.app import create_app
    from windlass.api.state import LOOPBACK_HOSTS, ApiState

    async with _open(settings, settings.worker.queues, only_new_jobs=False) as parts:
        state = ApiState(
            store=parts.store,
            broker=parts.broker,
            control=parts.engine,
            clock=parts.clock,
            handlers=parts.handlers,
            chance=Random(),
            version=__version__,
            allowed_hosts=(*LOOPBACK_HOSTS, *settings.server.allowed_hosts),
        )
        embedded = Embedded(parts.store, parts.engine, parts.plans)
        yield Server(embedded, create_app(state), parts.handlers, state.closing)


@asynccontextmanager
async def _open(settings: Settings, queues: Sequence[str], *, only_new_jobs: bool) -> AsyncGenerator[_Parts]:
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    path = sqlite_path(settings)
    clock = SystemClock()
    process = f"{os.uname().nodename}:{os.getpid()}"
    async with AsyncExitStack() as stack:
        stack.enter_context(_owned(path))
        store = await SqliteStore.open(path, clock, synchronous=settings.sqlite.synchronous)
        stack.push_async_callback(store.close)
        broker = MemoryBroker(clock)
        plans = Plans(store, compiled)
        engine = Engine(
            store,
            broker,
            clock,
            plans,
            Random(),
            owner=process,
            sweep_seconds=settings.engine.sweep_seconds,
            retention_days=settings.engine.retention_days,
            only_new_jobs=only_new_jobs,
        )
        stack.push_async_callback(engine.stop)
        await engine.start()
        parts = _Parts(clock, store, broker, plans, engine, registry_of(settings))
        logs = LogWriter(store.append_logs, clock)
        writing = asyncio.create_task(logs.run())
        stack.push_async_callback(_close_logs, logs, writing)
        worker = _worker(settings, parts, process, queues, logs)
        working = asyncio.create_task(worker.run())
        stack.push_async_callback(_stop, worker, working)
        yield parts


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
    )


async def _close_logs(logs: LogWriter, writing: "asyncio.Task[None]") -> None:
    await logs.aclose()
    await writing


async def _stop(worker: Worker, working: "asyncio.Task[None]") -> None:
    await worker.stop(0.0)
    await working


@asynccontextmanager
async def open_reader(settings: Settings) -> AsyncGenerator[Store]:
    """The embedded database, for looking only; also while another process works on it."""
    store = await SqliteStore.open_reader(sqlite_path(settings))
    try:
        yield store
    finally:
        await store.close()


def require_unowned(settings: Settings) -> None:
    """DatabaseInUse while another process owns the embedded database; a look ahead, which holds nothing."""
    with _owned(sqlite_path(settings)):
        pass


@contextmanager
def _owned(path: str) -> Generator[None]:
    """Own the database: a lock that ends with the process, however that ends. DatabaseInUse."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{path}.lock").open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise DatabaseInUse(
                f"the database {path} is in use by another Windlass process (pid {lock.read().strip() or 'unknown'}); "
                "wait for it to end, or name another with --database"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
