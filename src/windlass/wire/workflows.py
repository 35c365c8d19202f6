"""Requests and views of workflows: versions, validation, aliases, statistics."""

from typing import Annotated

from msgspec import Meta, Raw, Struct, field

from windlass.core.fields import Version
from windlass.wire.values import ALIAS_TARGETS_MAX, ProblemItem, Weight, null


class WarningView(Struct, frozen=True):
    """A valid but suspicious part of a document."""

    path: str
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None


class WeightedVersion(Struct, frozen=True):
    """A version that an alias points to and its share of the submits."""

    version: Version
    weight: Weight = 100


class AliasRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The target of an alias: one version, or several with weights."""

    version: Version | None = None
    targets: Annotated[list[WeightedVersion], Meta(max_length=ALIAS_TARGETS_MAX)] = []


class RecentJobView(Struct, frozen=True):
    """The summary of a job."""

    job_id: str
    status: str
    created_at: str
    started_at: str | None = None
    completed_at: str | None = None


class WorkflowView(Struct, frozen=True):
    """One version of a workflow. Lists include `recent` jobs, newest first, on request."""

    workflow_id: str
    version: int
    digest: str
    created_at: str
    description: str | None = None
    aliases: dict[str, list[WeightedVersion]] = {}
    definition: Raw = field(default_factory=null)
    warnings: list[WarningView] = []
    recent: list[RecentJobView] = []


class ValidationView(Struct, frozen=True):
    """The errors and warnings of a document."""

    valid: bool
    workflow_id: str | None
    errors: list[ProblemItem] = []
    warnings: list[WarningView] = []


class DurationsView(Struct, frozen=True):
    """Percentiles and the maximum of durations, in seconds."""

    p50: float
    p95: float
    max: float


class NodeStatisticsView(Struct, frozen=True):
    """Statistics of a node over the last jobs, and its share of the critical path of the median job."""

    node_id: str
    runs: int
    failed: int
    retried: int
    duration_seconds: DurationsView | None
    share_of_critical_path: float


class WorkflowStatisticsView(Struct, frozen=True):
    """Statistics of the last jobs of a workflow; the critical path is that of the median job."""

    workflow_id: str
    jobs: int
    completed: int
    failed: int
    cancelled: int
    duration_seconds: DurationsView | None
    nodes: list[NodeStatisticsView]
    critical_path: list[str]
