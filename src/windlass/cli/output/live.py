"""Displays a running job on a terminal: every node of a small graph, counts and a progress bar for a large one."""

import time
from collections.abc import Collection
from itertools import islice
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from windlass.cli.output.event_data import format_counts, format_failures
from windlass.cli.output.progress import JobProgress, NodeProgress
from windlass.cli.output.styles import STATUS_STYLES, STATUS_SYMBOLS
from windlass.cli.output.times import format_seconds
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.states import FINAL_LABELS

NODES_LISTED_MAX = 40
ACTIVE_LISTED_MAX = 8
FAILED_LISTED_MAX = 8
BAR_COLUMNS = 40
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINNER_STEPS_PER_SECOND = 10


class LiveDisplay:
    """Redraws in place whenever the caller asks for it, so that no half-applied state is drawn."""

    def __init__(self, progress: JobProgress, console: Console) -> None:
        self.progress = progress
        self.live = Live(
            console=console, auto_refresh=False, transient=False, redirect_stdout=False
        )

    def __enter__(self) -> Self:
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.refresh()
        self.live.stop()

    def show(self, event: Event) -> None:
        """Apply the event; the next refresh draws it."""
        self.progress.apply(event)

    def refresh(self) -> None:
        """Draw the current state."""
        self.live.update(self.render(), refresh=True)

    def render(self) -> RenderableType:
        """Return the whole display."""
        now = time.time_ns() // 1000
        if self.progress.total <= NODES_LISTED_MAX:
            return Group(self._header(now), self._node_table(now))
        return Group(self._header(now), self._summary(now))

    def _header(self, now: int) -> Text:
        progress = self.progress
        style = STATUS_STYLES[progress.status]
        header = Text(no_wrap=True, overflow="ellipsis")
        header.append(f"{_symbol(progress.status, now)} ", style)
        header.append(progress.workflow_id, "bold")
        header.append(f"  job {progress.job_id}", "dim")
        header.append(f"  {progress.finished:,} of {progress.total:,} nodes", "dim")
        header.append(f"  {format_seconds(progress.seconds(now))}", "dim")
        if progress.failures:
            header.append(f"  with {format_failures(progress.failures)}", STATUS_STYLES["failed"])
        return header

    def _node_table(self, now: int) -> Table:
        table = _new_table()
        for node_id, node in self.progress.nodes.items():
            self._add_node(table, node_id, node, now)
        return table

    def _summary(self, now: int) -> Group:
        progress = self.progress
        bar = Table.grid(padding=(0, 1))
        percent = 100 * progress.finished // progress.total
        bar.add_row(
            "  ",
            ProgressBar(total=progress.total, completed=progress.finished, width=BAR_COLUMNS),
            f"{percent} %",
        )
        counts = Text("  ")
        for status, style in STATUS_STYLES.items():
            if progress.counts.get(status):
                counts.append(f"{progress.counts[status]:,} {status}  ", style)
        table = _new_table()
        self._add_some(table, progress.active, ACTIVE_LISTED_MAX, now)
        self._add_some(table, progress.failed, FAILED_LISTED_MAX, now)
        return Group(bar, counts, table)

    def _add_some(self, table: Table, node_ids: Collection[str], limit: int, now: int) -> None:
        for node_id in islice(node_ids, limit):
            self._add_node(table, node_id, self.progress.nodes[node_id], now)
        if len(node_ids) > limit:
            table.add_row("", Text(f"and {len(node_ids) - limit:,} more", "dim"), "", "", "")

    def _add_node(self, table: Table, node_id: str, node: NodeProgress, now: int) -> None:
        style = STATUS_STYLES[node.status]
        name_style = ""
        if node.status == "pending":
            name_style = "dim"
        table.add_row(
            Text(_symbol(node.status, now), style),
            Text(node_id, name_style),
            self.progress.handlers[node_id],
            Text(node.status, style),
            Text("  ".join(_details(node, now)), no_wrap=True, overflow="ellipsis"),
        )


def _new_table() -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=3, justify="right")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True)
    # The only column that may shrink; its texts are cut instead of wrapped.
    table.add_column()
    return table


def _details(node: NodeProgress, now: int) -> list[str]:
    details: list[str] = []
    if node.loop is not None:
        details.append(format_counts(node.loop))
    seconds = node.seconds(now)
    if seconds is not None:
        details.append(format_seconds(seconds))
    if node.attempt > 1:
        details.append(f"attempt {node.attempt}")
    if node.message and (node.status in FINAL_LABELS or node.status == "waiting"):
        details.append(node.message)
    return details


def _symbol(status: str, now: int) -> str:
    if status == "running":
        return SPINNER[now * SPINNER_STEPS_PER_SECOND // MICROSECONDS % len(SPINNER)]
    return STATUS_SYMBOLS[status]
