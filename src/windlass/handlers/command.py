"""Commands as child processes, each in its own session: output is logged and bounded, the whole group is killed."""

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
# How often a command whose pipes stay open is checked for its exit.
CHECK_SECONDS = 0.2
# How long background processes of the command may still write after its exit.
LINGER_SECONDS = 0.2
TERMINATE_SECONDS = 3.0
KILL_SECONDS_MAX = 2.0


class ExitCodeError(RetryableError):
    """The command exited with a code that does not mean success."""

    type = "exit_code"


class CommandUnusable(FatalError):
    """The command cannot be started; retrying does not help."""

    type = "command_unusable"


class OutputTail:
    """The end of a stream, up to a limit; its lines also go to the log."""

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
        """Return what was kept; bytes that are not UTF-8 are shown as escapes."""
        return self._kept.decode("utf-8", "backslashreplace")

    def _log(self, line: bytes) -> None:
        self._ctx.log(line.decode("utf-8", "backslashreplace"), self._level)


def check_command(command: list[str]) -> list[str]:
    """Return the command; raise ParamsInvalid if no program can be started with it."""
    if not command or not command[0]:
        raise ParamsInvalid(
            'command is empty; write a program and its arguments, such as ["ls", "-l"]'
        )
    if any("\0" in argument for argument in command):
        raise ParamsInvalid("command contains a NUL character; remove it from the arguments")
    return command


async def start(
    arguments: list[str],
    environment: dict[str, str],
    cwd: str | None,
    *,
    has_stdin: bool = False,
    descriptors: Sequence[int] = (),
) -> asyncio.subprocess.Process:
    """Start a command; raise CommandUnusable if the program does not exist or may not be executed."""
    stdin = asyncio.subprocess.DEVNULL
    if has_stdin:
        stdin = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(
            *arguments,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd,
            env=environment,
            start_new_session=True,
            pass_fds=descriptors,
        )
    except FileNotFoundError:
        raise program_not_found(arguments[0]) from None
    except (PermissionError, ValueError) as error:
        raise CommandUnusable(f"program cannot be executed: {arguments[0]!r}: {error}") from None


def program_not_found(program: str) -> CommandUnusable:
    """Return the error of a program that does not exist."""
    return CommandUnusable(
        f"program not found on this worker: {program!r}; install it or correct PATH"
    )


async def read_output(
    ctx: Context, running: asyncio.subprocess.Process, stdin: str | None = None
) -> tuple[OutputTail, OutputTail]:
    """Log what the command writes until it exits; return the end of its stdout and stderr."""
    stdout, stderr = OutputTail(ctx, "info"), OutputTail(ctx, "error")
    assert running.stdout is not None
    assert running.stderr is not None
    streams = {
        asyncio.create_task(stdout.read(running.stdout)),
        asyncio.create_task(stderr.read(running.stderr)),
    }
    if stdin is not None:
        streams.add(asyncio.create_task(_feed(running, stdin)))
    try:
        pending = streams
        while pending and running.returncode is None:
            _, pending = await asyncio.wait(pending, timeout=CHECK_SECONDS)
        if pending:
            # The command has exited, but a process that it started may hold its pipes; it is killed with the group.
            await asyncio.wait(pending, timeout=LINGER_SECONDS)
    finally:
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    return stdout, stderr


async def _feed(running: asyncio.subprocess.Process, text: str) -> None:
    assert running.stdin is not None
    # A command may exit without reading all of its input.
    with suppress(BrokenPipeError, ConnectionResetError):
        running.stdin.write(text.encode())
        await running.stdin.drain()
        running.stdin.close()
        await running.stdin.wait_closed()


async def terminate(running: asyncio.subprocess.Process) -> None:
    """Terminate the whole process group; kill it if it does not exit in time."""
    _signal(running.pid, signal.SIGTERM)
    try:
        async with asyncio.timeout(TERMINATE_SECONDS):
            await running.wait()
    except TimeoutError:
        pass
    finally:
        _signal(running.pid, signal.SIGKILL)
    # The attempt is reported as stopped, and the next one may start, when the command is gone.
    with suppress(TimeoutError):
        async with asyncio.timeout(KILL_SECONDS_MAX):
            await running.wait()


def exit_code_error(program: str, code: int, stderr: OutputTail, cause: str = "") -> ExitCodeError:
    """Return the error of a command that failed, with the end of its stderr."""
    message = f"{program} {_describe_exit(code)}{cause}"
    if end := stderr.text().strip()[-STDERR_SHOWN_CHARS:]:
        message += f": {end}"
    return ExitCodeError(message)


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
