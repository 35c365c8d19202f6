"""Large values of attempts: fetched into params before a handler runs, put into the artifact store after it."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from windlass.core.artifacts import INLINE_BYTES_MAX, in_place, reference
from windlass.core.changes import Task
from windlass.core.errors import ArtifactNotFound, StoreUnavailable
from windlass.core.messages import Failed, Succeeded, TaskError
from windlass.ports.artifacts import Artifacts
from windlass.worker.outcomes import PARAMS_INVALID

# How long the store may take for all values of one attempt.
STORE_SECONDS_MAX = 120.0
FETCHES_AT_ONCE_MAX = 8
# Params with their large values in place may be so many times as large as the largest output.
PARAMS_OUTPUTS_MAX = 4

ARTIFACT_NOT_FOUND = "artifact_not_found"
ARTIFACTS_UNAVAILABLE = "artifacts_unavailable"


class LargeValues:
    """What one worker does about large values. Without a store, outputs of every size travel as they are."""

    def __init__(self, store: Artifacts | None, output_bytes_max: int) -> None:
        # A larger output is put away.
        self.inline_bytes_max = INLINE_BYTES_MAX if store is not None else output_bytes_max
        self._store = store
        self._params_bytes_max = PARAMS_OUTPUTS_MAX * output_bytes_max

    async def put_away(self, job_id: str, outcome: Succeeded) -> Succeeded | Failed:
        """The outcome with a reference in place of its output."""
        if self._store is None:
            return outcome
        body = bytes(outcome.output)
        try:
            async with asyncio.timeout(STORE_SECONDS_MAX):
                key = await self._store.put(job_id, body)
        except (StoreUnavailable, TimeoutError) as error:
            what = f"the output of {len(body)} bytes could not be stored: {_reason(error)}"
            return Failed(TaskError(ARTIFACTS_UNAVAILABLE, what), outcome.meta)
        return Succeeded(reference(key, len(body)), outcome.meta)

    async def fetch(self, task: Task) -> Task | Failed:
        """The task with its large values in place."""
        if self._store is None:
            what = f"the params refer to {len(task.artifacts)} large values, but this worker has no artifact store"
            return Failed(TaskError(ARTIFACTS_UNAVAILABLE, what))
        try:
            async with asyncio.timeout(STORE_SECONDS_MAX):
                bodies = await _fetched(self._store, task.artifacts, self._params_bytes_max)
        except ArtifactNotFound as error:
            return Failed(TaskError(ARTIFACT_NOT_FOUND, f"a large value of the params is gone: {error}", False))
        except (StoreUnavailable, TimeoutError) as error:
            what = f"the large values of the params could not be read: {_reason(error)}"
            return Failed(TaskError(ARTIFACTS_UNAVAILABLE, what))
        params = in_place(task.params, bodies, self._params_bytes_max) if bodies is not None else None
        if params is None:
            what = (
                f"with its {len(task.artifacts)} large values in place, the params exceed {self._params_bytes_max} "
                "bytes: pass less of them on, or raise the setting artifacts.bytes_max"
            )
            return Failed(TaskError(PARAMS_INVALID, what, False))
        return replace(task, params=params)


async def _fetched(store: Artifacts, keys: Sequence[str], bytes_max: int) -> dict[str, bytes] | None:
    """The values by key; None when they are too large together."""
    bodies: dict[str, bytes] = {}
    left = bytes_max
    for start in range(0, len(keys), FETCHES_AT_ONCE_MAX):
        some = keys[start : start + FETCHES_AT_ONCE_MAX]
        for key, body in zip(some, await asyncio.gather(*map(store.get, some)), strict=True):
            bodies[key] = body
            left -= len(body)
        if left < 0:
            return None
    return bodies


def _reason(error: Exception) -> str:
    return f"no answer within {STORE_SECONDS_MAX:g} s" if isinstance(error, TimeoutError) else str(error)
