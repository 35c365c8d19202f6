"""One chat completion: the request, the reply (whole or streamed), and whether an error is retryable."""

import re
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import httpx2
import jsonschema_rs
import msgspec
from msgspec import Struct

from windlass.core.errors import FatalError, ParamsInvalid, RetryableError
from windlass.core.redaction import SecretRedactor, public_url
from windlass.handlers.config import LlmConfig
from windlass.handlers.event_stream import EventReader
from windlass.handlers.http_exchange import (
    BODY_BYTES_MAX,
    BODY_SHOWN_CHARS,
    BodyInvalid,
    ResponseRejected,
    StatusFinal,
    StatusRetryable,
    body_text,
    build_request,
    is_retryable,
    opened,
    read_body,
    retry_after,
    shared_client,
    translate_errors,
)
from windlass.handlers.requests import ChatParams, HttpParams
from windlass.ports.handler import Context

PATH = "/chat/completions"
RATE_LIMITED_STATUS = 429
LOG_LINE_CHARS_MAX = 4096
NAME_CHARS_MAX = 200
REGEX_BYTES_MAX = 1 << 20
DONE = "[DONE]"
USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")
_KEY = re.compile(r"[\x21-\x7e]{1,4096}")
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie")
_EVENT_STREAM = re.compile(r"^\s*text/event-stream\b", re.IGNORECASE)
# Some models wrap JSON in a code block, whatever format was requested.
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)


class RateLimited(RetryableError):
    """The server limits the request rate."""

    type = "rate_limited"


class StreamTruncated(RetryableError):
    """The stream ended before the reply was complete."""

    type = "stream_truncated"


class ReplyInvalid(RetryableError):
    """The model's reply does not match the JSON Schema."""

    type = "reply_invalid"


class ChatMessage(Struct, frozen=True):
    """A message, or what a chunk adds to it."""

    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None


class ChatChoice(Struct, frozen=True):
    """One of the model's replies; only the first is used."""

    index: int = 0
    message: ChatMessage | None = None
    delta: ChatMessage | None = None
    finish_reason: str | None = None


class ChatCompletion(Struct, frozen=True):
    """A whole response, or one chunk of a stream."""

    choices: list[ChatChoice] | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class ChatReply:
    """The reply as received so far. With `log_lines`, complete lines go to the log."""

    def __init__(self, ctx: Context, redact: SecretRedactor, log_lines: bool) -> None:
        self.finish_reason: str | None = None
        self.refusal = ""
        self.model: str | None = None
        self.usage: dict[str, int] = {}
        self._parts: list[str] = []
        self._line = ""
        self._ctx = ctx
        self._redact = redact
        self._log_lines = log_lines

    @property
    def text(self) -> str:
        """The whole text."""
        return self._redact("".join(self._parts))

    def add(self, completion: ChatCompletion) -> None:
        """Add a response or a chunk of one."""
        if completion.model:
            self.model = self._redact(completion.model[:NAME_CHARS_MAX])
        if completion.usage:
            self.usage = _token_counts(completion.usage)
        for choice in completion.choices or ():
            if choice.index == 0:
                self._add_choice(choice)

    def end_line(self) -> None:
        """Log a last line without a line end."""
        if self._line:
            self._ctx.log(self._redact(self._line))
            self._line = ""

    def _add_choice(self, choice: ChatChoice) -> None:
        if choice.finish_reason:
            self.finish_reason = self._redact(choice.finish_reason[:NAME_CHARS_MAX])
        message = choice.message or choice.delta
        if message is not None:
            self.refusal += self._redact(message.refusal or "")
            self._add_text(_content_text(message.content))

    def _add_text(self, text: str) -> None:
        self._parts.append(text)
        if not self._log_lines:
            return
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._ctx.log(self._redact(line))
        if len(self._line) > LOG_LINE_CHARS_MAX:
            self.end_line()


async def complete_chat(
    ctx: Context, chat: ChatParams, config: LlmConfig, allow_private: bool
) -> dict[str, Any]:
    """Request a completion and return the reply; set usage, model and latency in `ctx.meta`."""
    validator = None
    if chat.json_schema is not None:
        validator = _validator(chat.json_schema)
    headers = _request_headers(chat, config)
    params = HttpParams(
        url=_completions_url(_server_url(chat, config)),
        method="POST",
        headers=headers,
        json=chat.body,
        timeout_seconds=chat.timeout_seconds,
    )
    exchange = ChatExchange(params, SecretRedactor(_header_secrets(headers)))
    reply = await exchange.run(ctx, shared_client(ctx, allow_private), chat.is_streamed)
    output: dict[str, Any] = {
        "text": reply.text,
        "finish_reason": reply.finish_reason,
        "model": reply.model,
    }
    if validator is not None:
        output["json"] = _parse_json(reply, validator)
    return output


class ChatExchange:
    """One request to a chat completions API. No error of it contains the API key."""

    def __init__(self, params: HttpParams, redact: SecretRedactor) -> None:
        self._params = params
        self._redact = redact
        self._target = f"{params.method} {public_url(params.url)}"

    async def run(self, ctx: Context, client: httpx2.AsyncClient, is_streamed: bool) -> ChatReply:
        """Send the request and read the reply. Redirects are not followed: the key is sent to no other server."""
        reply = ChatReply(ctx, self._redact, log_lines=is_streamed)
        began = perf_counter()
        with translate_errors(self._params):
            try:
                async with opened(client, build_request(client, self._params)) as response:
                    ctx.meta["status"] = response.status_code
                    if not response.is_success:
                        raise self._status_error(
                            response, body_text(response, await read_body(response))
                        )
                    if is_streamed and _EVENT_STREAM.match(
                        response.headers.get("content-type", "")
                    ):
                        await self._read_stream(response, reply)
                    else:
                        reply.add(self._decode(await read_body(response)))
            finally:
                reply.end_line()
                ctx.meta["latency_seconds"] = round(perf_counter() - began, 6)
                if reply.model or reply.usage:
                    ctx.meta.update(model=reply.model, usage=reply.usage)
        if reply.finish_reason is None and not reply.text:
            raise BodyInvalid(f"{self._target}: the response has no choice with a message")
        return reply

    async def _read_stream(self, response: httpx2.Response, reply: ChatReply) -> None:
        reader = EventReader()
        size = 0
        async for part in response.aiter_bytes():
            size += len(part)
            if size > BODY_BYTES_MAX:
                raise ResponseRejected(f"{self._target}: the stream exceeds {BODY_BYTES_MAX} bytes")
            for data in reader.feed(part):
                if data.strip() == DONE:
                    return
                reply.add(self._decode(data.encode()))
        for data in reader.end():
            if data.strip() != DONE:
                reply.add(self._decode(data.encode()))
        if reply.finish_reason is None:
            raise StreamTruncated(f"{self._target}: the stream ended before the reply was complete")

    def _decode(self, body: bytes) -> ChatCompletion:
        try:
            completion = msgspec.json.decode(body, type=ChatCompletion)
        except (msgspec.DecodeError, RecursionError) as error:
            reason = self._redact(str(error))
            raise BodyInvalid(
                f"{self._target}: the response is not a chat completion: {reason}"
            ) from None
        if completion.error is not None:
            raise self._error_in_body(completion.error)
        return completion

    def _status_error(self, response: httpx2.Response, text: str) -> RetryableError | FatalError:
        """Return the error of an unsuccessful status, with the server's own message."""
        try:
            reason = _error_message(msgspec.json.decode(text)) or text
        except (msgspec.DecodeError, RecursionError):
            reason = text
        message = (
            f"{self._target} returned {response.status_code} {response.reason_phrase}".rstrip()
        )
        if reason := self._shorten(reason):
            message += f": {reason}"
        if response.has_redirect_location:
            location = public_url(self._redact(response.headers["location"]))
            message += f" (it redirects to {location}; use that as the base_url)"
        return _error_by_status(message, response.status_code, retry_after(response.headers))

    def _error_in_body(self, error: object) -> RetryableError | FatalError:
        """Return the error that a server sent in the body of a successful response."""
        reason = self._shorten(_error_message({"error": error}) or "no reason given")
        status = 500
        match error:
            case {"code": int(code)} if 400 <= code < 600:
                status = code
            case _:
                pass
        return _error_by_status(f"{self._target} failed: {reason}", status, None)

    def _shorten(self, text: str) -> str:
        return self._redact(text).strip()[:BODY_SHOWN_CHARS]


def _server_url(chat: ChatParams, config: LlmConfig) -> str:
    base_url = (chat.base_url or config.base_url or "").strip()
    if not base_url:
        raise ParamsInvalid(
            "base_url is missing; set it to a URL such as https://host/v1, or set llm.base_url"
        )
    return base_url


def _completions_url(base_url: str) -> str:
    path, mark, query = base_url.partition("?")
    path = path.rstrip("/")
    if not path.endswith(PATH):
        path += PATH
    return path + mark + query


def _request_headers(chat: ChatParams, config: LlmConfig) -> dict[str, str]:
    headers = {name.lower(): value for name, value in chat.headers.items()}
    key = (chat.api_key or "").strip()
    if not key and "authorization" not in headers:
        key = _configured_key(chat, config)
    if not key:
        return headers
    if not _KEY.fullmatch(key):
        raise ParamsInvalid(
            "invalid api_key: it contains characters that are not allowed in a header"
        )
    return {**headers, "authorization": f"Bearer {key}"}


def _configured_key(chat: ChatParams, config: LlmConfig) -> str:
    """Return the key of the settings; empty for another server, which must not get it."""
    if config.api_key is None or not _is_same_server(_server_url(chat, config), config.base_url):
        return ""
    return config.api_key.strip()


def _header_secrets(headers: Mapping[str, str]) -> list[str]:
    return [
        value.removeprefix("Bearer ")
        for name, value in headers.items()
        if _SECRET_HEADER.search(name)
    ]


def _is_same_server(base_url: str, configured: str | None) -> bool:
    """Whether both URLs name the same server, as the client parses them."""
    if configured is None:
        return False
    try:
        one, other = httpx2.URL(base_url), httpx2.URL(configured.strip())
    except httpx2.InvalidURL:
        return False
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _error_by_status(
    message: str, status: int, retry_after_seconds: float | None
) -> RetryableError | FatalError:
    if status == RATE_LIMITED_STATUS:
        return RateLimited(message, status=status, retry_after=retry_after_seconds)
    if is_retryable(status):
        return StatusRetryable(message, status=status, retry_after=retry_after_seconds)
    return StatusFinal(message, status=status)


def _error_message(body: object) -> str:
    """Return the message of an error, in one of the forms that servers use."""
    match body:
        case (
            {"error": {"message": str(text)}}
            | {"error": str(text)}
            | {"message": str(text)}
            | {"detail": str(text)}
        ):
            return text
        case _:
            return ""


def _parse_json(reply: ChatReply, validator: jsonschema_rs.Validator) -> Any:
    text = reply.text
    if fenced := _FENCED.fullmatch(text):
        text = fenced[1]
    try:
        value = msgspec.json.decode(text)
        # Stops at the first error: a reply may have thousands.
        validator.validate(value)
    except (
        msgspec.DecodeError,
        RecursionError,
        jsonschema_rs.ValidationError,
        ValueError,
    ) as error:
        raise _reply_invalid(reply, error) from None
    return value


def _reply_invalid(reply: ChatReply, error: Exception) -> ReplyInvalid:
    path = "".join(f"[{part!r}]" for part in getattr(error, "instance_path", ()))[:NAME_CHARS_MAX]
    reason = _first_line(getattr(error, "message", error))
    message = "the reply does not match json_schema"
    if path:
        message += f" at {path}"
    message += f": {reason}"
    if reply.refusal:
        message += f"; the model refused: {reply.refusal[:BODY_SHOWN_CHARS]}"
    if reply.finish_reason == "length":
        message += "; the reply reached its token limit"
    return ReplyInvalid(message)


def _validator(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Return a validator that fetches nothing and matches patterns in linear time."""
    try:
        return jsonschema_rs.validator_for(
            dict(schema),
            offline=True,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(
                size_limit=REGEX_BYTES_MAX, dfa_size_limit=REGEX_BYTES_MAX
            ),
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise ParamsInvalid(
            f"json_schema is not a valid JSON Schema: {_first_line(error)}"
        ) from None


def _first_line(error: object) -> str:
    return str(error).partition("\n")[0][:BODY_SHOWN_CHARS]


def _token_counts(usage: Mapping[str, Any]) -> dict[str, int]:
    return {name: usage[name] for name in USAGE if type(usage.get(name)) is int}


def _content_text(content: str | list[dict[str, Any]] | None) -> str:
    if not isinstance(content, list):
        return content or ""
    texts = [part.get("text") for part in content]
    return "".join(text for text in texts if isinstance(text, str))
