"""The handler for language models. `llm_chat` makes the request."""

from typing import Annotated, Any

from msgspec import Meta

from windlass.core.errors import ParamsInvalid
from windlass.handlers.config import HandlerConfig
from windlass.handlers.requests import ChatParams
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler

TIMEOUT_SECONDS = 120.0


@handler("llm", aliases=("llm_service",))
async def llm(
    ctx: Context,
    config: HandlerConfig,
    model: Annotated[str, Meta(description="name of the model")],
    messages: Annotated[
        list[dict[str, Any]] | None,
        Meta(description="in place of `prompt`: a list of `{role, content}`"),
    ] = None,
    prompt: Annotated[str | None, Meta(description="the user message")] = None,
    system: Annotated[str | None, Meta(description="the system message before the others")] = None,
    base_url: Annotated[
        str | None,
        Meta(
            description="such as `https://host/v1`, to which `/chat/completions` is appended; "
            "default: the setting `llm.base_url`"
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        Meta(
            description="sent as a bearer token; default: the setting `llm.api_key`, only for the server of "
            "`llm.base_url`"
        ),
    ] = None,
    temperature: Annotated[
        float | None, Meta(description="sampling temperature; default: the server's")
    ] = None,
    max_tokens: Annotated[
        int | None, Meta(description="limit of the reply; default: the server's")
    ] = None,
    json_schema: Annotated[
        dict[str, Any] | None, Meta(description="a JSON Schema that the reply must match")
    ] = None,
    stream: Annotated[bool, Meta(description="stream the reply; its lines go to the log")] = False,
    timeout: Annotated[
        float,
        Meta(description="seconds for each phase of the exchange, at most the node's own timeout"),
    ] = TIMEOUT_SECONDS,
    headers: Annotated[dict[str, str] | None, Meta(description="request headers")] = None,
    extra: Annotated[
        dict[str, Any] | None,
        Meta(
            description="additional fields of the request, such as `{seed: 7}`; `null` removes a field"
        ),
    ] = None,
) -> dict[str, Any]:
    """Call a language model behind an OpenAI-compatible chat completions API; return its reply."""
    if (messages is None) == (prompt is None):
        raise ParamsInvalid("messages missing or given twice; use either 'messages' or 'prompt'")
    if extra is not None and "stream" in extra:
        raise ParamsInvalid("'stream' is not allowed in 'extra'; use the param 'stream'")
    body: dict[str, Any] = {
        "model": model,
        "messages": _messages(messages, prompt, system),
        "temperature": temperature,
        "max_tokens": max_tokens,
        "response_format": _response_format(json_schema),
    }
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    body.update(extra or {})
    request = ChatParams(
        base_url=base_url,
        api_key=api_key,
        headers=headers or {},
        body={name: value for name, value in body.items() if value is not None},
        json_schema=json_schema,
        is_streamed=stream,
        timeout_seconds=min(timeout, ctx.timeout_seconds),
    )
    # The client takes 100 ms to import; workers that call no models do not load it.
    from windlass.handlers.llm_chat import complete_chat

    return await complete_chat(ctx, request, config.llm, config.allow_private)


def _messages(
    messages: list[dict[str, Any]] | None, prompt: str | None, system: str | None
) -> list[dict[str, Any]]:
    if messages is None:
        messages = [{"role": "user", "content": prompt}]
    if system is None:
        return messages
    return [{"role": "system", "content": system}, *messages]


def _response_format(json_schema: dict[str, Any] | None) -> dict[str, Any] | None:
    if json_schema is None:
        return None
    return {"type": "json_schema", "json_schema": {"name": "output", "schema": json_schema}}
