"""Schedules of a server: `client.schedules`."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from windlass import wire
from windlass.client.connection import ApiConnection, query, segment
from windlass.client.errors import ErrorTypes
from windlass.core.errors import InputInvalid, ScheduleNotFound

_SCHEDULE = ErrorTypes(not_found=ScheduleNotFound)
_TRIGGER = ErrorTypes(not_found=ScheduleNotFound, invalid=InputInvalid)


class Schedules:
    """Reads and controls schedules by the ids of their workflows."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    async def page(
        self, *, limit: int | None = None, cursor: str | None = None
    ) -> wire.Page[wire.ScheduleView]:
        """Return one page of schedules."""
        params = query(limit=limit, cursor=cursor)
        return await self._connection.call(
            "GET", "/schedules", wire.Page[wire.ScheduleView], params=params
        )

    def list(self) -> AsyncIterator[wire.ScheduleView]:
        """Iterate over all schedules."""
        return self._connection.pages(wire.Page[wire.ScheduleView], "/schedules")

    async def get(self, workflow_id: str) -> wire.ScheduleView:
        """Return the schedule of a workflow; ScheduleNotFound."""
        return await self._connection.call("GET", _path(workflow_id), wire.ScheduleView, _SCHEDULE)

    async def next_slots(self, workflow_id: str, count: int = 5) -> wire.NextSlotsView:
        """Return the next slots of a schedule; ScheduleNotFound."""
        path = f"{_path(workflow_id)}/next"
        return await self._connection.call(
            "GET", path, wire.NextSlotsView, _SCHEDULE, params=query(count=count)
        )

    def events(self, workflow_id: str, *, after: int = 0) -> AsyncIterator[wire.RunEventView]:
        """Iterate over the events of a schedule after a sequence number, in order; ScheduleNotFound."""
        return self._connection.pages(
            wire.Page[wire.RunEventView],
            f"{_path(workflow_id)}/events",
            query(after=after or None),
            _SCHEDULE,
            cursor="after",
        )

    async def pause(self, workflow_id: str) -> wire.ScheduleView:
        """Pause a schedule; ScheduleNotFound."""
        return await self._connection.call(
            "POST", f"{_path(workflow_id)}/pause", wire.ScheduleView, _SCHEDULE
        )

    async def resume(self, workflow_id: str) -> wire.ScheduleView:
        """Resume a schedule with its next slot; ScheduleNotFound."""
        return await self._connection.call(
            "POST", f"{_path(workflow_id)}/resume", wire.ScheduleView, _SCHEDULE
        )

    async def trigger(
        self,
        workflow_id: str,
        input_data: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> wire.SubmittedView:
        """Start a run now; the input defaults to that of the schedule. ScheduleNotFound, InputInvalid."""
        body = wire.TriggerRequest(
            None if input_data is None else dict(input_data), idempotency_key
        )
        path = f"{_path(workflow_id)}/trigger"
        return await self._connection.call("POST", path, wire.SubmittedView, _TRIGGER, body=body)

    async def backfill(
        self, workflow_id: str, since: str, until: str, *, dry_run: bool = False
    ) -> wire.BackfillView:
        """Run the past slots of a range that have no run, or whose run was cancelled or ended without a job.

        With `dry_run`, list them. ScheduleNotFound, RequestRefused."""
        body = wire.BackfillRequest(since, until, dry_run)
        path = f"{_path(workflow_id)}/backfill"
        return await self._connection.call("POST", path, wire.BackfillView, _SCHEDULE, body=body)


def _path(workflow_id: str) -> str:
    return f"/schedules/{segment(workflow_id)}"
