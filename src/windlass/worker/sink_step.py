"""The last step of an attempt with a sink: its output is written before it is reported, or the attempt failed."""

from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import Raw

from windlass.core.changes import Task
from windlass.core.errors import FatalError
from windlass.core.messages import Failed, Succeeded
from windlass.ports.sink import Sinks
from windlass.worker.outcomes import error_of

# Every error of a sink has a type that begins so.
SINK_FAILED = "sink_failed"
_META = "sink"


class UnknownSinkTool(FatalError):
    """A task names a sink that this worker does not have."""

    type = "tool_unknown"


async def written(sinks: Sinks, task: Task, outcome: Succeeded) -> Succeeded:
    """The outcome, with what the sink did in its meta. Raises whatever the sink raises."""
    order = task.sink
    if order is None:
        return outcome
    sink = sinks.get(order.tool)
    if sink is None:
        like = get_close_matches(order.tool, list(sinks), n=1) or sorted(sinks)
        raise UnknownSinkTool(f"this worker has no sink {order.tool!r}: it has {', '.join(like) or 'none'}")
    receipt = await sink.write(order, outcome.output, task.idempotency_key or task.task_id)
    meta: dict[str, Any] = {}
    if outcome.meta is not None:
        meta.update(msgspec.json.decode(outcome.meta, type=dict[str, Raw]))
    meta[_META] = {"tool": order.tool, "rows": receipt.rows, "skipped": receipt.skipped}
    return Succeeded(outcome.output, Raw(msgspec.json.encode(meta)))


def sink_failed(error: BaseException, meta: Raw | None) -> Failed:
    """The outcome of an attempt whose output could not be written."""
    found = error_of(error)
    return Failed(msgspec.structs.replace(found, type=f"{SINK_FAILED}.{found.type}"), meta)
