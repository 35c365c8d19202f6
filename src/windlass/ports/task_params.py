"""The params of a task with the values of its artifacts, for workers and for the API that serves HTTP workers."""

import asyncio
from collections.abc import Sequence

from windlass.core.artifacts import resolve_params
from windlass.core.changes import Task
from windlass.core.errors import ArtifactNotFound, StoreUnavailable
from windlass.core.messages import Failed, TaskError
from windlass.ports.artifacts import Artifacts

ARTIFACT_NOT_FOUND = "artifact_not_found"
ARTIFACTS_UNAVAILABLE = "artifacts_unavailable"
PARAMS_INVALID = "params_invalid"

# The size limit of params with the values of their artifacts, in largest outputs.
PARAMS_OUTPUTS_MAX = 4
CONCURRENT_FETCHES_MAX = 8


async def fetch_params(
    store: Artifacts, task: Task, *, output_bytes_max: int, seconds_max: float
) -> bytes | Failed:
    """Return the params with the values of their artifacts, or the outcome of a task whose params cannot be read."""
    bytes_max = PARAMS_OUTPUTS_MAX * output_bytes_max
    try:
        async with asyncio.timeout(seconds_max):
            bodies = await _fetch_all(store, task.artifacts, bytes_max)
    except ArtifactNotFound as error:
        message = f"an artifact of the params no longer exists: {error}"
        return Failed(TaskError(ARTIFACT_NOT_FOUND, message, retryable=False))
    except TimeoutError:
        message = f"artifacts of the params could not be read: no response within {seconds_max:g} s"
        return Failed(TaskError(ARTIFACTS_UNAVAILABLE, message))
    except StoreUnavailable as error:
        return Failed(
            TaskError(ARTIFACTS_UNAVAILABLE, f"artifacts of the params could not be read: {error}")
        )
    params = None
    if bodies is not None:
        params = resolve_params(task.params, bodies, bytes_max)
    if params is None:
        message = (
            f"params too large: over {bytes_max} bytes with their {len(task.artifacts)} artifacts; "
            "pass less data, or raise the setting artifacts.bytes_max"
        )
        return Failed(TaskError(PARAMS_INVALID, message, retryable=False))
    return params


async def _fetch_all(
    store: Artifacts, keys: Sequence[str], bytes_max: int
) -> dict[str, bytes] | None:
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
