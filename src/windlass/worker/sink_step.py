"""Writes the output of an attempt to its sink; an output that cannot be written fails the attempt."""

from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import Raw

from windlass.core.changes import Task
from windlass.core.errors import FatalError
from windlass.core.messages import Failed, Succeeded
from windlass.ports.sink import Sinks
from windlass.worker.outcomes import error_of

# The prefix of the error types of sinks.
SINK_FAILED = "sink_failed"
_META = "sink"


class UnknownSinkTool(FatalError):
    """The worker does not have the sink of the task."""

    type = "tool_unknown"


async def write_to_sink(sinks: Sinks, task: Task, outcome: Succeeded) -> Succeeded:
    """Write the output; return the outcome with the receipt in its meta. Raises the errors of the sink."""
    spec = task.sink
    if spec is None:
        return outcome
    sink = sinks.get(spec.tool)
    if sink is None:
        known = get_close_matches(spec.tool, list(sinks), n=1) or sorted(sinks)
        raise UnknownSinkTool(
            f"unknown sink: {spec.tool!r}; this worker has {', '.join(known) or 'none'}"
        )
    receipt = await sink.write(spec, outcome.output, task.idempotency_key or task.task_id)
    meta: dict[str, Any] = {}
    if outcome.meta is not None:
        meta.update(msgspec.json.decode(outcome.meta, type=dict[str, Raw]))
    meta[_META] = {"tool": spec.tool, "rows": receipt.rows, "skipped": receipt.skipped}
    return Succeeded(outcome.output, Raw(msgspec.json.encode(meta)))


def sink_failed(error: BaseException, meta: Raw | None) -> Failed:
    """Return the outcome of an attempt whose output could not be written."""
    found = error_of(error)
    return Failed(msgspec.structs.replace(found, type=f"{SINK_FAILED}.{found.type}"), meta)
