"""Sends requests for those who are no handlers themselves: sinks."""

from typing import TYPE_CHECKING

from windlass.handlers.http import HttpParams
from windlass.ports.sender import OutgoingRequest

# For the types only: the client is slow to import.
if TYPE_CHECKING:
    import httpx2


class GuardedSender:
    """One client, built at its first use; `allow_private` lets it reach loopback and private addresses."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._client: httpx2.AsyncClient | None = None

    async def send(self, request: OutgoingRequest) -> None:
        """Return once the server has answered with a 2xx."""
        # The client takes 100 ms to import; a worker that sends no requests does not pay for it.
        from windlass.handlers.http_exchange import deliver, guarded_client

        if self._client is None:
            self._client = guarded_client(self._allow_private)
        wanted = HttpParams(
            url=request.url,
            method=request.method,
            params={},
            headers={"content-type": "application/json", **request.headers},
            json=None,
            body=request.body,
            timeout_seconds=request.timeout_seconds,
            auth=None,
            expected=(),
        )
        await deliver(self._client, wanted)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()
