"""How often a worker sends heartbeats, compared to the time after which engines count it as lost."""

import math

# Two heartbeats may be missed before the tasks of a worker are given to others.
HEARTBEATS_PER_TIMEOUT = 3


def heartbeat_seconds_max(worker_timeout_seconds: float) -> float:
    """Return the longest interval of heartbeats for a worker timeout."""
    return worker_timeout_seconds / HEARTBEATS_PER_TIMEOUT


def is_often_enough(heartbeat_seconds: float, worker_timeout_seconds: float) -> bool:
    """Return whether a worker with this interval stays healthy under the timeout."""
    longest = heartbeat_seconds_max(worker_timeout_seconds)
    # A third of 0.3 is not exactly 0.1.
    return heartbeat_seconds <= longest or math.isclose(heartbeat_seconds, longest)
