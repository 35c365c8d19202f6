"""Commands as child processes: a session and process group of their own, output that is logged and bounded, and an end
that takes along whatever they started."""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from windlass.core.errors import FatalError, ParamsInvalid, RetryableError
from windlass.ports.handler import Context

OUTPUT_BYTES_MAX = 1024 * 1024
STDERR_SHOWN_CHARS = 2000
READ_BYTES = 65_536
# How often a command that keeps its pipes open is asked whether it still runs.
CHECK_SECONDS = 0.2
# What the command left in the background may finish writing for so long.
LINGER_SECONDS = 0.2
TERMINATE_SECONDS = 3.0


class ExitCodeError(RetryableError):
    """The command ended with a code that does not mean success."""

    type = "exit_code"


class CommandUnusable(FatalError):
    """The command cannot be started, however often it is tried."""

    type = "command_unusable"


class OutputTail:
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


def checked_command(command: list[str]) -> list[str]:
    """The command, if it can be given to a program at all."""
    if not command or not command[0]:
        raise ParamsInvalid('command is empty: name a program and its arguments, as in ["ls", "-l"]')
    if any("\0" in argument for argument in command):
        raise ParamsInvalid("command has an argument with a NUL character, which no program can be given")
    return command


async def start(
    arguments: list[str],
    environment: dict[str, str],
    cwd: str | None,
    *,
    has_stdin: bool = False,
    descriptors: Sequence[int] = (),
) -> asyncio.subprocess.Process:
    """Start a command; CommandUnusable when there is no such program, or it may not be run."""
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
            pass_fds=descriptors,
        )
    except FileNotFoundError:
        raise CommandUnusable(f"no program {arguments[0]!r} on this worker's PATH") from None
    except (PermissionError, ValueError) as error:
        raise CommandUnusable(f"{arguments[0]!r} cannot be run: {error}") from None


async def outputs(
    ctx: Context, running: asyncio.subprocess.Process, stdin: str | None = None
) -> tuple[OutputTail, OutputTail]:
    """What the command writes until it ends: to its log as it comes, and the end of each stream."""
    stdout, stderr = OutputTail(ctx, "info"), OutputTail(ctx, "error")
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


async def terminate(running: asyncio.subprocess.Process) -> None:
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


def how_ended(code: int) -> str:
    """The end of a process, in words."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
