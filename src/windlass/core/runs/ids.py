"""Ids of runs, and of the jobs that are made for them: derived, so that whoever decides again decides the same."""

from datetime import UTC, datetime
from hashlib import sha256

from windlass.core.instants import MICROSECONDS
from windlass.core.shards import run_key

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_CHARS, _CHANCE_CHARS = 9, 15


def slot_run_id(workflow_id: str, slot_at: int) -> str:
    """The id of the run of a slot: the same whoever fires it."""
    moment = datetime.fromtimestamp(slot_at / MICROSECONDS, UTC)
    return f"{workflow_id}:{moment:%Y-%m-%dT%H:%M:%SZ}"


def job_run_id(workflow_id: str, job_id: str, request_id: str | None = None) -> str:
    """The id of the run around a job that somebody submitted, or asked to be retried."""
    return f"{workflow_id}:{job_id if request_id is None else request_id}"


def workflow_of(run_id: str) -> str:
    """The workflow that a run's id names, or that of a schedule's messages."""
    return run_id.partition(":")[0]


def derived_job_id(now: int, reason: str, workflow_id: str) -> str:
    """An id like that of any job, in the order of time, that says nothing but depends on its reason alone.

    It ends with the key of the workflow on whose shard the job lives.
    """
    number = (now // 1000) << (5 * _CHANCE_CHARS)
    number |= int.from_bytes(sha256(reason.encode()).digest()[:10], "big") & ((1 << (5 * _CHANCE_CHARS)) - 1)
    shifts = range(5 * (_TIME_CHARS + _CHANCE_CHARS - 1), -1, -5)
    return f"{''.join(_ALPHABET[(number >> shift) & 31] for shift in shifts)}-{run_key(workflow_id)}"
