"""Schedules, runs and deliveries of a server: `client.schedules`, `client.runs` and `client.deliveries`."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from msgspec import Struct

from windlass import wire
from windlass.client.refusals import Refusals
from windlass.core.errors import DeliveryNotFound, InputInvalid, RunNotFound, ScheduleNotFound

T = TypeVar("T")

_SCHEDULE = Refusals(missing=ScheduleNotFound)
_TRIGGER = Refusals(missing=ScheduleNotFound, unfit=InputInvalid)
_RUN = Refusals(missing=RunNotFound)
_DELIVERY = Refusals(missing=DeliveryNotFound)
_ANY = Refusals()


class Asking(Protocol):
    """How a server is asked."""

    async def __call__(
        self,
        method: str,
        path: str,
        kind: type[T],
        refusals: Refusals,
        *,
        params: Mapping[str, str] | None = None,
        body: Struct | None = None,
    ) -> T:
        """What the server answers, in the shape that is expected."""
        ...


class Schedules:
    """The schedules of a server, by the ids of their workflows."""

    def __init__(self, ask: Asking) -> None:
        self._ask = ask

    async def page(self, *, limit: int | None = None, cursor: str | None = None) -> wire.Page[wire.ScheduleView]:
        """One page of schedules."""
        return await self._ask("GET", "/schedules", wire.Page[wire.ScheduleView], _ANY, params=_given(limit, cursor))

    async def all(self) -> AsyncIterator[wire.ScheduleView]:
        """Every schedule."""
        cursor: str | None = None
        while True:
            page = await self.page(cursor=cursor)
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    async def show(self, workflow_id: str) -> wire.ScheduleView:
        """The schedule of a workflow; ScheduleNotFound."""
        return await self._ask("GET", _schedule(workflow_id), wire.ScheduleView, _SCHEDULE)

    async def next(self, workflow_id: str, count: int = 5) -> wire.NextSlotsView:
        """The slots to come; ScheduleNotFound."""
        params = {"count": str(count)}
        return await self._ask("GET", f"{_schedule(workflow_id)}/next", wire.NextSlotsView, _SCHEDULE, params=params)

    async def pause(self, workflow_id: str) -> wire.ScheduleView:
        """Let a schedule start no further runs; ScheduleNotFound."""
        return await self._ask("POST", f"{_schedule(workflow_id)}/pause", wire.ScheduleView, _SCHEDULE)

    async def resume(self, workflow_id: str) -> wire.ScheduleView:
        """Let a schedule go on with the next slot; ScheduleNotFound."""
        return await self._ask("POST", f"{_schedule(workflow_id)}/resume", wire.ScheduleView, _SCHEDULE)

    async def trigger(
        self, workflow_id: str, input_data: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> wire.SubmittedView:
        """Start a run now, with the schedule's input unless another is given; ScheduleNotFound, InputInvalid."""
        body = wire.TriggerRequest(None if input_data is None else dict(input_data), idempotency_key)
        return await self._ask("POST", f"{_schedule(workflow_id)}/trigger", wire.SubmittedView, _TRIGGER, body=body)

    async def backfill(self, workflow_id: str, since: str, until: str, *, dry_run: bool = False) -> wire.BackfillView:
        """Run the slots of a range in the past that have no run yet, or only say which those are; ScheduleNotFound,
        RequestRefused."""
        body = wire.BackfillRequest(since, until, dry_run)
        return await self._ask("POST", f"{_schedule(workflow_id)}/backfill", wire.BackfillView, _SCHEDULE, body=body)


class Runs:
    """The runs of a server."""

    def __init__(self, ask: Asking) -> None:
        self._ask = ask

    async def page(
        self,
        *,
        workflow_id: str | None = None,
        state: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> wire.Page[wire.RunView]:
        """One page of runs, newest slot first."""
        params = _given(limit, cursor, workflow_id=workflow_id, state=state)
        return await self._ask("GET", "/runs", wire.Page[wire.RunView], _ANY, params=params)

    async def show(self, run_id: str) -> wire.RunView:
        """A run; RunNotFound."""
        return await self._ask("GET", _run(run_id), wire.RunView, _RUN)

    async def cancel(self, run_id: str, reason: str | None = None) -> wire.RunView:
        """Stop a run and its job; one that has ended stays as it is. RunNotFound."""
        body = wire.CancelRequest(reason)
        return await self._ask("POST", f"{_run(run_id)}/cancel", wire.RunView, _RUN, body=body)


class Deliveries:
    """The attempts of a server's workers to deliver webhooks."""

    def __init__(self, ask: Asking) -> None:
        self._ask = ask

    async def page(
        self,
        *,
        workflow_id: str | None = None,
        job_id: str | None = None,
        outcome: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> wire.Page[wire.DeliveryView]:
        """One page of deliveries, newest first."""
        params = _given(limit, cursor, workflow_id=workflow_id, job_id=job_id, outcome=outcome)
        return await self._ask("GET", "/deliveries", wire.Page[wire.DeliveryView], _ANY, params=params)

    async def show(self, delivery_id: str) -> wire.DeliveryView:
        """One attempt; DeliveryNotFound."""
        return await self._ask("GET", f"/deliveries/{quote(delivery_id, safe='')}", wire.DeliveryView, _DELIVERY)

    async def redeliver(self, delivery_id: str) -> wire.RedeliveryView:
        """Deliver once more, by a job of its own; DeliveryNotFound."""
        path = f"/deliveries/{quote(delivery_id, safe='')}/redeliver"
        return await self._ask("POST", path, wire.RedeliveryView, _DELIVERY)


def _given(limit: int | None, cursor: str | None, **params: str | None) -> dict[str, str]:
    given = {**params, "limit": None if limit is None else str(limit), "cursor": cursor}
    return {name: value for name, value in given.items() if value is not None}


def _schedule(workflow_id: str) -> str:
    return f"/schedules/{quote(workflow_id, safe='')}"


def _run(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"
