"""Views of schedules, runs and deliveries, made from rows of the store."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import msgspec

from windlass.core.errors import ScheduleNotFound
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.plan import Plan
from windlass.core.runs.cron import Schedule, next_slot, slots_between
from windlass.core.runs.event_data import decoded_data
from windlass.core.runs.metrics import metrics_of
from windlass.core.runs.rows import DeliveryRow, RunMetrics, RunRow, ScheduleRow
from windlass.core.runs.states import RunState
from windlass.ports.store.runs import RunStore
from windlass.wire import (
    DeliveryView,
    NextSlotsView,
    RunActionView,
    RunEventView,
    RunTransitionView,
    RunView,
    RunViolationView,
    ScheduleView,
    instant,
)

# Ten years: a rare schedule lists only the slots until then.
AHEAD_SECONDS_MAX = 10 * 366 * 86_400


class PlanLoader(Protocol):
    """A function that returns plans of workflows."""

    async def __call__(self, workflow_id: str, version: int) -> Plan:
        """Return the plan of a version; WorkflowNotFound."""
        ...


async def schedule_of(plan: PlanLoader, row: ScheduleRow) -> Schedule:
    """Return the schedule in a version's definition; ScheduleNotFound if it has none."""
    rules = (await plan(row.workflow_id, row.version)).runs
    if rules is None or rules.schedule is None or row.is_gone:
        raise ScheduleNotFound(
            f"workflow {row.workflow_id!r} has no schedule; add `schedule:` to its definition"
        )
    return rules.schedule


def schedule_view(row: ScheduleRow, slots: Schedule, now: int) -> ScheduleView:
    """Return the view of a schedule with its next slot."""
    following = None
    if slots.enabled and not row.is_paused:
        following = next_slot(slots, max(now, row.slot_at) / MICROSECONDS)
    return ScheduleView(
        workflow_id=row.workflow_id,
        version=row.version,
        enabled=slots.enabled,
        paused=row.is_paused,
        timezone=slots.zone,
        cron=slots.cron,
        every_seconds=slots.interval_seconds,
        at=_instant_of(slots.at),
        jitter_seconds=slots.jitter_seconds,
        next_at=_instant_of(following),
        slot_at=instant(row.slot_at),
        changed_at=instant(row.changed_at),
        input_data=slots.input_data,
    )


def _instant_of(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return instant(int(seconds) * MICROSECONDS)


def next_slots_view(workflow_id: str, slots: Schedule, now: int, count: int) -> NextSlotsView:
    """Return the next slots of a schedule, also if it is paused."""
    since = now / MICROSECONDS
    found = slots_between(slots, since, since + AHEAD_SECONDS_MAX, count)
    zone = ZoneInfo(slots.zone)
    return NextSlotsView(
        workflow_id,
        slots.zone,
        [instant(int(slot) * MICROSECONDS) for slot in found],
        [datetime.fromtimestamp(slot, UTC).astimezone(zone).isoformat() for slot in found],
    )


def run_event_view(workflow_id: str, run_id: str | None, event: Event) -> RunEventView:
    """Return the view of an event of a run, or of a schedule."""
    return RunEventView(
        seq=event.seq,
        event_type=event.type,
        workflow_id=workflow_id,
        run_id=run_id,
        timestamp=instant(event.at),
        data=decoded_data(event, instant),
    )


async def load_run_view(store: RunStore, row: RunRow, now: int) -> RunView:
    """Return the view of a run; the metrics of one that has not finished are those until now."""
    [view] = await load_run_views(store, [row], now)
    return view


async def load_run_views(store: RunStore, rows: Sequence[RunRow], now: int) -> list[RunView]:
    """Return the views of runs."""
    heartbeats: Mapping[int, int] = {}
    if any(row.completed_at is None for row in rows):
        heartbeats = await store.heartbeats()
    return [_run_view(row, now, heartbeats.get(row.shard, 0)) for row in rows]


def _run_view(row: RunRow, now: int, shard_heartbeats: int) -> RunView:
    detail = row.detail
    metrics = detail.metrics
    if row.completed_at is None:
        metrics = metrics_of(row, now, shard_heartbeats)
    previous_state = None
    if row.previous_state is not None:
        previous_state = row.previous_state.value
    return RunView(
        run_id=row.run_id,
        workflow_id=row.workflow_id,
        version=row.version,
        scheduled_at=instant(row.scheduled_at),
        state=row.state.value,
        previous_state=previous_state,
        job_id=row.job_id,
        attempt=row.attempt,
        transitions=_transitions(row),
        violations=[
            RunViolationView(one.constraint, one.message, instant(one.at))
            for one in detail.violations
        ],
        metrics=_metrics(metrics),
        origin=detail.origin,
        created_at=instant(row.created_at),
        completed_at=instant(row.completed_at),
        reason=detail.reason,
        skipped=detail.is_skipped,
        catch_up=detail.is_catch_up,
        actions=[
            RunActionView(one.on, one.action, instant(one.at), one.job_id, one.error)
            for one in detail.actions
        ],
    )


def _transitions(row: RunRow) -> list[RunTransitionView]:
    """Return the states that a run entered; the initial `pre_run` is only included if the history is complete."""
    detail = row.detail
    entered = [RunTransitionView(one.state.value, instant(one.at)) for one in detail.transitions]
    if len(entered) < detail.transition_count:
        return entered
    return [RunTransitionView(RunState.PRE_RUN.value, instant(row.created_at)), *entered]


def _metrics(metrics: RunMetrics | None) -> dict[str, Any]:
    if metrics is None:
        return {}
    shown: dict[str, Any] = msgspec.to_builtins(metrics)
    return {**shown, "entered": {state: instant(at) for state, at in metrics.entered.items()}}


def delivery_view(row: DeliveryRow) -> DeliveryView:
    """Return the view of a delivery, without the payload."""
    return DeliveryView(
        delivery_id=row.delivery_id,
        job_id=row.job_id,
        workflow_id=row.workflow_id,
        node_id=row.node_id,
        attempt=row.attempt,
        url=row.url,
        outcome=row.outcome,
        sent_at=instant(row.sent_at),
        duration_seconds=row.duration_seconds,
        status=row.status,
        error=row.error,
        response=row.response,
    )
