"""Handlers in child processes: results, crashes, kills, captured output and cleanup."""

import asyncio
import os
import signal
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from worker_harness import Bench, task, working

from windlass.core.messages import Failed, Succeeded

SOURCE = """
import asyncio, os, re, signal, subprocess, sys, threading, time
from windlass import Context, FatalError, handler

@handler("double", mode="process")
def double(n: int) -> int:
    return 2 * n

@handler("pid", mode="process")
def pid() -> int:
    return os.getpid()

@handler("later", mode="process")
async def later(ctx: Context, seconds: float = 0.0) -> dict:
    await asyncio.sleep(seconds)
    ctx.meta["pid"] = os.getpid()
    return {"attempt": ctx.attempt, "job": ctx.job_id, "worker": ctx.worker_id}

@handler("burn_regex", mode="process")
def burn_regex() -> None:
    print("burning", flush=True)
    re.match(r"(a+)+$", "a" * 60 + "b")

@handler("burn_integer", mode="process")
def burn_integer() -> None:
    print("burning", flush=True)
    9 ** (9 ** 9)

@handler("deaf", mode="process")
def deaf() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("deaf", flush=True)
    time.sleep(60)

@handler("tidy", mode="process")
def tidy(path: str) -> None:
    try:
        print("waiting", flush=True)
        time.sleep(60)
    finally:
        open(path, "w").write("tidied up")

@handler("die", mode="process")
def die(number: int = 0, code: int = 0) -> None:
    print("last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), number) if number else os._exit(code)

@handler("leave", mode="process")
def leave() -> None:
    sys.exit("so long")

@handler("chat", mode="process")
def chat(ctx: Context) -> None:
    print("on stdout")
    ctx.log("through the context", "warning")
    print("on stderr", file=sys.stderr)
    os.write(1, b"straight to the descriptor\\n")
    subprocess.run(["echo", "from a command"])

@handler("flood", mode="process")
def flood() -> str:
    for _ in range(200):
        os.write(1, b"x" * 65536)
    return "done"

@handler("surroundings", mode="process")
def surroundings() -> dict:
    return dict(os.environ)

@handler("family", mode="process")
def family(seconds: float = 60.0) -> int:
    started = subprocess.Popen(["sleep", "60"])
    print(started.pid, flush=True)
    time.sleep(seconds)
    return started.pid

@handler("thread", mode="process")
def thread() -> int:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    return os.getpid()

@handler("refuse", mode="process")
def refuse() -> None:
    raise FatalError("no", status=409)

@handler("large", mode="process")
def large(text: str, size: int) -> str:
    assert len(text) == size
    return text
"""


@pytest.fixture
def handler_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "isolated_handlers.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import isolated_handlers  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

    yield isolated_handlers
    del sys.modules["isolated_handlers"]


def running(handler_module: ModuleType, **settings: Any) -> Any:
    functions = [
        value for value in vars(handler_module).values() if hasattr(value, "__windlass_handler__")
    ]
    return working(*functions, **{"environment": dict(os.environ), "processes": 2, **settings})


async def logged(bench: Bench, text: str) -> str:
    """Wait for a log line that contains `text` and return it."""
    async with asyncio.timeout(20):
        while True:
            for line in bench.lines:
                if text in line.message:
                    return line.message
            # No event signals a new log line.
            await asyncio.sleep(0.005)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def exited(pid: int) -> None:
    async with asyncio.timeout(10):
        while is_alive(pid):  # noqa: ASYNC110  there is no event for the end of another process
            await asyncio.sleep(0.01)


async def test_a_result_is_returned_from_the_child(handler_module: ModuleType) -> None:
    async with running(handler_module) as bench:
        assert await bench.output(task("double", {"n": 21})) == 42


async def test_a_child_process_is_reused(handler_module: ModuleType) -> None:
    async with running(handler_module) as bench:
        pids = [await bench.output(task("pid", None, f"j_n_{n}")) for n in range(3)]

    assert len(set(pids)) == 1
    assert pids[0] != os.getpid()


async def test_an_async_handler_and_its_context_work_in_a_child(handler_module: ModuleType) -> None:
    async with running(handler_module) as bench:
        finished = await bench.run(task("later", None, "j_n_2"))

    assert isinstance(finished.outcome, Succeeded)
    assert bytes(finished.outcome.output) == b'{"attempt":2,"job":"j","worker":"worker-1"}'
    assert finished.outcome.meta is not None


async def test_params_are_checked_in_the_child_too(handler_module: ModuleType) -> None:
    async with running(handler_module) as bench:
        error = await bench.error(task("double", {"n": "x"}))

    assert error.type == "params_invalid"


@pytest.mark.parametrize(("name", "type_"), [("refuse", "FatalError"), ("leave", "SystemExit")])
async def test_an_exception_in_a_child_process_becomes_the_error(
    handler_module: ModuleType, name: str, type_: str
) -> None:
    async with running(handler_module) as bench:
        error = await bench.error(task(name))

    assert error.type == type_


async def test_values_of_many_megabytes_are_sent_and_received(handler_module: ModuleType) -> None:
    size = 8_000_000
    async with running(handler_module) as bench:
        assert len(await bench.output(task("large", {"text": "x" * size, "size": size}))) == size


@pytest.mark.parametrize("name", ["burn_regex", "burn_integer", "deaf"])
async def test_a_process_that_ignores_sigterm_is_killed_after_its_grace_period(
    handler_module: ModuleType, name: str
) -> None:
    async with running(handler_module, grace_seconds=0.3) as bench:
        await bench.output(task("pid", None, "j_warm_1"))
        began = time.monotonic()
        error = await bench.error(task(name, timeout_seconds=0.5))
        took = time.monotonic() - began

    assert error.type == "timeout"
    assert 0.5 <= took < 0.5 + 0.3 + 1.0


async def test_heartbeats_continue_while_a_process_is_busy(handler_module: ModuleType) -> None:
    async with running(handler_module) as bench:
        await bench.broker.publish([task("burn_regex")])
        await bench.until(
            lambda: sum("job_node_1" in task_ids for task_ids in bench.broker.extended) >= 5
        )


async def test_a_stopped_handler_runs_its_finally_blocks(
    handler_module: ModuleType, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    async with running(handler_module, grace_seconds=5.0) as bench:
        await bench.broker.publish([task("tidy", {"path": str(mark)})])
        await logged(bench, "waiting")
        began = time.monotonic()
        await bench.broker.cancel(["job_node_1"])
        await bench.ended()

    assert mark.read_text() == "tidied up"
    assert time.monotonic() - began < 2.0


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"number": int(signal.SIGKILL)}, "killed by SIGKILL"),
        ({"number": int(signal.SIGSEGV)}, "killed by SIGSEGV"),
        ({"code": 3}, "exited with code 3"),
    ],
)
async def test_a_process_that_dies_is_reported_as_lost(
    handler_module: ModuleType, params: dict[str, int], words: str
) -> None:
    async with running(handler_module) as bench:
        error = await bench.error(task("die", params))
        assert await bench.output(task("double", {"n": 1}, "j_after_1")) == 2

    assert (error.type, error.retryable) == ("worker_lost", True)
    assert words in error.message
    assert "end of stderr: last words" in error.message


async def test_all_that_a_handler_prints_is_in_the_log(handler_module: ModuleType) -> None:
    async with running(handler_module) as bench:
        await bench.run(task("chat"))

    assert {(line.level, line.message) for line in bench.lines} == {
        ("info", "on stdout"),
        ("warning", "through the context"),
        ("error", "on stderr"),
        ("info", "straight to the descriptor"),
        ("info", "from a command"),
    }


async def test_excessive_output_neither_blocks_nor_fills_the_memory(
    handler_module: ModuleType,
) -> None:
    async with running(handler_module) as bench:
        assert await bench.output(task("flood")) == "done"

    assert len(bench.lines) <= 2000


async def test_addresses_and_secrets_of_the_worker_do_not_reach_the_child(
    handler_module: ModuleType,
) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "WINDLASS_DATABASE_URL": "postgresql://x:y@z",
        "AWS_SECRET": "s",
    }
    async with running(handler_module, environment=environment) as bench:
        seen = await bench.output(task("surroundings"))

    assert set(seen) <= {"PATH", "LC_CTYPE"}


async def test_processes_started_by_a_child_end_with_the_attempt(
    handler_module: ModuleType,
) -> None:
    async with running(handler_module) as bench:
        await bench.broker.publish([task("family", timeout_seconds=0.5)])
        pid = int(await logged(bench, ""))
        await bench.ended()
        await exited(pid)


@pytest.mark.parametrize("name", ["thread", "family"])
async def test_a_dirty_child_process_is_replaced(handler_module: ModuleType, name: str) -> None:
    async with running(handler_module) as bench:
        first = await bench.output(task(name, {"seconds": 0.0} if name == "family" else None))
        await bench.output(task("pid", None, "j_next_1"))
        await exited(first)


async def test_no_process_is_left_after_a_stop(handler_module: ModuleType) -> None:
    others = _children_of(os.getpid())
    async with running(handler_module) as bench:
        pids = [await bench.output(task("pid", None, "j_a_1"))]
        await bench.broker.publish([task("family"), task("deaf", None, "j_b_1")])
        pids.append(int((await logged(bench, "")).strip() or 0))
        await bench.worker.stop(0)

    for pid in pids:
        # A killed process that is not our child ends on its own time.
        await exited(pid)
    assert _children_of(os.getpid()) <= others


async def test_a_stop_returns_tasks_that_run_in_a_child(handler_module: ModuleType) -> None:
    async with running(handler_module) as bench:
        await bench.broker.publish([task("deaf")])
        await logged(bench, "deaf")
        await bench.worker.stop(0)

    assert bench.broker.returned == ["job_node_1"]
    assert bench.broker.finished == {}


async def test_more_attempts_than_processes_wait_for_their_turn(handler_module: ModuleType) -> None:
    async with running(handler_module, processes=1) as bench:
        await bench.broker.publish(
            [task("later", {"seconds": 0.1}, f"j_n_{n}", timeout_seconds=0.5) for n in range(6)]
        )
        await bench.until(lambda: len(bench.broker.finished) == 6)

    assert [f for f in bench.broker.finished.values() if isinstance(f.outcome, Failed)] == []


async def test_starting_a_process_does_not_count_against_the_timeout(
    handler_module: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(1)")
    async with running(
        handler_module, environment={**os.environ, "PYTHONPATH": str(tmp_path)}
    ) as bench:
        assert await bench.output(task("double", {"n": 2}, timeout_seconds=0.9)) == 4


async def test_all_child_processes_end_with_a_killed_worker(
    handler_module: ModuleType, tmp_path: Path
) -> None:
    here = Path(__file__).parent
    script = tmp_path / "worker_process.py"
    script.write_text(
        textwrap.dedent(f"""
        import asyncio, sys
        sys.path[:0] = [{str(tmp_path)!r}, {str(here)!r}, {str(here.parent.parent)!r}]
        import isolated_handlers
        from worker_harness import Bench, registry, task

        async def main():
            bench = Bench(registry(isolated_handlers.family, isolated_handlers.pid))
            running = asyncio.create_task(bench.worker.run())
            await bench.broker.publish([task("pid", None, "j_p_1")])
            print(bytes((await bench.ended("j_p_1")).outcome.output).decode(), flush=True)
            await bench.broker.publish([task("family")])
            while not bench.lines:
                await asyncio.sleep(0.01)
            print(bench.lines[0].message, flush=True)
            await running

        asyncio.run(main())
        """)
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    pids = [int(await process.stdout.readline()), int(await process.stdout.readline())]
    assert [is_alive(pid) for pid in pids] == [True, True]

    process.kill()
    await process.wait()

    for pid in pids:
        await exited(pid)


def _children_of(pid: int) -> set[int]:
    found: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == pid and state != "Z":
            found.add(int(stat.parent.name))
    return found
