"""The handler for HTTP requests: what it takes. The request itself is made in `exchange`."""

from typing import Any

from msgspec import Struct

from windlass.core.errors import ParamsInvalid
from windlass.ports.handler import Context, Handler
from windlass.ports.handler_declaration import declared, handler

TIMEOUT_SECONDS = 30.0


class BasicAuth(Struct, frozen=True, tag="basic", forbid_unknown_fields=True):
    """A user name and a password."""

    username: str
    password: str


class BearerAuth(Struct, frozen=True, tag="bearer", forbid_unknown_fields=True):
    """A token."""

    token: str


class HttpParams(Struct, frozen=True):
    """A request as the author described it."""

    url: str
    method: str
    params: dict[str, Any]
    headers: dict[str, str]
    # At most one of these two.
    json: Any
    body: dict[str, Any] | str | None
    timeout_seconds: float
    auth: BasicAuth | BearerAuth | None
    expected: tuple[int, ...]


def http_handler(allow_private: bool) -> Handler:
    """The `http` handler; `allow_private` lets it reach loopback and private addresses, never metadata."""

    @handler("http")
    async def http(
        ctx: Context,
        url: str,
        method: str = "GET",
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        json: Any = None,
        data: dict[str, Any] | str | None = None,
        body: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        auth: BasicAuth | BearerAuth | None = None,
        expected_status: int | list[int] | None = None,
    ) -> Any:
        """Send a request; return the body, parsed when it is JSON. `meta` has the status and headers."""
        if sum(given is not None for given in (json, data, body)) > 1:
            raise ParamsInvalid("give only one of 'json', 'data' and 'body'")
        expected = [expected_status] if isinstance(expected_status, int) else expected_status or []
        wanted = HttpParams(
            url=url,
            method=method.upper(),
            params=params or {},
            headers=headers or {},
            json=json,
            body=data if data is not None else body,
            timeout_seconds=min(timeout, ctx.timeout_seconds),
            auth=auth,
            expected=tuple(expected),
        )
        # The client takes 100 ms to import; a worker that sends no requests does not pay for it.
        from windlass.handlers.http_exchange import exchange

        return await exchange(ctx, wanted, allow_private)

    return declared(http)
