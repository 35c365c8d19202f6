"""The handler that simulations run, and the log of its executions."""

import asyncio
from typing import Any

import msgspec
from msgspec import Raw

from simulation import workflow_drafts
from simulation.faults import current_process
from simulation.history import Execution
from simulation.workflow_drafts import HandlerScript
from windlass.core.errors import FatalError, RetryableError
from windlass.core.loop_state import read_progress
from windlass.ports.handler import Context, Handler, Mode
from windlass.stores.memory.store import MemoryStore
from windlass.testing.virtual_time import VirtualClock

# A second delivery that was under way when the result of the first was accepted may start within this time.
REPEATED_SECONDS_MAX = 0.5
# Polling ends with this attempt.
POLLS_MAX = 4

_decode_params = msgspec.json.Decoder(dict[str, Any]).decode
_NO_ELEMENT = object()


class ProcessDied(RetryableError):
    """The process of an isolated handler died."""

    type = "worker_lost"


class PodEvicted(RetryableError):
    """The cluster evicted the pod of a handler."""

    type = "pod_evicted"


class ExecutionLog:
    """All executions of a simulation."""

    def __init__(self, store: MemoryStore, clock: VirtualClock) -> None:
        self.executions: list[Execution] = []
        # When the broker accepted the result of a task (loop time), and the tasks that ran again after that.
        self.accepted: dict[str, float] = {}
        self.repeated: list[str] = []
        self.task_ids: dict[str, None] = {}
        # Whether a handler killed its worker.
        self.has_killed = False
        self._store = store
        self._clock = clock

    def handler(self) -> Handler:
        """Return the scripted handler."""
        return Handler(
            workflow_drafts.HANDLER, self._handle, Mode.ASYNC, _params, takes_context=True
        )

    async def _handle(self, ctx: Context, params: dict[str, Any]) -> object:
        script = msgspec.convert(params["script"], HandlerScript)
        element, query = params.get("element", _NO_ELEMENT), params.get("query")
        execution = self._begin(ctx, params["reads"], element, params.get("index"))
        number = len(self.executions)
        if query is not None:
            execution.params = Raw(msgspec.json.encode(params))
        try:
            action = await self._act(script, ctx, execution)
        except asyncio.CancelledError:
            execution.outcome = "stopped"
            execution.finished_at = execution.finished_at or self._clock.now()
            raise
        except (ValueError, RetryableError, FatalError):
            execution.outcome = "failed"
            execution.finished_at = self._clock.now()
            raise
        process = current_process()
        if process is not None and process.is_dead:
            raise asyncio.CancelledError
        output = None
        if action != workflow_drafts.NULL:
            output = _output(script, execution, number, element, query)
        execution.outcome = execution.outcome or "succeeded"
        execution.finished_at = execution.finished_at or self._clock.now()
        execution.output = Raw(msgspec.json.encode(output))
        return output

    def _begin(
        self, ctx: Context, reads: dict[str, Any], element: object, index: int | None
    ) -> Execution:
        execution = Execution(
            job_id=ctx.job_id,
            node_id=ctx.node_id,
            attempt=ctx.attempt,
            worker_id=ctx.worker_id,
            idempotency_key=ctx.idempotency_key,
            started_at=self._clock.now(),
            reads={name: Raw(msgspec.json.encode(value)) for name, value in reads.items()},
            dispatch_was_durable=self._is_dispatched(ctx, index),
            index=index,
            element=None if element is _NO_ELEMENT else Raw(msgspec.json.encode(element)),
        )
        self.executions.append(execution)
        self.task_ids[ctx.task_id] = None
        now = asyncio.get_running_loop().time()
        if now - self.accepted.get(ctx.task_id, now) > REPEATED_SECONDS_MAX:
            self.repeated.append(ctx.task_id)
        return execution

    def _is_dispatched(self, ctx: Context, index: int | None) -> bool:
        """Return whether the dispatch of this attempt is stored."""
        row = self._store.node_row(ctx.job_id, ctx.node_id)
        if row is None or index is None:
            return row is not None and row.attempt >= ctx.attempt
        progress = read_progress(row.progress)
        if ctx.attempt <= progress.attempts:
            # An attempt of an earlier generation.
            return True
        known = self._store.iteration_row(ctx.job_id, row.number, progress.generation, index)
        if known is not None:
            return known.attempt >= ctx.attempt
        # The iterations of a completed loop have rows; one that began and has no row is in its first attempt.
        return index < progress.begun and ctx.attempt <= progress.attempts + 1

    async def _act(self, script: HandlerScript, ctx: Context, execution: Execution) -> str:
        action = script.action(ctx.attempt, execution.index)
        seconds = script.work_seconds
        if action in (workflow_drafts.SLOW, workflow_drafts.STUBBORN):
            seconds = ctx.timeout_seconds * 3
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if action != workflow_drafts.STUBBORN:
                raise
            execution.outcome, execution.finished_at = "stopped", self._clock.now()
            await asyncio.sleep(seconds * 4)
        match action:
            case workflow_drafts.ERROR:
                raise ValueError("scripted error")
            case workflow_drafts.FLAKY:
                raise RetryableError("scripted temporary error")
            case workflow_drafts.LATER:
                raise RetryableError("scripted retry_after", retry_after=0.7)
            case workflow_drafts.LIMITED:
                raise RetryableError("scripted rate limit", status=429, retry_after=0.4)
            case workflow_drafts.FATAL:
                raise FatalError("scripted fatal error")
            case workflow_drafts.DIES:
                raise ProcessDied("scripted death")
            case workflow_drafts.EVICTED:
                raise PodEvicted("scripted eviction")
            case workflow_drafts.KILLS:
                self._kill_worker()
            case _:
                pass
        return action

    def _kill_worker(self) -> None:
        process = current_process()
        if process is not None:
            self.has_killed = True
            process.kill()
        raise asyncio.CancelledError("the worker was killed")


def _output(
    script: HandlerScript, run: Execution, number: int, element: Any, query: dict[str, Any] | None
) -> object:
    output: dict[str, Any] = {
        "node": run.node_id,
        "attempt": run.attempt,
        "run": number,
        "flag": script.flag,
    }
    if script.width:
        output["list"] = [number * 10 + place for place in range(script.width)]
    if script.bulk:
        output["bulk"] = "x" * script.bulk
    if query is not None:
        page = query["page"]
        output["found"] = {"items": [f"{number}.{page}.{place}" for place in range(page % 3)]}
        output["next"] = page + 1
        output["marks"] = {f"after {page}": number}
        output["more"] = page < script.pages if script.pages else run.attempt < POLLS_MAX
    elif isinstance(element, list):
        return [{**output, "of": one} for one in element]  # pyright: ignore[reportUnknownVariableType]
    return output


def _params(encoded: bytes) -> dict[str, Any]:
    return {"params": _decode_params(encoded)}
