"""A checked workflow: what a document says, whichever spelling it used, with its templates compiled."""

from typing import Any

from msgspec import Struct

from windlass.core.runs.rules import CATCH_UP_WINDOW_SECONDS, HOOK_ATTEMPTS, HOOK_TIMEOUT_SECONDS
from windlass.core.templates.template import Template

KINDS = ("task", "start", "end")
BACKOFFS = ("fixed", "linear", "exponential")
DEFAULT_QUEUE = "default"
DEFAULT_ELEMENT = "item"
DEFAULT_TIMEOUT_SECONDS = 300.0
DEFAULT_REDELIVERIES = 5


class OnError(Struct, frozen=True, kw_only=True):
    """When and how a failed attempt is made again. `max_attempts` counts the first one too."""

    max_attempts: int = 1
    backoff: str = "exponential"
    initial_delay: float = 1.0
    multiplier: float = 2.0
    max_delay: float = 300.0
    jitter: float = 0.1
    when: Template | None = None


class OnSuccess(Struct, frozen=True, kw_only=True):
    """When a successful attempt is followed by another call: pages, polling."""

    condition: Template
    next_call: Template | None = None
    collect: str = "replace"
    # Keys with dots between them; None: the response itself.
    merge_path: str | None = None
    max_attempts: int = 100
    delay: float = 0.0


class Loop(Struct, frozen=True, kw_only=True):
    """One task for each element of a collection."""

    collection: Template
    element: str = DEFAULT_ELEMENT
    mode: str = "sequential"
    concurrency: int = 1
    chunk_size: int | None = None
    on_failure: str = "fail"
    # Bounds the loop as a whole.
    timeout_seconds: float | None = None


class Sink(Struct, frozen=True, kw_only=True):
    """Where a worker writes an attempt's result before it reports."""

    tool: str
    options: Template


class Node(Struct, frozen=True, kw_only=True, gc=False):
    """One node. `dependencies` is the union of everything the document says about its edges, sorted."""

    id: str
    kind: str = "task"
    handler: str = ""
    dependencies: tuple[str, ...] = ()
    # None: the node gets the job's input.
    params: Template | None = None
    when: Template | None = None
    queue: str = DEFAULT_QUEUE
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    priority: int = 0
    allow_failure: bool = False
    run_if_skipped: bool = False
    on_error: OnError | None = None
    on_success: OnSuccess | None = None
    # How often a task is handed out again after its worker was lost; the author's attempts are not used up by that.
    max_redeliveries: int = DEFAULT_REDELIVERIES
    loop: Loop | None = None
    sink: Sink | None = None


class Schedule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When runs start by themselves: by exactly one of `cron`, `every` and `at`."""

    cron: str | None = None
    every: float | None = None
    # ISO times; without an offset they are read on the clock of the zone.
    at: str | None = None
    anchor: str | None = None
    timezone: str = "UTC"
    enabled: bool = True
    jitter: float = 0.0
    # The input of the jobs that it starts.
    input: dict[str, Any] = {}


class Hook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call before or after a run. `secret` is the name of the key that signs it."""

    url: str
    secret: str | None = None
    timeout: float = HOOK_TIMEOUT_SECONDS
    max_attempts: int = HOOK_ATTEMPTS


class Constraints(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What must hold for a run to begin and go on."""

    max_concurrent_runs: int | None = None
    require_previous_success: bool = False
    # none, latest or all; definitions of the first versions have true for all.
    catch_up: str | bool = "none"
    catch_up_window: float = CATCH_UP_WINDOW_SECONDS
    max_expected_run_time: float | None = None
    max_allowed_run_time: float | None = None
    pre_run_hook: Hook | None = None
    post_run_hook: Hook | None = None
    on_check_error: str = "skip"
    max_missed_heartbeats: int | None = None


class Action(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to do when something happened to a run."""

    type: str
    critical: bool = False
    parameters: dict[str, Any] = {}


class RunRetry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How often a failed run is started again."""

    max_retries: int = 0
    initial_delay: float = 30.0
    backoff_multiplier: float = 2.0
    max_delay: float = 600.0
    full: bool = False


class Incoming(Struct, frozen=True, kw_only=True):
    """Who may start the workflow by a webhook: whoever signs with the secret of this name."""

    secret: str


class Definition(Struct, frozen=True, kw_only=True):
    """The whole workflow. Nodes are in topological order, those that may run at the same time by id."""

    workflow_id: str
    nodes: list[Node]
    description: str | None = None
    # A JSON Schema; None accepts any object.
    input: dict[str, Any] | None = None
    on_failure: str = "fail_fast"
    timeout_seconds: float | None = None
    schedule: Schedule | None = None
    constraints: Constraints | None = None
    actions: dict[str, Action] = {}
    run_retry: RunRetry | None = None
    hook: Incoming | None = None
