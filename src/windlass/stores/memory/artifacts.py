"""Artifacts in a dictionary."""

from collections.abc import Sequence

from windlass.core.errors import ArtifactNotFound
from windlass.stores.artifacts.keys import checked, key_of, verified


class MemoryArtifacts:
    """The Artifacts contract in the memory of one process."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def put(self, job_id: str, body: bytes) -> str:
        """Store a value of a job and return its key."""
        key = key_of(job_id, body)
        self.kept[key] = body
        return key

    async def get(self, key: str) -> bytes:
        """Return a value. ArtifactNotFound."""
        if checked(key) not in self.kept:
            raise ArtifactNotFound(f"artifact not found: {key}")
        return verified(key, self.kept[key])

    async def remove(self, job_ids: Sequence[str]) -> None:
        """Delete the values of jobs."""
        removed = set(job_ids)
        self.kept = {
            key: body for key, body in self.kept.items() if key.partition("/")[0] not in removed
        }

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""
