"""Events as they are told: what was stored, and what follows from the rest of what is known about their job.

Context and most of the metadata are not stored with each event: inputs and recorded outputs do not change.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import JobRecord
from windlass.core.plan import NodeKind, NodePlan, Plan
from windlass.core.retries import retry_meta
from windlass.core.sanitize import sanitized_json, truncated
from windlass.ports.store import NodeBrief, Store
from windlass.views.jobs import event_shape
from windlass.views.loops import total_of
from windlass.wire import Event as EventShape
from windlass.wire import instant

# A larger input is told by its size, without a look into it.
INPUT_BYTES_MAX = 256 * 1024
# Of the nodes before one, so many are summed up, the nearest first.
STEPS_MAX = 50
MESSAGE_CHARS_MAX = 500

STATUSES = {"completed": "success", "failed": "error"}
ENDED = frozenset({"completed", "failed", "skipped", "cancelled"})
DATA_TYPES = {"{": "dict", "[": "list", '"': "str", "t": "bool", "f": "bool", "n": "NoneType", "@": "unknown"}

_encode = msgspec.json.Encoder().encode


class _Error(Struct, frozen=True):
    """The part of an error that the metadata repeats."""

    message: str = ""
    traceback: str | None = None


class _Data(Struct, frozen=True):
    """The part of an event's data that the metadata is made of."""

    attempt_number: int = 1
    error: _Error | None = None
    delay_seconds: float | None = None
    iterator_name: str = ""
    mode: str = ""
    total_iterations: int = 0
    successful: int = 0
    success_rate: float = 1.0


_data = msgspec.json.Decoder(_Data)
_meta = msgspec.json.Decoder(dict[str, Raw])


class EventView:
    """Tells the events of one job, a page at a time. Whatever is common to many of them is made once a page."""

    def __init__(self, store: Store, plan: Plan, job: JobRecord, *, with_context: bool = True) -> None:
        self._store = store
        self._plan = plan
        self._job = job
        self._with_context = with_context
        self._head = _head(job) if with_context else b""

    async def told(self, events: Sequence[Event]) -> list[EventShape]:
        """The events with their metadata and context."""
        nodes = {event.node_id for event in events if event.node_id is not None}
        numbers = {self._plan.index[node_id] for node_id in nodes if node_id in self._plan.index}
        wanted = {number for number in numbers if self._plan.nodes[number].loop is not None}
        steps = {number: steps_before(self._plan, number) for number in numbers} if self._with_context else {}
        wanted.update(*steps.values())
        found = await self._store.node_briefs(self._job.spec.job_id, sorted(wanted)) if wanted else ()
        page = _Page(self._plan, {brief.number: brief for brief in found}, steps, self._head)
        return [self._one(event, page) for event in events]

    def _one(self, event: Event, page: "_Page") -> EventShape:
        job_id = self._job.spec.job_id
        number = None if event.node_id is None else self._plan.index.get(event.node_id)
        if number is None:
            return event_shape(job_id, event, event.meta, event.context if self._with_context else None)
        meta = told_meta(job_id, event, self._plan.nodes[number], page.total(number))
        if not self._with_context:
            return event_shape(job_id, event, meta, None)
        return event_shape(job_id, event, meta, event.context or page.context(number, event.at))


class _Page:
    """What the events of one page share."""

    def __init__(
        self, plan: Plan, briefs: Mapping[int, NodeBrief], steps: Mapping[int, Sequence[int]], head: bytes
    ) -> None:
        self._plan = plan
        self._briefs = briefs
        self._steps = steps
        self._head = head
        self._totals: dict[int, int | None] = {}
        # By node: when the last of those before it ended, and the context from then on.
        self._contexts: dict[int, tuple[int, Raw]] = {}

    def total(self, number: int) -> int | None:
        """How many iterations a node's loop has, as far as that is known."""
        if number not in self._totals:
            brief = self._briefs.get(number)
            total = -1 if brief is None else total_of(brief.status, brief.progress, brief.meta)
            self._totals[number] = total if total >= 0 else None
        return self._totals[number]

    def context(self, number: int, at: int) -> Raw:
        """The context of an event of a node: what had ended before it, in short."""
        if number not in self._contexts:
            ended = self._ended(number)
            last = max((brief.completed_at or 0 for brief in ended), default=0)
            self._contexts[number] = last, self._encoded(number, ended)
        last, context = self._contexts[number]
        if last <= at:
            return context
        return self._encoded(number, [one for one in self._ended(number) if (one.completed_at or 0) <= at])

    def _ended(self, number: int) -> list[NodeBrief]:
        before = (self._briefs.get(step) for step in self._steps[number][:STEPS_MAX])
        return [brief for brief in before if brief is not None and brief.status in ENDED]

    def _encoded(self, number: int, ended: Iterable[NodeBrief]) -> Raw:
        steps: dict[str, object] = {self._plan.nodes[brief.number].id: summary(brief) for brief in ended}
        if len(self._steps[number]) > STEPS_MAX:
            steps["_truncated"] = True
        return Raw(self._head + _encode(steps) + b"}")


def steps_before(plan: Plan, number: int) -> list[int]:
    """The nodes before one that do work, the nearest first: no more than are summed up, and one."""
    seen = {number}
    found: list[int] = []
    waiting = deque([number])
    while waiting:
        for parent in plan.parents[waiting.popleft()]:
            if parent in seen:
                continue
            seen.add(parent)
            waiting.append(parent)
            if plan.nodes[parent].kind is NodeKind.TASK:
                found.append(parent)
                if len(found) > STEPS_MAX:
                    return found
    return found


def _head(job: JobRecord) -> bytes:
    """What the contexts of all events of a job begin with."""
    size = len(memoryview(job.spec.input))
    workload = sanitized_json(job.spec.input) if size <= INPUT_BYTES_MAX else truncated(size)
    known = {
        "job_id": job.spec.job_id,
        "workflow_id": job.spec.workflow_id,
        "version": job.spec.version,
        "workload": workload,
    }
    return _encode(known)[:-1] + b',"_step_results":'


def summary(brief: NodeBrief) -> dict[str, object]:
    """A node's result without its data."""
    head = brief.head
    has_data = head is not None and head != "null"
    status = STATUSES.get(brief.status, brief.status)
    return {"has_data": has_data, "status": status, "data_type": data_type(head or "null")}


def data_type(head: str) -> str:
    """What kind of value an output is, by its first characters."""
    found = DATA_TYPES.get(head[:1])
    return found or ("float" if any(character in head for character in ".eE") else "int")


def told_meta(job_id: str, event: Event, node: NodePlan, total: int | None) -> Raw | None:
    """An event's metadata: as stored, with what its data and its node tell."""
    kind = event.type
    loop = node.loop
    added: dict[str, Any] = {}
    if event.index is not None and loop is not None:
        added["iterator"] = {
            "parent_execution_id": job_id,
            "iteration_index": event.index,
            "total_iterations": total,
            "iterator_name": loop.element,
            "mode": loop.mode,
        }
    stored = {} if event.meta is None else _meta.decode(event.meta)
    if kind.endswith(("_failed", "_retrying")):
        _add_failure(event, stored, added)
    elif kind in ("node_completed", "iteration_completed"):
        added["execution"] = {**_part(stored, "execution"), "completed_at": instant(event.at)}
        if node.on_success is not None and "retry" not in stored:
            data = _Data() if event.data is None else _data.decode(event.data)
            added["retry"] = retry_meta(node, data.attempt_number, None)
    elif kind.startswith("iterator_") and event.data is not None:
        _add_iterator(job_id, event, event.data, added)
    return Raw(_encode({**stored, **added})) if added else event.meta


def _add_failure(event: Event, stored: Mapping[str, Raw], added: dict[str, Any]) -> None:
    data = _Data() if event.data is None else _data.decode(event.data)
    if data.error is not None:
        added["error"] = {
            "message": data.error.message[:MESSAGE_CHARS_MAX],
            "has_stack_trace": bool(data.error.traceback),
            "failed_at": instant(event.at),
        }
    if data.error is not None and data.delay_seconds is not None:
        due_at = event.at + round(data.delay_seconds * MICROSECONDS)
        delay = {"backoff_seconds": data.delay_seconds, "scheduled_at": instant(due_at)}
        added["retry"] = {**_part(stored, "retry"), **delay}


def _add_iterator(job_id: str, event: Event, data: Raw, added: dict[str, Any]) -> None:
    told = _data.decode(data)
    if event.type == "iterator_started":
        added["iterator"] = {
            "parent_execution_id": job_id,
            "total_iterations": told.total_iterations,
            "iterator_name": told.iterator_name,
            "mode": told.mode,
        }
    else:
        added["total_iterations"] = told.total_iterations
        added["completed_iterations"] = told.successful
        added["success_rate"] = told.success_rate
        added["completed_at"] = instant(event.at)


def _part(stored: Mapping[str, Raw], name: str) -> dict[str, Any]:
    return msgspec.json.decode(stored[name], type=dict[str, Any]) if name in stored else {}
