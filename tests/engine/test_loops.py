"""Loops, pages and retries on a real database with a real worker."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from email.utils import formatdate
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tests.defaults import worker_options
from tests.engine.harness import CLOCK, Process, events_of, opened, output_of, plan_from, until
from windlass import Context, RetryableError, handler
from windlass.core.events import Event
from windlass.ports.handler import Handler
from windlass.ports.handler_declaration import declared
from windlass.ports.store import Store
from windlass.ports.store.jobs import IterationFilter
from windlass.worker.worker import Worker

WINDOW = 7


class CallRecorder:
    """A handler that records when each item starts and ends."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.calls: list[int] = []

    def handlers(self) -> dict[str, Handler]:
        @handler("recorded")
        async def recorded(ctx: Context, item: int) -> int:
            self.running += 1
            self.most = max(self.most, self.running)
            self.calls.append(item)
            await asyncio.sleep(0.001 * (item % 3))
            self.running -= 1
            return item * 2

        return {"recorded": declared(recorded)}


def loop_of(items: int, handler: str = "recorded", **more: object) -> dict[str, Any]:
    looping = {"collection": list(range(items)), "element": "item", **more}
    return {
        "nodes": {"each": {"handler": handler, "loop": looping, "params": {"item": "{{ item }}"}}}
    }


async def test_a_window_is_never_exceeded_and_is_full_whenever_work_waits(tmp_path: Path) -> None:
    recorder = CallRecorder()
    async with opened(tmp_path) as store:
        process = Process(
            store, plan_from(loop_of(300, concurrency=WINDOW)), handlers=recorder.handlers()
        )
        await process.start()
        job = await process.submit()
        await process.ended(job.spec.job_id)
        events = await store.jobs.events(job.spec.job_id, limit=5_000)
        await process.stop()

    assert recorder.most == WINDOW
    assert Counter(recorder.calls) == Counter(range(300))
    # By the events: while iterations are left, each end dispatches the next one in the same commit.
    assert _in_flight_by_commit(events)[1:-WINDOW] == [WINDOW] * len(
        _in_flight_by_commit(events)[1:-WINDOW]
    )


def _in_flight_by_commit(events: Sequence[Event]) -> list[int]:
    """Return how many iterations are in flight after each decision, while some are not dispatched yet."""
    found: dict[int, int] = {}
    out = begun = 0
    for event in events:
        if event.type == "iteration_dispatched":
            out, begun = out + 1, begun + 1
        elif event.type in ("iteration_completed", "iteration_failed"):
            out -= 1
        # A start is recorded together with the end, at the instant that the worker reported.
        if begun < 300 and begun and event.type != "iteration_started":
            found[event.at] = out
    return list(found.values())


async def test_sequential_iterations_run_one_after_the_other(tmp_path: Path) -> None:
    recorder = CallRecorder()
    async with opened(tmp_path) as store:
        process = Process(
            store, plan_from(loop_of(40, mode="sequential")), handlers=recorder.handlers()
        )
        await process.start()
        job = await process.submit()
        await process.ended(job.spec.job_id)
        output = await output_of(process, job.spec.job_id, "each")
        await process.stop()

    assert (recorder.most, recorder.calls) == (1, list(range(40)))
    assert output == [item * 2 for item in range(40)]


async def test_a_large_loop_keeps_its_results_in_order_beyond_the_inline_limit(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        process = Process(store, plan_from(loop_of(12_000, handler="echo", concurrency=500)))
        await process.start()
        job = await process.submit()
        await process.ended(job.spec.job_id)
        output = await output_of(process, job.spec.job_id, "each")
        row = (await store.jobs.nodes(job.spec.job_id, "each"))[0]
        await process.stop()

    assert output == [{"echoed_params": {"item": item}} for item in range(12_000)]
    assert msgspec.json.decode(row.meta or b"")["succeeded"] == 12_000


async def test_a_loop_continues_after_its_engine_was_killed_without_running_completed_items_again(
    tmp_path: Path,
) -> None:
    recorder = CallRecorder()
    document = plan_from(loop_of(400, concurrency=20))
    async with opened(tmp_path) as store:
        first = Process(store, document, handlers=recorder.handlers())
        await first.start()
        job = await first.submit()

        async def is_under_way() -> bool:
            return len(await _ended_items(store, job.spec.job_id)) >= 100

        await until(first, job.spec.job_id, is_under_way)
        first.worker.abort()
        await first.engine.stop()
        done = await _ended_items(store, job.spec.job_id)
        ran_before = len(recorder.calls)
        second = Process(store, document, name="two", handlers=recorder.handlers())
        second.artifacts = first.artifacts
        await second.start()
        await second.ended(job.spec.job_id)
        output = await output_of(second, job.spec.job_id, "each")
        await second.stop()

    assert output == [item * 2 for item in range(400)]
    assert done.isdisjoint(recorder.calls[ran_before:])


async def _ended_items(store: Store, job_id: str) -> set[int]:
    rows = await store.jobs.iterations(
        IterationFilter(job_id, 0, 0, status="completed", limit=1_000)
    )
    return {row.index for row in rows}


async def test_a_retry_runs_only_the_items_that_failed(tmp_path: Path) -> None:
    calls: Counter[int] = Counter()
    broken = {3, 5}

    @handler("fragile")
    async def fragile(item: int) -> int:
        calls[item] += 1
        if item in broken:
            raise ValueError(f"{item} is broken")
        return item

    handlers = {"fragile": declared(fragile)}
    async with opened(tmp_path) as store:
        process = Process(
            store, plan_from(loop_of(10, handler="fragile", concurrency=1)), handlers=handlers
        )
        await process.start()
        job = await process.submit()
        assert (await process.ended(job.spec.job_id)).state.status == "failed"
        broken.clear()
        await process.engine.jobs.retry(job.spec.job_id)
        assert (await process.ended(job.spec.job_id)).state.status == "completed"
        output = await output_of(process, job.spec.job_id, "each")
        await process.stop()

    assert output == list(range(10))
    assert calls == {item: 2 if item == 3 else 1 for item in range(10)}


async def test_a_tolerant_loop_completes_with_null_for_failed_items(tmp_path: Path) -> None:
    document = loop_of(6, handler="fail", on_failure="continue", concurrency=2)
    each = document["nodes"]["each"]
    each["handler"], each["params"] = (
        "recorded",
        {"item": "{{ item if item < 4 else 'no number' }}"},
    )
    async with opened(tmp_path) as store:
        process = Process(store, plan_from(document), handlers=CallRecorder().handlers())
        await process.start()
        job = await process.submit()
        status = (await process.ended(job.spec.job_id)).state.status
        output = await output_of(process, job.spec.job_id, "each")
        meta = msgspec.json.decode((await store.jobs.nodes(job.spec.job_id, "each"))[0].meta or b"")
        await process.stop()

    assert (status, output) == ("completed", [0, 2, 4, 6, None, None])
    assert meta == {"total": 6, "succeeded": 4, "failed": 2, "success_rate": 4 / 6}


async def test_pages_are_merged_in_order_and_each_is_an_attempt(tmp_path: Path) -> None:
    @handler("page")
    async def page(number: int = 1) -> dict:
        return {
            "data": [number * 10 + at for at in range(3)],
            "paging": {"more": number < 4, "page": number},
        }

    rule = {
        "while": "{{ response.paging.more }}",
        "next_call": {"number": "{{ response.paging.page + 1 }}"},
        "collect": "append",
        "merge_path": "data",
    }
    node = {"handler": "page", "params": {"number": 1}, "retry": {"on_success": rule}}
    async with opened(tmp_path) as store:
        process = Process(
            store, plan_from({"nodes": {"all": node}}), handlers={"page": declared(page)}
        )
        await process.start()
        job = await process.submit()
        await process.ended(job.spec.job_id)
        output = await output_of(process, job.spec.job_id, "all")
        kinds = Counter(await events_of(store, job.spec.job_id))
        await process.stop()

    assert output == [10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42]
    assert (kinds["node_started"], kinds["node_retrying"], kinds["retry_sequence_completed"]) == (
        4,
        3,
        1,
    )


@pytest.mark.prove
async def test_ten_thousand_waits_survive_a_restart_and_occupy_no_worker(tmp_path: Path) -> None:
    @handler("busy")
    async def busy(item: int) -> int:
        raise RetryableError(f"{item} must come back later", retry_after=600.0)

    document = loop_of(10_000, handler="busy", concurrency=1_000)
    rule = {"max_attempts": 3, "initial_delay": 0, "max_delay": "1h", "jitter": 0}
    document["nodes"]["each"]["retry"] = {"on_error": rule}
    plan = plan_from(document)
    handlers = {"busy": declared(busy)}
    async with opened(tmp_path) as store:
        first = Process(store, plan, handlers=handlers)
        await first.start()
        job = await first.submit()

        async def do_all_wait() -> bool:
            running = first.shard.jobs.get(job.spec.job_id)
            loop = None if running is None else running.loops.get(0)
            return loop is not None and loop.begun == 10_000 and not loop.in_flight_count

        await until(first, job.spec.job_id, do_all_wait)
        assert first.worker.running == 0
        await first.stop()
        rows = await store.jobs.iterations(
            IterationFilter(job.spec.job_id, 0, 0, status="waiting", limit=20_000)
        )
        second = Process(store, plan, name="two", handlers=handlers)
        await second.start()
        attempts = second.shard.jobs[job.spec.job_id].loops[0].attempts
        waits = {index: attempt.due_at for index, attempt in attempts.items()}
        timers = second.shard.recovery.timers(second.shard.jobs.values())
        running = second.worker.running
        await second.engine.jobs.cancel(job.spec.job_id)
        await second.stop()

    assert waits == {row.index: row.due_at for row in rows}
    assert (len(waits), running) == (10_000, 0)
    assert sorted((timer.index, timer.due_at) for timer in timers) == sorted(waits.items())


async def test_only_the_tasks_of_a_lost_worker_run_again(tmp_path: Path) -> None:
    runs: Counter[int] = Counter()
    held: set[int] = set()
    is_holding = asyncio.Event()
    is_over = asyncio.Event()

    @handler("held")
    async def hold(ctx: Context, item: int) -> int:
        runs[item] += 1
        if ctx.worker_id == "doomed":
            held.add(item)
            if len(held) == 3:
                is_holding.set()
            await is_over.wait()
        return item

    handlers = {"held": declared(hold)}
    async with opened(tmp_path) as store:
        process = Process(
            store, plan_from(loop_of(60, handler="held", concurrency=10)), handlers=handlers
        )
        await process.engine.start()
        doomed = Worker(
            process.broker,
            handlers,
            CLOCK,
            worker_id="doomed",
            random=Random(1),
            **worker_options(concurrency=3),
        )
        dying = asyncio.create_task(doomed.run())
        job = await process.submit()
        await is_holding.wait()
        doomed.abort()
        await asyncio.gather(dying, return_exceptions=True)
        other = Worker(
            process.broker,
            handlers,
            CLOCK,
            worker_id="other",
            random=Random(2),
            **worker_options(heartbeat_seconds=0.01),
        )
        working = asyncio.create_task(other.run())

        async def are_the_others_done() -> bool:
            await process.broker.reclaim(0.5)
            return (await store.jobs.get(job.spec.job_id)).state.status == "completed"

        await until(process, job.spec.job_id, are_the_others_done, every_seconds=0.1)
        events = await store.jobs.events(job.spec.job_id, limit=5_000)
        await other.stop(1.0)
        await working
        await process.engine.stop()

    assert runs == {item: 2 if item in held else 1 for item in range(60)}
    # The loss is recorded and does not count as an attempt of the author.
    assert {event.index for event in events if event.type == "worker_lost"} <= held
    assert not [event for event in events if event.type == "iteration_retrying"]


async def test_an_item_that_kills_its_process_every_time_fails_alone_as_a_poison_pill(
    tmp_path: Path,
) -> None:
    code = "import os\ndef main(item):\n    if item == 2:\n        os.kill(os.getpid(), 9)\n    return item\n"
    document = loop_of(4, handler="python", on_failure="continue", concurrency=2)
    document["nodes"]["each"]["params"]["code"] = code
    document["nodes"]["each"]["retry"] = {"max_redeliveries": 2}
    async with opened(tmp_path) as store:
        process = Process(store, plan_from(document))
        await process.start()
        job = await process.submit()
        await process.ended(job.spec.job_id)
        output = await output_of(process, job.spec.job_id, "each")
        failed = await store.jobs.iterations(
            IterationFilter(job.spec.job_id, 0, 0, status="failed")
        )
        events = await store.jobs.events(job.spec.job_id, limit=5_000)
        await process.stop()

    assert output == [0, 1, None, 3]
    assert [row.index for row in failed] == [2]
    error = msgspec.json.decode(failed[0].error or b"")
    assert (error["type"], error["failure_class"]) == ("worker_lost", "infra")
    losses = [event for event in events if event.type == "worker_lost"]
    assert ({event.index for event in losses}, len(losses)) == ({2}, 3)


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_a_retry_after_is_honoured_to_a_tenth(tmp_path: Path, form: str) -> None:
    # Several calls: on a busy machine some are late, and the earliest one counts.
    arrivals: dict[bytes, list[float]] = defaultdict(list)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        times = arrivals[path]
        times.append(time.time())
        wait = "2" if form == "seconds" else formatdate(int(times[0]) + 3, usegmt=True)
        head = (
            f"HTTP/1.1 429 Slow Down\r\nRetry-After: {wait}\r\n"
            if len(times) == 1
            else "HTTP/1.1 200 OK\r\n"
        )
        writer.write(f"{head}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    rule = {"on_error": {"max_attempts": 2, "initial_delay": 0.01, "jitter": 0}}
    nodes = {
        f"call_{n}": {"handler": "http", "params": {"url": f"{url}{n}"}, "retry": rule}
        for n in range(5)
    }
    async with server, opened(tmp_path) as store:
        process = Process(store, plan_from({"nodes": nodes}))
        await process.start()
        job = await process.submit()
        assert (await process.ended(job.spec.job_id)).state.status == "completed"
        events = await store.jobs.events(job.spec.job_id)
        await process.stop()

    asked = [2.0 if form == "seconds" else int(first) + 3 - first for first, _ in arrivals.values()]
    waited = [second - first for first, second in arrivals.values()]
    assert all(wait >= wish for wait, wish in zip(waited, asked, strict=True))
    assert min(wait / wish for wait, wish in zip(waited, asked, strict=True)) <= 1.1
    retrying = next(event for event in events if event.type == "node_retrying")
    assert msgspec.json.decode(retrying.data or b"")["error"]["failure_class"] == "rate_limited"
