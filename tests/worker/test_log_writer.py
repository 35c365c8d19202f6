"""The log writer: order, batches, limits, threads, and stores that are slow, unavailable or fail."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from msgspec import Raw
from msgspec.structs import replace
from worker_harness import registry, task

from tests.defaults import worker_options
from windlass import Context, handler
from windlass.brokers.memory import MemoryBroker
from windlass.clock import SystemClock
from windlass.core.errors import StoreUnavailable
from windlass.core.jobs import JobSpec
from windlass.core.messages import TaskFinished
from windlass.ports.handler import LogLine
from windlass.ports.store.logs import LogFilter
from windlass.stores.sqlite.store import SqliteStore
from windlass.testing import virtual_time
from windlass.worker.log_writer import (
    BATCH_LINES_MAX,
    FLUSH_SECONDS,
    KEPT_LINES_MAX,
    TRIES_MAX,
    LogWriter,
)
from windlass.worker.worker import Worker

SOON_SECONDS = 0.25
PATIENCE_SECONDS = 20.0


def line(number: int, attempt: int = 1) -> LogLine:
    return LogLine("job", "node", 0, attempt, 1_000 + number, "info", str(number))


class RecordingStore:
    """Records batches with their times of arrival; fails or waits on request."""

    def __init__(self) -> None:
        self.batches: list[list[LogLine]] = []
        self.when: list[float] = []
        self.failures = 0
        self.open = asyncio.Event()
        self.open.set()

    async def append(self, lines: Sequence[LogLine]) -> None:
        await self.open.wait()
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("the disk is full")
        self.batches.append(list(lines))
        self.when.append(asyncio.get_running_loop().time())

    @property
    def messages(self) -> list[str]:
        return [one.message for batch in self.batches for one in batch]


def with_running_writer(
    scenario: Callable[[LogWriter, RecordingStore], Awaitable[None]], **bounds: int
) -> RecordingStore:
    """Run a scenario with a writer on virtual time, close the writer, and return the store."""

    async def main() -> RecordingStore:
        kept = RecordingStore()
        writer = LogWriter(kept.append, virtual_time.VirtualClock(), **bounds)
        running = asyncio.create_task(writer.run())
        await asyncio.sleep(0)
        await scenario(writer, kept)
        kept.open.set()
        await writer.aclose()
        assert running.done()
        return kept

    return virtual_time.run(main())


def test_lines_are_stored_in_their_order_and_in_one_batch() -> None:
    async def scenario(writer: LogWriter, kept: RecordingStore) -> None:
        for number in range(100):
            writer(line(number))
        await asyncio.sleep(1)
        assert len(kept.batches) == 1

    kept = with_running_writer(scenario)

    assert kept.messages == [str(number) for number in range(100)]


def test_a_single_line_is_stored_soon() -> None:
    async def scenario(writer: LogWriter, kept: RecordingStore) -> None:
        await asyncio.sleep(3)
        writer(line(1))
        await asyncio.sleep(SOON_SECONDS)
        assert kept.when == [pytest.approx(3 + FLUSH_SECONDS)]

    with_running_writer(scenario)


def test_a_full_batch_does_not_wait() -> None:
    async def scenario(writer: LogWriter, kept: RecordingStore) -> None:
        for number in range(BATCH_LINES_MAX):
            writer(line(number))
        await asyncio.sleep(FLUSH_SECONDS / 2)
        assert kept.when == [0.0]

    with_running_writer(scenario)


def test_many_lines_become_batches_of_bounded_size() -> None:
    async def scenario(writer: LogWriter, kept: RecordingStore) -> None:
        for number in range(2 * BATCH_LINES_MAX + 1):
            writer(line(number))

    kept = with_running_writer(scenario)

    assert [len(batch) for batch in kept.batches] == [BATCH_LINES_MAX, BATCH_LINES_MAX, 1]


def test_closing_stores_the_remaining_lines() -> None:
    async def scenario(writer: LogWriter, kept: RecordingStore) -> None:
        writer(line(1))
        assert kept.batches == []

    kept = with_running_writer(scenario)

    assert kept.messages == ["1"]
    assert kept.when == [0.0]


def test_lines_written_before_run_are_stored() -> None:
    async def main() -> list[str]:
        kept = RecordingStore()
        writer = LogWriter(kept.append, virtual_time.VirtualClock())
        writer(line(1))
        running = asyncio.create_task(writer.run())
        await asyncio.sleep(SOON_SECONDS)
        await writer.aclose()
        await running
        return kept.messages

    assert virtual_time.run(main()) == ["1"]


def test_a_batch_interrupted_by_a_cancel_is_stored_on_close() -> None:
    async def main() -> list[str]:
        kept = RecordingStore()
        kept.open.clear()
        writer = LogWriter(kept.append, virtual_time.VirtualClock())
        running = asyncio.create_task(writer.run())
        writer(line(1))
        await asyncio.sleep(SOON_SECONDS)
        writer(line(2))
        running.cancel()
        await asyncio.wait((running,))
        kept.open.set()
        await writer.aclose()
        return kept.messages

    assert virtual_time.run(main()) == ["1", "2"]


def test_lines_survive_a_store_that_fails_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(writer: LogWriter, kept: RecordingStore) -> None:
        kept.failures = 5
        writer(line(1))
        await asyncio.sleep(2)
        writer(line(2))
        await asyncio.sleep(30)
        assert kept.messages == ["1", "2"]

    with_running_writer(scenario)

    assert "the disk is full" in caplog.text


def test_a_batch_that_keeps_failing_is_dropped() -> None:
    async def scenario(writer: LogWriter, kept: RecordingStore) -> None:
        kept.failures = TRIES_MAX
        writer(line(1))
        await asyncio.sleep(1)
        writer(line(2, attempt=2))
        await asyncio.sleep(200)
        assert kept.messages == ["2", "(1 lines dropped: the log could not be stored in time)"]

    with_running_writer(scenario)


def test_a_slow_store_drops_lines_and_counts_them() -> None:
    async def scenario(writer: LogWriter, kept: RecordingStore) -> None:
        kept.open.clear()
        writer(line(0))
        await asyncio.sleep(SOON_SECONDS)  # the first batch is being stored
        for number in range(1, 26):
            writer(line(number))
        kept.open.set()
        await asyncio.sleep(SOON_SECONDS)
        writer(line(26))

    kept = with_running_writer(scenario, kept_lines_max=10)

    notice = "(15 lines dropped: the log could not be stored in time)"
    assert kept.messages == [*map(str, range(11)), notice, "26"]


def test_the_notice_belongs_to_the_attempt_that_lost_lines() -> None:
    async def scenario(writer: LogWriter, kept: RecordingStore) -> None:
        writer(line(1, attempt=1))
        writer(line(2, attempt=2))

    kept = with_running_writer(scenario, kept_lines_max=1)

    assert [(one.attempt, one.level) for batch in kept.batches for one in batch] == [
        (1, "info"),
        (2, "warning"),
    ]


def test_long_lines_count_by_their_length() -> None:
    async def scenario(writer: LogWriter, kept: RecordingStore) -> None:
        for number in range(1000, 1010):
            writer(line(number))

    kept = with_running_writer(scenario, kept_chars_max=20)

    assert kept.messages[:5] == ["1000", "1001", "1002", "1003", "1004"]
    assert kept.messages[5].startswith("(5 lines dropped")


def test_no_line_is_stored_before_the_notice_of_dropped_lines() -> None:
    async def scenario(writer: LogWriter, kept: RecordingStore) -> None:
        for message in ("fifteen letters", "too long to fit", "ok"):
            writer(replace(line(0), message=message))

    kept = with_running_writer(scenario, kept_chars_max=20)

    assert kept.messages == [
        "fifteen letters",
        "(2 lines dropped: the log could not be stored in time)",
    ]


def test_close_ends_although_the_store_is_unavailable(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        kept = RecordingStore()
        kept.open.clear()
        writer = LogWriter(kept.append, virtual_time.VirtualClock())
        running = asyncio.create_task(writer.run())
        writer(line(1))
        await asyncio.sleep(SOON_SECONDS)
        await writer.aclose()
        await running

    virtual_time.run(main())

    assert "1 lines not stored" in caplog.text


async def test_threads_may_write_at_once_and_each_keeps_its_order() -> None:
    kept = RecordingStore()
    writer = LogWriter(kept.append, SystemClock())
    running = asyncio.create_task(writer.run())
    threads_count, lines_count = 8, KEPT_LINES_MAX // 16

    def write(attempt: int) -> None:
        for number in range(lines_count):
            writer(line(number, attempt))

    threads = [threading.Thread(target=write, args=(attempt,)) for attempt in range(threads_count)]
    for thread in threads:
        thread.start()
    await asyncio.to_thread(lambda: [thread.join() for thread in threads])
    await writer.aclose()
    await running

    stored = [one for batch in kept.batches for one in batch]
    for attempt in range(threads_count):
        assert [int(one.message) for one in stored if one.attempt == attempt] == list(
            range(lines_count)
        )


@handler("awaiting")
async def awaiting(ctx: Context) -> None:
    ctx.log("from the loop")
    await asyncio.sleep(0)
    ctx.log("twice", level="warning")


@handler("blocking")
def blocking(ctx: Context) -> None:
    ctx.log("from a thread\nin two lines")


async def test_lines_of_async_and_thread_handlers_reach_the_database(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "logs.db"), SystemClock())
    await store.workflows.put("test", Raw(b"{}"), "digest", 0)
    await store.jobs.insert([JobSpec("job", "test", 1, Raw(b"{}"), 0)])
    writer = LogWriter(store.logs.append, SystemClock())
    running = asyncio.create_task(writer.run())
    broker = MemoryBroker(SystemClock())
    worker = Worker(
        broker,
        registry(awaiting, blocking),
        SystemClock(),
        worker_id="worker-1",
        log_sink=writer,
        **worker_options(),
    )
    working = asyncio.create_task(worker.run())
    await broker.publish([task("awaiting", task_id="job_a_1"), task("blocking", task_id="job_b_1")])
    finished = 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        while finished < 2:
            messages = await broker.receive(0, 10, PATIENCE_SECONDS)
            finished += sum(isinstance(message, TaskFinished) for message in messages)
    await worker.stop(1.0)
    await working
    await writer.aclose()
    await running

    stored = [one.line for one in await store.logs.list(LogFilter("job"))]
    await store.close()
    assert [(one.message, one.level) for one in stored if one.node_id == "a"] == [
        ("from the loop", "info"),
        ("twice", "warning"),
    ]
    assert [one.message for one in stored if one.node_id == "b"] == [
        "from a thread",
        "in two lines",
    ]
