"""Loops as answers show them: how far they came, and their iterations page by page, begun or not."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw, Struct

from windlass.core.changes import IterationRow, NodeRow
from windlass.core.loop_state import Progress, decode_progress
from windlass.core.plan import NodeKind, Plan
from windlass.ports.store import Store
from windlass.ports.store.jobs import IterationFilter
from windlass.views.outputs import NULL, Outputs
from windlass.wire import Loop, Task, instant

# Rows read at once: each may hold an output of a quarter of a megabyte.
ROWS_READ_MAX = 100


class LoopPlace(Struct, frozen=True):
    """Where the rows of a loop are, how many iterations it has, and how many of them were begun."""

    job_id: str
    number: int
    generation: int
    total: int
    begun: int
    # The first attempt of this run of the loop: a loop that is run anew goes on counting.
    first_attempt: int = 1

    def filter(self, status: str | None = None, after: int = -1, limit: int = 1) -> IterationFilter:
        """Some of its rows."""
        return IterationFilter(self.job_id, self.number, self.generation, status, after, limit)


class _Ended(Struct, frozen=True):
    """The meta of a loop that completed."""

    total: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0


_ended = msgspec.json.Decoder(_Ended)


def total_of(status: str, progress: Raw | None, meta: Raw | None) -> int:
    """How many iterations a loop has, from its node's row; -1 when that is not known yet."""
    told = Progress() if progress is None else decode_progress(progress)
    if told.total >= 0 or status != "completed":
        return told.total
    return _ended.decode(meta or b"{}").total


def loop_place(plan: Plan, row: NodeRow) -> LoopPlace | None:
    """Where a node's loop is; None for a node without one, or whose loop has not begun."""
    number = plan.index[row.node_id]
    if plan.nodes[number].loop is None:
        return None
    progress = Progress() if row.progress is None else decode_progress(row.progress)
    total = total_of(row.status, row.progress, row.meta)
    begun = progress.begun if progress.total >= 0 else total
    if total < 0:
        return None
    return LoopPlace(row.job_id, number, progress.generation, total, begun, progress.attempts + 1)


async def loop_shape(store: Store, plan: Plan, row: NodeRow) -> Loop | None:
    """How far a node's loop came. One that completed says so itself, the rows of the others are counted."""
    place = loop_place(plan, row)
    if place is None:
        return None
    if row.status == "completed":
        ended = _ended.decode(row.meta or b"{}")
        return Loop(place.total, place.begun, ended.succeeded, ended.failed, ended.skipped)
    counts = await store.jobs.iteration_counts(place.job_id, place.number, place.generation)
    first_time = max(0, place.begun - sum(counts.values()))
    return Loop(
        total=place.total,
        begun=place.begun,
        completed=counts.get("completed", 0),
        failed=counts.get("failed", 0),
        skipped=counts.get("skipped", 0),
        running=counts.get("running", 0) + counts.get("dispatched", 0) + first_time,
        waiting=counts.get("waiting", 0),
        cancelled=counts.get("cancelled", 0),
    )


async def iteration(store: Store, place: LoopPlace, index: int) -> IterationRow | None:
    """The row of one iteration, if it has one."""
    rows = await store.jobs.iterations(place.filter(after=index - 1))
    return rows[0] if rows and rows[0].index == index else None


class WantedTasks(Struct, frozen=True):
    """Which tasks of a node, by index."""

    status: str | None = None
    after: int = -1
    limit: int = 100


async def tasks_of(store: Store, outputs: Outputs, plan: Plan, row: NodeRow | None, wanted: WantedTasks) -> list[Task]:
    """The tasks of a node: the iterations of its loop, or its only one. START, END and what has not begun have none."""
    if row is None or plan.nodes[plan.index[row.node_id]].kind is not NodeKind.TASK:
        return []
    if plan.nodes[plan.index[row.node_id]].loop is not None:
        place = loop_place(plan, row)
        return [] if place is None else await _iterations(store, outputs, place, wanted)
    if wanted.after >= 0 or wanted.status not in (None, row.status):
        return []
    (value,) = await outputs.shown([row.output])
    return [_task(0, row, value)]


async def _iterations(store: Store, outputs: Outputs, place: LoopPlace, wanted: WantedTasks) -> list[Task]:
    status, after, limit = wanted.status, wanted.after, wanted.limit
    match status:
        case None:
            return await _all(store, outputs, place, after, limit)
        case "dispatched":
            rows = await _rows(store, outputs, place, status, after, limit)
            out = await store.jobs.unrecorded_iterations(place.filter(after=after, limit=limit), place.begun)
            return _merged(rows, [_dispatched(place, index) for index in out], limit)
        case "pending":
            rows = await _rows(store, outputs, place, status, after, limit)
            first = max(after + 1, place.begun)
            return _merged(rows, map(_pending, range(first, min(place.total, first + limit))), limit)
        case _:
            return await _rows(store, outputs, place, status, after, limit)


async def _all(store: Store, outputs: Outputs, place: LoopPlace, after: int, limit: int) -> list[Task]:
    tasks: list[Task] = []
    stop = min(place.total, after + 1 + limit)
    for first in range(after + 1, stop, ROWS_READ_MAX):
        wanted = range(first, min(stop, first + ROWS_READ_MAX))
        rows = await store.jobs.iterations(place.filter(after=first - 1, limit=len(wanted)))
        shown = {task.index: task for task in await _shown(outputs, [row for row in rows if row.index in wanted])}
        for index in wanted:
            without = _dispatched(place, index) if index < place.begun else _pending(index)
            tasks.append(shown.get(index, without))
    return tasks


async def _rows(store: Store, outputs: Outputs, place: LoopPlace, status: str, after: int, limit: int) -> list[Task]:
    tasks: list[Task] = []
    while len(tasks) < limit:
        some = min(ROWS_READ_MAX, limit - len(tasks))
        rows = await store.jobs.iterations(place.filter(status, after, some))
        tasks += await _shown(outputs, rows)
        if len(rows) < some:
            break
        after = rows[-1].index
    return tasks


def _merged(rows: Sequence[Task], others: Iterable[Task], limit: int) -> list[Task]:
    return sorted([*rows, *others], key=lambda task: task.index)[:limit]


async def _shown(outputs: Outputs, rows: Sequence[IterationRow]) -> list[Task]:
    values = await outputs.shown([row.output for row in rows])
    return [_task(row.index, row, value) for row, value in zip(rows, values, strict=True)]


def _task(index: int, row: IterationRow | NodeRow, output: Raw) -> Task:
    return Task(
        index,
        row.status,
        row.attempt,
        output,
        row.error or NULL,
        row.meta or NULL,
        instant(row.started_at),
        instant(row.completed_at),
    )


def _dispatched(place: LoopPlace, index: int) -> Task:
    return Task(index, "dispatched", place.first_attempt, NULL, NULL, NULL)


def _pending(index: int) -> Task:
    return Task(index, "pending", 0, NULL, NULL, NULL)
