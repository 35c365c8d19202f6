"""A workflow compiled for execution: integers, adjacency, counts and templates, shared by all jobs of a version."""

from array import array
from enum import Enum, unique

from msgspec import Raw, Struct
from msgspec.structs import force_setattr

from windlass.core.runs.containers import CONTAINER
from windlass.core.runs.rules import RunRules
from windlass.core.templates.template import Passing, Template
from windlass.core.webhooks import HANDLER as WEBHOOK

# Handlers whose results the core records in rows of their own.
WITH_RECORDS = frozenset({CONTAINER, WEBHOOK})

DEFAULT_ELEMENT = "item"
DEFAULT_QUEUE = "default"
DEFAULT_TIMEOUT_SECONDS = 300.0
DEFAULT_REDELIVERIES = 5
# The values of retry.on_success.on_exhausted.
COMPLETE_EXHAUSTED, FAIL_EXHAUSTED = "complete", "fail"


@unique
class NodeKind(Enum):
    """What a node is. START and END never reach a worker."""

    TASK = "task"
    START = "start"
    END = "end"


@unique
class Backoff(Enum):
    """How the delay between attempts grows."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class RetryOnError(
    Struct,
    frozen=True,
    gc=False,
    rename={
        "attempts_max": "max_attempts",
        "initial_delay_seconds": "initial_delay",
        "max_delay_seconds": "max_delay",
        "rate_limited_max_seconds": "max_rate_limited",
    },
):
    """Retries of failed attempts. `attempts_max` includes the first attempt."""

    attempts_max: int = 1
    backoff: Backoff = Backoff.EXPONENTIAL
    initial_delay_seconds: float = 1.0
    multiplier: float = 2.0
    max_delay_seconds: float = 300.0
    # The largest random addition, as a fraction of the delay.
    jitter: float = 0.1
    when: Template | None = None
    # How long rate-limited attempts are repeated without counting them, since the first one; 0 counts them.
    rate_limited_max_seconds: float = 3600.0


NO_RETRY = RetryOnError()


@unique
class Collect(Enum):
    """How several pages become one output."""

    # Concatenate the arrays at `merge_path`.
    APPEND = "append"
    # Keep the last page.
    REPLACE = "replace"
    # Make a list of all outputs.
    COLLECT = "collect"


class RetryOnSuccess(
    Struct,
    frozen=True,
    gc=False,
    rename={"condition": "while", "calls_max": "max_attempts", "delay_seconds": "delay"},
):
    """Further pages after an attempt that succeeded: pagination and polling."""

    # Over `response`, the output of the last page.
    condition: Template
    # Merged into the params of the last page.
    next_call: Template | None = None
    collect: Collect = Collect.REPLACE
    merge_path: tuple[str, ...] = ()
    # Includes the first page.
    calls_max: int = 100
    delay_seconds: float = 0.0
    # What becomes of a node that has more pages than `calls_max`: "complete" or "fail".
    on_exhausted: str = COMPLETE_EXHAUSTED


class LoopPlan(
    Struct,
    frozen=True,
    gc=False,
    rename={
        "window": "concurrency",
        "failed_max": "max_failed",
        "failure_rate_max": "max_failure_rate",
    },
):
    """One task for each element of a collection, or for each chunk of elements."""

    collection: Template
    element: str = DEFAULT_ELEMENT
    # Iterations in flight at most.
    window: int = 1
    # Elements of one task, which then gets and returns a list; None for single elements.
    chunk_size: int | None = None
    # Whether the node completes although iterations failed, within the bounds below.
    tolerant: bool = False
    # Bounds the loop as a whole.
    timeout_seconds: float | None = None
    mode: str = "sequential"
    # Bounds of a tolerant loop. Without either of them it fails only if all its iterations failed.
    failed_max: int | None = None
    failure_rate_max: float | None = None


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
    queue: str = DEFAULT_QUEUE
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    priority: int = 0
    allow_failure: bool = False
    run_if_skipped: bool = False
    on_error: RetryOnError = NO_RETRY
    on_success: RetryOnSuccess | None = None
    loop: LoopPlan | None = None
    sink: SinkPlan | None = None
    # Losses of infrastructure have a limit of their own and do not count against max_attempts.
    redeliveries_max: int = DEFAULT_REDELIVERIES
    # From the dispatch of an attempt until a worker starts it; None: no limit.
    start_timeout_seconds: float | None = None
    # Derived: whether no rule but those about dependencies applies to the node, so that guards can be skipped.
    is_plain: bool = False
    # Derived: `when`, if it refers to the element of the loop or its index, and so applies to each iteration.
    iteration_condition: Template | None = None

    @property
    def node_condition(self) -> Template | None:
        """The condition that applies to the node as a whole."""
        if self.iteration_condition is not None:
            return None
        return self.when

    @property
    def passing(self) -> Passing:
        """Which large values its params pass on by reference."""
        if self.handler == WEBHOOK:
            # A delivery can only be repeated with params that are complete without artifacts.
            return Passing.OUTPUTS
        return Passing.PARTS

    @property
    def task_templates(self) -> list[Template]:
        """The templates that building a task reads, without the params: large values in those may stay references."""
        templates: list[Template] = []
        if self.when is not None:
            templates.append(self.when)
        if self.sink is not None:
            templates.append(self.sink.options)
        return templates

    @property
    def result_templates(self) -> list[Template]:
        """The templates that the result of an attempt is judged by."""
        templates: list[Template] = []
        if self.on_error.when is not None:
            templates.append(self.on_error.when)
        if self.on_success is not None:
            templates.append(self.on_success.condition)
            if self.on_success.next_call is not None:
                templates.append(self.on_success.next_call)
        return templates

    def __post_init__(self) -> None:
        if (
            self.loop is not None
            and self.when is not None
            and self.when.names & {self.loop.element, "index"}
        ):
            force_setattr(self, "iteration_condition", self.when)
        is_task = self.kind is NodeKind.TASK and self.handler not in WITH_RECORDS
        rules = (self.when, self.on_success, self.loop, self.sink, self.start_timeout_seconds)
        if is_task and rules == (None,) * len(rules) and self.on_error.attempts_max == 1:
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
    # Whether some node has a rule for pagination or polling.
    has_pagination: bool = False
    # The rules about runs; None if the jobs of the workflow are not runs.
    runs: RunRules | None = None
    # The name of the secret that signs webhooks which start the workflow; None refuses webhooks.
    hook_secret: str | None = None
    # The alias of requests that name no version, once it is set; None for the newest version.
    default_alias: str | None = None

    @property
    def shard_key(self) -> str | None:
        """What selects the shard of a job instead of its id: all runs of a workflow are on one shard."""
        if self.runs is None:
            return None
        return self.workflow_id
