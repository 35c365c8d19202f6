"""Comparing the row of a node or an iteration with the replay of its events."""

from typing import Protocol

import msgspec
from msgspec import Raw

from simulation.replay.job import ReplayedJob
from simulation.replay.state import ReplayedUnit

# The fields of a row that must equal those of the replay.
_COMPARED = (
    "attempt", "attempts_before", "losses", "first_seq", "dispatched_at", "started_at", "completed_at", "due_at",
    "worker_id",
)  # fmt: skip


class UnitRow(Protocol):
    """The row of a node or an iteration."""

    @property
    def status(self) -> str: ...

    @property
    def error(self) -> Raw | None: ...


def check_row(replay: ReplayedJob, name: str, unit: ReplayedUnit, row: UnitRow) -> None:
    """Check that the row says what the events say. The states must be equal already."""
    for field in _COMPARED:
        stored, expected = getattr(row, field), getattr(unit, field)
        if stored != expected:
            replay.report(
                "I2",
                f"the row of {name} ({row.status}) says {field} {stored}, the events say {expected}",
            )
    error = decoded_json(row.error)
    if error != unit.error:
        replay.report("I2", f"the row of {name} says error {error}, the events say {unit.error}")


def decoded_json(raw: Raw | None) -> object:
    """Decode a JSON value; None if there is none."""
    if raw is None:
        return None
    return msgspec.json.decode(raw)
