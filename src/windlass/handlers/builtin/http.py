"""The handler for HTTP requests. `http_exchange` makes the request."""

from typing import Annotated, Any

from msgspec import Meta

from windlass.core.errors import ParamsInvalid
from windlass.handlers.config import HandlerConfig
from windlass.handlers.requests import BasicAuth, BearerAuth, HttpParams
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler

TIMEOUT_SECONDS = 30.0


@handler("http", aliases=("call_external_service",))
async def http(
    ctx: Context,
    config: HandlerConfig,
    url: Annotated[str, Meta(description="`http://` or `https://`")],
    method: Annotated[str, Meta(description="HTTP method")] = "GET",
    params: Annotated[
        dict[str, Any] | None,
        Meta(description="query string, added to that of the URL; a list repeats the key"),
    ] = None,
    headers: Annotated[dict[str, str] | None, Meta(description="request headers")] = None,
    json: Annotated[Any, Meta(description="body: a JSON value")] = None,
    data: Annotated[
        dict[str, Any] | str | None, Meta(description="body: a form (object), or text")
    ] = None,
    body: Annotated[
        str | None, Meta(description="body: text; at most one of `json`, `data` and `body`")
    ] = None,
    timeout: Annotated[
        float,
        Meta(description="seconds for each phase of the exchange, at most the node's own timeout"),
    ] = TIMEOUT_SECONDS,
    auth: Annotated[
        BasicAuth | BearerAuth | None,
        Meta(description="`{type: basic, username, password}` or `{type: bearer, token}`"),
    ] = None,
    expected_status: Annotated[
        int | list[int] | None, Meta(description="a status or a list of them; default: every 2xx")
    ] = None,
) -> Any:
    """Send an HTTP request; return the response body, parsed if it is JSON."""
    bodies = [given for given in (json, data, body) if given is not None]
    if len(bodies) > 1:
        raise ParamsInvalid("more than one body; use only one of 'json', 'data' and 'body'")
    content: dict[str, Any] | str | None = body
    if data is not None:
        content = data
    request = HttpParams(
        url=url,
        method=method.upper(),
        query=params or {},
        headers=headers or {},
        json=json,
        body=content,
        timeout_seconds=min(timeout, ctx.timeout_seconds),
        auth=auth,
        expected_statuses=_statuses(expected_status),
    )
    # The client takes 100 ms to import; workers that send no requests do not load it.
    from windlass.handlers.http_exchange import exchange

    return await exchange(ctx, request, config.allow_private)


def _statuses(expected: int | list[int] | None) -> tuple[int, ...]:
    if expected is None:
        return ()
    if isinstance(expected, int):
        return (expected,)
    return tuple(expected)
