"""Large values of attempts: fetched for the params before a handler runs, stored as artifacts after it."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core.artifacts import INLINE_BYTES_MAX, reference, resolve_params
from windlass.core.changes import Task
from windlass.core.errors import ArtifactNotFound, StoreUnavailable
from windlass.core.messages import Failed, Succeeded, TaskError
from windlass.ports.artifacts import Artifacts
from windlass.worker.outcomes import PARAMS_INVALID

# The time limit of the artifact store for all values of one attempt.
STORE_SECONDS_MAX = 120.0
CONCURRENT_FETCHES_MAX = 8
# The size limit of params with their large values inserted, in largest outputs.
PARAMS_OUTPUTS_MAX = 4

ARTIFACT_NOT_FOUND = "artifact_not_found"
ARTIFACTS_UNAVAILABLE = "artifacts_unavailable"


class LargeValues:
    """Fetches and stores large values. Without a store, outputs of every size are sent inline."""

    def __init__(self, store: Artifacts | None, output_bytes_max: int) -> None:
        # A larger output is stored as an artifact.
        self.inline_bytes_max = INLINE_BYTES_MAX
        if store is None:
            self.inline_bytes_max = output_bytes_max
        self._store = store
        self._params_bytes_max = PARAMS_OUTPUTS_MAX * output_bytes_max

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
        if self._store is None:
            message = f"the params have {len(task.artifacts)} artifacts, but this worker has no artifact store"
            return Failed(TaskError(ARTIFACTS_UNAVAILABLE, message))
        try:
            async with asyncio.timeout(STORE_SECONDS_MAX):
                bodies = await _fetch_all(self._store, task.artifacts, self._params_bytes_max)
        except ArtifactNotFound as error:
            return Failed(
                TaskError(ARTIFACT_NOT_FOUND, f"an artifact of the params no longer exists: {error}", retryable=False)
            )
        except (StoreUnavailable, TimeoutError) as error:
            message = f"artifacts of the params could not be read: {_reason(error)}"
            return Failed(TaskError(ARTIFACTS_UNAVAILABLE, message))
        params = None
        if bodies is not None:
            params = resolve_params(task.params, bodies, self._params_bytes_max)
        if params is None:
            message = (
                f"params too large: over {self._params_bytes_max} bytes with their {len(task.artifacts)} artifacts; "
                "pass less data, or raise the setting artifacts.bytes_max"
            )
            return Failed(TaskError(PARAMS_INVALID, message, retryable=False))
        return replace(task, params=params)


async def _fetch_all(store: Artifacts, keys: Sequence[str], bytes_max: int) -> dict[str, bytes] | None:
    """Return the values by key; None if they are too large together."""
    bodies: dict[str, bytes] = {}
    left = bytes_max
    for start in range(0, len(keys), CONCURRENT_FETCHES_MAX):
        batch = keys[start : start + CONCURRENT_FETCHES_MAX]
        for key, body in zip(batch, await asyncio.gather(*map(store.get, batch)), strict=True):
            bodies[key] = body
            left -= len(body)
        if left < 0:
            return None
    return bodies


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no response within {STORE_SECONDS_MAX:g} s"
    return str(error)
