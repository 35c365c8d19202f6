"""Views of loops and their iterations, including iterations that have not started."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec
from msgspec import Raw, Struct

from windlass.core.changes import IterationRow, NodeRow
from windlass.core.loop_state import read_progress
from windlass.core.plan import NodeKind, Plan
from windlass.ports.store import Store
from windlass.ports.store.jobs import IterationFilter
from windlass.views.outputs import NULL, OutputReader
from windlass.wire import IterationView, LoopView, instant

# Rows read at once; each may contain an output of a quarter of a megabyte.
ROWS_READ_MAX = 100

# A ready iteration is dispatched in the same step, so that state is never stored.
IterationStatus = Literal[
    "pending", "dispatched", "running", "waiting", "completed", "failed", "skipped", "cancelled"
]
ITERATION_STATES: tuple[str, ...] = get_args(IterationStatus)


class StoredLoop(Struct, frozen=True):
    """The key of a loop's rows, and how many iterations it has and has dispatched."""

    job_id: str
    number: int
    generation: int
    total: int
    begun: int
    # The first attempt of this generation; a loop that runs again continues to count.
    first_attempt: int = 1

    def filter(self, status: str | None = None, after: int = -1, limit: int = 1) -> IterationFilter:
        """Return a filter of its rows."""
        return IterationFilter(
            job_id=self.job_id,
            number=self.number,
            generation=self.generation,
            status=status,
            after=after,
            limit=limit,
        )


class IterationSelection(Struct, frozen=True):
    """Iterations in a state, after an index."""

    status: str | None = None
    after: int = -1
    limit: int = 100


class _CompletedMeta(Struct, frozen=True):
    """The meta of a completed loop."""

    total: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0


_completed_meta = msgspec.json.Decoder(_CompletedMeta)


def iterations_total(status: str, progress: Raw | None, meta: Raw | None) -> int:
    """Return the number of a loop's iterations from its node's row; -1 if it is not known yet."""
    decoded = read_progress(progress)
    if decoded.total >= 0 or status != "completed":
        return decoded.total
    return _read_completed_meta(meta).total


def _read_completed_meta(meta: Raw | None) -> _CompletedMeta:
    if meta is None:
        return _CompletedMeta()
    return _completed_meta.decode(meta)


def stored_loop(plan: Plan, row: NodeRow) -> StoredLoop | None:
    """Return the loop of a node; None if it has none or has not started it."""
    number = plan.index[row.node_id]
    if plan.nodes[number].loop is None:
        return None
    total = iterations_total(row.status, row.progress, row.meta)
    if total < 0:
        return None
    progress = read_progress(row.progress)
    begun = total
    if progress.total >= 0:
        begun = progress.begun
    return StoredLoop(
        job_id=row.job_id,
        number=number,
        generation=progress.generation,
        total=total,
        begun=begun,
        first_attempt=progress.attempts + 1,
    )


async def loop_view(store: Store, plan: Plan, row: NodeRow) -> LoopView | None:
    """Return the progress of a node's loop, from its meta if it has completed, else by counting its rows."""
    loop = stored_loop(plan, row)
    if loop is None:
        return None
    if row.status == "completed":
        meta = _read_completed_meta(row.meta)
        return LoopView(
            total=loop.total,
            begun=loop.begun,
            completed=meta.succeeded,
            failed=meta.failed,
            skipped=meta.skipped,
        )
    counts = Counter(await store.jobs.iteration_counts(loop.job_id, loop.number, loop.generation))
    without_row = max(0, loop.begun - sum(counts.values()))
    return LoopView(
        total=loop.total,
        begun=loop.begun,
        completed=counts["completed"],
        failed=counts["failed"],
        skipped=counts["skipped"],
        running=counts["running"] + counts["dispatched"] + without_row,
        waiting=counts["waiting"],
        cancelled=counts["cancelled"],
    )


async def iteration_row(store: Store, loop: StoredLoop, index: int) -> IterationRow | None:
    """Return the row of an iteration, if it has one."""
    rows = await store.jobs.iterations(loop.filter(after=index - 1))
    if rows and rows[0].index == index:
        return rows[0]
    return None


async def iteration_views(
    store: Store,
    outputs: OutputReader,
    plan: Plan,
    row: NodeRow | None,
    selection: IterationSelection,
) -> list[IterationView]:
    """Return iterations of a node's loop; a node without a loop has one. START, END and unstarted nodes have none."""
    if row is None:
        return []
    loop = stored_loop(plan, row)
    if loop is not None:
        return await _LoopReader(store, outputs, loop).select(selection)
    node = plan.nodes[plan.index[row.node_id]]
    if node.kind is not NodeKind.TASK or node.loop is not None:
        return []
    if selection.after >= 0 or selection.status not in (None, row.status):
        return []
    (output,) = await outputs.read([row.output])
    return [_iteration_view(0, row, output)]


class _LoopReader:
    """Reads the iterations of one loop."""

    def __init__(self, store: Store, outputs: OutputReader, loop: StoredLoop) -> None:
        self._store = store
        self._outputs = outputs
        self._loop = loop

    async def select(self, selection: IterationSelection) -> list[IterationView]:
        """Return iterations by index, including those without a row."""
        status, after, limit = selection.status, selection.after, selection.limit
        loop = self._loop
        if status is None:
            return await self._all(after, limit)
        views = await self._recorded(status, after, limit)
        if status == "dispatched":
            indices: Iterable[int] = await self._store.jobs.unrecorded_iterations(
                loop.filter(after=after, limit=limit), loop.begun
            )
        elif status == "pending":
            first = max(after + 1, loop.begun)
            indices = range(first, min(loop.total, first + limit))
        else:
            return views
        views += [self._unrecorded(index) for index in indices]
        views.sort(key=lambda view: view.index)
        return views[:limit]

    async def _all(self, after: int, limit: int) -> list[IterationView]:
        views: list[IterationView] = []
        stop = min(self._loop.total, after + 1 + limit)
        for first in range(after + 1, stop, ROWS_READ_MAX):
            indices = range(first, min(stop, first + ROWS_READ_MAX))
            rows = await self._store.jobs.iterations(
                self._loop.filter(after=first - 1, limit=len(indices))
            )
            recorded = await self._views([row for row in rows if row.index in indices])
            by_index = {view.index: view for view in recorded}
            views += [by_index.get(index) or self._unrecorded(index) for index in indices]
        return views

    async def _recorded(self, status: str, after: int, limit: int) -> list[IterationView]:
        views: list[IterationView] = []
        while len(views) < limit:
            chunk = min(ROWS_READ_MAX, limit - len(views))
            rows = await self._store.jobs.iterations(self._loop.filter(status, after, chunk))
            views += await self._views(rows)
            if len(rows) < chunk:
                break
            after = rows[-1].index
        return views

    async def _views(self, rows: Sequence[IterationRow]) -> list[IterationView]:
        outputs = await self._outputs.read([row.output for row in rows])
        return [
            _iteration_view(row.index, row, output)
            for row, output in zip(rows, outputs, strict=True)
        ]

    def _unrecorded(self, index: int) -> IterationView:
        """Return an iteration without a row: on its first attempt if it was dispatched, else pending."""
        status, attempt = "pending", 0
        if index < self._loop.begun:
            status, attempt = "dispatched", self._loop.first_attempt
        return IterationView(
            index=index, status=status, attempt=attempt, output=NULL, error=NULL, meta=NULL
        )


def _iteration_view(index: int, row: IterationRow | NodeRow, output: Raw) -> IterationView:
    return IterationView(
        index=index,
        status=row.status,
        attempt=row.attempt,
        output=output,
        error=row.error or NULL,
        meta=row.meta or NULL,
        started_at=instant(row.first_started_at or row.started_at),
        completed_at=instant(row.completed_at),
        attempt_started_at=instant(row.started_at),
    )
