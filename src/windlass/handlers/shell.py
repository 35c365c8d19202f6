"""The handler for commands: an argument list, its own session and process group, and bounded output."""

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from windlass.core.errors import FatalError, ParamsInvalid, RetryableError
from windlass.ports.declare import declared, handler
from windlass.ports.handler import ENVIRONMENT_PASSED, Context, Handler

OUTPUT_BYTES_MAX = 1024 * 1024
STDERR_SHOWN_CHARS = 2000
READ_BYTES = 65_536
# How often a command that keeps its pipes open is asked whether it still runs.
CHECK_SECONDS = 0.2
# What the command left in the background may finish writing for so long.
LINGER_SECONDS = 0.2
TERMINATE_SECONDS = 3.0


class ExitCode(RetryableError):
    """The command ended with a code that does not mean success."""

    type = "exit_code"


class CommandUnusable(FatalError):
    """The command can not be started, however often it is tried."""

    type = "command_unusable"


def shell_handler(environment: Mapping[str, str]) -> Handler:
    """The `shell` handler, for a worker with this environment; commands see the harmless part of it."""
    passed = {name: environment[name] for name in ENVIRONMENT_PASSED if name in environment}

    @handler("shell")
    async def shell(
        ctx: Context,
        command: list[str] | str,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        stdin: str | None = None,
        exit_codes: list[int] | None = None,
    ) -> dict[str, Any]:
        """Run a command given as a list of arguments; return its exit code and output."""
        arguments = _checked(command, cwd)
        running = await _start(arguments, {**passed, **(env or {})}, cwd, stdin is not None)
        ctx.adopt(running.pid)
        try:
            stdout, stderr = await _outputs(ctx, running, stdin)
        except asyncio.CancelledError:
            await _terminate(running)
            raise
        code = running.returncode if running.returncode is not None else await running.wait()
        ctx.meta["exit_code"] = code
        if code not in (exit_codes if exit_codes is not None else [0]):
            shown = stderr.text().strip()[-STDERR_SHOWN_CHARS:]
            raise ExitCode(f"{arguments[0]} {_how(code)}" + (f": {shown}" if shown else ""))
        output = {"exit_code": code, "stdout": stdout.text(), "stderr": stderr.text()}
        return {**output, "truncated": True} if stdout.truncated or stderr.truncated else output

    return declared(shell)


class Tail:
    """The end of a stream, up to a bound; its lines also go to the log."""

    def __init__(self, ctx: Context, level: str) -> None:
        self.truncated = False
        self._ctx = ctx
        self._level = level
        self._kept = bytearray()

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Read until the stream ends."""
        partial = b""
        while part := await stream.read(READ_BYTES):
            self._kept += part
            if len(self._kept) > OUTPUT_BYTES_MAX:
                self.truncated = True
                del self._kept[:-OUTPUT_BYTES_MAX]
            *lines, partial = (partial + part).split(b"\n")
            for line in lines:
                self._log(line)
            if len(partial) > READ_BYTES:
                self._log(partial)
                partial = b""
        if partial:
            self._log(partial)

    def text(self) -> str:
        """What was kept; bytes that are no UTF-8 are shown as escapes."""
        return self._kept.decode("utf-8", "backslashreplace")

    def _log(self, line: bytes) -> None:
        self._ctx.log(line.decode("utf-8", "backslashreplace"), self._level)


def _checked(command: list[str] | str, cwd: str | None) -> list[str]:
    if isinstance(command, str):
        raise ParamsInvalid(
            f'command {command!r} is text: write a list of arguments, or ["sh", "-c", …] if a shell must read it'
        )
    if not command or not command[0]:
        raise ParamsInvalid('command is empty: name a program and its arguments, as in ["ls", "-l"]')
    if any("\0" in argument for argument in command):
        raise ParamsInvalid("command has an argument with a NUL character, which no program can be given")
    if cwd is not None and not Path(cwd).is_dir():
        raise ParamsInvalid(f"cwd {cwd!r} is no folder on this worker")
    return command


async def _start(
    arguments: list[str], environment: dict[str, str], cwd: str | None, has_stdin: bool
) -> asyncio.subprocess.Process:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        return await asyncio.create_subprocess_exec(
            *arguments,
            stdin=pipe if has_stdin else nothing,
            stdout=pipe,
            stderr=pipe,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise CommandUnusable(f"no program {arguments[0]!r} on this worker's PATH") from None
    except (PermissionError, ValueError) as error:
        raise CommandUnusable(f"{arguments[0]!r} can not be run: {error}") from None


async def _outputs(ctx: Context, running: asyncio.subprocess.Process, stdin: str | None) -> tuple[Tail, Tail]:
    stdout, stderr = Tail(ctx, "info"), Tail(ctx, "error")
    assert running.stdout is not None
    assert running.stderr is not None
    streams = {asyncio.create_task(stdout.read(running.stdout)), asyncio.create_task(stderr.read(running.stderr))}
    if stdin is not None:
        streams.add(asyncio.create_task(_feed(running, stdin)))
    try:
        pending = streams
        while pending and running.returncode is None:
            _, pending = await asyncio.wait(pending, timeout=CHECK_SECONDS)
        if pending:
            # The command has ended, but something that it started may hold its pipes; the attempt's end kills that.
            await asyncio.wait(pending, timeout=LINGER_SECONDS)
    finally:
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    return stdout, stderr


async def _feed(running: asyncio.subprocess.Process, text: str) -> None:
    assert running.stdin is not None
    # A command may end without reading all of its input.
    with suppress(BrokenPipeError, ConnectionResetError):
        running.stdin.write(text.encode())
        await running.stdin.drain()
        running.stdin.close()
        await running.stdin.wait_closed()


async def _terminate(running: asyncio.subprocess.Process) -> None:
    """Ask the whole group to end, then kill it."""
    _signal(running.pid, signal.SIGTERM)
    try:
        async with asyncio.timeout(TERMINATE_SECONDS):
            await running.wait()
    except TimeoutError:
        pass
    finally:
        _signal(running.pid, signal.SIGKILL)


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _how(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
