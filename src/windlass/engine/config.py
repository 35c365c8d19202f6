"""How an engine is set up: whether it shares the jobs with other engines, and the intervals of its duties."""

from msgspec import Struct


class Sharing(Struct, frozen=True):
    """How jobs are distributed over engines: the number of shards, and how long a lease lasts without renewal."""

    shards: int
    lease_seconds: float
    # Whether this process owns shards, or only submits jobs and waits for them.
    owns: bool = True


class Duties(Struct, frozen=True, kw_only=True):
    """Intervals and limits of the background duties; the settings of the same names describe them."""

    sweep_seconds: float
    retention_days: float
    worker_timeout_seconds: float
    worker_check_seconds: float
    worker_retention_seconds: float
    in_flight_check_seconds: float
    run_heartbeat_seconds: float
    # None: runs are never orphaned.
    run_heartbeats_missed_max: int | None
