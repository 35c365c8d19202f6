"""One chat completion: the request, the answer whole or as a stream, and what a refusal means for another attempt."""

import re
from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any

import httpx2
import jsonschema_rs
import msgspec
from msgspec import Struct

from windlass.core.errors import FatalError, ParamsInvalid, RetryableError
from windlass.handlers.event_stream import EventReader
from windlass.handlers.http import HttpParams
from windlass.handlers.http_exchange import (
    BODY_BYTES_MAX,
    BODY_SHOWN_CHARS,
    RETRYABLE,
    BodyInvalid,
    ResponseRejected,
    StatusFinal,
    StatusRetryable,
    body_of,
    request_of,
    retry_after,
    shared_client,
    shown,
    text_of,
    translated,
)
from windlass.handlers.llm import ChatParams, LlmConfig
from windlass.ports.handler import Context

PATH = "/chat/completions"
RATE_LIMITED_STATUS = 429
LOG_LINE_CHARS_MAX = 4096
NAME_CHARS_MAX = 200
REGEX_BYTES_MAX = 1 << 20
# Shorter ones are placeholders for servers without keys; hiding them would spoil words of the answer.
SECRET_CHARS_MIN = 8
HIDDEN = "***"
DONE = "[DONE]"
USAGE = ("prompt_tokens", "completion_tokens", "total_tokens")
_KEY = re.compile(r"[\x21-\x7e]{1,4096}")
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie")
_EVENT_STREAM = re.compile(r"^\s*text/event-stream\b", re.IGNORECASE)
# Some models put their JSON into a code block, whatever format they were asked for.
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)


class RateLimited(RetryableError):
    """The server wants fewer requests."""

    type = "rate_limited"


class StreamTruncated(RetryableError):
    """The stream ended before the answer did."""

    type = "stream_truncated"


class ReplyInvalid(RetryableError):
    """The model's text is not the JSON that was asked for."""

    type = "reply_invalid"


class ChatMessage(Struct, frozen=True):
    """A message, or what a chunk adds to it."""

    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None


class ChatChoice(Struct, frozen=True):
    """One of the model's answers; the first is the one that counts."""

    index: int = 0
    message: ChatMessage | None = None
    delta: ChatMessage | None = None
    finish_reason: str | None = None


class ChatCompletion(Struct, frozen=True):
    """A whole answer, or a chunk of a stream."""

    choices: list[ChatChoice] | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class ChatReply:
    """What the model said so far. Lines go to the log as they are completed, if it is given."""

    def __init__(self, ctx: Context, hidden: "SecretRedactor", logs: bool) -> None:
        self.finish_reason: str | None = None
        self.refusal = ""
        self.model: str | None = None
        self.usage: dict[str, int] = {}
        self._parts: list[str] = []
        self._line = ""
        self._ctx = ctx
        self._hidden = hidden
        self._logs = logs

    @property
    def text(self) -> str:
        """All of the text."""
        return self._hidden("".join(self._parts))

    def add(self, completion: ChatCompletion) -> None:
        """Take in an answer or a chunk of one."""
        if completion.model:
            self.model = self._hidden(completion.model[:NAME_CHARS_MAX])
        if completion.usage:
            counts = {name: completion.usage.get(name) for name in USAGE}
            self.usage = {name: count for name, count in counts.items() if type(count) is int}
        for choice in completion.choices or ():
            if choice.index != 0:
                continue
            if choice.finish_reason:
                self.finish_reason = self._hidden(choice.finish_reason[:NAME_CHARS_MAX])
            words = choice.message or choice.delta
            if words is not None:
                self.refusal += self._hidden(words.refusal or "")
                self._say(_plain(words.content))

    def end_line(self) -> None:
        """Log a last line that has no end."""
        if self._line:
            self._ctx.log(self._hidden(self._line))
            self._line = ""

    def _say(self, text: str) -> None:
        self._parts.append(text)
        if not self._logs:
            return
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._ctx.log(self._hidden(line))
        if len(self._line) > LOG_LINE_CHARS_MAX:
            self.end_line()


class SecretRedactor:
    """Takes secrets out of texts: servers like to repeat keys in their errors."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = [secret for secret in secrets if len(secret) >= SECRET_CHARS_MIN]

    def __call__(self, text: str) -> str:
        """The text without the secrets."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text


async def converse(ctx: Context, asked: ChatParams, defaults: LlmConfig, allow_private: bool) -> dict[str, Any]:
    """Ask, and return what the model said; `ctx.meta` gets the usage, the model and the time taken."""
    validator = _validator(asked.json_schema) if asked.json_schema is not None else None
    wanted, hidden = _wanted(asked, defaults)
    client = shared_client(ctx, allow_private)
    reply = ChatReply(ctx, hidden, asked.streams)
    began = perf_counter()
    with translated(wanted):
        # Redirects are not followed: a server that moved is a setting to change, and the key goes nowhere else.
        response = await client.send(request_of(client, wanted), stream=True)
        try:
            ctx.meta["status"] = response.status_code
            if not response.is_success:
                raise _refusal(wanted, hidden, response, text_of(response, await body_of(response)))
            if asked.streams and _EVENT_STREAM.match(response.headers.get("content-type", "")):
                await _read_stream(wanted, hidden, response, reply)
            else:
                reply.add(_completion(wanted, hidden, await body_of(response)))
        finally:
            await response.aclose()
            reply.end_line()
            ctx.meta["latency_seconds"] = round(perf_counter() - began, 6)
            ctx.meta.update({"model": reply.model, "usage": reply.usage} if reply.model or reply.usage else {})
    if reply.finish_reason is None and not reply.text:
        raise BodyInvalid(f"{_place(wanted)}: the answer has no choice with a message")
    output: dict[str, Any] = {"text": reply.text, "finish_reason": reply.finish_reason, "model": reply.model}
    return output if validator is None else {**output, "json": _parsed(reply, validator)}


def _wanted(asked: ChatParams, defaults: LlmConfig) -> tuple[HttpParams, SecretRedactor]:
    base_url = (asked.base_url or defaults.base_url or "").strip()
    if not base_url:
        raise ParamsInvalid("base_url is missing: give it, as in https://host/v1, or set llm.base_url")
    headers = {name.lower(): value for name, value in asked.headers.items()}
    key = (asked.api_key or "").strip() or None
    if key is None and "authorization" not in headers and _is_same_server(base_url, defaults.base_url):
        key = (defaults.api_key or "").strip() or None
    if key is not None and not _KEY.fullmatch(key):
        raise ParamsInvalid("the api_key cannot be sent: it has characters that no header may have")
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    secrets = [value.removeprefix("Bearer ") for name, value in headers.items() if _SECRET_HEADER.search(name)]
    path, mark, query = base_url.partition("?")
    path = path.rstrip("/")
    wanted = HttpParams(
        url=(path if path.endswith(PATH) else path + PATH) + mark + query,
        method="POST",
        params={},
        headers=headers,
        json=asked.body,
        body=None,
        timeout_seconds=asked.timeout_seconds,
        auth=None,
        expected=(),
    )
    return wanted, SecretRedactor(secrets)


def _is_same_server(base_url: str, known: str | None) -> bool:
    """Whether both lie on one server, as the client reads them: authors may write any URL."""
    if known is None:
        return False
    try:
        one, other = httpx2.URL(base_url), httpx2.URL(known.strip())
    except httpx2.InvalidURL:
        return False
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


async def _read_stream(wanted: HttpParams, hidden: SecretRedactor, response: httpx2.Response, reply: ChatReply) -> None:
    reader = EventReader()
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > BODY_BYTES_MAX:
            raise ResponseRejected(f"{_place(wanted)}: the stream exceeds {BODY_BYTES_MAX} bytes")
        for data in reader.feed(part):
            if data.strip() == DONE:
                return
            reply.add(_completion(wanted, hidden, data.encode()))
    for data in reader.end():
        if data.strip() != DONE:
            reply.add(_completion(wanted, hidden, data.encode()))
    if reply.finish_reason is None:
        raise StreamTruncated(f"{_place(wanted)}: the stream ended in the middle of the answer")


def _completion(wanted: HttpParams, hidden: SecretRedactor, body: bytes) -> ChatCompletion:
    try:
        found = msgspec.json.decode(body, type=ChatCompletion)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BodyInvalid(f"{_place(wanted)}: the answer is no chat completion: {hidden(str(error))}") from None
    if found.error is not None:
        raise _failure(wanted, hidden, found.error)
    return found


def _refusal(
    wanted: HttpParams, hidden: SecretRedactor, response: httpx2.Response, text: str
) -> RetryableError | FatalError:
    """What a status means. The server's own words are kept, short."""
    status = response.status_code
    try:
        said = _message(msgspec.json.decode(text)) or text
    except (msgspec.DecodeError, RecursionError):
        said = text
    said = hidden(said).strip()[:BODY_SHOWN_CHARS]
    message = f"{_place(wanted)} answered {status} {response.reason_phrase}".rstrip() + (f": {said}" if said else "")
    if response.has_redirect_location:
        message += f" (it redirects to {shown(hidden(response.headers['location']))}: use that as the base_url)"
    return _by_status(message, status, retry_after(response.headers))


def _failure(wanted: HttpParams, hidden: SecretRedactor, error: object) -> RetryableError | FatalError:
    """An error that the server sent in place of an answer, after it had promised one."""
    said = hidden(_message({"error": error}) or "no reason given").strip()[:BODY_SHOWN_CHARS]
    match error:
        case {"code": int(code)} if 400 <= code < 600:
            status = code
        case _:
            status = 500
    return _by_status(f"{_place(wanted)} failed: {said}", status, None)


def _by_status(message: str, status: int, retry_after_seconds: float | None) -> RetryableError | FatalError:
    if status == RATE_LIMITED_STATUS:
        return RateLimited(message, status=status, retry_after=retry_after_seconds)
    if status in RETRYABLE or status >= 500:
        return StatusRetryable(message, status=status, retry_after=retry_after_seconds)
    return StatusFinal(message, status=status)


def _message(answer: object) -> str:
    """The message of an error, in one of the forms that servers use."""
    match answer:
        case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)} | {"detail": str(text)}:
            return text
        case _:
            return ""


def _parsed(reply: ChatReply, validator: jsonschema_rs.Validator) -> Any:
    text = reply.text
    fenced = _FENCED.fullmatch(text)
    try:
        value = msgspec.json.decode(fenced[1] if fenced is not None else text)
        # The first error alone: a reply may have thousands.
        validator.validate(value)
    except (msgspec.DecodeError, RecursionError, jsonschema_rs.ValidationError, ValueError) as error:
        why = str(getattr(error, "message", error)).partition("\n")[0][:BODY_SHOWN_CHARS]
        place = "".join(f"[{part!r}]" for part in getattr(error, "instance_path", ()))[:NAME_CHARS_MAX]
        more = f"; the model refused: {reply.refusal[:BODY_SHOWN_CHARS]}" if reply.refusal else ""
        more += "; it was cut off by its limit of tokens" if reply.finish_reason == "length" else ""
        at = f" at {place}" if place else ""
        raise ReplyInvalid(f"the reply does not fit json_schema{at}: {why}{more}") from None
    return value


def _validator(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """A validator that reaches out for nothing and matches patterns in linear time."""
    try:
        return jsonschema_rs.validator_for(
            dict(schema),
            offline=True,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=REGEX_BYTES_MAX, dfa_size_limit=REGEX_BYTES_MAX),
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        why = str(error).partition("\n")[0][:BODY_SHOWN_CHARS]
        raise ParamsInvalid(f"json_schema is no JSON Schema that can be used: {why}") from None


def _plain(content: str | list[dict[str, Any]] | None) -> str:
    if isinstance(content, list):
        return "".join(text for part in content if isinstance(text := part.get("text"), str))
    return content or ""


def _place(wanted: HttpParams) -> str:
    return f"{wanted.method} {shown(wanted.url)}"
