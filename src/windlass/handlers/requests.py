"""What handlers send to other servers. No HTTP client is imported here, so that handlers load fast."""

from typing import Any

from msgspec import Struct


class BasicAuth(Struct, frozen=True, tag="basic", forbid_unknown_fields=True):
    """A user name and a password."""

    username: str
    password: str


class BearerAuth(Struct, frozen=True, tag="bearer", forbid_unknown_fields=True):
    """A token."""

    token: str


class HttpParams(Struct, frozen=True, kw_only=True):
    """An HTTP request to make."""

    url: str
    method: str
    timeout_seconds: float
    query: dict[str, Any] = {}
    headers: dict[str, str] = {}
    # At most one of `json` and `body`.
    json: Any = None
    body: dict[str, Any] | str | None = None
    auth: BasicAuth | BearerAuth | None = None
    # Statuses that mean success; empty for every 2xx.
    expected_statuses: tuple[int, ...] = ()


class ChatParams(Struct, frozen=True, kw_only=True):
    """A chat completion to request."""

    base_url: str | None
    api_key: str | None
    headers: dict[str, str]
    body: dict[str, Any]
    json_schema: dict[str, Any] | None
    is_streamed: bool
    timeout_seconds: float


class WebhookMessage(Struct, frozen=True, kw_only=True):
    """A webhook to deliver."""

    url: str
    # The whole body; if None, the body is built from `type` and `data`.
    payload: Any
    type: str
    data: Any
    # The name of the signing key.
    secret: str | None
    headers: dict[str, str]
    timeout_seconds: float
    # The same for every attempt to deliver the message.
    id: str
    # The time that the body names, also the same for every attempt; if None, the time of this one.
    timestamp: str | None = None
