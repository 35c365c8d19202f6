"""Sends requests for sinks, under the same address rules as the `http` handler."""

from typing import TYPE_CHECKING

from windlass.handlers.requests import HttpParams
from windlass.ports.sender import OutgoingRequest

# For the types only: the client is slow to import.
if TYPE_CHECKING:
    import httpx2


class GuardedSender:
    """One client, built on first use; `allow_private` permits loopback and private addresses."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._client: httpx2.AsyncClient | None = None

    async def send(self, request: OutgoingRequest) -> None:
        """Send the request; return once the server has responded with a 2xx."""
        # The client takes 100 ms to import; workers that send no requests do not load it.
        from windlass.handlers.http_exchange import deliver, guarded_client

        if self._client is None:
            self._client = guarded_client(self._allow_private)
        params = HttpParams(
            url=request.url,
            method=request.method,
            headers={"content-type": "application/json", **request.headers},
            body=request.body,
            timeout_seconds=request.timeout_seconds,
        )
        await deliver(self._client, params)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()
