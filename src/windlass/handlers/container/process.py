"""Runs a container's command as a child process of the worker: the same node on a machine without a cluster."""

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
    STDERR_SHOWN_CHARS,
    CommandUnusable,
    ExitCodeError,
    checked_command,
    how_ended,
    outputs,
    start,
    terminate,
)
from windlass.handlers.container.identity import identity_of
from windlass.handlers.container.params import RESULT_BYTES_MAX, ContainerParams, bytes_of, means_success, result_of
from windlass.ports.handler import Context

# The program is told that its processor time is over, and killed if it goes on for so long.
CPU_GRACE_SECONDS = 5
# Sets the limits and becomes the program: nothing runs between a fork and its exec that could lock up.
LIMITED = 'ulimit -c 0; {limits} exec "$@"'


async def run_as_process(ctx: Context, order: ContainerParams, passed: Mapping[str, str]) -> dict[str, Any]:
    """Run the command to its end; the output of its node."""
    arguments = _arguments(order)
    with tempfile.TemporaryFile() as result:
        variables = identity_of(ctx).variables(f"/dev/fd/{result.fileno()}")
        environment = {**passed, **variables, **_environment(order)}
        command = _limited(arguments, order, environment)
        began = time.monotonic()
        running = await start(command, environment, order.working_dir, descriptors=[result.fileno()])
        ctx.adopt(running.pid)
        ctx.started()
        ctx.meta["runtime"] = "process"
        start_seconds = round(time.monotonic() - began, 3)
        try:
            stdout, stderr = await outputs(ctx, running)
        except asyncio.CancelledError:
            await terminate(running)
            raise
        message = _message(result)
    code = running.returncode if running.returncode is not None else await running.wait()
    ctx.meta["exit_code"] = code
    if not means_success(order, code):
        shown = stderr.text().strip()[-STDERR_SHOWN_CHARS:]
        why = f" (it used more than cpu_seconds {order.cpu_seconds})" if code == -signal.SIGXCPU else ""
        raise ExitCodeError(f"{arguments[0]} {how_ended(code)}{why}" + (f": {shown}" if shown else ""))
    truncated = stdout.truncated or stderr.truncated
    return {
        "exit_code": code,
        "runtime": "process",
        "pod_start_seconds": start_seconds,
        "api_calls": 0,
        "result": result_of(message, stdout.text().rstrip().rpartition("\n")[2].strip()),
        **({"truncated": True} if truncated else {}),
    }


def _arguments(order: ContainerParams) -> list[str]:
    if order.pod_spec is not None:
        raise ParamsInvalid("pod_spec is given, but runtime is 'process': a pod needs runtime 'kubernetes'")
    if order.volumes or order.env_from:
        what = "volumes" if order.volumes else "env_from"
        raise ParamsInvalid(f"{what} is given, but runtime is 'process', which has none: use runtime 'kubernetes'")
    if not order.command:
        raise ParamsInvalid(
            "command is missing: runtime 'process' runs a command of this machine, and knows nothing of images"
        )
    if order.working_dir is not None and not Path(order.working_dir).is_dir():
        raise ParamsInvalid(f"working_dir {order.working_dir!r} is no folder on this worker")
    return checked_command([*order.command, *(order.args or [])])


def _environment(order: ContainerParams) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in order.env.items():
        if not isinstance(value, str):
            raise ParamsInvalid(f"env.{name} refers to the cluster, but runtime is 'process': give it as text")
        if not name or "=" in name or "\0" in name + value:
            raise ParamsInvalid(f"env has {name!r}, which cannot be the name of a variable, or a NUL in its value")
        given[name] = value
    return given


def _limited(arguments: list[str], order: ContainerParams, environment: Mapping[str, str]) -> list[str]:
    """The command, with the limits that are given in force before its first step."""
    limits: list[str] = []
    if order.cpu_seconds is not None:
        if order.cpu_seconds < 1:
            raise ParamsInvalid(f"cpu_seconds is {order.cpu_seconds}: 1 is the least")
        limits.append(f"ulimit -S -t {order.cpu_seconds} && ulimit -H -t {order.cpu_seconds + CPU_GRACE_SECONDS} &&")
    if (memory := order.resources.limits.get("memory")) is not None:
        kibibytes = max(1, bytes_of(memory, "resources.limits.memory") // 1024)
        limits.append(f"ulimit -v {kibibytes} &&")
    if not limits:
        return arguments
    # Behind the limits a missing program would only be an exit code.
    folder = order.working_dir or os.curdir
    program = arguments[0] if os.sep not in arguments[0] else str(Path(folder, arguments[0]))
    if shutil.which(program, path=environment.get("PATH", os.defpath)) is None:
        raise CommandUnusable(f"no program {arguments[0]!r} on this worker's PATH")
    return ["/bin/sh", "-c", LIMITED.format(limits=" ".join(limits)), "sh", *arguments]


def _message(result: IO[bytes]) -> str:
    result.seek(0)
    return result.read(RESULT_BYTES_MAX).decode("utf-8", "replace")
