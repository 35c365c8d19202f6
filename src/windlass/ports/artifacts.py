"""The artifact store's contract: JSON values too large for rows and messages, by key."""

from collections.abc import Sequence
from typing import Protocol


class Artifacts(Protocol):
    """Keeps large values. A key names its content, so that writing the same value twice changes nothing."""

    async def put(self, job_id: str, body: bytes) -> str:
        """Keep a value of a job; durable when it returns its key. StoreUnavailable."""
        ...

    async def get(self, key: str) -> bytes:
        """The value; ArtifactNotFound, StoreUnavailable."""
        ...

    async def remove(self, job_ids: Sequence[str]) -> None:
        """Forget everything of these jobs; what is not there is no error."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...
