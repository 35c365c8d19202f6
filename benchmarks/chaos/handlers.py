"""Handlers for tests with real processes, which log the start and the end of each execution to a file.

Each process appends JSON lines to its own file, `executions/PID`, in the working directory of the worker.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import Raw, Struct

from simulation.history import Execution
from windlass.core.errors import FatalError, RetryableError
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler

FOLDER = "executions"


class Ended(Struct, frozen=True):
    """The end of an execution. JSON values are strings, because msgspec cannot decode an optional Raw."""

    run: str
    finished_at: int
    outcome: str
    output: str | None = None


class Started(Struct, frozen=True):
    """The start of an execution."""

    run: str
    job_id: str
    node_id: str
    attempt: int
    worker_id: str
    idempotency_key: str
    started_at: int
    reads: dict[str, str]
    index: int | None = None
    element: str | None = None
    params: str | None = None

    def execution(self, ended: Ended | None) -> Execution:
        """Return the execution with its end."""
        execution = Execution(
            job_id=self.job_id,
            node_id=self.node_id,
            attempt=self.attempt,
            worker_id=self.worker_id,
            idempotency_key=self.idempotency_key,
            started_at=self.started_at,
            reads={name: Raw(text.encode()) for name, text in self.reads.items()},
            index=self.index,
            element=_raw(self.element),
            params=_raw(self.params),
        )
        if ended is not None:
            execution.finished_at, execution.outcome = ended.finished_at, ended.outcome
            execution.output = _raw(ended.output)
        return execution


def _raw(text: str | None) -> Raw | None:
    return None if text is None else Raw(text.encode())


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


class LogFile:
    """The log of this process. Each line is one write, so a killed process leaves complete lines."""

    def __init__(self) -> None:
        Path(FOLDER).mkdir(exist_ok=True)
        self._file = os.open(
            f"{FOLDER}/{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
        )

    def write(self, line: Started | Ended) -> None:
        """Append a line."""
        os.write(self._file, msgspec.json.encode(line) + b"\n")

    async def aclose(self) -> None:
        """Close the file."""
        os.close(self._file)


def _now() -> int:
    return time.time_ns() // 1000


class _Execution:
    """One execution, which logs its start and its end."""

    def __init__(self, ctx: Context, params: dict[str, Any]) -> None:
        self.id = uuid4().hex
        self._file = ctx.resource(FOLDER, LogFile)
        reads: dict[str, Any] = params.get("reads") or {}
        started = Started(
            run=self.id,
            job_id=ctx.job_id,
            node_id=ctx.node_id,
            attempt=ctx.attempt,
            worker_id=ctx.worker_id,
            idempotency_key=ctx.idempotency_key,
            started_at=_now(),
            reads={name: _text(value) for name, value in reads.items()},
            index=params.get("index"),
            element=_text(params["element"]) if "element" in params else None,
            params=_text(params) if "query" in params else None,
        )
        self._file.write(started)

    def end(self, outcome: str, output: object = None) -> None:
        self._file.write(
            Ended(self.id, _now(), outcome, _text(output) if outcome == "succeeded" else None)
        )


def _act(actions: list[str], attempt: int) -> None:
    match actions[min(attempt, len(actions)) - 1]:
        case "error":
            raise ValueError("scripted error")
        case "flaky":
            raise RetryableError("scripted temporary error")
        case "fatal":
            raise FatalError("scripted fatal error")
        case _:
            pass


@handler("work")
async def work(ctx: Context, **params: Any) -> object:
    """Wait for `seconds`, then take the action of this attempt."""
    run = _Execution(ctx, params)
    try:
        await asyncio.sleep(params.get("seconds", 0))
        _act(params.get("actions", ["ok"]), ctx.attempt)
    except asyncio.CancelledError:
        run.end("stopped")
        raise
    except Exception:
        run.end("failed")
        raise
    output: dict[str, Any] = {
        "job": ctx.job_id,
        "node": ctx.node_id,
        "attempt": ctx.attempt,
        "run": run.id,
        "key": ctx.idempotency_key,
    }
    if "width" in params:
        output["list"] = list(range(params["width"]))
    if "query" in params:
        page = params["query"]["page"]
        output |= {"items": [f"{run.id}.{page}"], "next": page + 1, "more": page < params["pages"]}
    run.end("succeeded", output)
    return output


@handler("burn_in_thread")
def burn_in_thread(ctx: Context, seconds: float) -> str:
    """Keep a thread and the interpreter busy."""
    run = _Execution(ctx, {})
    _burn(seconds)
    run.end("succeeded", ctx.worker_id)
    return ctx.worker_id


@handler("burn_in_loop")
async def burn_in_loop(ctx: Context, seconds: float) -> str:
    """Keep the worker's event loop busy, which handlers should not do."""
    run = _Execution(ctx, {})
    _burn(seconds)
    run.end("succeeded", ctx.worker_id)
    return ctx.worker_id


@handler("block_in_loop")
async def block_in_loop(ctx: Context, seconds: float) -> str:
    """Block the worker's event loop."""
    run = _Execution(ctx, {})
    # On purpose.
    time.sleep(seconds)  # noqa: ASYNC251
    run.end("succeeded", ctx.worker_id)
    return ctx.worker_id


def _burn(seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    value = 1
    while time.monotonic() < ends_at:
        value = (value * 3) % (1 << 4096)
