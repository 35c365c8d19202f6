"""A worker on an in-memory broker: outcomes, timeouts, cancels, heartbeats, redeliveries, stopping."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from worker_harness import Bench, registry, task, working

from windlass import Context, FatalError, RetryableError, handler
from windlass.core.errors import BrokerUnavailable
from windlass.core.messages import Failed, Succeeded, TaskStarted
from windlass.ports.broker import TaskReport
from windlass.testing import virtual_time

STOP_SECONDS_MAX = 3.0


@handler("echo")
async def echo(**params: Any) -> dict[str, Any]:
    return {"echoed_params": params}


@handler("wait")
async def wait(seconds: float = 60.0) -> str:
    await asyncio.sleep(seconds)
    return "waited"


@handler("stubborn")
async def stubborn(seconds: float = 1.0) -> None:
    ends_at = asyncio.get_running_loop().time() + seconds
    while (left := ends_at - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue


@handler("about")
async def about(ctx: Context) -> dict[str, Any]:
    ctx.log("first line\nsecond \x1b[31mline")
    ctx.meta["rows"] = 3
    return {
        "task": ctx.task_id,
        "attempt": ctx.attempt,
        "key": ctx.idempotency_key,
        "cancelled": ctx.cancelled,
    }


@handler("raise")
async def raise_(kind: str) -> None:
    match kind:
        case "retryable":
            raise RetryableError("later", retry_after=30, status=503)
        case "fatal":
            raise FatalError("never", status=404)
        case "exit":
            raise SystemExit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "cancelled":
            raise asyncio.CancelledError
        case "long":
            raise ValueError("x" * 100_000)
        case _:
            raise ValueError("\ud800 is odd")


@handler("give")
async def give(what: str) -> Any:
    loop: list[Any] = []
    loop.append(loop)
    values: dict[str, Any] = {
        "nan": {"a": [1.0, math.nan]},
        "infinity": math.inf,
        "number key": {1: "a"},
        "surrogate": ["\ud800"],
        "object": {"a": object()},
        "huge integer": 2**64,
        "cycle": loop,
        "too large": "x" * (16 * 1024 * 1024),
        "null": {"a": None, "b": [None]},
        "long integer": 2**64 - 1,
        "numeric text key": {"1": "a"},
    }
    return values[what]


@handler("block")
def block(ctx: Context, seconds: float = 60.0) -> bool:
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at and not ctx.cancelled:
        time.sleep(0.005)
    return ctx.cancelled


async def test_a_task_is_run_and_its_result_reported() -> None:
    async with working(echo) as bench:
        finished = await bench.run(task("echo", {"n": 1}, "j1_fetch_2", index=4))

    assert isinstance(finished.outcome, Succeeded)
    assert bytes(finished.outcome.output) == b'{"echoed_params":{"n":1}}'
    assert (finished.job_id, finished.node_id, finished.attempt, finished.index) == (
        "j1",
        "fetch",
        2,
        4,
    )
    assert finished.worker_id == "worker-1"
    assert finished.started_at is not None
    assert finished.finished_at is not None
    assert 0 < finished.started_at <= finished.finished_at


async def test_the_context_describes_the_attempt() -> None:
    async with working(about) as bench:
        finished = await bench.run(task("about", None, "j_n_3", idempotency_key="key-1"))

    assert isinstance(finished.outcome, Succeeded)
    assert (
        bytes(finished.outcome.output)
        == b'{"task":"j_n_3","attempt":3,"key":"key-1","cancelled":false}'
    )
    assert finished.outcome.meta is not None
    assert bytes(finished.outcome.meta) == b'{"rows":3}'
    assert [line.message for line in bench.lines] == ["first line", "second \\x1b[31mline"]


@pytest.mark.parametrize(
    ("kind", "type_", "retryable", "status", "retry_after"),
    [
        ("retryable", "RetryableError", True, 503, 30.0),
        ("fatal", "FatalError", False, 404, None),
        ("exit", "SystemExit", True, None, None),
        ("interrupt", "KeyboardInterrupt", True, None, None),
        ("cancelled", "CancelledError", True, None, None),
        ("other", "ValueError", True, None, None),
    ],
)
async def test_an_exception_of_a_handler_becomes_the_error(
    kind: str, type_: str, retryable: bool, status: int | None, retry_after: float | None
) -> None:
    async with working(raise_) as bench:
        error = await bench.error(task("raise", {"kind": kind}))

    assert (error.type, error.retryable, error.status, error.retry_after_seconds) == (
        type_,
        retryable,
        status,
        retry_after,
    )
    assert error.traceback is not None
    assert "raise_" in error.traceback


async def test_messages_and_tracebacks_are_truncated() -> None:
    async with working(raise_) as bench:
        error = await bench.error(task("raise", {"kind": "long"}))

    assert len(error.message) == 4096
    assert error.traceback is not None
    assert len(error.traceback) == 8192


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("nan", "at $.a[1] nan"),
        ("infinity", "at $ inf"),
        ("number key", "at $ the key 1 is not a string"),
        ("surrogate", "lone surrogate"),
        ("object", "object"),
        ("huge integer", "64 bits"),
        ("cycle", "recursion"),
        ("too large", "at most 16777216"),
    ],
)
async def test_an_output_that_is_not_json_fails_permanently(what: str, words: str) -> None:
    async with working(give) as bench:
        error = await bench.error(task("give", {"what": what}))

    assert (error.type, error.retryable) == ("output_invalid", False)
    assert words in error.message


@pytest.mark.parametrize("what", ["null", "long integer", "numeric text key"])
async def test_an_output_that_only_looks_invalid_passes(what: str) -> None:
    async with working(give) as bench:
        assert await bench.output(task("give", {"what": what})) is not None


async def test_params_that_do_not_match_fail_permanently() -> None:
    async with working(wait) as bench:
        error = await bench.error(task("wait", {"secnds": 1}))

    assert (error.type, error.retryable) == ("params_invalid", False)
    assert "did you mean 'seconds'" in error.message


async def test_a_worker_claims_the_tasks_of_its_handlers_also_of_new_ones() -> None:
    handlers = registry(echo)
    bench = Bench(handlers)
    run = asyncio.create_task(bench.worker.run())
    await bench.output(task("echo", {"n": 1}, "j_a_1"))
    before = bench.broker.claimed_handlers
    handlers |= registry(wait)
    await bench.output(task("echo", {"n": 1}, "j_b_1"))
    await bench.output(task("echo", {"n": 1}, "j_c_1"))
    await bench.worker.stop(0.0)
    await run

    assert (before, bench.broker.claimed_handlers) == (("echo",), ("echo", "wait"))


async def test_the_only_worker_claims_the_tasks_of_every_handler() -> None:
    async with working(echo, is_only_worker=True) as bench:
        await bench.output(task("echo", {"n": 1}))

    assert bench.broker.claimed_handlers is None


async def test_an_unknown_handler_fails_permanently_and_names_the_nearest() -> None:
    async with working(echo, wait) as bench:
        error = await bench.error(task("ecko"))

    assert (error.type, error.retryable) == ("handler_not_found", False)
    assert "did you mean 'echo'" in error.message


@pytest.mark.parametrize("name", ["wait", "stubborn", "block"])
async def test_a_handler_that_times_out_is_stopped(name: str) -> None:
    async with working(wait, stubborn, block) as bench:
        began = time.monotonic()
        error = await bench.error(task(name, timeout_seconds=0.1))

    assert (error.type, error.retryable) == ("timeout", True)
    assert "0.1 s" in error.message
    assert time.monotonic() - began < 2.0


@pytest.mark.parametrize("name", ["wait", "block"])
async def test_a_cancel_reaches_a_running_handler_at_once(name: str) -> None:
    async with working(wait, block, started_after_seconds=0.0) as bench:
        await bench.broker.publish([task(name)])
        await bench.until(lambda: bool(bench.broker.sent))
        began = time.monotonic()
        await bench.broker.cancel(["job_node_1"])
        finished = await bench.ended()
        took = time.monotonic() - began

    assert isinstance(finished.outcome, Failed)
    assert (finished.outcome.error.type, finished.outcome.error.retryable) == ("cancelled", False)
    assert took < 0.2


async def test_a_task_owned_by_another_worker_is_stopped_without_a_report() -> None:
    ended = asyncio.Event()

    @handler("last")
    async def last() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with working(last, started_after_seconds=0.0) as bench:
        await bench.broker.publish([task("last")])
        await bench.until(lambda: bool(bench.broker.sent))
        bench.broker.to_stop_on_extend.append("job_node_1")
        await asyncio.wait_for(ended.wait(), 5)

    assert bench.broker.finished == {}


async def test_a_cancel_that_arrives_before_its_task_is_not_lost() -> None:
    async with working(wait) as bench:
        await bench.broker.cancel(["job_node_1"])
        await bench.until(lambda: bench.broker.cancels_received == 1)
        error = await bench.error(task("wait"))

    assert error.type == "cancelled"


async def test_a_worker_cancelled_with_its_loop_ends_at_once() -> None:
    bench = Bench(registry(wait))
    run = asyncio.create_task(bench.worker.run())
    await bench.until(lambda: bool(bench.broker.extended))
    await bench.broker.publish([task("wait")])
    await bench.until(lambda: any("job_node_1" in task_ids for task_ids in bench.broker.extended))
    began = time.monotonic()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)

    assert run.done()
    assert time.monotonic() - began < 2.0


async def test_the_start_of_a_slow_attempt_is_reported_once_and_of_a_fast_one_never() -> None:
    async with working(wait, started_after_seconds=0.05) as bench:
        await bench.broker.publish(
            [task("wait", {"seconds": 0.3}, "j_slow_1"), task("wait", {"seconds": 0}, "j_quick_1")]
        )
        await bench.ended("j_slow_1")

    assert [
        (type(message), message.node_id)
        for message in bench.broker.sent
        if isinstance(message, TaskStarted)
    ] == [(TaskStarted, "slow")]


async def test_heartbeats_continue_while_a_thread_is_busy() -> None:
    @handler("burn")
    def burn(ctx: Context) -> None:
        while not ctx.cancelled:
            sum(range(1000))

    async with working(burn, heartbeat_seconds=0.05) as bench:
        await bench.broker.publish([task("burn")])
        await bench.until(
            lambda: sum("job_node_1" in task_ids for task_ids in bench.broker.extended) >= 5
        )


async def test_a_stopped_worker_leaves_the_list_of_workers_after_its_last_report() -> None:
    bench = Bench(registry(echo))
    running = asyncio.create_task(bench.worker.run())
    await bench.run(task("echo"))
    assert bench.broker.deregistered == []

    await bench.worker.stop(0.0)
    await running

    assert bench.broker.deregistered == ["worker-1"]


async def test_a_worker_stops_although_the_broker_is_unavailable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(registry(echo))
    running = asyncio.create_task(bench.worker.run())

    async def unavailable(worker_id: str) -> None:
        raise BrokerUnavailable("no answer")

    bench.broker.deregister = unavailable
    await bench.run(task("echo"))
    async with asyncio.timeout(STOP_SECONDS_MAX):
        await bench.worker.stop(0.0)
        await running

    assert "stays listed as stale: no answer" in caplog.text


async def test_a_blocked_event_loop_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @handler("blocking_after_await")
    async def blocking_after_await() -> None:
        await asyncio.sleep(0)
        time.sleep(1.0)  # noqa: ASYNC251  blocks on purpose

    with caplog.at_level(logging.WARNING):
        async with working(blocking_after_await) as bench:
            await bench.broker.publish(
                [task("blocking_after_await"), task("blocking_after_await", None, "job_node_2")]
            )
            await bench.ended("job_node_2")

    assert "loop was blocked" in caplog.text


async def test_a_blocking_handler_without_await_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @handler("blocking_without_await")
    async def blocking_without_await() -> None:
        time.sleep(0.6)  # noqa: ASYNC251  blocks on purpose

    with caplog.at_level(logging.WARNING):
        async with working(blocking_without_await) as bench:
            await bench.run(task("blocking_without_await"))

    assert "blocking_without_await" in caplog.text


async def test_a_second_delivery_of_a_finished_task_runs_nothing_and_repeats_the_result() -> None:
    runs: list[int] = []

    @handler("count")
    async def count() -> int:
        runs.append(1)
        return len(runs)

    async with working(count) as bench:
        await bench.run(task("count"))
        await bench.broker.publish([task("count")])
        await bench.until(lambda: len(bench.broker.reports) == 2)

    assert runs == [1]
    assert bench.broker.reports[0] is bench.broker.reports[1]


async def test_a_second_delivery_of_a_running_task_starts_nothing() -> None:
    runs: list[int] = []

    @handler("count")
    async def count() -> None:
        runs.append(1)
        await asyncio.sleep(0.1)

    async with working(count) as bench:
        await bench.broker.publish([task("count"), task("count")])
        await bench.ended()

    assert runs == [1]


async def test_no_more_tasks_are_received_than_there_are_slots() -> None:
    peak = current = 0

    @handler("count")
    async def count() -> None:
        nonlocal peak, current
        current += 1
        peak = max(peak, current)
        await asyncio.sleep(0.01)
        current -= 1

    async with working(count, concurrency=3) as bench:
        await bench.broker.publish([task("count", None, f"j_n_{n}") for n in range(1, 21)])
        await bench.until(lambda: len(bench.broker.finished) == 20)

    assert peak == 3


async def test_outcomes_are_reported_in_batches() -> None:
    async with working(echo) as bench:
        await bench.broker.publish([task("echo", None, f"j_n_{n}") for n in range(1, 641)])
        await bench.until(lambda: len(bench.broker.finished) == 640)

    assert bench.broker.finish_calls <= 20


@pytest.mark.parametrize("call", ["claim", "finish", "extend", "send"])
async def test_nothing_is_lost_while_the_broker_fails(call: str) -> None:
    async with working(wait, started_after_seconds=0.0) as bench:
        bench.broker.failures[call] = 2
        assert await bench.output(task("wait", {"seconds": 0.02})) == "waited"

    assert [
        message.node_id for message in bench.broker.sent if isinstance(message, TaskStarted)
    ] == ["node"]


async def test_a_stop_lets_running_handlers_finish() -> None:
    async with working(wait, drain_seconds=5.0, started_after_seconds=0.0) as bench:
        await bench.broker.publish([task("wait", {"seconds": 0.2})])
        await bench.until(lambda: bool(bench.broker.sent))

    assert isinstance(bench.broker.finished["job_node_1"].outcome, Succeeded)
    assert bench.broker.returned == []


@pytest.mark.parametrize("name", ["wait", "stubborn", "block"])
async def test_a_stop_returns_tasks_that_do_not_finish(name: str) -> None:
    async with working(wait, stubborn, block, started_after_seconds=0.0) as bench:
        await bench.broker.publish([task(name, {"seconds": 1.5})])
        await bench.until(lambda: bool(bench.broker.sent))
        await bench.worker.stop(0.05)

    if name == "block":  # a thread that returns when it is cancelled has finished
        assert "job_node_1" in bench.broker.finished
    else:
        assert bench.broker.returned == ["job_node_1"]
        assert bench.broker.finished == {}


async def test_a_stop_returns_tasks_that_end_while_others_are_returned() -> None:
    ends = {task_id: asyncio.Event() for task_id in ("a_node_1", "b_node_1", "c_node_1")}
    ended = asyncio.Semaphore(0)
    is_returning, is_returned = asyncio.Event(), asyncio.Event()

    @handler("end_on_request")
    async def end_on_request(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await ends[ctx.task_id].wait()
            ended.release()

    async def respond_late() -> None:
        is_returning.set()
        await is_returned.wait()

    async with working(end_on_request, started_after_seconds=0.0, grace_seconds=5.0) as bench:
        bench.broker.delays["return_tasks"] = respond_late
        await bench.broker.publish([task("end_on_request", None, task_id) for task_id in ends])
        await bench.until(lambda: len(bench.broker.sent) == 3)
        stopping = asyncio.create_task(bench.worker.stop(0.0))
        ends["a_node_1"].set()
        await is_returning.wait()
        ends["b_node_1"].set()
        ends["c_node_1"].set()
        for _ in ends:
            await ended.acquire()
        is_returned.set()
        await stopping

    assert sorted(bench.broker.returned) == sorted(ends)


async def test_returned_tasks_are_not_lost_while_the_broker_fails() -> None:
    async with working(wait, started_after_seconds=0.0) as bench:
        await bench.broker.publish([task("wait")])
        await bench.until(lambda: bool(bench.broker.sent))
        bench.broker.failures["return_tasks"] = 2
        await bench.worker.stop(0.0)

    assert bench.broker.returned == ["job_node_1"]


async def test_a_stopped_worker_receives_no_more_tasks() -> None:
    async with working(echo) as bench:
        await bench.worker.stop(0)
        await bench.broker.publish([task("echo")])

    assert len(bench.broker.queued) == 1


async def test_a_stop_closes_shared_resources() -> None:
    class Resource:
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    built: list[Resource] = []

    @handler("use")
    async def use(ctx: Context) -> None:
        built.append(ctx.resource("thing", Resource))

    async with working(use) as bench:
        await bench.run(task("use"))
        await bench.run(task("use", None, "job_node_2"))

    assert built[0] is built[1]
    assert built[0].closed


async def test_an_abort_sends_nothing_to_the_broker() -> None:
    async with working(wait, started_after_seconds=0.0) as bench:
        await bench.broker.publish([task("wait")])
        await bench.until(lambda: bool(bench.broker.sent))
        bench.worker.abort()

    assert (bench.broker.finished, bench.broker.returned) == ({}, [])


async def test_an_abandoned_thread_is_replaced() -> None:
    release = threading.Event()

    @handler("stuck")
    def stuck() -> None:
        release.wait(20)

    async with working(stuck, block, threads=1) as bench:
        await bench.run(task("stuck", timeout_seconds=0.05))
        assert await bench.output(task("block", {"seconds": 0.0}, "job_node_2")) is False
        release.set()


async def test_a_task_that_waits_for_a_thread_can_be_cancelled() -> None:
    async with working(block, threads=1, started_after_seconds=0.0, grace_seconds=60.0) as bench:
        await bench.broker.publish([task("block"), task("block", None, "job_node_2")])
        await bench.until(lambda: bool(bench.broker.sent))
        await bench.broker.cancel(["job_node_2"])
        finished = await bench.ended("job_node_2")

    assert isinstance(finished.outcome, Failed)


async def test_a_log_is_truncated_with_a_notice() -> None:
    @handler("chatty")
    async def chatty(ctx: Context) -> None:
        for n in range(5000):
            ctx.log(f"{n} " + "x" * 10_000)

    async with working(chatty) as bench:
        await bench.run(task("chatty"))

    assert len(bench.lines) == 2000
    assert "log truncated" in bench.lines[-1].message
    assert max(len(line.message) for line in bench.lines) <= 8192


def test_a_worker_runs_on_virtual_time() -> None:
    async def an_hour_of_work() -> tuple[float, str]:
        async with working(wait, heartbeat_seconds=5.0) as bench:
            bench.patience_seconds = 10_000.0
            error = await bench.error(task("wait", {"seconds": 7200.0}, timeout_seconds=3600.0))
            return asyncio.get_running_loop().time(), error.type

    began = time.monotonic()
    seconds, kind = virtual_time.run(an_hour_of_work())

    assert (seconds, kind) == (pytest.approx(3600.0), "timeout")
    assert time.monotonic() - began < 5.0


async def test_one_worker_runs_forty_thousand_echo_tasks_per_second(record_property: Any) -> None:
    count = 40_000
    async with working(echo, heartbeat_seconds=5.0) as bench:
        began = time.perf_counter()
        await bench.broker.publish([task("echo", {"n": 1}, f"j_n_{n}") for n in range(count)])
        await bench.until(lambda: len(bench.broker.finished) == count)
        rate = count / (time.perf_counter() - began)

    record_property("echo_tasks_per_second", round(rate))
    assert rate > 5_000  # allows for slow machines; the measured rate is recorded


async def test_a_stop_does_not_wait_for_reports_of_a_cancelled_reporter() -> None:
    bench = Bench(registry(echo))
    reporting = asyncio.Event()

    async def finish(worker_id: str, reports: Sequence[TaskReport]) -> None:
        reporting.set()
        await asyncio.Event().wait()

    bench.broker.finish = finish
    run = asyncio.create_task(bench.worker.run())
    await bench.broker.publish([task("echo")])
    await reporting.wait()
    [report] = [one for one in asyncio.all_tasks() if one.get_name() == "report"]
    stopping = asyncio.create_task(bench.worker.stop(0.0))
    await asyncio.wait([stopping], timeout=0.2)
    assert not stopping.done()

    report.cancel()

    async with asyncio.timeout(STOP_SECONDS_MAX):
        await stopping
        await run
