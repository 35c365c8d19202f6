"""Starts and stops the parts of a process: the engine, the worker and the adapters that they use."""

import asyncio
import gc
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

from msgspec import Struct

from windlass.clock import SystemClock
from windlass.connections.named import Connections
from windlass.core.errors import Problem, SettingsInvalid, StoreUnavailable
from windlass.engine.config import Duties, Sharing
from windlass.engine.engine import Engine
from windlass.engine.plan_cache import Plans
from windlass.factory import (
    build_connections,
    build_handlers,
    build_sinks,
    compile_stored,
    open_artifacts,
    open_broker,
    open_store,
    sqlite_path,
)
from windlass.ports.artifacts import Artifacts
from windlass.ports.broker import Broker
from windlass.ports.handler import Handler
from windlass.ports.sink import Sink
from windlass.ports.store import Store
from windlass.ports.store.leases import Deployment, new_installation_id
from windlass.settings import Settings, is_shared
from windlass.settings_loader import process_environment
from windlass.settings_rules import require_consistent
from windlass.spec import check_input
from windlass.stores.sqlite.file_lock import lock_database
from windlass.worker.heartbeat import Heartbeat, HeartbeatInterval
from windlass.worker.log_writer import LogWriter
from windlass.worker.worker import Worker

# How long a thread may hold the interpreter's lock while others wait. The writer thread needs the lock briefly and
# many times per commit; with the default of 5 ms, each of these could wait that long for a busy engine.
SWITCH_SECONDS = 0.0001
# The engine creates many objects that live for one batch, and no reference cycles. The default threshold of 700
# objects would start a search for cycles, which finds none, many times per batch.
GC_THRESHOLDS = (20_000, 20, 50)


class Roles(Struct, frozen=True):
    """What a process does besides serving requests: own shards and drive their jobs, run tasks."""

    engine: bool = False
    worker: bool = False


ALL_ROLES = Roles(engine=True, worker=True)


class Process(Struct, frozen=True, kw_only=True):
    """The running parts of a process."""

    # Unique per start of a process, so that it never mistakes the leases and tasks of an earlier one for its own.
    name: str
    # Which installation this process belongs to; empty for one that is not shared.
    installation_id: str
    clock: SystemClock
    store: Store
    broker: Broker
    artifacts: Artifacts
    plans: Plans
    engine: Engine
    connections: Connections
    # May be replaced while the process runs.
    handlers: dict[str, Handler]
    sinks: dict[str, Sink]
    # Those that run in this process.
    workers: list[Worker] = []

    def problems(self) -> list[str]:
        """Return why the workers of this process take no tasks."""
        found = [worker.problem for worker in self.workers]
        return [
            f"a worker takes no tasks because outputs cannot be stored: {problem}"
            for problem in found
            if problem is not None
        ]


@asynccontextmanager
async def open_process(
    settings: Settings,
    roles: Roles,
    *,
    queues: Sequence[str] | None = None,
    only_new_jobs: bool = False,
    is_only_worker: bool = False,
) -> AsyncGenerator[Process]:
    """Start the parts that `roles` names; stop them in reverse order.

    The worker serves `queues`, or those of the settings. With `only_new_jobs` the engine ignores unfinished jobs of
    earlier processes. With `is_only_worker`, tasks of unknown handlers fail instead of waiting.
    SettingsInvalid if settings contradict each other.
    """
    require_consistent(settings)
    _tune_interpreter()
    async with AsyncExitStack() as stack:
        if not is_shared(settings):
            stack.enter_context(lock_database(sqlite_path(settings)))
        process = await _open_parts(stack, settings, roles, only_new_jobs=only_new_jobs)
        if roles.worker:
            queues = queues or settings.worker.queues
            await _start_worker(stack, settings, process, queues, is_only_worker=is_only_worker)
        yield process


def require_shared(settings: Settings) -> None:
    """Raise StoreUnavailable for a database that only one process can use."""
    if not is_shared(settings):
        raise StoreUnavailable(
            f"database cannot be shared by several processes: {settings.database_url}; set database_url "
            "(WINDLASS_DATABASE_URL) to a URL like postgresql://user@host/name, or use `windlass server`, "
            "which runs everything in one process"
        )


def require_unlocked(settings: Settings) -> None:
    """Raise DatabaseInUse while another process uses the embedded database. Does not keep the lock."""
    if not is_shared(settings):
        with lock_database(sqlite_path(settings), create=False):
            pass


def engine_duties(settings: Settings) -> Duties:
    """Return the engine's intervals and limits."""
    engine = settings.engine
    return Duties(
        sweep_seconds=engine.sweep_seconds,
        retention_days=engine.retention_days,
        worker_timeout_seconds=engine.worker_timeout_seconds,
        worker_check_seconds=engine.worker_check_seconds,
        worker_retention_seconds=engine.worker_retention_seconds,
        in_flight_check_seconds=engine.in_flight_check_seconds,
        run_heartbeat_seconds=engine.run_heartbeat_seconds,
        run_heartbeats_missed_max=engine.run_heartbeats_missed_max or None,
    )


def _tune_interpreter() -> None:
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


async def _open_parts(
    stack: AsyncExitStack, settings: Settings, roles: Roles, *, only_new_jobs: bool
) -> Process:
    clock = SystemClock()
    store = await open_store(settings, clock)
    stack.push_async_callback(store.close)
    installation_id = await _join_deployment(settings, store)
    artifacts = open_artifacts(settings)
    stack.push_async_callback(artifacts.aclose)
    broker = await open_broker(settings, clock, installation_id)
    stack.push_async_callback(broker.close)
    connections = build_connections(settings)
    stack.push_async_callback(connections.aclose)
    sinks = build_sinks(settings, connections)
    for sink in sinks.values():
        stack.push_async_callback(sink.aclose)
    handlers = build_handlers(settings, connections)
    name = f"{os.uname().nodename}:{os.getpid()}:{clock.now():x}"
    plans = Plans(store, compile_stored)
    engine = Engine(
        store=store,
        broker=broker,
        clock=clock,
        plans=plans,
        artifacts=artifacts,
        random=Random(),
        owner=name,
        artifact_bytes_max=settings.artifacts.bytes_max,
        duties=engine_duties(settings),
        only_new_jobs=only_new_jobs,
        sharing=_sharing(settings, roles),
        check_input=check_input,
    )
    stack.push_async_callback(engine.stop)
    await engine.start()
    return Process(
        name=name,
        installation_id=installation_id,
        clock=clock,
        store=store,
        broker=broker,
        artifacts=artifacts,
        plans=plans,
        engine=engine,
        connections=connections,
        handlers=handlers,
        sinks=sinks,
    )


async def _join_deployment(settings: Settings, store: Store) -> str:
    """Return the id of the installation. SettingsInvalid if its number of shards is another one."""
    if not is_shared(settings):
        return ""
    wanted = settings.engine.shards
    joined = await store.leases.join_deployment(Deployment(new_installation_id(), wanted))
    recorded = joined.shard_count
    if recorded != wanted:
        problem = Problem(
            path="engine.shards",
            message=f"the database has {recorded} shards, not {wanted}; set engine.shards = {recorded}: "
            "jobs on other shards would never start",
        )
        raise SettingsInvalid([problem])
    return joined.installation_id


def _sharing(settings: Settings, roles: Roles) -> Sharing | None:
    if not is_shared(settings):
        return None
    return Sharing(settings.engine.shards, settings.engine.lease_seconds, owns=roles.engine)


async def _start_worker(
    stack: AsyncExitStack,
    settings: Settings,
    process: Process,
    queues: Sequence[str],
    *,
    is_only_worker: bool,
) -> None:
    logs = LogWriter(process.store.logs.append, process.clock)
    log_task = asyncio.create_task(logs.run())
    stack.push_async_callback(_close_logs, logs, log_task)
    worker = _build_worker(settings, process, queues, logs, is_only_worker=is_only_worker)
    process.workers.append(worker)
    worker_task = asyncio.create_task(worker.run())
    drain_seconds = 0.0
    if is_shared(settings):
        # Other processes wait for the tasks that this one holds. Without them, only the user waits for the exit.
        drain_seconds = settings.worker.drain_seconds
    stack.push_async_callback(_stop_worker, worker, worker_task, drain_seconds)


def _build_worker(
    settings: Settings,
    process: Process,
    queues: Sequence[str],
    logs: LogWriter,
    *,
    is_only_worker: bool,
) -> Worker:
    limits = settings.worker
    heartbeat: Heartbeat | None = None
    if is_shared(settings):
        interval = HeartbeatInterval(
            limits.heartbeat_seconds, lambda: process.engine.worker_timeout_seconds
        )
        heartbeat = Heartbeat(
            lambda: open_broker(settings, process.clock, process.installation_id), interval
        )
    return Worker(
        process.broker,
        process.handlers,
        process.clock,
        worker_id=process.name,
        queues=queues,
        concurrency=limits.concurrency,
        threads=limits.threads,
        processes=limits.processes,
        heartbeat_seconds=limits.heartbeat_seconds,
        output_bytes_max=settings.artifacts.bytes_max,
        environment=process_environment(),
        log_sink=logs,
        artifacts=process.artifacts,
        sinks=process.sinks,
        heartbeat=heartbeat,
        is_only_worker=is_only_worker,
    )


async def _close_logs(logs: LogWriter, log_task: "asyncio.Task[None]") -> None:
    await logs.aclose()
    await log_task


async def _stop_worker(
    worker: Worker, worker_task: "asyncio.Task[None]", drain_seconds: float
) -> None:
    await worker.stop(drain_seconds)
    await worker_task
