"""Rows of the store as shapes of the API. Commands that read the embedded database use them too."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from windlass.core.changes import NodeRow
from windlass.core.errors import Problem
from windlass.core.events import Event
from windlass.core.jobs import JobRecord
from windlass.ports.overview import JobBrief
from windlass.ports.store import AliasTarget, StoredLog, StoredWorkflow
from windlass.wire import AliasTarget as AliasTargetShape
from windlass.wire import Event as EventShape
from windlass.wire import Job, Log, Loop, Node, RecentJob, Warned, Workflow, instant

NULL = Raw(b"null")


class _Described(Struct):
    """The part of a definition that lists show."""

    description: str | None = None


_described = msgspec.json.Decoder(_Described)


def has_ended(job: JobRecord) -> bool:
    """Whether nothing more happens to the job by itself."""
    return job.state.is_final


def job_shape(job: JobRecord, result: Raw = NULL, nodes: list[Node] | None = None) -> Job:
    """A job, with its result and its nodes where they are known."""
    return Job(
        job_id=job.spec.job_id,
        workflow_id=job.spec.workflow_id,
        version=job.spec.version,
        status=job.state.status,
        input_data=job.spec.input,
        result_data=result,
        error=job.state.error or NULL,
        created_at=instant(job.spec.created_at) or "",
        started_at=instant(job.state.started_at),
        completed_at=instant(job.state.completed_at),
        scheduled_at=instant(job.spec.scheduled_at),
        priority=job.spec.priority,
        idempotency_key=job.spec.idempotency_key,
        nodes=nodes,
    )


def recent_shape(job: JobBrief) -> RecentJob:
    """A job in short."""
    created_at = instant(job.created_at) or ""
    return RecentJob(job.job_id, job.status, created_at, instant(job.started_at), instant(job.completed_at))


def node_shape(row: NodeRow, output: Raw, loop: Loop | None = None) -> Node:
    """A node that has begun."""
    return Node(
        row.node_id,
        row.status,
        row.attempt,
        output,
        row.error or NULL,
        row.meta or NULL,
        instant(row.started_at),
        instant(row.completed_at),
        loop,
    )


def pending_node(node_id: str) -> Node:
    """A node without a row: it has not begun."""
    return Node(node_id, "pending", 0, NULL, NULL, NULL)


def event_shape(job_id: str, event: Event, meta: Raw | None, context: Raw | None) -> EventShape:
    """An event of a job, with what is told about it besides what was stored."""
    return EventShape(
        event_id=event_id(job_id, event.seq),
        seq=event.seq,
        event_type=event.type,
        job_id=job_id,
        node_id=event.node_id,
        index=event.index,
        timestamp=instant(event.at) or "",
        data=event.data or NULL,
        meta=meta or NULL,
        context=context or NULL,
        parent_event_id=None if event.parent_seq is None else event_id(job_id, event.parent_seq),
    )


def event_id(job_id: str, seq: int) -> str:
    """What an event is called among those of all jobs."""
    return f"{job_id}:{seq}"


def log_shape(stored: StoredLog) -> Log:
    """A line of a log."""
    line = stored.line
    at = instant(line.at) or ""
    return Log(stored.log_id, line.job_id, line.node_id, line.index, line.attempt, at, line.level, line.message)


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
