"""Containers without a cluster: the command as a child process."""

import asyncio
import sys
import time
from pathlib import Path

import msgspec
import pytest
from handler_harness import running

from windlass.core.messages import Failed
from windlass.handlers import command


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def exited(pid: int) -> None:
    async with asyncio.timeout(10):
        while is_alive(pid):  # noqa: ASYNC110  there is no event for the end of another process
            await asyncio.sleep(0.01)


async def test_a_command_runs_and_its_last_line_is_the_result() -> None:
    async with running() as runner:
        params = {
            "image": "ignored",
            "command": ["sh", "-c"],
            "args": ["echo out; echo err >&2; echo '{\"n\": 1}'"],
        }
        output = await runner.output("container", params)

    start_seconds = output.pop("pod_start_seconds")
    assert output == {"exit_code": 0, "runtime": "process", "api_calls": 0, "result": {"n": 1}}
    assert 0 <= start_seconds < 10
    said = {(line.level, line.message) for line in runner.lines}
    assert said == {("info", "out"), ("error", "err"), ("info", '{"n": 1}')}


async def test_the_result_file_takes_precedence_over_the_last_line() -> None:
    command = ["sh", "-c", "echo '{\"from\": \"file\"}' > $WINDLASS_RESULT_FILE; echo '{}'"]
    async with running() as runner:
        output = await runner.output("container", {"command": command})

    assert output["result"] == {"from": "file"}


@pytest.mark.parametrize("line", ["done", "12", '{"half": ', "", '"text"'])
async def test_a_last_line_that_is_not_an_object_or_array_is_not_a_result(line: str) -> None:
    async with running() as runner:
        output = await runner.output("container", {"command": ["printf", "%s", line]})

    assert output["result"] is None


async def test_output_is_logged_while_the_program_runs() -> None:
    async with running() as runner:
        task = await runner.publish(
            "container", {"command": ["sh", "-c", "echo first; read line; echo end"]}
        )
        await runner.logged("first")
        await runner.output_of(task)

    assert [line.message for line in runner.lines] == ["first", "end"]


async def test_programs_know_their_task_but_not_the_workers_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_DATABASE_URL", "postgresql://secret")
    code = "import json, os; print(json.dumps({**os.environ, 'cwd': os.getcwd()}))"
    async with running() as runner:
        params = {"command": python(code), "env": {"NAME": "v"}, "working_dir": str(tmp_path)}
        result = (await runner.output("container", params))["result"]

    assert (result["NAME"], result["cwd"]) == ("v", str(tmp_path))
    assert (result["WINDLASS_JOB_ID"], result["WINDLASS_NODE_ID"], result["WINDLASS_ATTEMPT"]) == (
        "j1",
        "n",
        "1",
    )
    assert result["WINDLASS_IDEMPOTENCY_KEY"]
    assert "WINDLASS_DATABASE_URL" not in result


async def test_another_exit_code_is_an_error_with_the_end_of_stderr() -> None:
    async with running() as runner:
        finished = await runner.run("container", {"command": ["sh", "-c", "echo why >&2; exit 3"]})

    assert isinstance(finished.outcome, Failed)
    assert (finished.outcome.error.type, finished.outcome.error.retryable) == ("exit_code", True)
    assert finished.outcome.error.message == "sh exited with code 3: why"
    assert finished.outcome.meta is not None
    meta = msgspec.json.decode(finished.outcome.meta)
    assert (meta["exit_code"], meta["runtime"], meta["api_calls"]) == (3, "process", 0)
    assert 0.0 <= meta["pod_start_seconds"] < 30.0


async def test_exit_codes_may_be_declared_as_success() -> None:
    async with running() as runner:
        output = await runner.output(
            "container", {"command": ["sh", "-c", "exit 3"], "exit_codes": [3]}
        )

    assert output["exit_code"] == 3


async def test_processor_time_is_limited() -> None:
    async with running() as runner:
        began = time.monotonic()
        error = await runner.error(
            "container", {"command": python("while True: pass"), "cpu_seconds": 1}
        )

    assert error.type == "exit_code"
    assert "killed by SIGXCPU (it used more than cpu_seconds 1)" in error.message
    assert time.monotonic() - began < 20


async def test_memory_is_limited() -> None:
    params = {
        "command": python("bytearray(400_000_000)"),
        "resources": {"limits": {"memory": "200Mi"}},
    }
    async with running() as runner:
        error = await runner.error("container", params)

    assert error.type == "exit_code"
    assert "MemoryError" in error.message


async def test_limits_do_not_affect_a_program_below_them() -> None:
    params = {
        "command": python("print('[1]')"),
        "resources": {"limits": {"memory": "2Gi", "cpu": 2}},
        "cpu_seconds": 60,
    }
    async with running() as runner:
        output = await runner.output("container", params)

    assert output["result"] == [1]


@pytest.mark.parametrize("ends", ["timeout", "cancelled"])
async def test_the_whole_process_group_is_killed(ends: str) -> None:
    async with running() as runner:
        params = {"command": ["sh", "-c", "sleep 60 & echo $!; wait"]}
        task = await runner.publish(
            "container", params, timeout_seconds=0.7 if ends == "timeout" else 60.0
        )
        pid = int(await runner.logged(""))
        if ends == "cancelled":
            await runner.broker.cancel([task.task_id])
        error = await runner.error_of(task)
        await exited(pid)

    assert error.type == ends


@pytest.mark.parametrize(
    ("params", "type_", "words"),
    [
        ({"image": "busybox"}, "params_invalid", "command is missing"),
        ({"command": ["a\0b"]}, "params_invalid", "NUL"),
        ({"command": ["ls"], "working_dir": "no/such"}, "params_invalid", "no/such"),
        ({"command": ["no-such-program-at-all"]}, "command_unusable", "no-such-program-at-all"),
        (
            {"command": ["no-such-program-at-all"], "cpu_seconds": 5},
            "command_unusable",
            "no-such-program-at-all",
        ),
        ({"command": ["ls"], "cpu_seconds": 0}, "params_invalid", "invalid cpu_seconds: 0"),
        (
            {"command": ["ls"], "resources": {"limits": {"memory": "much"}}},
            "params_invalid",
            "'much'",
        ),
        ({"command": ["ls"], "env": {"K": {"secret": "s", "key": "k"}}}, "params_invalid", "env.K"),
        ({"command": ["ls"], "env": {"A=B": "x"}}, "params_invalid", "A=B"),
        (
            {"command": ["ls"], "volumes": [{"mount": "/a", "claim": "c"}]},
            "params_invalid",
            "volumes",
        ),
        ({"command": ["ls"], "env_from": [{"secret": "c"}]}, "params_invalid", "env_from"),
        ({"pod_spec": {"containers": []}}, "params_invalid", "pod_spec"),
        ({"command": ["ls"], "runtime": "docker"}, "params_invalid", "runtime"),
        ({"command": ["ls"], "imagee": "x"}, "params_invalid", "did you mean 'image'?"),
    ],
)
async def test_a_container_that_cannot_run_as_a_process_fails_permanently(
    params: object, type_: str, words: str
) -> None:
    async with running() as runner:
        error = await runner.error("container", params)

    assert (error.type, error.retryable) == (type_, False)
    assert words in error.message


async def test_a_command_that_ignores_its_termination_has_exited_before_it_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "TERMINATE_SECONDS", 0.1)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    process = await command.start(python(code), {}, None)
    assert process.stdout is not None
    await process.stdout.readline()

    await command.terminate(process)

    assert process.returncode == -9
