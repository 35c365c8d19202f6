"""The shapes of workflows: versions, what is said about documents, aliases, statistics."""

from typing import Annotated

from msgspec import Meta, Raw, Struct, field

from windlass.wire.values import ALIAS_TARGETS_MAX, ProblemItem, Version, Weight, null


class Warned(Struct, frozen=True):
    """Something that a document may do but hardly means."""

    path: str
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None


class AliasTarget(Struct, frozen=True):
    """A version that an alias points at, and its share of the submits."""

    version: Version
    weight: Weight = 100


class RecentJob(Struct, frozen=True):
    """A job in short."""

    job_id: str
    status: str
    created_at: str
    started_at: str | None = None
    completed_at: str | None = None


class Workflow(Struct, frozen=True):
    """One version of a workflow; lists tell of its `recent` jobs, newest first, as far as they are asked to."""

    workflow_id: str
    version: int
    digest: str
    created_at: str
    description: str | None = None
    aliases: dict[str, list[AliasTarget]] = {}
    definition: Raw = field(default_factory=null)
    warnings: list[Warned] = []
    recent: list[RecentJob] = []


class Durations(Struct, frozen=True):
    """How long things took, in seconds: half of them no longer than `p50`, all but a twentieth no longer than `p95`."""

    p50: float
    p95: float
    max: float


class NodeStatistics(Struct, frozen=True):
    """How a node did in the last jobs of its workflow, and its share of what the median job waited for."""

    node_id: str
    runs: int
    failed: int
    retried: int
    duration_seconds: Durations | None
    share_of_critical_path: float


class WorkflowStatistics(Struct, frozen=True):
    """What the last jobs of a workflow tell; the critical path is that of the median job."""

    workflow_id: str
    jobs: int
    completed: int
    failed: int
    cancelled: int
    duration_seconds: Durations | None
    nodes: list[NodeStatistics]
    critical_path: list[str]


class Validation(Struct, frozen=True):
    """What is to be said about a document that was only checked."""

    valid: bool
    workflow_id: str | None
    errors: list[ProblemItem] = []
    warnings: list[Warned] = []


class AliasRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Where an alias points: one version, or several with weights."""

    version: Version | None = None
    targets: Annotated[list[AliasTarget], Meta(max_length=ALIAS_TARGETS_MAX)] = []
