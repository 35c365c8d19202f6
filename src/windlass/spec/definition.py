"""A checked workflow: the content of a document, independent of its spelling, with compiled templates."""

from typing import Any

from msgspec import Struct

from windlass.core.plan import (
    DEFAULT_QUEUE,
    DEFAULT_REDELIVERIES,
    DEFAULT_TIMEOUT_SECONDS,
    LoopPlan,
    NodeKind,
    RetryOnError,
    RetryOnSuccess,
    SinkPlan,
)
from windlass.core.runs.rules import Action, Constraints, RunRetry
from windlass.core.templates.template import Template


class NodeDefinition(Struct, frozen=True, kw_only=True, gc=False):
    """One node. `dependencies` combines all edges to it that the document declares, sorted."""

    id: str
    kind: NodeKind = NodeKind.TASK
    handler: str = ""
    dependencies: tuple[str, ...] = ()
    # None: the node gets the job's input.
    params: Template | None = None
    when: Template | None = None
    queue: str = DEFAULT_QUEUE
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    # None: a task may wait for a worker without limit.
    start_timeout: float | None = None
    priority: int = 0
    allow_failure: bool = False
    run_if_skipped: bool = False
    on_error: RetryOnError | None = None
    on_success: RetryOnSuccess | None = None
    # How often a task is dispatched again after its worker was lost; separate from the author's attempts.
    max_redeliveries: int = DEFAULT_REDELIVERIES
    loop: LoopPlan | None = None
    sink: SinkPlan | None = None


class ScheduleDefinition(Struct, frozen=True, kw_only=True):
    """When runs start. Exactly one of `cron`, `every` and `at` is set."""

    cron: str | None = None
    every: float | None = None
    # ISO 8601 times; without an offset they are local times of the time zone.
    at: str | None = None
    anchor: str | None = None
    timezone: str = "UTC"
    enabled: bool = True
    jitter: float = 0.0
    # The input of scheduled jobs.
    input: dict[str, Any] = {}


class IncomingHookDefinition(Struct, frozen=True, kw_only=True):
    """Webhooks that may start the workflow: those signed with the secret of this name."""

    secret: str


class Definition(Struct, frozen=True, kw_only=True):
    """The whole workflow. Nodes are in topological order; nodes of one level are ordered by id."""

    workflow_id: str
    nodes: list[NodeDefinition]
    description: str | None = None
    # A JSON Schema; None accepts any object.
    input: dict[str, Any] | None = None
    on_failure: str = "fail_fast"
    timeout_seconds: float | None = None
    schedule: ScheduleDefinition | None = None
    constraints: Constraints | None = None
    actions: dict[str, Action] = {}
    run_retry: RunRetry | None = None
    hook: IncomingHookDefinition | None = None
    # The alias of submits without a version; None for the newest version.
    default_alias: str | None = None
