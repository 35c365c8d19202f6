"""Pages of lists, with opaque cursors. A cursor of the API is also one of the command line, and the reverse."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from windlass.core.errors import Problem, ProblemsFound, ScheduleNotFound
from windlass.core.templates.json_values import shown
from windlass.ports.store.jobs import JobFilter, JobStore
from windlass.ports.store.runs import DeliveryFilter, RunFilter, RunStore, ScheduleFilter
from windlass.views.jobs import job_view
from windlass.views.runs import (
    PlanLoader,
    delivery_view,
    load_run_views,
    run_event_view,
    schedule_of,
    schedule_view,
)
from windlass.wire import DeliveryView, JobView, Page, RunEventView, RunView, ScheduleView

T = TypeVar("T")


class CursorInvalid(ProblemsFound):
    """A cursor that no page of this list has."""

    def __init__(self, cursor: str) -> None:
        problem = Problem(
            path="cursor",
            message=f"invalid cursor: {shown(cursor)}",
            hint="use `next_cursor` unchanged",
        )
        super().__init__([problem])


def paginate(
    rows: Sequence[T], limit: int, cursor: Callable[[T], str]
) -> tuple[Sequence[T], str | None]:
    """Split rows, read with a limit of one more than the page, into the page and the cursor of the next page."""
    if len(rows) <= limit:
        return rows, None
    page = rows[:limit]
    return page, cursor(page[-1])


def encode_cursor(position: Any) -> str:
    """Encode the position after which the next page starts."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def decode_cursor(cursor: str | None, position_type: Any) -> Any:
    """Return the position that `encode_cursor` was given, None without a cursor; CursorInvalid."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(
            base64.b64decode(padded, b"-_", validate=True), type=position_type
        )
    except (binascii.Error, UnicodeEncodeError, msgspec.DecodeError):
        raise CursorInvalid(cursor) from None


async def job_page(store: JobStore, wanted: JobFilter, cursor: str | None) -> Page[JobView]:
    """Return a page of jobs, newest first, without results. CursorInvalid."""
    before = decode_cursor(cursor, tuple[int, str])
    jobs = await store.list(structs.replace(wanted, before=before, limit=wanted.limit + 1))
    page, next_cursor = paginate(
        jobs, wanted.limit, lambda job: encode_cursor((job.spec.created_at, job.spec.job_id))
    )
    return Page([job_view(job) for job in page], next_cursor)


async def run_event_page(
    store: RunStore, run_id: str, *, after: int, limit: int
) -> Page[RunEventView]:
    """Return a page of the events of a run, in order. RunNotFound."""
    run = await store.get(run_id)
    events, next_cursor = paginate(
        await store.events(run_id, after, limit + 1), limit, lambda event: str(event.seq)
    )
    return Page([run_event_view(run.workflow_id, run_id, event) for event in events], next_cursor)


async def schedule_event_page(
    store: RunStore, workflow_id: str, *, after: int, limit: int
) -> Page[RunEventView]:
    """Return a page of the events of a schedule, in order. ScheduleNotFound."""
    await store.schedule(workflow_id)
    events, next_cursor = paginate(
        await store.schedule_events(workflow_id, after, limit + 1),
        limit,
        lambda event: str(event.seq),
    )
    return Page([run_event_view(workflow_id, None, event) for event in events], next_cursor)


async def run_page(
    store: RunStore, wanted: RunFilter, cursor: str | None, now: int
) -> Page[RunView]:
    """Return a page of runs, newest slot first. CursorInvalid."""
    before = decode_cursor(cursor, tuple[int, str])
    rows = await store.list(structs.replace(wanted, before=before, limit=wanted.limit + 1))
    page, next_cursor = paginate(
        rows, wanted.limit, lambda row: encode_cursor((row.scheduled_at, row.run_id))
    )
    return Page(await load_run_views(store, page, now), next_cursor)


async def delivery_page(
    store: RunStore, wanted: DeliveryFilter, cursor: str | None
) -> Page[DeliveryView]:
    """Return a page of deliveries, newest first. CursorInvalid."""
    before = decode_cursor(cursor, tuple[int, str])
    rows = await store.deliveries(structs.replace(wanted, before=before, limit=wanted.limit + 1))
    page, next_cursor = paginate(
        rows, wanted.limit, lambda row: encode_cursor((row.sent_at, row.delivery_id))
    )
    return Page([delivery_view(row) for row in page], next_cursor)


async def schedule_page(
    store: RunStore, plan: PlanLoader, *, limit: int, cursor: str | None, now: int
) -> Page[ScheduleView]:
    """Return a page of schedules by workflow id, with their next slots. CursorInvalid."""
    rows = await store.schedules(ScheduleFilter(decode_cursor(cursor, str), limit + 1))
    page, next_cursor = paginate(rows, limit, lambda row: encode_cursor(row.workflow_id))
    views: list[ScheduleView] = []
    for row in page:
        try:
            views.append(schedule_view(row, await schedule_of(plan, row), now))
        except ScheduleNotFound:
            # The workflow was just deleted, or deployed without a schedule.
            continue
    return Page(views, next_cursor)
