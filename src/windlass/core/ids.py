"""Ids: the only module that knows how they are written.

All ids are text. Code compares, stores and shows them and never looks into them; only a task id can be parsed. The
names below document what a text identifies.
"""

import re
from datetime import UTC, datetime
from hashlib import sha256
from typing import Self

from msgspec import Struct

from windlass.core.instants import MICROSECONDS

JobId = str
RunId = str
WorkflowId = str
NodeId = str

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
# A generated id is a number of 24 characters of 5 bits: milliseconds since the epoch, then these random bits.
RANDOM_BITS = 5 * 15
_EIGHT_CHARACTERS = 2**40 - 1

# Job ids contain no underscore, node ids no bracket.
_TASK_ID = re.compile(r"([^_]+)_([^\[\]]+?)(?:\[([0-9]{1,9})\])?_([0-9]{1,9})")


# Generated ids


def id_number(now: int, random_bits: int) -> int:
    """Return the number of an id that is generated at an instant."""
    return (now // 1000) << RANDOM_BITS | random_bits


def id_text(number: int) -> str:
    """Return the text of an id. Texts sort like their numbers."""
    first = _eight_characters(number >> 80)
    second = _eight_characters(number >> 40 & _EIGHT_CHARACTERS)
    return f"{first}{second}{_eight_characters(number & _EIGHT_CHARACTERS)}"


def _eight_characters(bits: int) -> str:
    return f"{_PAIRS[bits >> 30]}{_PAIRS[bits >> 20 & 1023]}{_PAIRS[bits >> 10 & 1023]}{_PAIRS[bits & 1023]}"


def derived_job_id(now: int, reason: str) -> JobId:
    """Return the id of a job that a run creates. It depends on its arguments alone, so a replay creates the same."""
    digest = int.from_bytes(sha256(reason.encode()).digest()[:10], "big")
    return id_text(id_number(now, digest & (1 << RANDOM_BITS) - 1))


# Runs


def slot_run_id(workflow_id: WorkflowId, slot_at: int, repetition: int = 1) -> RunId:
    """Return the id of the run of a slot, or of a repeated one, the same in every process."""
    scheduled_at = datetime.fromtimestamp(slot_at / MICROSECONDS, UTC)
    suffix = "" if repetition == 1 else f".{repetition}"
    return f"{workflow_id}:{scheduled_at:%Y-%m-%dT%H:%M:%SZ}{suffix}"


def job_run_id(workflow_id: WorkflowId, job_id: JobId) -> RunId:
    """Return the id of the run of a submitted job."""
    return f"{workflow_id}:{job_id}"


def retry_run_id(workflow_id: WorkflowId, request_id: str) -> RunId:
    """Return the id of the run that a request to retry a job starts."""
    return f"{workflow_id}:{request_id}"


# Tasks


class TaskId(Struct, frozen=True):
    """The id of a task: an attempt of a node, or of one iteration of its loop."""

    job_id: JobId
    node_id: NodeId
    # None outside of loops.
    index: int | None
    attempt: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the id that a text stands for. Raises ValueError for anything else."""
        match = _TASK_ID.fullmatch(text)
        if match is None:
            raise ValueError(f"not a task id: {text!r}")
        job_id, node_id, index, attempt = match.groups()
        return cls(job_id, node_id, None if index is None else int(index), int(attempt))

    def __str__(self) -> str:
        return task_id_text(self.job_id, self.node_id, self.index, self.attempt)


def task_id_text(job_id: JobId, node_id: NodeId, index: int | None, attempt: int) -> str:
    """Return the text of a task id."""
    return task_id_from_key(work_key(job_id, node_id, index), attempt)


def task_id_from_key(key: str, attempt: int) -> str:
    """Return the text of a task id from the key of its work."""
    return f"{key}_{attempt}"


def work_key(job_id: JobId, node_id: NodeId, index: int | None = None) -> str:
    """Return the key of a node or an iteration of a job over all its attempts."""
    if index is None:
        return f"{job_id}_{node_id}"
    return f"{job_id}_{node_id}[{index}]"
