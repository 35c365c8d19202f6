"""Logs of a job: pages, streams and limits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.api.worker_server import ENDS_SECONDS, Server, serving
from windlass import Context, RetryableError, handler
from windlass.api.routes.logs import LOG_POLL_SECONDS_MAX
from windlass.ports.handler import LogLine
from windlass.ports.handler_declaration import declared
from windlass.worker.context import LOG_LINE_CHARS_MAX, LOG_LINES_MAX

KINDS = """
workflow_id: kinds
nodes:
  talk: {handler: talk, params: {text: "on the loop"}}
  block: {handler: block, params: {}}
  code:
    handler: python
    params:
      code: |
        import sys
        def main():
            print("to stdout")
            print("to stderr", file=sys.stderr)
            return 1
  command: {handler: shell, params: {command: [sh, -c, "echo out; echo err >&2"]}}
"""
ONE = """
workflow_id: one
nodes:
  talk: {handler: talk, params: {text: "{{ input.text }}"}}
"""
TWICE = """
workflow_id: twice
nodes:
  again: {handler: again, params: {}, retry: {on_error: {max_attempts: 2, initial_delay: 0.01, jitter: 0}}}
"""
HELD = """
workflow_id: held
defaults: {queue: far}
nodes:
  work: {handler: anything, params: {}}
"""


@handler("talk")
async def talk(ctx: Context, text: str) -> None:
    ctx.log(text)


@handler("block")
def block(ctx: Context) -> None:
    ctx.log("in a thread", level="warning")


@handler("again")
async def again(ctx: Context) -> None:
    ctx.log(f"attempt {ctx.attempt}")
    if ctx.attempt == 1:
        raise RetryableError("try again")


@handler("flood")
async def flood(ctx: Context) -> None:
    for number in range(LOG_LINES_MAX + 100):
        ctx.log(str(number))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    handlers = {declared(one).name: declared(one) for one in (talk, block, again, flood)}
    async with serving(tmp_path, handlers) as server:
        for document in (KINDS, ONE, TWICE, HELD):
            await server.deploy(document)
        yield server


def line(job_id: str, number: int) -> LogLine:
    return LogLine(job_id, "work", 0, 1, number, "info", f"line {number}")


async def written(server: Server, count: int) -> str:
    """Submit a job that does not end and store log lines of it."""
    job_id = await server.submit("held")
    await server.store.logs.append([line(job_id, number) for number in range(1, count + 1)])
    return job_id


async def streamed(
    server: Server, job_id: str, headers: dict[str, str] | None = None, **query: Any
) -> list[Any]:
    """Return all lines of a log stream as (id, data)."""
    async with open_stream(server, job_id, headers, **query) as messages:
        return [message async for message in messages]


@asynccontextmanager
async def open_stream(
    server: Server, job_id: str, headers: dict[str, str] | None = None, **query: Any
) -> AsyncIterator[AsyncIterator[tuple[int, Any]]]:
    path = f"/jobs/{job_id}/logs/stream"
    async with (
        asyncio.timeout(ENDS_SECONDS),
        server.client.stream("GET", path, headers=headers, params=query) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _messages(answer.aiter_lines())


async def _messages(lines: AsyncIterator[str]) -> AsyncIterator[tuple[int, Any]]:
    fields: dict[str, str] = {}
    async for text in lines:
        if text:
            name, _, value = text.partition(": ")
            fields[name] = value
        elif "data" in fields:
            assert fields["event"] == "log"
            yield int(fields["id"]), msgspec.json.decode(fields["data"])
            fields = {}


async def test_every_kind_of_attempt_writes_to_the_log(server: Server) -> None:
    job_id = await server.submit("kinds")
    job = await server.ended(job_id)
    assert job.state.status == "completed", bytes(job.state.error or b"")

    lines = [data for _, data in await streamed(server, job_id)]

    by_node: dict[str, set[tuple[str, str]]] = {}
    for one in lines:
        by_node.setdefault(one["node_id"], set()).add((one["level"], one["message"]))
    assert by_node["talk"] == {("info", "on the loop")}
    assert by_node["block"] == {("warning", "in a thread")}
    assert {message for _, message in by_node["code"]} == {"to stdout", "to stderr"}
    assert {message for _, message in by_node["command"]} == {"out", "err"}


async def test_a_log_line_has_all_fields(server: Server) -> None:
    job_id = await server.submit("one", text="hello")
    await server.ended(job_id)
    ((log_id, data),) = await streamed(server, job_id)

    page = await server.get(f"/jobs/{job_id}/logs")

    (item,) = page["items"]
    assert page["next_cursor"] is None
    assert item == data
    assert item == {
        "log_id": log_id,
        "job_id": job_id,
        "node_id": "talk",
        "index": 0,
        "attempt": 1,
        "timestamp": item["timestamp"],
        "level": "info",
        "message": "hello",
    }
    assert item["timestamp"].endswith("Z")


async def test_control_characters_are_escaped(server: Server) -> None:
    job_id = await server.submit(
        "one", text="\x1b[2Jbell\x07 \x9b one\ttab\nevent: forged\r\ndata: {}"
    )
    await server.ended(job_id)

    messages = [data["message"] for _, data in await streamed(server, job_id)]

    assert messages == ["\\x1b[2Jbell\\x07 \\x9b one\ttab", "event: forged", "data: {}"]


async def test_a_long_line_is_shortened(server: Server) -> None:
    job_id = await server.submit("one", text="x" * (LOG_LINE_CHARS_MAX + 1))
    await server.ended(job_id)

    ((_, data),) = await streamed(server, job_id)

    assert data["message"] == "x" * LOG_LINE_CHARS_MAX


async def test_an_attempt_that_logs_without_end_is_cut_off_with_a_notice(server: Server) -> None:
    await server.deploy("{workflow_id: flooded, nodes: {flood: {handler: flood, params: {}}}}")
    job_id = await server.submit("flooded")
    await server.ended(job_id)

    messages = [data["message"] for _, data in await streamed(server, job_id)]

    assert len(messages) == LOG_LINES_MAX
    assert messages[:-1] == [str(number) for number in range(LOG_LINES_MAX - 1)]
    assert "log truncated" in messages[-1]


async def test_pages_follow_each_other_without_gap_or_overlap(server: Server) -> None:
    job_id = await written(server, 25)
    messages: list[str] = []
    cursor: str | None = "0"

    while cursor is not None:
        page = await server.get(f"/jobs/{job_id}/logs", after=cursor, limit=10)
        messages += [item["message"] for item in page["items"]]
        cursor = page["next_cursor"]

    assert messages == [f"line {number}" for number in range(1, 26)]


async def test_lines_are_filtered_by_attempt(server: Server) -> None:
    job_id = await server.submit("twice")
    await server.ended(job_id)
    await streamed(server, job_id)

    page = await server.get(f"/jobs/{job_id}/logs", node="again", attempt=2)

    assert [item["message"] for item in page["items"]] == ["attempt 2"]


async def test_lines_are_filtered_by_node(server: Server) -> None:
    job_id = await written(server, 3)

    assert (await server.get(f"/jobs/{job_id}/logs", node="other"))["items"] == []


async def test_a_log_stream_is_live_and_ends_with_the_job(server: Server) -> None:
    job_id = await written(server, 2)

    async with open_stream(server, job_id) as messages:
        first = [(await anext(messages))[1]["message"] for _ in range(2)]
        await server.store.logs.append([line(job_id, 3)])
        async with asyncio.timeout(3 * LOG_POLL_SECONDS_MAX):
            third = (await anext(messages))[1]["message"]
        await server.engine.jobs.cancel(job_id)
        rest = [message async for message in messages]

    assert [*first, third] == ["line 1", "line 2", "line 3"]
    assert rest == []


async def test_lines_stored_just_after_the_job_are_streamed(server: Server) -> None:
    job_id = await written(server, 1)

    async with open_stream(server, job_id) as messages:
        await anext(messages)
        await server.engine.jobs.cancel(job_id)
        await server.store.logs.append([line(job_id, 2)])
        rest = [data["message"] async for _, data in messages]

    assert rest == ["line 2"]


async def test_a_log_stream_resumed_at_any_line_sends_each_once(server: Server) -> None:
    job_id = await written(server, 12)
    await server.engine.jobs.cancel(job_id)
    whole = await streamed(server, job_id)

    for seen, (log_id, _) in enumerate(whole[:-1], 1):
        assert await streamed(server, job_id, {"Last-Event-ID": str(log_id)}) == whole[seen:]


async def test_last_event_id_takes_precedence_over_after(server: Server) -> None:
    job_id = await written(server, 3)
    await server.engine.jobs.cancel(job_id)
    whole = await streamed(server, job_id)

    resumed = await streamed(server, job_id, {"Last-Event-ID": str(whole[1][0])}, after=0)

    assert resumed == whole[2:]


async def test_a_complete_log_stream_answers_204(server: Server) -> None:
    job_id = await written(server, 1)
    await server.engine.jobs.cancel(job_id)
    ((log_id, _),) = await streamed(server, job_id)
    server.clock.jump(60)

    answer = await server.client.get(
        f"/jobs/{job_id}/logs/stream", headers={"Last-Event-ID": str(log_id)}
    )

    assert answer.status_code == 204


async def test_a_log_stream_ends_when_the_server_stops(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def follow(server: Server, job_id: str) -> int:
        count = 0
        async with open_stream(server, job_id) as messages:
            async for _ in messages:
                count += 1
                begun.set()
        return count

    async with serving(tmp_path) as server:
        await server.deploy(HELD)
        job_id = await written(server, 1)
        following = asyncio.create_task(follow(server, job_id))
        await begun.wait()

    assert await following == 1


@pytest.mark.parametrize("path", ["/jobs/nope/logs", "/jobs/nope/logs/stream"])
async def test_the_log_of_an_unknown_job_is_not_found(server: Server, path: str) -> None:
    await server.get(path, 404)


@pytest.mark.parametrize(
    "query",
    [
        {"after": "-1"},
        {"after": "x"},
        {"limit": "0"},
        {"limit": "1001"},
        {"node": "../x"},
        {"attempt": "a"},
        {"no": 1},
    ],
)
async def test_parameters_out_of_bounds_are_refused(server: Server, query: dict[str, Any]) -> None:
    job_id = await written(server, 0)

    refused = await server.get(f"/jobs/{job_id}/logs", 422, **query)

    assert refused["errors"][0]["path"] == next(iter(query))


@pytest.mark.parametrize("given", ["-1", "x", "9" * 40, "1 or 1=1"])
async def test_an_invalid_last_event_id_is_refused(server: Server, given: str) -> None:
    job_id = await written(server, 0)

    answer = await server.client.get(
        f"/jobs/{job_id}/logs/stream", headers={"Last-Event-ID": given}
    )

    assert answer.status_code == 422
