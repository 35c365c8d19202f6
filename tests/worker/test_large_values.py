"""Large values: outputs are stored as artifacts, and params are read from them before the handler runs."""

import asyncio
import hashlib
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from errno import ENOSPC
from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec
import pytest
from large_handlers import GIVERS, TAKERS
from worker_harness import Bench, LoopClock, registry, task, working

from windlass.core.artifacts import (
    INLINE_BYTES_MAX,
    TaskArtifact,
    is_reference,
    read_reference,
)
from windlass.core.changes import Task
from windlass.core.messages import Failed, Succeeded
from windlass.ports.artifacts import Artifacts
from windlass.ports.broker import TaskReport
from windlass.stores.artifacts.folder import FolderArtifacts
from windlass.stores.artifacts.s3 import S3Artifacts
from windlass.worker.child_processes import ChildProcesses
from windlass.worker.context import SharedResources
from windlass.worker.executor import Executor
from windlass.worker.large_values import LargeValues
from windlass.worker.running_attempt import ExecutorContext

MIB = 1024 * 1024
BYTES_MAX = 2 * MIB
GIVER_NAMES = ["give", "give_later", "give_threaded", "give_isolated"]
TAKER_NAMES = ["take", "take_later", "take_threaded", "take_isolated"]


def running(store: Artifacts | None, **settings: Any) -> Any:
    environment = dict(os.environ)
    settings = {
        "environment": environment,
        "processes": 1,
        "output_bytes_max": BYTES_MAX,
        **settings,
    }
    return working(*GIVERS, *TAKERS, artifacts=store, **settings)


def large(text: str) -> bytes:
    return msgspec.json.encode(text * (INLINE_BYTES_MAX + 1))


def taking(handler: str, params: object, task_id: str = "job_node_1", **rest: Any) -> Task:
    """Return a task whose params contain artifacts."""
    artifacts: list[TaskArtifact] = []
    return task(
        handler, without(params, (), artifacts), task_id, artifacts=tuple(artifacts), **rest
    )


def without(params: Any, place: tuple[str | int, ...], artifacts: list[TaskArtifact]) -> Any:
    """Return params with null in place of artifacts, which are added to a list with their places."""
    match params:
        case TaskArtifact():
            artifacts.append(msgspec.structs.replace(params, place=place))
            return None
        case dict():
            return {
                key: without(part, (*place, key), artifacts)
                for key, part in cast("dict[str, Any]", params).items()
            }
        case list():
            return [
                without(part, (*place, index), artifacts)
                for index, part in enumerate(cast("list[Any]", params))
            ]
        case _:
            return params


class GatedArtifacts:
    """An artifact store whose calls wait until the test opens it."""

    def __init__(self, store: Artifacts) -> None:
        self.store = store
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.passed = 0

    async def _pass(self) -> None:
        self.passed += 1
        self.reached.set()
        await self.opened.wait()

    async def put(self, job_id: str, body: bytes) -> str:
        await self._pass()
        return await self.store.put(job_id, body)

    async def get(self, key: str) -> bytes:
        await self._pass()
        return await self.store.get(key)

    async def remove(self, job_ids: Sequence[str]) -> None:
        await self.store.remove(job_ids)

    async def aclose(self) -> None:
        await self.store.aclose()


@pytest.fixture
def store(tmp_path: Path) -> FolderArtifacts:
    return FolderArtifacts(tmp_path / "values")


async def outcome_of(bench: Bench, work: Task) -> Succeeded:
    outcome = (await bench.run(work)).outcome
    assert isinstance(outcome, Succeeded), outcome
    return outcome


@pytest.mark.parametrize("handler", GIVER_NAMES)
async def test_a_large_output_is_stored_and_reported_as_a_reference(
    store: FolderArtifacts, handler: str
) -> None:
    async with running(store) as bench:
        outcome = await outcome_of(bench, task(handler, {"size": MIB}))

    expected = msgspec.json.encode("x" * MIB)
    assert is_reference(outcome.output)
    found = read_reference(outcome.output)
    assert (found.key, found.size) == (f"job/{hashlib.sha256(expected).hexdigest()}", MIB + 2)
    assert await store.get(found.key) == expected


@pytest.mark.parametrize("handler", GIVER_NAMES[1:])
async def test_the_meta_of_a_large_output_stays_beside_the_reference(
    store: FolderArtifacts, handler: str
) -> None:
    async with running(store) as bench:
        outcome = await outcome_of(bench, task(handler, {"size": MIB}))

    assert msgspec.json.decode(outcome.meta or b"") == {"size": MIB}


@pytest.mark.parametrize("handler", GIVER_NAMES)
async def test_an_output_of_the_largest_inline_size_is_not_stored(
    store: FolderArtifacts, handler: str, tmp_path: Path
) -> None:
    async with running(store) as bench:
        outcome = await outcome_of(bench, task(handler, {"size": INLINE_BYTES_MAX - 2}))

    assert len(memoryview(outcome.output)) == INLINE_BYTES_MAX
    assert not is_reference(outcome.output)
    assert not (tmp_path / "values").exists()


@pytest.mark.parametrize("handler", GIVER_NAMES)
async def test_an_output_beyond_the_setting_is_rejected_with_both_sizes(
    store: FolderArtifacts, handler: str
) -> None:
    async with running(store) as bench:
        fits = await outcome_of(bench, task(handler, {"size": BYTES_MAX - 2}, "j1_n_1"))
        error = await bench.error(task(handler, {"size": BYTES_MAX - 1}, "j2_n_1"))

    assert is_reference(fits.output)
    assert (error.type, error.retryable) == ("output_invalid", False)
    assert all(
        word in error.message
        for word in (str(BYTES_MAX + 1), str(BYTES_MAX), "artifacts.bytes_max")
    )


async def test_an_output_of_many_megabytes_is_returned_from_a_child(store: FolderArtifacts) -> None:
    async with running(store, output_bytes_max=40 * MIB) as bench:
        outcome = await outcome_of(bench, task("give_isolated", {"size": 39 * MIB}))
        work = taking("take_isolated", {"a": TaskArtifact(read_reference(outcome.output).key)})
        output = await bench.output(msgspec.structs.replace(work, task_id="job_n_2"))

    assert output == {"a": f"x*{39 * MIB}"}


async def test_a_second_attempt_with_the_same_output_stores_nothing_new(
    store: FolderArtifacts, tmp_path: Path
) -> None:
    async with running(store) as bench:
        first = await outcome_of(bench, task("give", {"size": MIB}, "j_n_1"))
        second = await outcome_of(bench, task("give", {"size": MIB}, "j_n_2"))

    assert bytes(first.output) == bytes(second.output)
    assert len(list((tmp_path / "values" / "j").iterdir())) == 1


async def test_without_a_store_a_large_output_is_sent_inline() -> None:
    async with running(None) as bench:
        assert len(await bench.output(task("give", {"size": MIB}))) == MIB


@pytest.mark.parametrize("handler", TAKER_NAMES)
async def test_a_handler_gets_the_value_in_place_of_its_reference(
    store: FolderArtifacts, handler: str
) -> None:
    a, b = await store.put("j0", large("a")), await store.put("j0", large("b"))
    params = {
        "one": TaskArtifact(a),
        "many": [{"deep": TaskArtifact(b)}, TaskArtifact(a)],
        "plain": "p",
    }
    async with running(store) as bench:
        output = await bench.output(taking(handler, params))

    length = INLINE_BYTES_MAX + 1
    assert output == {
        "one": f"a*{length}",
        "many": [{"deep": f"b*{length}"}, f"a*{length}"],
        "plain": "p",
    }


async def test_a_value_may_be_the_params_themselves(store: FolderArtifacts) -> None:
    key = await store.put(
        "j0", msgspec.json.encode({"text": "t" * INLINE_BYTES_MAX, "n": [1, 2.5, None]})
    )
    async with running(store) as bench:
        output = await bench.output(taking("take", TaskArtifact(key)))

    assert output == {"text": f"t*{INLINE_BYTES_MAX}", "n": [1, 2.5, None]}


async def test_data_that_looks_like_a_reference_is_data(store: FolderArtifacts) -> None:
    key = await store.put("j0", large("a"))
    data = {"$artifact": key, "key": key, "path": []}
    async with running(store) as bench:
        output = await bench.output(taking("take", {"data": data, "real": TaskArtifact(key)}))

    assert output == {"data": data, "real": f"a*{INLINE_BYTES_MAX + 1}"}


async def test_without_artifacts_nothing_is_fetched(store: FolderArtifacts) -> None:
    params = {"a": {"$artifact": f"j0/{'0' * 64}"}}
    async with running(store) as bench:
        assert await bench.output(task("take", params)) == params


@pytest.mark.parametrize("handler", TAKER_NAMES)
async def test_a_missing_artifact_fails_the_attempt_permanently(
    store: FolderArtifacts, handler: str
) -> None:
    key = f"j0/{'0' * 64}"
    async with running(store) as bench:
        error = await bench.error(taking(handler, {"a": TaskArtifact(key)}))

    assert (error.type, error.retryable) == ("artifact_not_found", False)
    assert key in error.message


async def test_a_store_that_does_not_respond_is_retryable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "any")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    store, key = S3Artifacts("s3://values"), f"j0/{'0' * 64}"
    async with running(store) as bench:
        error = await bench.error(taking("take", {"a": TaskArtifact(key)}))

    assert (error.type, error.retryable) == ("artifacts_unavailable", True)
    assert "s3://values" in error.message
    await store.aclose()


@pytest.mark.parametrize("handler", GIVER_NAMES)
async def test_a_store_that_cannot_be_written_is_retryable(
    store: FolderArtifacts, tmp_path: Path, handler: str
) -> None:
    (tmp_path / "values").write_text("in the way")
    async with running(store) as bench:
        # Its output is held until shortly before the timeout.
        finished = await bench.run(task(handler, {"size": MIB}, timeout_seconds=3.0))

    assert isinstance(finished.outcome, Failed)
    error = finished.outcome.error
    assert (error.type, error.retryable) == ("artifacts_unavailable", True)
    assert str(MIB + 2) in error.message


async def test_a_task_with_artifacts_is_retryable_on_a_worker_without_a_store() -> None:
    key = f"j0/{'0' * 64}"
    async with running(None) as bench:
        error = await bench.error(taking("take", {"a": TaskArtifact(key)}))

    assert (error.type, error.retryable) == ("artifacts_unavailable", True)
    assert "no artifact store" in error.message


@pytest.mark.parametrize("repeats", [1, 12])
async def test_values_that_are_too_large_together_are_rejected(
    store: FolderArtifacts, repeats: int
) -> None:
    keys = [
        await store.put("j0", msgspec.json.encode(letter * MIB))
        for letter in "abcdefghi"[: 9 // repeats or 1]
    ]
    params = {"all": [TaskArtifact(key) for key in keys] * repeats}
    async with running(store) as bench:
        error = await bench.error(taking("take", params))

    assert (error.type, error.retryable) == ("params_invalid", False)
    assert "artifacts.bytes_max" in error.message


async def test_no_more_values_are_fetched_once_they_are_too_large(store: FolderArtifacts) -> None:
    keys = [await store.put("j0", msgspec.json.encode([number, "x" * MIB])) for number in range(40)]
    gate = GatedArtifacts(store)
    gate.opened.set()
    async with running(gate) as bench:
        await bench.error(taking("take", {"all": [TaskArtifact(key) for key in keys]}))

    assert gate.passed < 20


async def test_a_thread_with_large_values_that_never_returns_is_replaced(
    store: FolderArtifacts,
) -> None:
    key = await store.put("j0", large("a"))
    async with running(store, threads=1) as bench:
        work = taking("stuck", {"a": TaskArtifact(key)}, task_id="j1_n_1", timeout_seconds=0.1)
        error = await bench.error(work)
        output = await bench.output(task("take_threaded", {"n": 1}, "j2_n_1"))

    assert (error.type, output) == ("timeout", {"n": 1})


@asynccontextmanager
async def executing(
    store: FolderArtifacts, on_finished: Callable[[TaskReport], None]
) -> AsyncIterator[Executor]:
    children = ChildProcesses(
        1, grace_seconds=60.0, worker_id="w", environment={}, output_bytes_max=BYTES_MAX
    )
    context = ExecutorContext(
        worker_id="w",
        registry=registry(*GIVERS, *TAKERS),
        clock=LoopClock(),
        random=Random(1),
        resources=SharedResources(),
        isolation=children,
        on_finished=on_finished,
        on_started=lambda messages: None,
        on_handed_back=lambda task_id: None,
        large_values=LargeValues(store, BYTES_MAX),
        sinks={},
        output_bytes_max=BYTES_MAX,
        threads_max=1,
        grace_seconds=60.0,
    )
    executor = Executor(context)
    yield executor
    executor.close()
    await children.aclose()


async def test_a_cancel_stops_an_attempt_that_has_not_begun(store: FolderArtifacts) -> None:
    reports: list[TaskReport] = []
    key = await store.put("j0", b"[]")
    async with executing(store, reports.append) as executor:
        executor.start(taking("take", {"a": TaskArtifact(key)}))

        assert executor.cancel("job_node_1")
        assert not executor.cancel("job_node_1")

    assert [report.task_id for report in reports] == ["job_node_1"]


async def test_a_cancel_before_the_output_is_stored_ends_the_attempt_at_once(
    store: FolderArtifacts,
) -> None:
    reports: list[TaskReport] = []
    ended = asyncio.Event()
    async with executing(
        store, lambda report: (reports.append(report), ended.set())[0]
    ) as executor:
        executor.start(task("give", {"size": MIB}))
        executor.cancel("job_node_1")
        async with asyncio.timeout(10):
            await ended.wait()

    assert isinstance(reports[0].message.outcome, Failed)
    assert reports[0].message.outcome.error.type == "cancelled"


@pytest.mark.parametrize("handler", GIVER_NAMES)
async def test_a_cancel_ends_an_attempt_whose_output_is_being_stored(
    store: FolderArtifacts, handler: str
) -> None:
    gate = GatedArtifacts(store)
    async with running(gate) as bench:
        await bench.broker.publish([task(handler, {"size": MIB})])
        await gate.reached.wait()
        await bench.broker.cancel(["job_node_1"])
        finished = await bench.ended()

    assert isinstance(finished.outcome, Failed)
    assert finished.outcome.error.type == "cancelled"


@pytest.mark.parametrize("handler", TAKER_NAMES)
async def test_a_cancel_ends_an_attempt_whose_params_are_being_fetched(
    store: FolderArtifacts, handler: str
) -> None:
    gate, key = GatedArtifacts(store), await store.put("j0", large("a"))
    async with running(gate) as bench:
        await bench.broker.publish([taking(handler, {"a": TaskArtifact(key)})])
        await gate.reached.wait()
        await bench.broker.cancel(["job_node_1"])
        finished = await bench.ended()

    assert isinstance(finished.outcome, Failed)
    assert finished.outcome.error.type == "cancelled"


@pytest.mark.parametrize("handler", GIVER_NAMES)
async def test_storing_counts_against_the_timeout(store: FolderArtifacts, handler: str) -> None:
    gate = GatedArtifacts(store)
    async with running(gate) as bench:
        finished = await bench.run(task(handler, {"size": MIB}, timeout_seconds=0.5))

    assert isinstance(finished.outcome, Failed)
    assert finished.outcome.error.type == "timeout"


@pytest.mark.parametrize("handler", TAKER_NAMES)
async def test_fetching_does_not_count_against_the_timeout(
    store: FolderArtifacts, handler: str
) -> None:
    gate, key = GatedArtifacts(store), await store.put("j0", large("a"))
    async with running(gate) as bench:
        await bench.broker.publish([taking(handler, {"a": TaskArtifact(key)}, timeout_seconds=5)])
        await gate.reached.wait()
        beats = len(bench.broker.extended)
        await bench.until(lambda: len(bench.broker.extended) > beats + 2)
        assert bench.broker.sent == []
        gate.opened.set()
        assert isinstance((await bench.ended()).outcome, Succeeded)


async def test_a_stopping_worker_returns_tasks_whose_output_is_being_stored(
    store: FolderArtifacts,
) -> None:
    gate = GatedArtifacts(store)
    async with running(gate) as bench:
        await bench.broker.publish([task("give_threaded", {"size": MIB})])
        await gate.reached.wait()
        await bench.worker.stop(0.0)

    assert bench.broker.returned == ["job_node_1"]
    assert bench.broker.finished == {}


async def test_a_stopping_worker_waits_for_outputs_that_are_being_stored(
    store: FolderArtifacts,
) -> None:
    gate = GatedArtifacts(store)
    async with running(gate) as bench:
        await bench.broker.publish([task("give", {"size": MIB})])
        await gate.reached.wait()
        stopping = asyncio.create_task(bench.worker.stop(20.0))
        gate.opened.set()
        await stopping

    assert isinstance(bench.broker.finished["job_node_1"].outcome, Succeeded)


# A full disk


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Fill the disk of the store; call the result to make room. A real file system, if one can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "windlass-test", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode == 0:
        grow = ["mount", "-o", "remount,size=64m", str(disk)]
        try:
            yield lambda: subprocess.run(grow, check=True) and None
        finally:
            subprocess.run(["umount", str(disk)], check=True)
        return
    flush = os.fsync
    is_full = True

    def fsync(descriptor: int) -> None:
        if is_full:
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        flush(descriptor)

    def make_room() -> None:
        nonlocal is_full
        is_full = False

    monkeypatch.setattr(os, "fsync", fsync)
    yield make_room


@pytest.mark.parametrize("handler", GIVER_NAMES)
async def test_output_is_held_while_the_disk_is_full(
    tmp_path: Path, full_disk: Callable[[], None], handler: str
) -> None:
    store = FolderArtifacts(tmp_path / "disk" / "values")
    async with running(store) as bench:
        broker, worker = bench.broker, bench.worker
        await broker.publish([task(handler, {"size": MIB}, "job_node_1")])
        await bench.until(lambda: worker.problem is not None)
        # The call that waits for tasks meanwhile brings one more; it is the last one.
        await bench.run(task("give", {"size": 1}, "job_node_2"))
        await broker.publish([task("give", {"size": 1}, "job_node_3")])
        seen = len(broker.extended)
        await bench.until(lambda: len(broker.extended) > seen + 10)
        while_full = (set(broker.finished), len(broker.queued), str(worker.problem))

        full_disk()

        ends = [await bench.ended(f"job_node_{number}") for number in (1, 3)]
    assert while_full[:2] == ({"job_node_2"}, 1)
    assert "No space left on device" in while_full[2]
    assert all(isinstance(end.outcome, Succeeded) for end in ends)
    assert worker.problem is None
    await store.aclose()


async def test_job_that_is_cancelled_does_not_wait_for_its_output(
    tmp_path: Path, full_disk: Callable[[], None]
) -> None:
    store = FolderArtifacts(tmp_path / "disk" / "values")
    async with running(store) as bench:
        await bench.broker.publish([task("give_later", {"size": MIB})])
        await bench.until(lambda: bench.worker.problem is not None)

        await bench.broker.cancel(["job_node_1"])

        end = await bench.ended()
    assert isinstance(end.outcome, Failed)
    assert end.outcome.error.type == "cancelled"
    await store.aclose()
