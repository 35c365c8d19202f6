"""Large values and scattered ones: reads artifacts that the rules must look into, and gathers outputs from rows."""

from collections.abc import AsyncIterator

import msgspec
from msgspec import Raw

from windlass.core.artifacts import GONE, INLINE_BYTES_MAX, is_reference, read_reference, reference
from windlass.core.changes import MergeOutputs
from windlass.core.errors import ArtifactNotFound
from windlass.core.job import Job
from windlass.core.loops import CHUNK_INVALID
from windlass.core.messages import JobMessage, OutputsMerged, TaskError
from windlass.core.prefetch import want_for
from windlass.ports.artifacts import Artifacts
from windlass.ports.store import Store

# Rows of one read while outputs are gathered.
GATHER_ROWS = 5_000
# Decoded values that a job with loops under way keeps from one message to the next.
KEPT_MAX = 64
TOO_LARGE = "output_too_large"
NULL = b"null"


class OutputStore:
    """What the rules cannot get at by themselves."""

    def __init__(self, store: Store, artifacts: Artifacts, bytes_max: int) -> None:
        self._store = store
        self._artifacts = artifacts
        self._bytes_max = bytes_max

    async def provide_for(self, job: Job, message: JobMessage) -> None:
        """Fetch what the rules look into when they take the message."""
        want_for(job, message)
        await self.provide(job)

    async def provide(self, job: Job) -> None:
        """Decode the large values that a job wants, into its memory. StoreUnavailable."""
        while job.wanted:
            key, _ = job.wanted.popitem()
            job.values[key] = await self.value(key)

    async def value(self, key: str) -> object:
        """A large value, decoded. StoreUnavailable."""
        try:
            return msgspec.json.decode(await self._artifacts.get(key))
        except ArtifactNotFound:
            # Whoever reads it fails with a message that says so; the rest of the job goes on.
            return GONE

    def let_go(self, job: Job) -> None:
        """Forget decoded values, unless a loop is going to read them again and again."""
        if not job.loops or len(job.values) > KEPT_MAX:
            job.values.clear()

    async def gather(self, wanted: MergeOutputs) -> OutputsMerged:
        """Put outputs together in their order, as one JSON array. StoreUnavailable."""
        whole = bytearray(b"[")
        try:
            async for part in self._parts(wanted):
                if wanted.spliced and part[:1] not in (b"[", NULL[:1]):
                    return self._told(wanted, Raw(NULL), _no_list())
                body = part[1:-1].strip() if wanted.spliced and part != NULL else part
                if wanted.spliced and (not body or part == NULL):
                    continue
                if len(whole) > 1:
                    whole += b","
                whole += body
                if len(whole) > self._bytes_max:
                    return self._told(wanted, Raw(NULL), self._too_large())
        except ArtifactNotFound as error:
            return self._told(wanted, Raw(NULL), TaskError("artifact_not_found", str(error), retryable=False))
        whole += b"]"
        if len(whole) <= INLINE_BYTES_MAX:
            return self._told(wanted, Raw(bytes(whole)))
        key = await self._artifacts.put(wanted.job_id, bytes(whole))
        return self._told(wanted, reference(key, len(whole)))

    async def _parts(self, wanted: MergeOutputs) -> AsyncIterator[bytes]:
        if wanted.index is not None:
            for output in await self._store.jobs.call_outputs(wanted):
                yield await self._body(output)
            return
        for start in range(0, wanted.count, GATHER_ROWS):
            stop = min(start + GATHER_ROWS, wanted.count)
            for output in await self._store.jobs.iteration_outputs(wanted, start, stop):
                yield NULL if output is None else await self._body(output)

    async def _body(self, output: Raw) -> bytes:
        return await self._artifacts.get(read_reference(output).key) if is_reference(output) else bytes(output)

    def _told(self, wanted: MergeOutputs, output: Raw, error: TaskError | None = None) -> OutputsMerged:
        return OutputsMerged(
            wanted.job_id, wanted.node_id, wanted.generation, wanted.index, output, error, wanted.attempt
        )

    def _too_large(self) -> TaskError:
        text = (
            f"the outputs have more than {self._bytes_max} bytes together: return less from each, "
            "write them to a sink, or raise artifacts.bytes_max"
        )
        return TaskError(TOO_LARGE, text, retryable=False)


def _no_list() -> TaskError:
    text = "a task over a chunk gets a list and returns a list, and one of them returned something else"
    return TaskError(CHUNK_INVALID, text, retryable=False)
