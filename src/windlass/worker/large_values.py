"""Large values of attempts: fetched for the params before a handler runs, stored as artifacts after it."""

from msgspec.structs import replace

from windlass.core.artifacts import INLINE_BYTES_MAX, reference
from windlass.core.changes import Task
from windlass.core.errors import StoreUnavailable
from windlass.core.messages import Failed, Succeeded, TaskError
from windlass.ports.artifact_reader import ArtifactReader
from windlass.ports.artifacts import Artifacts
from windlass.ports.task_params import ARTIFACTS_UNAVAILABLE, fetch_params
from windlass.worker.patient_artifacts import REQUEST_SECONDS_MAX, PatientArtifacts


class LargeValues:
    """Fetches and stores large values. Without a store, outputs of every size are sent inline."""

    def __init__(self, store: Artifacts | None, output_bytes_max: int) -> None:
        # A larger output is stored as an artifact.
        self.inline_bytes_max = INLINE_BYTES_MAX
        if store is None:
            self.inline_bytes_max = output_bytes_max
        # None without a store.
        self.outputs = None if store is None else PatientArtifacts(store)
        self._reader = None if store is None else ArtifactReader(store)
        self._output_bytes_max = output_bytes_max

    async def store(
        self, job_id: str, outcome: Succeeded, hold_seconds: float
    ) -> Succeeded | Failed:
        """Store the output; return the outcome with a reference in its place."""
        if self.outputs is None:
            return outcome
        body = bytes(outcome.output)
        try:
            key = await self.outputs.put(job_id, body, hold_seconds)
        except StoreUnavailable as error:
            message = f"output of {len(body)} bytes could not be stored: {error}"
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
            seconds_max=REQUEST_SECONDS_MAX,
        )
        if isinstance(params, Failed):
            return params
        return replace(task, params=params)
