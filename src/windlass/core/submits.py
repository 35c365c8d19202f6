"""A job that is to be: what a submit stores, and what the rules about runs make."""

from msgspec import Raw, Struct


class NewJob(Struct, frozen=True):
    """A submit. `body_digest` tells whether a repeated idempotency key carries the same request."""

    job_id: str
    workflow_id: str
    version: int
    input: Raw
    created_at: int
    shard: int = 0
    priority: int = 0
    idempotency_key: str | None = None
    body_digest: str | None = None
    # Not to begin before this instant.
    scheduled_at: int | None = None
