"""Handlers for tests with real processes: each execution is written to a file of its worker, at its begin and its end.

The worker's folder has one file a process, `ledger/PID`, of JSON lines that are only ever appended to.
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

FOLDER = "ledger"


class Ended(Struct, frozen=True):
    """The second line of an execution. JSON values are texts here: decoders know no optional raw ones."""

    run: str
    finished_at: int
    outcome: str
    output: str | None = None


class Begun(Struct, frozen=True):
    """The first line of an execution, under a name of its own."""

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
        """Both lines together."""
        execution = Execution(
            self.job_id, self.node_id, self.attempt, self.worker_id, self.idempotency_key, self.started_at,
            reads={name: Raw(text.encode()) for name, text in self.reads.items()},
            index=self.index, element=_raw(self.element), params=_raw(self.params),
        )  # fmt: skip
        if ended is not None:
            execution.finished_at, execution.outcome = ended.finished_at, ended.outcome
            execution.output = _raw(ended.output)
        return execution


def _raw(text: str | None) -> Raw | None:
    return None if text is None else Raw(text.encode())


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


class LedgerFile:
    """The file of this process. A line is one write, so a kill leaves whole lines."""

    def __init__(self) -> None:
        Path(FOLDER).mkdir(exist_ok=True)
        self._file = os.open(f"{FOLDER}/{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, line: Begun | Ended) -> None:
        """Append a line."""
        os.write(self._file, msgspec.json.encode(line) + b"\n")

    async def aclose(self) -> None:
        """Close the file."""
        os.close(self._file)


def _now() -> int:
    return time.time_ns() // 1000


class _Run:
    """One execution, from its first line to its second."""

    def __init__(self, ctx: Context, params: dict[str, Any]) -> None:
        self.id = uuid4().hex
        self._file = ctx.resource(FOLDER, LedgerFile)
        reads: dict[str, Any] = params.get("reads") or {}
        self._file.write(Begun(
            self.id, ctx.job_id, ctx.node_id, ctx.attempt, ctx.worker_id, ctx.idempotency_key, _now(),
            reads={name: _text(value) for name, value in reads.items()},
            index=params.get("index"),
            element=_text(params["element"]) if "element" in params else None,
            params=_text(params) if "query" in params else None,
        ))  # fmt: skip

    def end(self, outcome: str, output: object = None) -> None:
        self._file.write(Ended(self.id, _now(), outcome, _text(output) if outcome == "succeeded" else None))


def _act(acts: list[str], attempt: int) -> None:
    match acts[min(attempt, len(acts)) - 1]:
        case "error":
            raise ValueError("scripted error")
        case "flaky":
            raise RetryableError("scripted flake")
        case "fatal":
            raise FatalError("scripted end")
        case _:
            pass


@handler("work")
async def work(ctx: Context, **params: Any) -> object:
    """Wait for `seconds`, then do what `acts` says for this attempt."""
    run = _Run(ctx, params)
    try:
        await asyncio.sleep(params.get("seconds", 0))
        _act(params.get("acts", ["ok"]), ctx.attempt)
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
    run = _Run(ctx, {})
    _burn(seconds)
    run.end("succeeded", ctx.worker_id)
    return ctx.worker_id


@handler("burn_in_loop")
async def burn_in_loop(ctx: Context, seconds: float) -> str:
    """Keep the worker's event loop busy: what a handler must not do, and does."""
    run = _Run(ctx, {})
    _burn(seconds)
    run.end("succeeded", ctx.worker_id)
    return ctx.worker_id


@handler("block_in_loop")
async def block_in_loop(ctx: Context, seconds: float) -> str:
    """Keep the worker's event loop waiting."""
    run = _Run(ctx, {})
    # On purpose.
    time.sleep(seconds)  # noqa: ASYNC251
    run.end("succeeded", ctx.worker_id)
    return ctx.worker_id


def _burn(seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    value = 1
    while time.monotonic() < ends_at:
        value = (value * 3) % (1 << 4096)
