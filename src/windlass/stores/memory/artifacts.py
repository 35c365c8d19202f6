"""An artifact store in a plain dictionary."""

from collections.abc import Sequence

from windlass.core.errors import ArtifactNotFound
from windlass.stores.artifacts.keys import checked, key_of, verified


class MemoryArtifacts:
    """The Artifacts contract in the memory of one process."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def put(self, job_id: str, body: bytes) -> str:
        """Keep a value of a job."""
        key = key_of(job_id, body)
        self.kept[key] = body
        return key

    async def get(self, key: str) -> bytes:
        """The value; ArtifactNotFound."""
        if checked(key) not in self.kept:
            raise ArtifactNotFound(f"the artifact {key} is not there")
        return verified(key, self.kept[key])

    async def remove(self, job_ids: Sequence[str]) -> None:
        """Forget everything of these jobs."""
        gone = set(job_ids)
        self.kept = {key: body for key, body in self.kept.items() if key.partition("/")[0] not in gone}

    async def aclose(self) -> None:
        """Nothing to let go of."""
