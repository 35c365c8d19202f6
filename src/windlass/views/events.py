"""Rendering of events: the stored event with its metadata and context.

Context and most metadata are derived on read, because inputs and recorded outputs do not change.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import JobRecord
from windlass.core.plan import NodeKind, NodePlan, Plan
from windlass.core.sanitize import sanitized_json, truncated
from windlass.core.states import FINAL_LABELS
from windlass.ports.store import Store
from windlass.ports.store.jobs import NodeBrief
from windlass.views.jobs import event_view
from windlass.views.loops import iterations_total
from windlass.wire import EventView, instant

# A larger input is replaced by a marker with its size, without parsing it.
INPUT_BYTES_MAX = 256 * 1024
# How many upstream nodes a context summarizes, the nearest first.
STEPS_MAX = 50
MESSAGE_CHARS_MAX = 500

STATUSES = {"completed": "success", "failed": "error"}
DATA_TYPES = {
    "{": "dict",
    "[": "list",
    '"': "str",
    "t": "bool",
    "f": "bool",
    "n": "NoneType",
    "@": "unknown",
}

# The ends of attempts that succeeded, among them pages: a failure has an error.
_SUCCESSES = frozenset({
    "node_completed", "node_retrying", "iteration_completed", "iteration_retrying",
})  # fmt: skip

_FLOAT_CHARACTERS = frozenset(".eE")

_encode = msgspec.json.Encoder().encode


class _EventError(Struct, frozen=True):
    """The part of an error that the metadata repeats."""

    message: str = ""
    traceback: str | None = None


class _EventData(Struct, frozen=True):
    """The part of an event's data that the metadata needs."""

    attempt_number: int = 1
    error: _EventError | None = None
    delay_seconds: float | None = None
    iterator_name: str = ""
    mode: str = ""
    total_iterations: int = 0
    successful: int = 0
    success_rate: float = 1.0


_data_decoder = msgspec.json.Decoder(_EventData)
_meta_decoder = msgspec.json.Decoder(dict[str, Raw])


class EventRenderer:
    """Renders the events of one job, a page at a time."""

    def __init__(
        self, store: Store, plan: Plan, job: JobRecord, *, with_context: bool = True
    ) -> None:
        self._store = store
        self._plan = plan
        self._job = job
        self._with_context = with_context
        self._context_head = b""
        if with_context:
            self._context_head = _context_head(job)

    async def render(self, events: Sequence[Event]) -> list[EventView]:
        """Return the views of events. Data that several events share is read once per page."""
        index = self._plan.index
        numbers = {index[event.node_id] for event in events if event.node_id in index}
        upstream: dict[int, list[int]] = {}
        if self._with_context:
            upstream = {number: upstream_tasks(self._plan, number) for number in numbers}
        needed = {number for number in numbers if self._plan.nodes[number].loop is not None}
        needed.update(*upstream.values())
        briefs = await self._read_briefs(needed)
        page = _RenderedPage(self._plan, briefs, upstream, self._context_head)
        return [self._view(event, page) for event in events]

    async def _read_briefs(self, numbers: Collection[int]) -> dict[int, NodeBrief]:
        if not numbers:
            return {}
        briefs = await self._store.jobs.node_briefs(self._job.spec.job_id, sorted(numbers))
        return {brief.number: brief for brief in briefs}

    def _view(self, event: Event, page: "_RenderedPage") -> EventView:
        job_id = self._job.spec.job_id
        meta = event.meta
        # Events of the job itself have no node.
        number = self._plan.index.get(event.node_id or "")
        if number is not None:
            meta = event_meta(
                job_id, event, self._plan.nodes[number], page.iterations_total(number)
            )
        return event_view(job_id, event, meta, self._context(event, number, page))

    def _context(self, event: Event, number: int | None, page: "_RenderedPage") -> Raw | None:
        if not self._with_context:
            return None
        if number is None or event.context is not None:
            return event.context
        return page.context(number, event.at)


class _RenderedPage:
    """The contexts and loop sizes that the events of one page share."""

    def __init__(
        self,
        plan: Plan,
        briefs: Mapping[int, NodeBrief],
        upstream: Mapping[int, Sequence[int]],
        head: bytes,
    ) -> None:
        self._plan = plan
        self._briefs = briefs
        self._upstream = upstream
        self._head = head
        self._totals: dict[int, int | None] = {}
        # By node: when the last upstream node finished, and the context from then on.
        self._contexts: dict[int, tuple[int, Raw]] = {}

    def iterations_total(self, number: int) -> int | None:
        """Return the number of iterations of a node's loop, if it is known."""
        if number not in self._totals:
            self._totals[number] = self._read_total(number)
        return self._totals[number]

    def _read_total(self, number: int) -> int | None:
        brief = self._briefs.get(number)
        if brief is None:
            return None
        total = iterations_total(brief.status, brief.progress, brief.meta)
        if total < 0:
            return None
        return total

    def context(self, number: int, at: int) -> Raw:
        """Return the context of a node's event: the upstream nodes that had finished before it."""
        if number not in self._contexts:
            finished = self._finished(number)
            last_at = max(map(_completed_at, finished), default=0)
            self._contexts[number] = last_at, self._encoded(number, finished)
        last_at, context = self._contexts[number]
        if last_at <= at:
            return context
        before = [brief for brief in self._finished(number) if _completed_at(brief) <= at]
        return self._encoded(number, before)

    def _finished(self, number: int) -> list[NodeBrief]:
        steps = self._upstream[number][:STEPS_MAX]
        briefs = [self._briefs[step] for step in steps if step in self._briefs]
        return [brief for brief in briefs if brief.status in FINAL_LABELS]

    def _encoded(self, number: int, finished: Iterable[NodeBrief]) -> Raw:
        steps: dict[str, object] = {
            self._plan.nodes[brief.number].id: result_summary(brief) for brief in finished
        }
        if len(self._upstream[number]) > STEPS_MAX:
            steps["_truncated"] = True
        return Raw(self._head + _encode(steps) + b"}")


def _completed_at(brief: NodeBrief) -> int:
    return brief.completed_at or 0


def upstream_tasks(plan: Plan, number: int) -> list[int]:
    """Return the upstream nodes that run tasks, nearest first, at most one more than STEPS_MAX."""
    seen = {number}
    found: list[int] = []
    queue = deque([number])
    while queue:
        for parent in plan.parents[queue.popleft()]:
            if parent in seen:
                continue
            seen.add(parent)
            queue.append(parent)
            if plan.nodes[parent].kind is NodeKind.TASK:
                found.append(parent)
                if len(found) > STEPS_MAX:
                    return found
    return found


def _context_head(job: JobRecord) -> bytes:
    """Return the encoded start that the contexts of all events of a job share."""
    spec = job.spec
    size = len(memoryview(spec.input))
    workload = truncated(size)
    if size <= INPUT_BYTES_MAX:
        workload = sanitized_json(spec.input)
    head = {
        "job_id": spec.job_id,
        "workflow_id": spec.workflow_id,
        "version": spec.version,
        "workload": workload,
    }
    return _encode(head)[:-1] + b',"_step_results":'


def result_summary(brief: NodeBrief) -> dict[str, object]:
    """Return the summary of a node's result, without its data."""
    head = brief.head or "null"
    return {
        "has_data": head != "null",
        "status": STATUSES.get(brief.status, brief.status),
        "data_type": data_type(head),
    }


def data_type(head: str) -> str:
    """Return the type of an output by its first characters."""
    if head[:1] in DATA_TYPES:
        return DATA_TYPES[head[:1]]
    if _FLOAT_CHARACTERS.isdisjoint(head):
        return "int"
    return "float"


def event_meta(job_id: str, event: Event, node: NodePlan, total: int | None) -> Raw | None:
    """Return the stored metadata of an event with what follows from its data and its node."""
    stored = _meta_decoder.decode(event.meta or b"{}")
    data = _data_decoder.decode(event.data or b"{}")
    added: dict[str, Any] = {}
    if event.index is not None and node.loop is not None:
        added["iterator"] = {
            "parent_execution_id": job_id,
            "iteration_index": event.index,
            "total_iterations": total,
            "iterator_name": node.loop.element,
            "mode": node.loop.mode,
        }
    if data.error is not None:
        added.update(_failure_meta(event, data.error))
    elif event.type in _SUCCESSES:
        added["execution"] = {**_section(stored, "execution"), "completed_at": instant(event.at)}
    elif event.type.startswith("iterator_") and event.data is not None:
        added.update(_iterator_meta(job_id, event, data))
    if data.delay_seconds is not None and (data.error is not None or data.delay_seconds > 0):
        added["retry"] = {**_section(stored, "retry"), **_delay_meta(event, data.delay_seconds)}
    if not added:
        return event.meta
    return Raw(_encode({**stored, **added}))


def _failure_meta(event: Event, error: _EventError) -> dict[str, Any]:
    described = {
        "message": error.message[:MESSAGE_CHARS_MAX],
        "has_stack_trace": bool(error.traceback),
        "failed_at": instant(event.at),
    }
    return {"error": described}


def _delay_meta(event: Event, delay_seconds: float) -> dict[str, Any]:
    due_at = event.at + round(delay_seconds * MICROSECONDS)
    return {"backoff_seconds": delay_seconds, "scheduled_at": instant(due_at)}


def _iterator_meta(job_id: str, event: Event, data: _EventData) -> dict[str, Any]:
    if event.type == "iterator_started":
        iterator = {
            "parent_execution_id": job_id,
            "total_iterations": data.total_iterations,
            "iterator_name": data.iterator_name,
            "mode": data.mode,
        }
        return {"iterator": iterator}
    return {
        "total_iterations": data.total_iterations,
        "completed_iterations": data.successful,
        "success_rate": data.success_rate,
        "completed_at": instant(event.at),
    }


def _section(stored: Mapping[str, Raw], name: str) -> dict[str, Any]:
    if name not in stored:
        return {}
    return msgspec.json.decode(stored[name], type=dict[str, Any])
