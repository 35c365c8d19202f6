"""A workflow compiled for execution: integers, adjacency, counts and templates, shared by all jobs of a version."""

from array import array
from enum import IntEnum, unique

from msgspec import Raw, Struct
from msgspec.structs import force_setattr

from windlass.core.runs.containers import CONTAINER
from windlass.core.runs.rules import RunRules
from windlass.core.templates.template import Template
from windlass.core.webhooks import HANDLER as WEBHOOK

# Handlers whose results say more than an output: the core keeps records of them.
WITH_RECORDS = frozenset({CONTAINER, WEBHOOK})


@unique
class NodeKind(IntEnum):
    """What a node is. START and END never reach a worker."""

    TASK = 0
    START = 1
    END = 2


@unique
class Backoff(IntEnum):
    """How the wait between attempts grows."""

    FIXED = 0
    LINEAR = 1
    EXPONENTIAL = 2


class RetryOnError(Struct, frozen=True, gc=False):
    """The author's rule for attempts that fail. `attempts_max` counts all attempts, the first one too."""

    attempts_max: int = 1
    backoff: Backoff = Backoff.EXPONENTIAL
    initial_delay_seconds: float = 1.0
    multiplier: float = 2.0
    max_delay_seconds: float = 300.0
    # The share of the wait that chance may add to it.
    jitter: float = 0.1
    when: Template | None = None


NO_RETRY = RetryOnError()


@unique
class Collect(IntEnum):
    """What becomes of the outputs of several calls."""

    # The arrays at the rule's path, one after the other.
    APPEND = 0
    # The last call's output.
    REPLACE = 1
    # A list of all outputs.
    COLLECT = 2


class RetryOnSuccess(Struct, frozen=True, gc=False):
    """The author's rule for another call after one that succeeded: pages and polling."""

    # Over `response`, the output of the last call.
    condition: Template
    # Merged into the params of the last call.
    next_call: Template | None = None
    collect: Collect = Collect.REPLACE
    merge_path: tuple[str, ...] = ()
    # All calls, the first one too.
    calls_max: int = 100
    delay_seconds: float = 0.0


class LoopPlan(Struct, frozen=True, gc=False):
    """One task for each element of a collection, or for each chunk of elements."""

    collection: Template
    element: str = "item"
    # Tasks in flight at most; 1 keeps the order of the collection.
    window: int = 1
    # None: a task gets one element. Else it gets a list of up to so many, and returns a list.
    chunk_size: int | None = None
    # Whether the node completes although tasks of it failed.
    tolerant: bool = False
    # Bounds the loop as a whole.
    timeout_seconds: float | None = None
    mode: str = "sequential"


class SinkPlan(Struct, frozen=True, gc=False):
    """Where a worker writes the output of an attempt before it reports."""

    tool: str
    options: Template


class NodePlan(Struct, frozen=True, gc=False):
    """One node as the core and the worker need it."""

    id: str
    kind: NodeKind = NodeKind.TASK
    handler: str = ""
    # None: the node gets the job's input as its params.
    params: Template | None = None
    when: Template | None = None
    queue: str = "default"
    timeout_seconds: float = 300.0
    priority: int = 0
    allow_failure: bool = False
    run_if_skipped: bool = False
    on_error: RetryOnError = NO_RETRY
    on_success: RetryOnSuccess | None = None
    loop: LoopPlan | None = None
    sink: SinkPlan | None = None
    # Losses of infrastructure have a budget of their own and never use up the author's attempts.
    redeliveries_max: int = 5
    # Follows from the others: whether no rule is about the node, so that `core.plain` can see to it.
    is_plain: bool = False

    def __post_init__(self) -> None:
        is_task = self.kind is NodeKind.TASK and self.handler not in WITH_RECORDS
        rules = (self.when, self.on_success, self.loop, self.sink)
        if is_task and rules == (None, None, None, None) and self.on_error.attempts_max == 1:
            force_setattr(self, "is_plain", True)


class Plan(Struct, frozen=True):
    """The whole workflow. Nodes are numbered in topological order; `parents` and `children` hold those numbers."""

    workflow_id: str
    version: int
    nodes: list[NodePlan]
    index: dict[str, int]
    parents: list[tuple[int, ...]]
    children: list[tuple[int, ...]]
    dependency_counts: "array[int]"
    fail_fast: bool = True
    timeout_seconds: float | None = None
    # The JSON Schema of the input, encoded; None accepts any object.
    input_schema: Raw | None = None
    # Whether some node makes further calls after one that succeeded.
    has_series: bool = False
    # What the workflow says about its runs; None for a plain workflow, whose jobs are no runs.
    runs: RunRules | None = None
    # The name of the secret with which webhooks that start the workflow are signed; None takes no webhooks.
    hook_secret: str | None = None
