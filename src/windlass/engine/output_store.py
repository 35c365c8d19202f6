"""Values that the core cannot read itself: large values in the artifact store, and outputs merged from many rows."""

from collections.abc import AsyncIterator

import msgspec
from msgspec import Raw

from windlass.core.artifacts import GONE, INLINE_BYTES_MAX, is_reference, read_reference, reference
from windlass.core.changes import MergeOutputs
from windlass.core.errors import ArtifactNotFound
from windlass.core.job import Job
from windlass.core.loops import CHUNK_INVALID
from windlass.core.messages import JobMessage, OutputsMerged, TaskError
from windlass.core.prefetch import request_for
from windlass.ports.artifacts import Artifacts
from windlass.ports.store import Store

# Rows read by one query while outputs are merged.
MERGE_ROWS = 5_000
# Decoded values that a job with active loops keeps from one message to the next.
VALUES_KEPT_MAX = 64
TOO_LARGE = "output_too_large"
NULL = b"null"


class OutputStore:
    """Reads large values for the core, and merges outputs."""

    def __init__(self, store: Store, artifacts: Artifacts, bytes_max: int) -> None:
        self._store = store
        self._artifacts = artifacts
        self._bytes_max = bytes_max

    async def provide_for(self, job: Job, message: JobMessage) -> None:
        """Decode the large values that the core reads when it applies the message. StoreUnavailable."""
        request_for(job, message)
        await self.provide(job)

    async def provide(self, job: Job) -> None:
        """Decode the large values that a job needs into its memory. StoreUnavailable."""
        while job.wanted:
            key, _ = job.wanted.popitem()
            job.values[key] = await self.value(key)

    async def value(self, key: str) -> object:
        """Return a large value, decoded. StoreUnavailable."""
        try:
            return msgspec.json.decode(await self._artifacts.get(key))
        except ArtifactNotFound:
            # A node that reads it fails with a clear error; the rest of the job continues.
            return GONE

    def forget_values(self, job: Job) -> None:
        """Forget decoded values, unless a loop is going to read them again and again."""
        if not job.loops or len(job.values) > VALUES_KEPT_MAX:
            job.values.clear()

    async def merge(self, request: MergeOutputs) -> OutputsMerged:
        """Merge outputs in order into one JSON array. StoreUnavailable."""
        merged = bytearray(b"[")
        try:
            async for output in self._outputs(request):
                if request.spliced:
                    if output[:1] not in (b"[", NULL[:1]):
                        return _merged(request, Raw(NULL), _not_a_list())
                    element = _elements(output)
                    if not element:
                        continue
                else:
                    element = output
                if len(merged) > 1:
                    merged += b","
                merged += element
                if len(merged) > self._bytes_max:
                    return _merged(request, Raw(NULL), self._too_large())
        except ArtifactNotFound as error:
            return _merged(
                request, Raw(NULL), TaskError("artifact_not_found", str(error), retryable=False)
            )
        merged += b"]"
        if len(merged) <= INLINE_BYTES_MAX:
            return _merged(request, Raw(bytes(merged)))
        key = await self._artifacts.put(request.job_id, bytes(merged))
        return _merged(request, reference(key, len(merged)))

    async def _outputs(self, request: MergeOutputs) -> AsyncIterator[bytes]:
        if request.index is not None:
            for output in await self._store.jobs.call_outputs(request):
                yield await self._body(output)
            return
        for start in range(0, request.count, MERGE_ROWS):
            stop = min(start + MERGE_ROWS, request.count)
            for output in await self._store.jobs.iteration_outputs(request, start, stop):
                if output is None:
                    yield NULL
                else:
                    yield await self._body(output)

    async def _body(self, output: Raw) -> bytes:
        if is_reference(output):
            return await self._artifacts.get(read_reference(output).key)
        return bytes(output)

    def _too_large(self) -> TaskError:
        text = (
            f"merged outputs are too large: more than {self._bytes_max} bytes; return less from each task, "
            "write the outputs to a sink, or raise artifacts.bytes_max"
        )
        return TaskError(TOO_LARGE, text, retryable=False)


def _merged(request: MergeOutputs, output: Raw, error: TaskError | None = None) -> OutputsMerged:
    return OutputsMerged(
        job_id=request.job_id,
        node_id=request.node_id,
        generation=request.generation,
        index=request.index,
        output=output,
        error=error,
        attempt=request.attempt,
    )


def _elements(output: bytes) -> bytes:
    """Return the elements of a JSON list without its brackets; nothing for null."""
    if output == NULL:
        return b""
    return output[1:-1].strip()


def _not_a_list() -> TaskError:
    text = "output of a chunk is not a list; return a list from each task over a chunk"
    return TaskError(CHUNK_INVALID, text, retryable=False)
