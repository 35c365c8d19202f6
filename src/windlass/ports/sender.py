"""Requests to other servers on behalf of nodes: addresses are checked, responses are bounded."""

from typing import Protocol

from msgspec import Struct


class OutgoingRequest(Struct, frozen=True, kw_only=True):
    """A request with a JSON body."""

    method: str
    url: str
    headers: dict[str, str]
    body: str
    timeout_seconds: float


class Sender(Protocol):
    """Sends requests. Raises RetryableError if another attempt may succeed, else FatalError or ParamsInvalid."""

    async def send(self, request: OutgoingRequest) -> None:
        """Send the request; return once the server has accepted it."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...
