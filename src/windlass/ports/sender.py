"""Requests to other servers on behalf of nodes, under the rules that bind them: guarded addresses, bounded answers."""

from typing import Protocol

from msgspec import Struct


class OutgoingRequest(Struct, frozen=True):
    """A request with a JSON body."""

    method: str
    url: str
    headers: dict[str, str]
    body: str
    timeout_seconds: float


class Sender(Protocol):
    """Sends requests. RetryableError when another attempt may succeed, FatalError or ParamsInvalid when none can."""

    async def send(self, request: OutgoingRequest) -> None:
        """Return once the server has accepted the request."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...
