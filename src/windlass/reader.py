"""Read-only access to a database, also while other processes use it."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Raw, Struct

from windlass.clock import SystemClock
from windlass.core.jobs import JobRecord
from windlass.engine.plan_cache import Plans
from windlass.factory import compile_stored, open_artifacts, open_store, sqlite_path
from windlass.ports.artifacts import Artifacts
from windlass.ports.store import Store
from windlass.settings import Settings, is_shared
from windlass.stores.sqlite.store import SqliteStore
from windlass.views.job_detail import node_views, output_values, result_data
from windlass.views.outputs import OutputReader
from windlass.wire import NodeView

# Limit of a job's outputs together; larger ones are replaced by markers with their size.
RESULT_BYTES_MAX = 16 << 20


class JobResult(Struct, frozen=True):
    """A job with its nodes and the outputs of the completed ones as one JSON object."""

    job: JobRecord
    nodes: list[NodeView]
    result_data: Raw


class Reader(Struct, frozen=True):
    """A store and what is needed to display its jobs."""

    store: Store
    artifacts: Artifacts
    plans: Plans

    async def result(self, job_id: str, bytes_max: int = RESULT_BYTES_MAX) -> JobResult:
        """Return a job with its nodes and outputs; markers replace the outputs beyond `bytes_max`."""
        snapshot = await self.store.jobs.snapshot(job_id)
        plan = await self.plans.get(snapshot.job.spec.workflow_id, snapshot.job.spec.version)
        values = await output_values(
            OutputReader(self.artifacts, bytes_max, bytes_max), snapshot.nodes
        )
        nodes = await node_views(self.store, plan, snapshot.nodes, values)
        return JobResult(snapshot.job, nodes, result_data(snapshot.nodes, values))


@asynccontextmanager
async def open_reader(settings: Settings) -> AsyncGenerator[Reader]:
    """Open the database of the settings for reading."""
    async with AsyncExitStack() as stack:
        if is_shared(settings):
            store: Store = await open_store(settings, SystemClock())
        else:
            store = await SqliteStore.open_reader(sqlite_path(settings))
        stack.push_async_callback(store.close)
        artifacts = open_artifacts(settings)
        stack.push_async_callback(artifacts.aclose)
        yield Reader(store, artifacts, Plans(store, compile_stored))
