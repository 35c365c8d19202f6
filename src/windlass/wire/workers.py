"""Views of workers, queues, shards and the server's health."""

from typing import Literal

from msgspec import Struct


class WorkerTaskView(Struct, frozen=True):
    """A task that a worker holds."""

    job_id: str
    node_id: str
    # The iteration; None outside of loops.
    index: int | None
    attempt: int
    since: str


class WorkerView(Struct, frozen=True):
    """A worker that the broker knows; stale if it is not `alive`. At most 100 of its tasks are listed."""

    worker_id: str
    queues: list[str]
    running: int
    seen_at: str
    # Whether the engines do not count it as lost: its last heartbeat is younger than engine.worker_timeout_seconds.
    alive: bool
    tasks: list[WorkerTaskView] = []
    # The handlers whose tasks it claims; null for all.
    handlers: list[str] | None = None


class UnservedView(Struct, frozen=True):
    """Waiting tasks of a handler that no live worker of their queue has."""

    handler: str
    tasks: int


class QueueView(Struct, frozen=True):
    """A queue with waiting or running tasks; `oldest_seconds` is the age of the oldest waiting task."""

    queue: str
    depth: int
    running: int
    oldest_seconds: float | None = None
    unserved: list[UnservedView] = []


class QueuesView(Struct, frozen=True):
    """All queues that have tasks."""

    items: list[QueueView]


class ShardView(Struct, frozen=True):
    """A shard and the engine that owns it. The lease of a database that is not shared has no expiry."""

    shard: int
    owner: str | None
    epoch: int
    # The owner did not renew the lease in time; any engine may take it over.
    expired: bool = False
    expires_at: str | None = None


class HealthView(Struct, frozen=True):
    """The state of the server, its shards, engines and workers; `problems` says why it is degraded."""

    status: Literal["ok", "degraded"]
    version: str
    shards: list[ShardView] = []
    workers: list[WorkerView] = []
    engines: list[str] = []
    problems: list[str] = []
