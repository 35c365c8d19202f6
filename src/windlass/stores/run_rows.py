"""How schedules, runs and deliveries become columns, and back."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import structs

from windlass.core.errors import DeliveryNotFound, RunNotFound, ScheduleNotFound
from windlass.core.runs.rows import DeliveryRow, RunDetail, RunRow, ScheduleRow
from windlass.core.runs.states import RunState
from windlass.ports.runs import DeliveryFilter, RunFilter
from windlass.stores.rows import raw_of, text_of

_encode = msgspec.json.Encoder().encode
_decode_detail = msgspec.json.Decoder(RunDetail).decode


def run_values(row: RunRow) -> tuple[Any, ...]:
    """The columns of a run, in the order of the struct."""
    return (
        row.run_id, row.workflow_id, row.version, row.shard, row.state.value,
        None if row.previous_state is None else row.previous_state.value, row.scheduled_at, row.created_at,
        row.state_at, row.completed_at, row.job_id, row.attempt, _encode(row.detail).decode(), row.succeeded,
    )  # fmt: skip


def run_of(row: Mapping[str, Any]) -> RunRow:
    """A run from its columns."""
    before, succeeded = row["previous_state"], row["succeeded"]
    return RunRow(
        row["run_id"], row["workflow_id"], row["version"], row["shard"], RunState(row["state"]),
        None if before is None else RunState(before), row["scheduled_at"], row["created_at"], row["state_at"],
        row["completed_at"], row["job_id"], row["attempt"], _decode_detail(row["detail"]),
        None if succeeded is None else bool(succeeded),
    )  # fmt: skip


def schedule_of(row: Mapping[str, Any]) -> ScheduleRow:
    """A schedule from its columns."""
    return ScheduleRow(
        row["workflow_id"], row["version"], bool(row["is_paused"]), row["slot_at"], row["created_at"],
        row["changed_at"], bool(row["is_gone"]), row["seq"],
    )  # fmt: skip


def delivery_values(row: DeliveryRow) -> tuple[Any, ...]:
    """The columns of a delivery, in the order of the struct."""
    *plain, params = structs.astuple(row)
    return (*plain, text_of(params))


def delivery_of(row: Mapping[str, Any]) -> DeliveryRow:
    """A delivery from its columns."""
    return DeliveryRow(**{**row, "params": raw_of(row["params"])})


def run_filter(wanted: RunFilter) -> dict[str, Any]:
    """What a list of runs asks for, by name."""
    before_at, before_id = wanted.before or (None, None)
    return {"workflow_id": wanted.workflow_id, "state": wanted.state, "before_at": before_at,
            "before_id": before_id, "limit": wanted.limit}  # fmt: skip


def delivery_filter(wanted: DeliveryFilter) -> dict[str, Any]:
    """What a list of deliveries asks for, by name."""
    before_at, before_id = wanted.before or (None, None)
    return {"workflow_id": wanted.workflow_id, "job_id": wanted.job_id, "outcome": wanted.outcome,
            "before_at": before_at, "before_id": before_id, "limit": wanted.limit}  # fmt: skip


def no_schedule(workflow_id: str) -> ScheduleNotFound:
    return ScheduleNotFound(f"workflow {workflow_id} has no schedule; deploy a version that has one")


def no_run(run_id: str) -> RunNotFound:
    return RunNotFound(f"there is no run {run_id}; `windlass runs list` shows the runs of this database")


def no_delivery(delivery_id: str) -> DeliveryNotFound:
    return DeliveryNotFound(f"there is no delivery {delivery_id}; `windlass deliveries list` shows those kept")
