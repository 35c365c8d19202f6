"""The handler for HTTP requests, against a server on this machine."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
import pytest
from handler_harness import Request, answer, running, serving

from windlass.core.messages import Failed, Succeeded


async def test_a_json_body_is_returned_parsed_and_the_rest_is_meta() -> None:
    reply = answer(
        200, '{"users": [1, 2]}', set_cookie="session=1", x_total="2", www_authenticate="Basic"
    )
    async with serving(lambda request: reply) as server, running() as runner:
        finished = await runner.run("http", {"url": server.url + "/users?secret=1"})

    assert isinstance(finished.outcome, Succeeded)
    assert msgspec.json.decode(finished.outcome.output) == {"users": [1, 2]}
    meta = msgspec.json.decode(finished.outcome.meta or b"")
    assert meta["status"] == 200
    assert meta["headers"]["x-total"] == "2"
    assert meta["elapsed_seconds"] > 0
    assert not {"set-cookie", "www-authenticate"} & set(meta["headers"])
    assert "secret" not in json.dumps(meta)


@pytest.mark.parametrize(
    ("reply", "output"),
    [
        (answer(200, "plain", "text/plain"), "plain"),
        (answer(200, "é".encode("latin-1"), "text/plain; charset=latin-1"), "é"),
        (answer(200, "é", "text/plain; charset=no-such"), "é"),
        (answer(200, "", "application/json"), None),
        (answer(204), None),
        (answer(200, '{"a": 1}', "application/problem+json; charset=utf-8"), {"a": 1}),
        (answer(200, gzip.compress(b'{"a": 1}'), content_encoding="gzip"), {"a": 1}),
    ],
)
async def test_the_content_type_decides_how_a_body_is_read(reply: bytes, output: object) -> None:
    async with serving(lambda request: reply) as server, running() as runner:
        assert await runner.output("http", {"url": server.url}) == output


async def test_a_request_has_the_method_headers_and_body_of_the_params() -> None:
    async with serving(lambda request: answer(200, "{}")) as server, running() as runner:
        await runner.output(
            "http",
            {
                "url": server.url + "/a?x=0",
                "method": "post",
                "params": {"page": 2, "tags": ["a", "b"]},
                "headers": {"X-Own": "v"},
                "json": {"n": 1},
                "auth": {"type": "bearer", "token": "t"},
            },
        )

    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/a?x=0&page=2&tags=a&tags=b")
    assert json.loads(request.body) == {"n": 1}
    assert request.headers["x-own"] == "v"
    assert request.headers["authorization"] == "Bearer t"
    assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("params", "body", "header"),
    [
        ({"data": {"a": "1 2"}}, b"a=1+2", ("content-type", "application/x-www-form-urlencoded")),
        ({"data": "raw"}, b"raw", None),
        ({"body": "raw"}, b"raw", None),
        (
            {"auth": {"type": "basic", "username": "u", "password": "p"}},
            b"",
            ("authorization", "Basic dTpw"),
        ),
    ],
)
async def test_bodies_and_credentials_are_sent(
    params: dict[str, object], body: bytes, header: tuple[str, str] | None
) -> None:
    async with serving(lambda request: answer(200, "{}")) as server, running() as runner:
        await runner.output(
            "call_external_service", {"url": server.url, "method": "POST", **params}
        )

    assert server.requests[0].body == body
    if header is not None:
        assert server.requests[0].headers[header[0]] == header[1]


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (401, False), (404, False), (409, False), (422, False), (304, False),
     (408, True), (425, True), (429, True), (500, True), (502, True), (503, True)],
)  # fmt: skip
async def test_the_status_decides_whether_an_error_is_retryable(
    status: int, retryable: bool
) -> None:
    async with serving(lambda request: answer(status, "why")) as server, running() as runner:
        finished = await runner.run("http", {"url": server.url + "/x?key=secret"})

    assert isinstance(finished.outcome, Failed)
    error = finished.outcome.error
    assert (error.type, error.status, error.retryable) == ("http_status", status, retryable)
    assert f"returned {status}" in error.message
    assert "secret" not in error.message
    assert finished.outcome.meta is not None


async def test_an_expected_status_is_a_success() -> None:
    async with (
        serving(lambda request: answer(404, '{"found": false}')) as server,
        running() as runner,
    ):
        params = {"url": server.url, "expected_status": [200, 404]}
        assert await runner.output("http", params) == {"found": False}


async def test_a_status_that_is_not_the_expected_one_fails() -> None:
    async with serving(lambda request: answer(200)) as server, running() as runner:
        assert (
            await runner.error("http", {"url": server.url, "expected_status": 201})
        ).status == 200


async def test_retry_after_is_read_as_seconds() -> None:
    async with serving(lambda request: answer(429, retry_after="7")) as server, running() as runner:
        assert (await runner.error("http", {"url": server.url})).retry_after_seconds == 7.0


async def test_retry_after_is_read_as_a_date_by_the_servers_clock() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    until = format_datetime(now + timedelta(seconds=90), usegmt=True)
    reply = answer(503, date=format_datetime(now, usegmt=True), retry_after=until)
    async with serving(lambda request: reply) as server, running() as runner:
        assert (await runner.error("http", {"url": server.url})).retry_after_seconds == 90.0


@pytest.mark.parametrize("text", ["soon", "-5", "1e9", "99999999999999999999"])
async def test_an_invalid_retry_after_is_ignored(text: str) -> None:
    async with (
        serving(lambda request: answer(503, retry_after=text)) as server,
        running() as runner,
    ):
        seconds = (await runner.error("http", {"url": server.url})).retry_after_seconds

    assert seconds is None or 0 <= seconds <= 86_400


async def test_a_closed_connection_is_retryable() -> None:
    async with serving(lambda request: b"") as server, running() as runner:
        error = await runner.error("http", {"url": server.url})

    assert (error.type, error.retryable) == ("connection_failed", True)


async def test_a_refused_connection_is_retryable() -> None:
    async with serving(lambda request: b"") as server:
        url = server.url
    async with running() as runner:
        error = await runner.error("http", {"url": url})

    assert (error.type, error.retryable) == ("connection_failed", True)


async def test_a_server_that_does_not_respond_in_time_is_retryable() -> None:
    reply = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"
    async with serving(lambda request: reply) as server, running() as runner:
        error = await runner.error("http", {"url": server.url, "timeout": 0.2})

    assert (error.type, error.retryable) == ("connection_failed", True)
    assert "Timeout" in error.message


@pytest.mark.parametrize("body", ["{", "NaN", '{"a": 1e999}', "[" * 100_000])
async def test_a_body_that_is_not_valid_json_is_an_error(body: str) -> None:
    async with serving(lambda request: answer(200, body)) as server, running() as runner:
        assert (await runner.error("http", {"url": server.url})).type == "body_invalid"


@pytest.mark.parametrize("squeezed", [False, True])
async def test_a_body_beyond_the_limit_is_rejected(squeezed: bool) -> None:
    content = b"x" * (17 * 1024 * 1024)
    reply = (
        answer(200, gzip.compress(content), "text/plain", content_encoding="gzip")
        if squeezed
        else answer(200, content, "text/plain")
    )
    async with serving(lambda request: reply) as server, running() as runner:
        error = await runner.error("http", {"url": server.url})

    assert (error.type, error.retryable) == ("response_rejected", False)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"url": "ftp://host/x"}, "http:// or https://"),
        ({"url": "file:///etc/passwd"}, "http:// or https://"),
        ({"url": "//host"}, "http:// or https://"),
        ({"url": "http://"}, "http:// or https://"),
        ({"url": "http://host:99999/"}, "99999"),
        ({"url": "http://h/", "method": "G T"}, "method"),
        ({"url": "http://h/", "json": 1, "body": "x"}, "only one"),
        ({"url": "http://h/", "auth": {"type": "magic"}}, "auth"),
        ({"url": "http://127.0.0.1/", "headers": {"a": "b\r\nc: d"}}, "not allowed"),
    ],
)
async def test_a_request_that_cannot_be_sent_fails_permanently(params: object, words: str) -> None:
    async with running() as runner:
        error = await runner.error("http", params)

    assert (error.type, error.retryable) == ("params_invalid", False)
    assert words in error.message


async def test_a_redirect_is_followed() -> None:
    def answers(request: Request) -> bytes:
        return answer(302, location="/end") if request.target == "/start" else answer(200, '"end"')

    async with serving(answers) as server, running() as runner:
        params = {"url": server.url + "/start", "method": "POST", "json": 1}
        assert await runner.output("http", params) == "end"

    assert [(request.method, request.target) for request in server.requests] == [
        ("POST", "/start"),
        ("GET", "/end"),
    ]


async def test_redirects_without_end_are_rejected() -> None:
    async with (
        serving(lambda request: answer(302, location="/again")) as server,
        running() as runner,
    ):
        error = await runner.error("http", {"url": server.url})

    assert (error.type, error.retryable) == ("response_rejected", False)
    assert len(server.requests) == 6


async def test_credentials_do_not_follow_a_redirect_to_another_origin() -> None:
    params = {
        "headers": {"X-Api-Key": "k", "Cookie": "c=1", "Accept": "text/x"},
        "auth": {"type": "bearer", "token": "t"},
    }
    async with (
        serving(lambda request: answer(200, "{}")) as other,
        serving(lambda request: answer(307, location=other.url + "/x")) as server,
        running() as runner,
    ):
        await runner.output("http", {"url": server.url, **params})

    headers = other.requests[0].headers
    assert not {"x-api-key", "cookie", "authorization"} & set(headers)
    assert headers["accept"] == "text/x"


async def test_a_redirect_away_from_http_is_rejected() -> None:
    async with (
        serving(lambda request: answer(302, location="file:///etc/passwd")) as server,
        running() as runner,
    ):
        error = await runner.error("http", {"url": server.url})

    assert not error.retryable


async def test_cookies_of_one_job_are_not_sent_with_requests_of_another() -> None:
    async with (
        serving(lambda request: answer(200, "{}", set_cookie="session=1")) as server,
        running() as runner,
    ):
        await runner.output("http", {"url": server.url})
        await runner.output("http", {"url": server.url})

    assert [request.headers.get("cookie") for request in server.requests] == [None, None]


async def test_connections_are_used_again() -> None:
    async with serving(lambda request: answer(200, "{}")) as server, running() as runner:
        for _ in range(3):
            await runner.output("http", {"url": server.url})

    assert server.connections == 1


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(lambda request: answer(200, '"proxy"')) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        async with serving(lambda request: answer(200, '"server"')) as server, running() as runner:
            assert await runner.output("http", {"url": server.url}) == "server"
