"""The handler that simulations run, and the ledger in which it writes down every execution."""

import asyncio
from typing import Any

import msgspec
from msgspec import Raw

from windlass.core.errors import FatalError, RetryableError
from windlass.ports.handler import Context, Handler, Mode
from windlass.testing import workload
from windlass.testing.faults import current_life
from windlass.testing.history import Execution
from windlass.testing.memory_store import MemoryStore
from windlass.testing.virtual import VirtualClock
from windlass.testing.workload import Script

# A second delivery that was on its way when the first one's result came may still begin within this time.
REPEATED_SECONDS_MAX = 0.5

_decode_params = msgspec.json.Decoder(dict[str, Any]).decode


class ProcessDied(RetryableError):
    """The process under a handler died: what an isolated handler's worker reports."""

    type = "worker_lost"


class Ledger:
    """All executions of a simulation."""

    def __init__(self, store: MemoryStore, clock: VirtualClock) -> None:
        self.executions: list[Execution] = []
        # When the broker accepted the result of a task, in the loop's time, and tasks that ran again after that.
        self.accepted: dict[str, float] = {}
        self.repeated: list[str] = []
        self._store = store
        self._clock = clock

    def handler(self) -> Handler:
        """The scripted handler."""
        return Handler(workload.HANDLER, self._handle, Mode.ASYNC, _params, takes_context=True)

    async def _handle(self, ctx: Context, script: Script, reads: dict[str, Any], broken: object = None) -> object:
        execution = self._begin(ctx, reads)
        number = len(self.executions)
        try:
            output = await self._act(script, ctx, number, execution)
        except asyncio.CancelledError:
            execution.outcome = "stopped"
            raise
        except (ValueError, RetryableError, FatalError):
            execution.outcome = "failed"
            raise
        life = current_life()
        if life is not None and life.dead:
            raise asyncio.CancelledError
        execution.outcome = execution.outcome or "succeeded"
        execution.finished_at = self._clock.now()
        execution.output = Raw(msgspec.json.encode(output))
        return output

    def _begin(self, ctx: Context, reads: dict[str, Any]) -> Execution:
        row = self._store.node_row(ctx.job_id, ctx.node_id)
        execution = Execution(
            ctx.job_id,
            ctx.node_id,
            ctx.attempt,
            ctx.worker_id,
            ctx.idempotency_key,
            self._clock.now(),
            reads={name: Raw(msgspec.json.encode(value)) for name, value in reads.items()},
            dispatch_was_durable=row is not None and row.attempt >= ctx.attempt,
        )
        self.executions.append(execution)
        now = asyncio.get_running_loop().time()
        if now - self.accepted.get(ctx.task_id, now) > REPEATED_SECONDS_MAX:
            self.repeated.append(ctx.task_id)
        return execution

    async def _act(self, script: Script, ctx: Context, number: int, execution: Execution) -> object:
        act = script.act(ctx.attempt)
        seconds = script.work_seconds
        if act in (workload.SLOW, workload.STUBBORN):
            seconds = ctx.timeout_seconds * 3
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if act != workload.STUBBORN:
                raise
            execution.outcome = "stopped"
            await asyncio.sleep(seconds * 4)
        match act:
            case workload.NULL:
                return None
            case workload.ERROR:
                raise ValueError("scripted error")
            case workload.FLAKY:
                raise RetryableError("scripted flake")
            case workload.LATER:
                raise RetryableError("scripted wait", retry_after=0.7)
            case workload.FATAL:
                raise FatalError("scripted end")
            case workload.DIES:
                raise ProcessDied("scripted death")
            case _:
                return {"node": ctx.node_id, "attempt": ctx.attempt, "run": number, "flag": script.flag}


def _params(encoded: bytes) -> dict[str, Any]:
    params = _decode_params(encoded)
    return {**params, "script": msgspec.convert(params["script"], Script)}
