"""Views of jobs, nodes, events, logs and workflows, made from rows of the store."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Raw, Struct

from windlass.core.changes import NodeRow
from windlass.core.errors import Problem
from windlass.core.events import Event
from windlass.core.jobs import JobRecord, JobSpec, JobState
from windlass.core.json_text import NULL
from windlass.ports.store.logs import StoredLog
from windlass.ports.store.overview import JobBrief
from windlass.ports.store.workflows import AliasTarget, StoredWorkflow
from windlass.wire import (
    EventView,
    JobView,
    LogView,
    LoopView,
    NodeView,
    RecentJobView,
    WarningView,
    WeightedVersion,
    WorkflowView,
    instant,
)

# A view shows the fields of a job that it declares by the same name.
SPEC_FIELDS = tuple(name for name in JobView.__struct_fields__ if name in JobSpec.__struct_fields__)
STATE_FIELDS = tuple(
    name for name in JobView.__struct_fields__ if name in JobState.__struct_fields__
)


class _DefinitionHead(Struct):
    """The part of a definition that a view needs."""

    description: str | None = None


_definition_head = msgspec.json.Decoder(_DefinitionHead)


def job_view(job: JobRecord, result: Raw = NULL, nodes: list[NodeView] | None = None) -> JobView:
    """Return the view of a job, with its result and nodes if given."""
    shown = _shown(job.spec, SPEC_FIELDS) | _shown(job.state, STATE_FIELDS)
    shown["error"] = job.state.error or NULL
    return JobView(input_data=job.spec.input, result_data=result, nodes=nodes, **shown)


def _shown(part: JobSpec | JobState, names: Sequence[str]) -> dict[str, Any]:
    """Return the values of fields as a view has them: instants as text, all others as they are."""
    values: dict[str, Any] = {}
    for name in names:
        value = getattr(part, name)
        if name.endswith("_at"):
            value = instant(value)
        values[name] = value
    return values


def recent_job_view(job: JobBrief) -> RecentJobView:
    """Return the summary of a job."""
    return RecentJobView(
        job_id=job.job_id,
        status=job.status,
        created_at=instant(job.created_at),
        started_at=instant(job.started_at),
        completed_at=instant(job.completed_at),
    )


def node_view(row: NodeRow, output: Raw, loop: LoopView | None = None) -> NodeView:
    """Return the view of a node that has started."""
    return NodeView(
        node_id=row.node_id,
        status=row.status,
        attempt=row.attempt,
        output=output,
        error=row.error or NULL,
        meta=row.meta or NULL,
        started_at=instant(row.first_started_at or row.started_at),
        completed_at=instant(row.completed_at),
        attempt_started_at=instant(row.started_at),
        loop=loop,
    )


def pending_node(node_id: str) -> NodeView:
    """Return the view of a node that has not started."""
    return NodeView(
        node_id=node_id, status="pending", attempt=0, output=NULL, error=NULL, meta=NULL
    )


def event_view(job_id: str, event: Event, meta: Raw | None, context: Raw | None) -> EventView:
    """Return the view of an event with the given metadata and context."""
    parent_event_id = None
    if event.parent_seq is not None:
        parent_event_id = event_id(job_id, event.parent_seq)
    return EventView(
        event_id=event_id(job_id, event.seq),
        seq=event.seq,
        event_type=event.type,
        job_id=job_id,
        node_id=event.node_id,
        index=event.index,
        timestamp=instant(event.at),
        data=event.data or NULL,
        meta=meta or NULL,
        context=context or NULL,
        parent_event_id=parent_event_id,
    )


def event_id(job_id: str, seq: int) -> str:
    """Return the id of an event, unique among all jobs."""
    return f"{job_id}:{seq}"


def log_view(stored: StoredLog) -> LogView:
    """Return the view of a log line."""
    line = stored.line
    return LogView(
        log_id=stored.log_id,
        job_id=line.job_id,
        node_id=line.node_id,
        index=line.index,
        attempt=line.attempt,
        timestamp=instant(line.at),
        level=line.level,
        message=line.message,
    )


def workflow_view(
    stored: StoredWorkflow,
    aliases: Mapping[str, Sequence[AliasTarget]] = MappingProxyType({}),
    warnings: Iterable[Problem] = (),
    *,
    with_definition: bool = True,
) -> WorkflowView:
    """Return the view of a version of a workflow."""
    definition = NULL
    if with_definition:
        definition = stored.definition
    return WorkflowView(
        workflow_id=stored.workflow_id,
        version=stored.version,
        digest=stored.digest,
        created_at=instant(stored.created_at),
        description=_definition_head.decode(stored.definition).description,
        aliases={name: _weighted_versions(targets) for name, targets in aliases.items()},
        definition=definition,
        warnings=[warning_view(problem) for problem in warnings],
    )


def warning_view(problem: Problem) -> WarningView:
    """Return the view of a warning about a document."""
    return WarningView(problem.path, problem.message, problem.hint, problem.line, problem.column)


def _weighted_versions(targets: Sequence[AliasTarget]) -> list[WeightedVersion]:
    return [WeightedVersion(target.version, target.weight) for target in targets]
