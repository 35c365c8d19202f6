"""The handler for language models: what it takes. The request itself is made in `llm_chat`."""

from typing import Any

from msgspec import Struct

from windlass.core.errors import ParamsInvalid
from windlass.ports.handler import Context, Handler
from windlass.ports.handler_declaration import declared, handler

TIMEOUT_SECONDS = 120.0


class LlmConfig(Struct, frozen=True):
    """The server that nodes use which name none, and its key, which is sent to no other server."""

    base_url: str | None = None
    api_key: str | None = None


class ChatParams(Struct, frozen=True):
    """A question as the author described it."""

    base_url: str | None
    api_key: str | None
    headers: dict[str, str]
    body: dict[str, Any]
    json_schema: dict[str, Any] | None
    streams: bool
    timeout_seconds: float


def llm_handler(allow_private: bool, defaults: LlmConfig) -> Handler:
    """The `llm` handler; `allow_private` lets it reach loopback and private addresses, never metadata."""

    @handler("llm")
    async def llm(
        ctx: Context,
        model: str,
        messages: list[dict[str, Any]] | None = None,
        prompt: str | None = None,
        system: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        json_schema: dict[str, Any] | None = None,
        stream: bool = False,
        timeout: float = TIMEOUT_SECONDS,
        headers: dict[str, str] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Ask a model behind an OpenAI-compatible API; return its text, and the parsed JSON when a schema is given."""
        if (messages is None) == (prompt is None):
            raise ParamsInvalid("give either 'messages', or 'prompt' and perhaps 'system'")
        if extra is not None and "stream" in extra:
            raise ParamsInvalid("extra may not hold 'stream', which changes the answer's form: use the param 'stream'")
        said = messages if messages is not None else [{"role": "user", "content": prompt}]
        body = {
            "model": model,
            "messages": said if system is None else [{"role": "system", "content": system}, *said],
            "temperature": temperature,
            "max_tokens": max_tokens,
            "response_format": _format(json_schema),
            "stream": stream or None,
            "stream_options": {"include_usage": True} if stream else None,
            **(extra or {}),
        }
        asked = ChatParams(
            base_url=base_url,
            api_key=api_key,
            headers=headers or {},
            body={name: value for name, value in body.items() if value is not None},
            json_schema=json_schema,
            streams=stream,
            timeout_seconds=min(timeout, ctx.timeout_seconds),
        )
        # The client takes 100 ms to import; a worker that asks no models does not pay for it.
        from windlass.handlers.llm_chat import converse

        return await converse(ctx, asked, defaults, allow_private)

    return declared(llm)


def _format(json_schema: dict[str, Any] | None) -> dict[str, Any] | None:
    if json_schema is None:
        return None
    return {"type": "json_schema", "json_schema": {"name": "output", "schema": json_schema}}
