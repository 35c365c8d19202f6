"""The handler for commands."""

import asyncio
import sys
import textwrap
import time
from pathlib import Path

import pytest
from handler_harness import running

from windlass.core.messages import Failed


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def exited(pid: int) -> None:
    async with asyncio.timeout(10):
        while is_alive(pid):  # noqa: ASYNC110  there is no event for the end of another process
            await asyncio.sleep(0.01)


async def test_a_commands_output_and_exit_code_are_returned() -> None:
    async with running() as runner:
        output = await runner.output("shell", {"command": ["sh", "-c", "echo out; echo err >&2"]})

    assert output == {"exit_code": 0, "stdout": "out\n", "stderr": "err\n"}
    assert {(line.level, line.message) for line in runner.lines} == {
        ("info", "out"),
        ("error", "err"),
    }


async def test_arguments_are_not_interpreted_by_a_shell() -> None:
    async with running() as runner:
        output = await runner.output("shell", {"command": ["echo", "$(id)", "; rm -rf x", "`id`"]})

    assert output["stdout"] == "$(id) ; rm -rf x `id`\n"


async def test_input_environment_and_folder_reach_the_command(tmp_path: Path) -> None:
    async with running() as runner:
        params = {
            "command": ["sh", "-c", "cat; echo $NAME; pwd"],
            "stdin": "in\n",
            "env": {"NAME": "v"},
        }
        output = await runner.output("shell", {**params, "cwd": str(tmp_path)})

    assert output["stdout"].splitlines() == ["in", "v", str(tmp_path)]


async def test_a_command_sees_only_the_allowed_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_DATABASE_URL", "postgresql://secret")
    async with running() as runner:
        output = await runner.output("shell", {"command": ["env"]})

    assert "PATH=" in output["stdout"]
    assert "WINDLASS" not in output["stdout"]


async def test_unread_input_is_not_an_error() -> None:
    async with running() as runner:
        assert (await runner.output("shell", {"command": ["true"], "stdin": "x" * 1_000_000}))[
            "exit_code"
        ] == 0


async def test_another_exit_code_is_an_error_with_the_end_of_stderr() -> None:
    async with running() as runner:
        error = await runner.error("shell", {"command": ["sh", "-c", "echo why >&2; exit 3"]})

    assert (error.type, error.retryable) == ("exit_code", True)
    assert error.message == "sh exited with code 3: why"


async def test_exit_codes_may_be_declared_as_success() -> None:
    async with running() as runner:
        output = await runner.output(
            "shell", {"command": ["sh", "-c", "exit 3"], "exit_codes": [0, 3]}
        )

    assert output["exit_code"] == 3


@pytest.mark.parametrize(
    ("params", "type_", "words"),
    [
        ({"command": "ls -l"}, "params_invalid", "list of arguments"),
        ({"command": []}, "params_invalid", "empty"),
        ({"command": ["a\0b"]}, "params_invalid", "NUL"),
        ({"command": ["ls"], "cwd": "no/such/folder"}, "params_invalid", "no/such/folder"),
        ({"command": ["no-such-program-at-all"]}, "command_unusable", "no-such-program-at-all"),
        ({"command": ["."]}, "command_unusable", "."),
    ],
)
async def test_a_command_that_cannot_start_fails_permanently(
    params: object, type_: str, words: str
) -> None:
    async with running() as runner:
        error = await runner.error("shell", params)

    assert (error.type, error.retryable) == (type_, False)
    assert words in error.message


async def test_output_is_limited_to_its_end() -> None:
    async with running() as runner:
        output = await runner.output(
            "shell", {"command": ["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo end"]}
        )

    assert len(output["stdout"]) == 1024 * 1024
    assert output["stdout"].endswith("xend\n")
    assert output["truncated"] is True


async def test_a_command_that_times_out_is_killed_with_its_process_group() -> None:
    async with running() as runner:
        began = time.monotonic()
        task = await runner.publish(
            "shell", {"command": ["sh", "-c", "sleep 60 & echo $!; wait"]}, timeout_seconds=0.5
        )
        pid = int(await runner.logged(""))
        finished = await runner.finished(task)
        await exited(pid)

    assert isinstance(finished.outcome, Failed)
    assert finished.outcome.error.type == "timeout"
    assert time.monotonic() - began < 3.0


async def test_a_command_that_ignores_sigterm_is_killed() -> None:
    async with running() as runner:
        command = ["sh", "-c", "trap '' TERM; echo $$; while true; do sleep 0.05; done"]
        task = await runner.publish("shell", {"command": command}, timeout_seconds=0.5)
        pid = int(await runner.logged(""))
        await runner.finished(task)
        await exited(pid)


async def test_a_cancel_ends_a_command_at_once() -> None:
    async with running() as runner:
        task = await runner.publish("shell", {"command": ["sh", "-c", "echo $$; exec sleep 60"]})
        pid = int(await runner.logged(""))
        began = time.monotonic()
        await runner.broker.cancel([task.task_id])
        await runner.finished(task)
        took = time.monotonic() - began
        await exited(pid)

    assert took < 0.5


async def test_a_background_process_is_killed_with_the_attempt() -> None:
    async with running() as runner:
        began = time.monotonic()
        output = await runner.output("shell", {"command": ["sh", "-c", "sleep 60 & echo $!"]})
        await exited(int(output["stdout"]))

    assert time.monotonic() - began < 3.0


async def test_bytes_that_are_not_utf8_are_shown_as_escapes() -> None:
    async with running() as runner:
        output = await runner.output("shell", {"command": ["printf", "\\377\\376"]})

    assert output["stdout"] == "\\xff\\xfe"


async def test_all_commands_end_with_a_killed_worker(tmp_path: Path) -> None:
    script = tmp_path / "worker_process.py"
    script.write_text(
        textwrap.dedent(f"""
        import asyncio, sys
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parents[2])!r}]
        from handler_harness import running

        async def main():
            async with running() as runner:
                await runner.publish("shell", {{"command": ["sh", "-c", "sleep 60 & echo $!; wait"]}})
                print(await runner.logged(""), flush=True)
                await asyncio.sleep(60)

        asyncio.run(main())
        """)
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    pid = int(await process.stdout.readline())
    assert is_alive(pid)

    process.kill()
    await process.wait()

    await exited(pid)
