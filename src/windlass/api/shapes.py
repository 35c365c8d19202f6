"""Rows of the store as shapes of the API."""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from windlass.api.problems import invalid
from windlass.api.requests import shown
from windlass.core.changes import Event, NodeRow
from windlass.core.errors import Problem
from windlass.core.plan import Plan
from windlass.core.states import JOB_FINAL, JOB_STATES
from windlass.ports.store import AliasTarget, StoredJob, StoredWorkflow
from windlass.wire import AliasTarget as AliasTargetShape
from windlass.wire import Event as EventShape
from windlass.wire import Job, Node, Warned, Workflow, instant

NULL = Raw(b"null")


class _Described(Struct):
    """The part of a definition that lists show."""

    description: str | None = None


_described = msgspec.json.Decoder(_Described)


def has_ended(job: StoredJob) -> bool:
    """Whether nothing more happens to the job by itself."""
    return JOB_STATES[job.status] in JOB_FINAL


def job_shape(job: StoredJob, rows: Sequence[NodeRow] = (), nodes: list[Node] | None = None) -> Job:
    """A job; its result is made of the rows once it has ended."""
    result = NULL
    if has_ended(job) and rows:
        result = Raw(msgspec.json.encode({row.node_id: row.output for row in rows if row.output is not None}))
    return Job(
        job_id=job.job_id,
        workflow_id=job.workflow_id,
        version=job.version,
        status=job.status,
        input_data=job.input,
        result_data=result,
        error=job.error or NULL,
        created_at=instant(job.created_at) or "",
        started_at=instant(job.started_at),
        completed_at=instant(job.completed_at),
        scheduled_at=instant(job.scheduled_at),
        priority=job.priority,
        idempotency_key=job.idempotency_key,
        nodes=nodes,
    )


def node_shape(row: NodeRow) -> Node:
    """A node that has begun."""
    return Node(
        row.node_id,
        row.status,
        row.attempt,
        row.output or NULL,
        row.error or NULL,
        row.meta or NULL,
        instant(row.started_at),
        instant(row.completed_at),
    )


def pending_node(node_id: str) -> Node:
    """A node without a row: it has not begun."""
    return Node(node_id, "pending", 0, NULL, NULL, NULL)


def node_shapes(plan: Plan, rows: Iterable[NodeRow], first: int = 0, limit: int | None = None) -> list[Node]:
    """The nodes of a job in the order of its plan, or a part of them."""
    found = {row.node_id: row for row in rows}
    wanted = plan.nodes[first:] if limit is None else plan.nodes[first : first + limit]
    return [node_shape(found[node.id]) if node.id in found else pending_node(node.id) for node in wanted]


def event_shape(job_id: str, event: Event) -> EventShape:
    """An event of a job."""
    return EventShape(
        event_id=f"{job_id}:{event.seq}",
        seq=event.seq,
        event_type=event.type,
        job_id=job_id,
        node_id=event.node_id,
        index=event.index,
        timestamp=instant(event.at) or "",
        data=event.data or NULL,
        meta=event.meta or NULL,
        context=event.context or NULL,
        parent_event_id=None if event.parent_seq is None else f"{job_id}:{event.parent_seq}",
    )


def workflow_shape(
    stored: StoredWorkflow,
    aliases: Mapping[str, Sequence[AliasTarget]] | None = None,
    warnings: Iterable[Problem] = (),
    *,
    whole: bool = True,
) -> Workflow:
    """A version of a workflow; lists leave its definition out."""
    return Workflow(
        workflow_id=stored.workflow_id,
        version=stored.version,
        digest=stored.digest,
        created_at=instant(stored.created_at) or "",
        description=_described.decode(stored.definition).description,
        aliases={
            name: [AliasTargetShape(target.version, target.weight) for target in targets]
            for name, targets in (aliases or {}).items()
        },
        definition=stored.definition if whole else NULL,
        warnings=[warned(problem) for problem in warnings],
    )


def warned(problem: Problem) -> Warned:
    """A warning about a document."""
    return Warned(problem.path, problem.message, problem.hint, problem.line, problem.column)


def cursor_of(place: Any) -> str:
    """Where a list goes on, for its next call only: what is in it may change."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def place_of(cursor: str, kind: Any) -> Any:
    """What `cursor_of` was given; Refusal for a cursor that nobody here made."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.b64decode(padded, b"-_", validate=True), type=kind)
    except (binascii.Error, UnicodeEncodeError, msgspec.DecodeError):
        raise invalid("cursor", f"{shown(cursor)} is no cursor", "take it from `next_cursor` as it is") from None
