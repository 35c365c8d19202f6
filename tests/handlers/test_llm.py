"""The handler for language models, against a OpenAI-compatible server on loopback."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec
import pytest
from handler_harness import answer, running, serving
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.messages import Failed, Succeeded
from windlass.handlers.config import LlmConfig
from windlass.handlers.event_stream import EVENT_BYTES_MAX, EventReader, EventTooLarge

KEY = "sk-a-very-secret-key"
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = "Où est\nla biblio\nthèque? 🐋"


def chat_params(url: str, **more: Any) -> dict[str, Any]:
    return {"base_url": f"{url}/v1", "model": "small", "prompt": "hello", **more}


def completion(text: str | None = "hi", finish_reason: str = "stop", **message: Any) -> bytes:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, **message},
        "finish_reason": finish_reason,
    }
    return answer(
        200, json.dumps({"id": "x", "model": "small-2", "choices": [choice], "usage": USAGE})
    )


def chunk(
    text: str | None = None, finish_reason: str | None = None, index: int = 0, **more: Any
) -> str:
    delta = {} if text is None else {"content": text}
    choices = [{"index": index, "delta": delta, "finish_reason": finish_reason}]
    return json.dumps({"model": "small-2", "choices": choices, **more}, ensure_ascii=False)


def stream_of(text: str) -> list[str]:
    """Return the events of a stream: the role, the characters, the finish reason, the usage and `[DONE]`."""
    usage = json.dumps({"model": "small-2", "choices": [], "usage": USAGE})
    return [chunk(""), *map(chunk, text), chunk(None, "stop"), usage, "[DONE]"]


def streamed(
    events: Sequence[str], size: int = 1 << 20, end: str = "\n", whole: bool = True
) -> bytes:
    """Return a response in pieces of `size` bytes; without `whole` it ends too early."""
    body = "".join(f": keep alive{end}{end}data: {event}{end}{end}" for event in events).encode()
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    return (
        head
        + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        + (b"0\r\n\r\n" if whole else b"")
    )


async def test_a_prompt_returns_the_reply() -> None:
    async with serving(lambda request: completion()) as server, running() as runner:
        params = chat_params(
            server.url, system="be brief", api_key=KEY, temperature=0.5, max_tokens=7
        )
        finished = await runner.run("llm", params)

    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert json.loads(request.body) == {
        "model": "small",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hello"},
        ],
        "temperature": 0.5,
        "max_tokens": 7,
    }
    assert isinstance(finished.outcome, Succeeded)
    assert msgspec.json.decode(finished.outcome.output) == {
        "text": "hi",
        "finish_reason": "stop",
        "model": "small-2",
    }
    meta = msgspec.json.decode(finished.outcome.meta or b"")
    assert (meta["usage"], meta["model"], meta["status"]) == (USAGE, "small-2", 200)
    assert meta["latency_seconds"] > 0


async def test_messages_and_extra_fields_are_sent_unchanged() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": "b"},
    ]
    async with serving(lambda request: completion()) as server, running() as runner:
        params = {
            "base_url": server.url,
            "model": "m",
            "messages": messages,
            "extra": {"seed": 1, "max_tokens": None},
        }
        params["max_tokens"] = 9
        await runner.output("llm_service", params)

    assert json.loads(server.requests[0].body) == {"model": "m", "messages": messages, "seed": 1}
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("", "/chat/completions"),
        ("/", "/chat/completions"),
        ("/openai/v1/", "/openai/v1/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/d?version=2", "/d/chat/completions?version=2"),
    ],
)
async def test_the_completions_path_is_appended_to_the_base_url(path: str, target: str) -> None:
    async with serving(lambda request: completion()) as server, running() as runner:
        await runner.output("llm", {"base_url": server.url + path, "model": "m", "prompt": "p"})

    assert server.requests[0].target == target


async def test_the_settings_provide_the_default_server_and_key() -> None:
    async with (
        serving(lambda request: completion()) as server,
        running(llm=LlmConfig(server.url + "/v1", KEY)) as runner,
    ):
        await runner.output("llm", {"model": "m", "prompt": "p"})
        await runner.output("llm", {"model": "m", "prompt": "p", "base_url": server.url + "/v2"})
        await runner.output("llm", {"model": "m", "prompt": "p", "api_key": "another-key"})

    assert [(request.target, request.headers["authorization"]) for request in server.requests] == [
        ("/v1/chat/completions", f"Bearer {KEY}"),
        ("/v2/chat/completions", f"Bearer {KEY}"),
        ("/v1/chat/completions", "Bearer another-key"),
    ]


async def test_the_key_of_the_settings_is_sent_to_no_other_server() -> None:
    async with (
        serving(lambda request: completion()) as server,
        serving(lambda request: completion()) as other,
    ):
        async with running(llm=LlmConfig(server.url, KEY)) as runner:
            await runner.output("llm", {"model": "m", "prompt": "p", "base_url": other.url})
        async with running(llm=LlmConfig(None, KEY)) as runner:
            await runner.output("llm", {"model": "m", "prompt": "p", "base_url": other.url})

    assert ["authorization" in request.headers for request in other.requests] == [False, False]


@pytest.mark.parametrize(
    "reply",
    ['{"n": 1}', ' {"n": 1}\n', '```json\n{"n": 1}\n```', '\n```\n{"n": 1}\n```\n'],
)
async def test_a_reply_in_json_is_returned_parsed(reply: str) -> None:
    async with serving(lambda request: completion(reply)) as server, running() as runner:
        output = await runner.output("llm", chat_params(server.url, json_schema=SCHEMA))

    assert (output["json"], output["text"]) == ({"n": 1}, reply)
    sent = json.loads(server.requests[0].body)["response_format"]
    assert (sent["type"], sent["json_schema"]["schema"]) == ("json_schema", SCHEMA)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (completion("I would say 1."), "does not match"),
        (completion('{"n": "one"}'), "['n']"),
        (completion('{"m": 1}'), "required"),
        (completion('{"n": 1e999}'), "does not match"),
        (completion("[" * 100_000), "does not match"),
        (completion('{"n": ', "length"), "reached its token limit"),
        (completion(None, refusal="I must not count"), "I must not count"),
    ],
)
async def test_a_reply_that_does_not_match_is_retryable(reply: bytes, words: str) -> None:
    async with serving(lambda request: reply) as server, running() as runner:
        error = await runner.error("llm", chat_params(server.url, json_schema=SCHEMA))

    assert (error.type, error.retryable) == ("reply_invalid", True)
    assert words in error.message


async def test_an_invalid_json_schema_is_rejected_before_the_request() -> None:
    async with serving(lambda request: completion()) as server, running() as runner:
        for schema in (
            {"type": "no such"},
            {"$ref": f"{server.url}/schema"},
            {"pattern": "(" * 99},
        ):
            error = await runner.error("llm", chat_params(server.url, json_schema=schema))
            assert (error.type, error.retryable) == ("params_invalid", False)

    assert server.connections == 0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_a_stream_is_read_in_pieces_of_any_size(size: int, end: str) -> None:
    reply = streamed(stream_of(TEXT), size, end)
    async with serving(lambda request: reply) as server, running() as runner:
        finished = await runner.run("llm", chat_params(server.url, stream=True))

    assert isinstance(finished.outcome, Succeeded)
    output = msgspec.json.decode(finished.outcome.output)
    assert output == {"text": TEXT, "finish_reason": "stop", "model": "small-2"}
    assert msgspec.json.decode(finished.outcome.meta or b"")["usage"] == USAGE
    assert [line.message for line in runner.lines] == TEXT.split("\n")
    body = json.loads(server.requests[0].body)
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


async def test_a_stream_may_carry_json_too() -> None:
    async with (
        serving(lambda request: streamed(stream_of('{"n": 2}'))) as server,
        running() as runner,
    ):
        assert (
            await runner.output("llm", chat_params(server.url, stream=True, json_schema=SCHEMA))
        )["json"] == {"n": 2}


async def test_only_the_first_choice_is_used() -> None:
    events = [
        chunk("a"),
        chunk("b", index=1),
        chunk("c"),
        chunk(None, "stop", 1),
        chunk(None, "length"),
        "[DONE]",
    ]
    async with serving(lambda request: streamed(events)) as server, running() as runner:
        output = await runner.output("llm", chat_params(server.url, stream=True))

    assert (output["text"], output["finish_reason"]) == ("ac", "length")


@pytest.mark.parametrize("last", [[], ["[DONE]"]])
async def test_a_stream_with_a_finish_reason_is_complete(last: list[str]) -> None:
    reply = streamed([chunk("hi"), chunk(None, "stop"), *last])
    async with serving(lambda request: reply) as server, running() as runner:
        assert (await runner.output("llm", chat_params(server.url, stream=True)))["text"] == "hi"


@pytest.mark.parametrize("cut", [0, 1, 5])
async def test_a_stream_that_ends_too_early_is_retryable(cut: int) -> None:
    reply = streamed(stream_of("hello")[:cut])
    async with serving(lambda request: reply) as server, running() as runner:
        error = await runner.error("llm", chat_params(server.url, stream=True))

    assert (error.type, error.retryable) == ("stream_truncated", True)


async def test_a_connection_closed_within_a_stream_is_retryable() -> None:
    reply = streamed(stream_of("hello")[:4], whole=False)
    async with serving(lambda request: reply, hangs_up=True) as server, running() as runner:
        finished = await runner.run("llm", chat_params(server.url, stream=True))

    assert isinstance(finished.outcome, Failed)
    assert (finished.outcome.error.type, finished.outcome.error.retryable) == (
        "connection_failed",
        True,
    )
    assert [line.message for line in runner.lines] == ["hel"]


async def test_a_server_that_does_not_stream_is_supported() -> None:
    async with serving(lambda request: completion()) as server, running() as runner:
        assert (await runner.output("llm", chat_params(server.url, stream=True)))["text"] == "hi"


@pytest.mark.parametrize(
    ("error", "kind", "status", "retryable"),
    [
        ({"message": "overloaded"}, "http_status", 500, True),
        ({"message": "too long", "code": 400}, "http_status", 400, False),
        ({"message": "slower", "code": 429}, "rate_limited", 429, True),
        ("broken", "http_status", 500, True),
        ({"code": "context_length"}, "http_status", 500, True),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_in_the_response_body_is_an_error(
    error: object, kind: str, status: int, retryable: bool, stream: bool
) -> None:
    failure = json.dumps({"error": error})
    reply = streamed([chunk("a"), failure]) if stream else answer(200, failure)
    async with serving(lambda request: reply) as server, running() as runner:
        found = await runner.error("llm", chat_params(server.url, stream=stream))

    assert (found.type, found.status, found.retryable) == (kind, status, retryable)


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (401, False), (403, False), (404, False), (422, False),
     (408, True), (425, True), (500, True), (502, True), (503, True), (529, True)],
)  # fmt: skip
@pytest.mark.parametrize(
    "body",
    [
        '{"error": {"message": "the reason"}}',
        '{"error": "the reason"}',
        '{"detail": "the reason"}',
        "the reason",
    ],
)
async def test_the_status_decides_whether_an_error_is_retryable(
    status: int, retryable: bool, body: str
) -> None:
    async with serving(lambda request: answer(status, body)) as server, running() as runner:
        error = await runner.error("llm", chat_params(server.url))

    assert (error.type, error.status, error.retryable) == ("http_status", status, retryable)
    assert error.message.endswith("the reason")


async def test_a_rate_limit_may_give_retry_after_in_seconds() -> None:
    async with serving(lambda request: answer(429, retry_after="7")) as server, running() as runner:
        error = await runner.error("llm", chat_params(server.url))

    assert (error.type, error.status, error.retryable) == ("rate_limited", 429, True)
    assert error.retry_after_seconds == 7.0


async def test_a_rate_limit_may_give_retry_after_as_a_date() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    until = format_datetime(now + timedelta(seconds=90), usegmt=True)
    reply = answer(429, date=format_datetime(now, usegmt=True), retry_after=until)
    async with serving(lambda request: reply) as server, running() as runner:
        error = await runner.error("llm", chat_params(server.url, stream=True))

    assert (error.type, error.retry_after_seconds) == ("rate_limited", 90.0)


@pytest.mark.parametrize(
    "body",
    ["{", "", "[]", "null", "{}", '{"choices": []}', '{"choices": [{}]}', '{"choices": [{"message": 1}]}',
     '{"choices": [{"message": {"content": 1}}]}', '{"choices": "x"}', '{"choices": [{"message": {"content": null}}]}',
     "[" * 100_000],
)  # fmt: skip
async def test_a_response_that_is_not_a_completion_is_retryable(body: str) -> None:
    async with serving(lambda request: answer(200, body)) as server, running() as runner:
        error = await runner.error("llm", chat_params(server.url))

    assert (error.type, error.retryable) == ("body_invalid", True)


async def test_an_event_that_is_not_a_chunk_is_retryable() -> None:
    async with (
        serving(lambda request: streamed([chunk("a"), "{", "[DONE]"])) as server,
        running() as runner,
    ):
        error = await runner.error("llm", chat_params(server.url, stream=True))

    assert (error.type, error.retryable) == ("body_invalid", True)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_beyond_the_limit_is_rejected(stream: bool) -> None:
    text = "x" * 900_000
    reply = streamed([chunk(text)] * 20) if stream else completion(text * 20)
    async with serving(lambda request: reply) as server, running() as runner:
        error = await runner.error("llm", chat_params(server.url, stream=stream))

    assert (error.type, error.retryable) == ("response_rejected", False)


async def test_an_event_beyond_the_limit_is_an_error() -> None:
    async with (
        serving(lambda request: streamed(["x" * (EVENT_BYTES_MAX + 1)])) as server,
        running() as runner,
    ):
        assert (
            await runner.error("llm", chat_params(server.url, stream=True))
        ).type == "body_invalid"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_key_is_in_no_error_no_log_and_no_output(stream: bool) -> None:
    answers = [
        answer(401, json.dumps({"error": {"message": f"no such key: {KEY}"}})),
        answer(500, f"<p>{KEY}</p>"),
        answer(302, location=f"https://elsewhere.example/{KEY}"),
        answer(200, json.dumps({"error": {"message": KEY}})),
        streamed(
            [chunk(f"line {KEY}\nand {KEY[:5]}"), chunk(KEY[5:]), chunk(None, "stop", model=KEY)]
        )
        if stream
        else answer(
            200,
            json.dumps(
                {"model": KEY, "choices": [{"message": {"content": KEY}, "finish_reason": KEY}]}
            ),
        ),
    ]
    given_as: list[dict[str, Any]] = [{"api_key": KEY}, {"headers": {"Api-Key": KEY}}]
    said: list[str] = []
    for where in given_as:
        waiting = list(answers)
        async with (
            serving(lambda request, waiting=waiting: waiting.pop(0)) as server,
            running() as runner,
        ):
            said += [
                str(await runner.run("llm", chat_params(server.url, stream=stream, **where)))
                for _ in answers
            ]
            said += [line.message for line in runner.lines]
            assert all(KEY in str(request.headers) for request in server.requests)

    assert said
    assert [text for text in said if KEY in text] == []


async def test_an_invalid_api_key_is_rejected_without_being_shown() -> None:
    async with serving(lambda request: completion()) as server, running() as runner:
        error = await runner.error("llm", chat_params(server.url, api_key=f"{KEY}\r\nx: y"))

    assert (error.type, error.retryable) == ("params_invalid", False)
    assert KEY not in str(error)
    assert server.connections == 0


async def test_a_redirect_is_not_followed() -> None:
    async with serving(lambda request: completion()) as other:
        reply = answer(307, location=other.url + "/v1/chat/completions")
        async with serving(lambda request: reply) as server, running() as runner:
            error = await runner.error("llm", chat_params(server.url, api_key=KEY))

    assert (error.status, error.retryable) == (307, False)
    assert other.url in error.message
    assert other.connections == 0


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"prompt": "p"}, "model"),
        ({"model": "m", "prompt": "p"}, "llm.base_url"),
        ({"model": "m", "base_url": "http://127.0.0.1:1"}, "prompt"),
        ({"model": "m", "base_url": "http://127.0.0.1:1", "prompt": "p", "messages": []}, "prompt"),
        ({"model": "m", "base_url": "ftp://127.0.0.1", "prompt": "p"}, "http://"),
        (
            {
                "model": "m",
                "base_url": "http://127.0.0.1:1",
                "prompt": "p",
                "extra": {"stream": True},
            },
            "stream",
        ),
        (
            {
                "model": "m",
                "base_url": "http://127.0.0.1:1",
                "prompt": "p",
                "headers": {"a": "b\nc"},
            },
            "header",
        ),
    ],
)
async def test_an_invalid_chat_request_fails_permanently(params: object, words: str) -> None:
    async with running() as runner:
        error = await runner.error("llm", params)

    assert (error.type, error.retryable) == ("params_invalid", False)
    assert words in error.message


async def test_a_private_address_is_rejected() -> None:
    async with (
        serving(lambda request: completion()) as server,
        running(allow_private=False) as runner,
    ):
        error = await runner.error("llm", chat_params(server.url))

    assert (error.type, error.retryable) == ("address_refused", False)
    assert server.connections == 0


async def test_a_server_that_does_not_respond_in_time_is_retryable() -> None:
    reply = streamed([chunk("a")], whole=False)
    async with serving(lambda request: reply) as server, running() as runner:
        error = await runner.error("llm", chat_params(server.url, stream=True, timeout=0.2))

    assert (error.type, error.retryable) == ("connection_failed", True)
    assert "Timeout" in error.message


async def test_a_cancel_ends_a_stream() -> None:
    reply = streamed([chunk("first\n")], whole=False)
    async with serving(lambda request: reply) as server, running() as runner:
        task = await runner.publish("llm", chat_params(server.url, stream=True))
        await runner.logged("first")
        await runner.broker.cancel([task.task_id])
        finished = await runner.finished(task)

    assert isinstance(finished.outcome, Failed)
    assert finished.outcome.error.type == "cancelled"


def test_the_data_lines_of_an_event_are_joined() -> None:
    reader = EventReader()

    assert list(reader.feed(b"data: a\ndata: b\n\nid: 1\ndata\n\n")) == ["a\nb", ""]


LINES = st.lists(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])),
    min_size=1,
    max_size=3,
)


@given(st.lists(LINES, max_size=5), st.data())
def test_events_do_not_depend_on_how_their_bytes_arrive(
    events: list[list[str]], data: st.DataObject
) -> None:
    end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    body = "".join(
        "".join(f"data: {line}{end}" for line in lines) + end for lines in events
    ).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)))))
    reader = EventReader()

    found = [
        event
        for start, stop in zip([0, *cuts], [*cuts, len(body)], strict=True)
        for event in reader.feed(body[start:stop])
    ]

    # A CR at the end may be the first half of a CRLF; the end of the stream decides.
    assert found + list(reader.end()) == ["\n".join(lines) for lines in events]


def test_a_watch_line_beyond_the_limit_is_an_error() -> None:
    reader = EventReader()

    assert list(reader.feed(b"x" * EVENT_BYTES_MAX)) == []
    with pytest.raises(EventTooLarge):
        list(reader.feed(b"x"))


def test_a_long_line_in_small_parts_is_searched_once() -> None:
    reader = EventReader()
    began = time.perf_counter()

    for _ in range(EVENT_BYTES_MAX // 8):
        list(reader.feed(b"x" * 8))

    # Searching from the start each time would take minutes.
    assert time.perf_counter() - began < 10
