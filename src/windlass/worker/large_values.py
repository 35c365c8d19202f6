"""Large values of attempts: fetched for the params before a handler runs, stored as artifacts after it."""

import asyncio

from msgspec.structs import replace

from windlass.core.artifacts import INLINE_BYTES_MAX, reference
from windlass.core.changes import Task
from windlass.core.errors import StoreUnavailable
from windlass.core.messages import Failed, Succeeded, TaskError
from windlass.ports.artifact_reader import ArtifactReader
from windlass.ports.artifacts import Artifacts
from windlass.ports.task_params import ARTIFACTS_UNAVAILABLE, fetch_params

# The time limit of the artifact store for all values of one attempt; heartbeats continue meanwhile.
STORE_SECONDS_MAX = 120.0


class LargeValues:
    """Fetches and stores large values. Without a store, outputs of every size are sent inline."""

    def __init__(self, store: Artifacts | None, output_bytes_max: int) -> None:
        # A larger output is stored as an artifact.
        self.inline_bytes_max = INLINE_BYTES_MAX
        if store is None:
            self.inline_bytes_max = output_bytes_max
        self._store = store
        self._reader = None if store is None else ArtifactReader(store)
        self._output_bytes_max = output_bytes_max

    async def store(self, job_id: str, outcome: Succeeded) -> Succeeded | Failed:
        """Store the output; return the outcome with a reference in its place."""
        if self._store is None:
            return outcome
        body = bytes(outcome.output)
        try:
            async with asyncio.timeout(STORE_SECONDS_MAX):
                key = await self._store.put(job_id, body)
        except (StoreUnavailable, TimeoutError) as error:
            message = f"output of {len(body)} bytes could not be stored: {_reason(error)}"
            return Failed(TaskError(ARTIFACTS_UNAVAILABLE, message), outcome.meta)
        return Succeeded(reference(key, len(body)), outcome.meta)

    async def fetch(self, task: Task) -> Task | Failed:
        """Return the task with its large values inserted into the params."""
        if self._reader is None:
            message = f"the params have {len(task.artifacts)} artifacts, but this worker has no artifact store"
            return Failed(TaskError(ARTIFACTS_UNAVAILABLE, message))
        params = await fetch_params(
            self._reader,
            task,
            output_bytes_max=self._output_bytes_max,
            seconds_max=STORE_SECONDS_MAX,
        )
        if isinstance(params, Failed):
            return params
        return replace(task, params=params)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no response within {STORE_SECONDS_MAX:g} s"
    return str(error)
