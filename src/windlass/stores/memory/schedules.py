"""Schedules in dictionaries."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from windlass.core.runs.changes import ScheduleMark
from windlass.core.runs.rows import ScheduleRow
from windlass.ports.store.runs import ScheduleFilter, has_schedule
from windlass.ports.store.workflows import StoredWorkflow
from windlass.stores.rows import no_schedule


class MemorySchedules:
    """The part of the RunStore contract about schedules."""

    def __init__(self) -> None:
        self._schedules: dict[str, ScheduleRow] = {}

    # For the other parts of the store

    def deploy(self, workflow: StoredWorkflow) -> None:
        """Create, update or remove the schedule of a workflow that got a new version."""
        workflow_id, version, now = workflow.workflow_id, workflow.version, workflow.created_at
        known = self._schedules.get(workflow_id)
        if not has_schedule(workflow.definition):
            if known is not None:
                self._schedules[workflow_id] = structs.replace(
                    known, version=version, changed_at=now, is_gone=True
                )
        elif known is None or known.is_gone:
            created_at = now if known is None else known.created_at
            seq = 0 if known is None else known.seq
            is_paused = known is not None and known.is_paused
            self._schedules[workflow_id] = ScheduleRow(
                workflow_id=workflow_id,
                version=version,
                is_paused=is_paused,
                slot_at=now,
                created_at=created_at,
                changed_at=now,
                seq=seq,
            )
        else:
            self._schedules[workflow_id] = structs.replace(known, version=version, changed_at=now)

    def remove_schedule(self, workflow_id: str, now: int) -> None:
        """Remove the schedule of a deleted workflow."""
        known = self._schedules.get(workflow_id)
        if known is not None:
            self._schedules[workflow_id] = structs.replace(known, changed_at=now, is_gone=True)

    def _mark_schedules(self, marks: Iterable[ScheduleMark]) -> None:
        for mark in marks:
            known = self._schedules[mark.workflow_id]
            self._schedules[mark.workflow_id] = structs.replace(
                known, slot_at=max(known.slot_at, mark.slot_at), seq=max(known.seq, mark.seq)
            )

    # The contract

    async def schedules(self, wanted: ScheduleFilter) -> Sequence[ScheduleRow]:
        found = (
            row
            for row in self._schedules.values()
            if not row.is_gone and row.workflow_id > (wanted.after or "")
        )
        return sorted(found, key=lambda row: row.workflow_id)[: wanted.limit]

    async def schedule(self, workflow_id: str) -> ScheduleRow:
        row = self._schedules.get(workflow_id)
        if row is None or row.is_gone:
            raise no_schedule(workflow_id)
        return row

    async def changed_schedules(
        self, since: int, limit: int, after: str = ""
    ) -> Sequence[ScheduleRow]:
        found = (
            row
            for row in self._schedules.values()
            if row.changed_at >= since and row.workflow_id > after
        )
        return sorted(found, key=lambda row: row.workflow_id)[:limit]

    async def pause_schedule(self, workflow_id: str, *, paused: bool, now: int) -> ScheduleRow:
        row = await self.schedule(workflow_id)
        if row.is_paused == paused:
            return row
        slot_at = row.slot_at if paused else max(row.slot_at, now)
        self._schedules[workflow_id] = structs.replace(
            row, is_paused=paused, changed_at=now, slot_at=slot_at
        )
        return self._schedules[workflow_id]
