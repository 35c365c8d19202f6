"""The params of a task with the values of its artifacts, for workers and for the API that serves HTTP workers."""

import asyncio

from windlass.core.artifacts import TaskArtifact, fill_params
from windlass.core.changes import Task
from windlass.core.errors import ArtifactNotFound, StoreUnavailable, TemplateFailed
from windlass.core.messages import Failed, TaskError
from windlass.core.retries import template_error
from windlass.ports.artifact_reader import ArtifactReader

ARTIFACT_NOT_FOUND = "artifact_not_found"
ARTIFACTS_UNAVAILABLE = "artifacts_unavailable"
PARAMS_INVALID = "params_invalid"

# The size limit of params with the values of their artifacts, in largest outputs.
PARAMS_OUTPUTS_MAX = 4
CONCURRENT_FETCHES_MAX = 8


async def fetch_params(
    reader: ArtifactReader, task: Task, *, output_bytes_max: int, seconds_max: float
) -> bytes | Failed:
    """Return the params with the values of their artifacts, or the outcome of a task whose params cannot be read."""
    bytes_max = PARAMS_OUTPUTS_MAX * output_bytes_max
    try:
        async with asyncio.timeout(seconds_max):
            values = await _fetch_all(reader, task, bytes_max)
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
    except TemplateFailed as failure:
        return Failed(template_error("params", failure))
    if values is None:
        message = (
            f"params too large: over {bytes_max} bytes with their {len(task.artifacts)} artifacts; "
            "pass less data, or raise the setting artifacts.bytes_max"
        )
        return Failed(TaskError(PARAMS_INVALID, message, retryable=False))
    return fill_params(task.params, values)


async def _fetch_all(
    reader: ArtifactReader, task: Task, bytes_max: int
) -> list[tuple[TaskArtifact, bytes]] | None:
    """Return the artifacts with their values; None if they are too large together."""
    values: list[tuple[TaskArtifact, bytes]] = []
    left = bytes_max - len(task.params)
    by_source: dict[tuple[str, tuple[str | int, ...]], list[TaskArtifact]] = {}
    for artifact in task.artifacts:
        by_source.setdefault((artifact.key, artifact.path), []).append(artifact)
    sources = list(by_source.values())
    for start in range(0, len(sources), CONCURRENT_FETCHES_MAX):
        batch = sources[start : start + CONCURRENT_FETCHES_MAX]
        bodies = await asyncio.gather(*(reader.read(same[0]) for same in batch))
        for same, body in zip(batch, bodies, strict=True):
            values.extend((artifact, body) for artifact in same)
            left -= len(body) * len(same)
        if left < 0:
            return None
    return values
