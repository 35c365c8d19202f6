"""The shapes of workers and queues, of what workers in any language say, and of a server's health."""

from typing import Any, Literal

from msgspec import Raw, Struct, field

from windlass.wire.values import null


class WorkerTask(Struct, frozen=True):
    """A task that a worker has."""

    job_id: str
    node_id: str
    # The iteration; None outside of loops.
    index: int | None
    attempt: int
    since: str


class WorkerSeen(Struct, frozen=True):
    """A worker, as the broker sees it. Of its tasks the first 100 are listed."""

    worker_id: str
    queues: list[str]
    running: int
    seen_at: str
    alive: bool
    tasks: list[WorkerTask] = []


class QueueSeen(Struct, frozen=True):
    """A queue with tasks that wait or run; `oldest_seconds` says for how long the oldest waits."""

    queue: str
    depth: int
    running: int
    oldest_seconds: float | None = None


class Queues(Struct, frozen=True):
    """Every queue that has something in it."""

    items: list[QueueSeen]


class ShardSeen(Struct, frozen=True):
    """A shard and who drives its jobs; the owner of one that no other process may take holds it without an end."""

    shard: int
    owner: str | None
    epoch: int
    # Whether the owner did not renew it in time: anybody may take it.
    expired: bool = False
    expires_at: str | None = None


class ClaimRequest(Struct, frozen=True):
    """A worker asks for tasks; `wait` is a duration."""

    worker_id: str
    queues: list[str] = field(default_factory=lambda: ["default"])
    max_tasks: int = 1
    wait: float | str = 0


class ClaimedSink(Struct, frozen=True):
    """Where the worker writes a task's output before it reports it: at `path` in it, once for each `identity`."""

    tool: str
    # An object: table, connection, mode, …
    options: Raw
    path: list[str]
    identity: str
    # The same for all iterations and pages of one run of the node: what `replace` replaces.
    run_key: str


class ClaimedTask(Struct, frozen=True):
    """A task for an HTTP worker. `meta` tells of the loop and of the series of attempts that it belongs to."""

    task_id: str
    job_id: str
    node_id: str
    index: int
    attempt: int
    handler: str
    params: Raw
    queue: str
    timeout_seconds: float
    retry_count: int
    idempotency_key: str
    sink: ClaimedSink | None = None
    meta: dict[str, Any] = {}


class ClaimAnswer(Struct, frozen=True):
    """The tasks that are now the worker's."""

    tasks: list[ClaimedTask]


class HeartbeatRequest(Struct, frozen=True):
    """A worker says that it lives and what it holds."""

    worker_id: str
    task_ids: list[str] = []


class HeartbeatAnswer(Struct, frozen=True):
    """The tasks that the worker should stop: cancelled, or no longer its own."""

    stop: list[str]


class TaskResult(Struct, frozen=True):
    """How a task ended."""

    task_id: str
    job_id: str
    node_id: str
    status: Literal["completed", "failed"]
    worker_id: str
    output: Raw = field(default_factory=null)
    error: Raw = field(default_factory=null)
    meta: Raw = field(default_factory=null)
    execution_duration_ms: float | None = None
    index: int = 0
    attempt: int | None = None


class ResultAnswer(Struct, frozen=True):
    """What became of a reported result; a repetition is `duplicate`."""

    accepted: bool
    duplicate: bool = False


class Health(Struct, frozen=True):
    """Whether the process lives and can serve, and what it is made of."""

    status: Literal["ok", "degraded"]
    version: str
    shards: list[ShardSeen]
    workers: list[WorkerSeen]
