"""The handler for commands: an argument list, and back come its exit code and its bounded output."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windlass.core.errors import ParamsInvalid
from windlass.handlers.command import (
    STDERR_SHOWN_CHARS,
    ExitCodeError,
    checked_command,
    how_ended,
    outputs,
    start,
    terminate,
)
from windlass.ports.handler import ENVIRONMENT_PASSED, Context, Handler
from windlass.ports.handler_declaration import declared, handler


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
        running = await start(arguments, {**passed, **(env or {})}, cwd, has_stdin=stdin is not None)
        ctx.adopt(running.pid)
        try:
            stdout, stderr = await outputs(ctx, running, stdin)
        except asyncio.CancelledError:
            await terminate(running)
            raise
        code = running.returncode if running.returncode is not None else await running.wait()
        ctx.meta["exit_code"] = code
        if code not in (exit_codes if exit_codes is not None else [0]):
            shown = stderr.text().strip()[-STDERR_SHOWN_CHARS:]
            raise ExitCodeError(f"{arguments[0]} {how_ended(code)}" + (f": {shown}" if shown else ""))
        output = {"exit_code": code, "stdout": stdout.text(), "stderr": stderr.text()}
        return {**output, "truncated": True} if stdout.truncated or stderr.truncated else output

    return declared(shell)


def _checked(command: list[str] | str, cwd: str | None) -> list[str]:
    if isinstance(command, str):
        raise ParamsInvalid(
            f'command {command!r} is text: write a list of arguments, or ["sh", "-c", …] if a shell must read it'
        )
    if cwd is not None and not Path(cwd).is_dir():
        raise ParamsInvalid(f"cwd {cwd!r} is no folder on this worker")
    return checked_command(command)
