"""The handler for commands."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from windlass.core.errors import ParamsInvalid
from windlass.handlers.command import check_command, exit_code_error, read_output, start, terminate
from windlass.handlers.config import HandlerConfig
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler


@handler("shell")
async def shell(
    ctx: Context,
    config: HandlerConfig,
    command: Annotated[
        list[str] | str,
        Meta(
            description='a list of arguments; a string is rejected. To use a shell: `["sh", "-c", "…"]`'
        ),
    ],
    env: Annotated[
        dict[str, str] | None,
        Meta(description="variables in addition to the few that are passed on"),
    ] = None,
    cwd: Annotated[str | None, Meta(description="working directory")] = None,
    stdin: Annotated[str | None, Meta(description="standard input")] = None,
    exit_codes: Annotated[
        list[int] | None, Meta(description="exit codes that mean success; default `[0]`")
    ] = None,
) -> dict[str, Any]:
    """Run a command; return its exit code and its output."""
    arguments = _check(command, cwd)
    environment = {**config.command_environment(), **(env or {})}
    running = await start(arguments, environment, cwd, has_stdin=stdin is not None)
    ctx.adopt(running.pid)
    try:
        stdout, stderr = await read_output(ctx, running, stdin)
    except asyncio.CancelledError:
        await terminate(running)
        raise
    code = await running.wait()
    ctx.meta["exit_code"] = code
    accepted = [0]
    if exit_codes is not None:
        accepted = exit_codes
    if code not in accepted:
        raise exit_code_error(arguments[0], code, stderr)
    output = {"exit_code": code, "stdout": stdout.text(), "stderr": stderr.text()}
    if stdout.truncated or stderr.truncated:
        output["truncated"] = True
    return output


def _check(command: list[str] | str, cwd: str | None) -> list[str]:
    if isinstance(command, str):
        raise ParamsInvalid(
            f'command is a string: {command!r}; write a list of arguments, or ["sh", "-c", …] to use a shell'
        )
    if cwd is not None and not Path(cwd).is_dir():
        raise ParamsInvalid(f"cwd is not a directory on this worker: {cwd!r}")
    return check_command(command)
