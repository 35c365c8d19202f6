"""Reads artifacts and parts of them, for the params of tasks.

Many tasks may read parts of the same artifact at the same time. They share one copy of it, and small parts are kept.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from windlass.core.artifact_parts import part_of
from windlass.core.artifacts import INLINE_BYTES_MAX, TaskArtifact
from windlass.ports.artifacts import Artifacts

# Artifacts that are in memory at the same time for their parts.
CONCURRENT_ARTIFACTS_MAX = 4
KEPT_PARTS_MAX = 64
# Finding a part in an artifact of this size takes 1 ms (timeit).
THREAD_BYTES_MIN = 1 << 20

_PartKey = tuple[str, tuple[str | int, ...]]


class _SharedArtifact:
    """An artifact that is in memory while someone reads parts of it."""

    __slots__ = ("body", "lock", "readers")

    def __init__(self) -> None:
        self.body: bytes | None = None
        self.lock = asyncio.Lock()
        self.readers = 0


class ArtifactReader:
    """Reads artifacts and parts of them. An artifact never changes, so a part that is kept stays valid."""

    def __init__(self, store: Artifacts) -> None:
        self._store = store
        self._shared: dict[str, _SharedArtifact] = {}
        self._room = asyncio.Semaphore(CONCURRENT_ARTIFACTS_MAX)
        self._kept: OrderedDict[_PartKey, bytes] = OrderedDict()

    async def read(self, artifact: TaskArtifact) -> bytes:
        """Return the JSON of an artifact, or of a part. ArtifactNotFound, StoreUnavailable, Undefined."""
        if not artifact.path:
            return await self._store.get(artifact.key)
        key = (artifact.key, artifact.path)
        if key not in self._kept:
            part = await self._read_part(artifact)
            if len(part) > INLINE_BYTES_MAX:
                return part
            self._kept[key] = part
            if len(self._kept) > KEPT_PARTS_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    async def _read_part(self, artifact: TaskArtifact) -> bytes:
        async with self._share(artifact.key) as body:
            if len(body) < THREAD_BYTES_MIN:
                return part_of(body, artifact.path, artifact.label)
            return await asyncio.to_thread(part_of, body, artifact.path, artifact.label)

    @asynccontextmanager
    async def _share(self, key: str) -> AsyncGenerator[bytes]:
        """Fetch an artifact, unless another task just reads it. The last one that reads it forgets it."""
        shared = self._shared.setdefault(key, _SharedArtifact())
        shared.readers += 1
        try:
            async with shared.lock:
                if shared.body is None:
                    await self._room.acquire()
                    try:
                        shared.body = await self._store.get(key)
                    except BaseException:
                        self._room.release()
                        raise
            yield shared.body
        finally:
            shared.readers -= 1
            if not shared.readers:
                del self._shared[key]
                if shared.body is not None:
                    self._room.release()
