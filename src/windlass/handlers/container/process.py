"""Runs a container's command as a child process of the worker, for machines without a cluster."""

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from windlass.core.errors import ParamsInvalid
from windlass.handlers.command import (
    check_command,
    exit_code_error,
    program_not_found,
    read_output,
    start,
    terminate,
)
from windlass.handlers.container.identity import identity_of
from windlass.handlers.container.params import (
    RESULT_BYTES_MAX,
    ContainerParams,
    is_success,
    parse_bytes,
    parse_result,
)
from windlass.ports.handler import Context

# Between SIGXCPU and SIGKILL.
CPU_GRACE_SECONDS = 5
# Sets the limits, then becomes the program, so that no Python code runs between fork and exec.
LIMITED = 'ulimit -c 0; {limits} exec "$@"'


async def run_as_process(
    ctx: Context, params: ContainerParams, passed: Mapping[str, str]
) -> dict[str, Any]:
    """Run the command to its end; return the output of its node."""
    arguments = _arguments(params)
    with tempfile.TemporaryFile() as result:
        variables = identity_of(ctx).variables(f"/dev/fd/{result.fileno()}")
        environment = {**passed, **variables, **_environment(params)}
        command = _limited(arguments, params, environment)
        began = time.monotonic()
        running = await start(
            command, environment, params.working_dir, descriptors=[result.fileno()]
        )
        ctx.adopt(running.pid)
        ctx.started()
        start_seconds = round(time.monotonic() - began, 3)
        # Known in every case, including failures; a process needs no calls of the cluster.
        ctx.meta.update(runtime="process", pod_start_seconds=start_seconds, api_calls=0)
        try:
            stdout, stderr = await read_output(ctx, running)
        except asyncio.CancelledError:
            await terminate(running)
            raise
        message = _read_result(result)
    code = await running.wait()
    ctx.meta["exit_code"] = code
    if not is_success(params, code):
        cause = ""
        if code == -signal.SIGXCPU:
            cause = f" (it used more than cpu_seconds {params.cpu_seconds})"
        raise exit_code_error(arguments[0], code, stderr, cause)
    output: dict[str, Any] = {
        "exit_code": code,
        "runtime": "process",
        "pod_start_seconds": start_seconds,
        "api_calls": 0,
        "result": parse_result(message, _last_line(stdout.text())),
    }
    if stdout.truncated or stderr.truncated:
        output["truncated"] = True
    return output


def _arguments(params: ContainerParams) -> list[str]:
    for name, value in (
        ("pod_spec", params.pod_spec),
        ("volumes", params.volumes),
        ("env_from", params.env_from),
    ):
        if value:
            raise ParamsInvalid(
                f"{name} is not supported with runtime 'process'; use runtime 'kubernetes'"
            )
    if not params.command:
        raise ParamsInvalid(
            "command is missing; runtime 'process' runs a command of this machine, not an image"
        )
    if params.working_dir is not None and not Path(params.working_dir).is_dir():
        raise ParamsInvalid(
            f"working_dir is not a directory on this worker: {params.working_dir!r}"
        )
    return check_command([*params.command, *(params.args or [])])


def _environment(params: ContainerParams) -> dict[str, str]:
    environment: dict[str, str] = {}
    for name, value in params.env.items():
        if not isinstance(value, str):
            raise ParamsInvalid(
                f"env.{name} refers to the cluster; with runtime 'process' its value must be a string"
            )
        if not name or "=" in name or "\0" in name + value:
            raise ParamsInvalid(
                f"invalid environment variable: {name!r}; '=' in the name and NUL are not allowed"
            )
        environment[name] = value
    return environment


def _limited(
    arguments: list[str], params: ContainerParams, environment: Mapping[str, str]
) -> list[str]:
    """Return the command, wrapped so that its resource limits apply from the start."""
    limits: list[str] = []
    if params.cpu_seconds is not None:
        if params.cpu_seconds < 1:
            raise ParamsInvalid(f"invalid cpu_seconds: {params.cpu_seconds}; must be at least 1")
        hard_limit = params.cpu_seconds + CPU_GRACE_SECONDS
        limits.append(f"ulimit -S -t {params.cpu_seconds} && ulimit -H -t {hard_limit} &&")
    memory = params.resources.limits.get("memory")
    if memory is not None:
        kibibytes = max(1, parse_bytes(memory, "resources.limits.memory") // 1024)
        limits.append(f"ulimit -v {kibibytes} &&")
    if not limits:
        return arguments
    # The wrapping shell would report a missing program only by an exit code.
    program = arguments[0]
    if os.sep in program:
        program = str(Path(params.working_dir or os.curdir, program))
    if shutil.which(program, path=environment.get("PATH", os.defpath)) is None:
        raise program_not_found(arguments[0])
    return ["/bin/sh", "-c", LIMITED.format(limits=" ".join(limits)), "sh", *arguments]


def _read_result(result: IO[bytes]) -> str:
    result.seek(0)
    return result.read(RESULT_BYTES_MAX).decode("utf-8", "replace")


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2].strip()
