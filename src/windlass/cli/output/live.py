"""A running job on a terminal: every node of a small graph, counts and a bar for a large one."""

import time
from itertools import islice
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from windlass.cli.output.progress import ENDED, NodeProgress, Progress, spell_loop, spell_seconds
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS

NODES_SHOWN_MAX = 40
ACTIVE_SHOWN_MAX = 8
FAILED_SHOWN_MAX = 8
BAR_COLUMNS = 40
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINS_PER_SECOND = 10
# What a node in a state looks like: its mark and its colour.
LOOKS = {
    "pending": ("·", "dim"),
    "ready": ("·", ""),
    "dispatched": ("◌", "cyan"),
    "running": ("", "cyan"),
    "waiting": ("↻", "yellow"),
    "completed": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("→", "dim"),
    "cancelled": ("⊘", "yellow"),
}


class LiveView:
    """Redraws in place. The caller asks for each redraw, so that nothing is drawn half changed."""

    def __init__(self, progress: Progress, console: Console) -> None:
        self.progress = progress
        self.live = Live(console=console, auto_refresh=False, transient=False, redirect_stdout=False)

    def __enter__(self) -> Self:
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.update(self.picture(), refresh=True)
        self.live.stop()

    def show(self, event: Event) -> None:
        """Take the event into account; the next redraw shows it."""
        self.progress.apply(event)

    def refresh(self) -> None:
        """Draw what is known now."""
        self.live.update(self.picture(), refresh=True)

    def picture(self) -> RenderableType:
        """The whole view."""
        now = time.time_ns() // 1000
        return Group(
            self._header(now), self._nodes(now) if self.progress.total <= NODES_SHOWN_MAX else self._summary(now)
        )

    def _header(self, now: int) -> Text:
        progress = self.progress
        mark, colour = self._look(progress.status, now)
        header = Text.assemble(
            (f"{mark} ", colour), (progress.workflow_id, "bold"), (f"  job {progress.job_id}", "dim")
        )
        header.append(f"  {progress.done:,} of {progress.total:,} nodes  {spell_seconds(progress.seconds(now))}", "dim")
        header.no_wrap = True
        return header

    def _nodes(self, now: int) -> Table:
        table = self._table()
        for node_id, node in self.progress.nodes.items():
            self._add(table, node_id, node, now)
        return table

    def _summary(self, now: int) -> Group:
        progress = self.progress
        bar = Table.grid(padding=(0, 1))
        share = 100 * progress.done // max(1, progress.total)
        bar.add_row(
            "  ", ProgressBar(total=max(1, progress.total), completed=progress.done, width=BAR_COLUMNS), f"{share} %"
        )
        counts = Text("  ")
        for status, (_, colour) in LOOKS.items():
            if progress.counts.get(status):
                counts.append(f"{progress.counts[status]:,} {status}  ", colour)
        table = self._table()
        for members, limit in ((progress.active, ACTIVE_SHOWN_MAX), (progress.failed, FAILED_SHOWN_MAX)):
            for node_id in islice(members, limit):
                self._add(table, node_id, progress.nodes[node_id], now)
            if len(members) > limit:
                table.add_row("", Text(f"and {len(members) - limit:,} more", "dim"), "", "", "")
        return Group(bar, counts, table)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=3, justify="right")
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, style="dim")
        table.add_column(no_wrap=True)
        table.add_column(overflow="ellipsis", no_wrap=True)
        return table

    def _add(self, table: Table, node_id: str, node: NodeProgress, now: int) -> None:
        mark, colour = self._look(node.status, now)
        seconds = self.progress.seconds_of(node, now)
        attempt = f"attempt {node.attempt}" if node.attempt > 1 else ""
        said = node.message if node.status in ENDED | {"waiting"} else ""
        loop = spell_loop(node.loop) if node.loop is not None else ""
        took = spell_seconds(seconds) if seconds is not None else ""
        table.add_row(
            Text(mark, colour),
            Text(node_id, "dim" if node.status == "pending" else ""),
            self.progress.handlers[node_id],
            Text(node.status, colour),
            Text("  ".join(part for part in (loop, took, attempt, said) if part)),
        )

    def _look(self, status: str, now: int) -> tuple[str, str]:
        mark, colour = LOOKS[status]
        return mark or SPINNER[now * SPINS_PER_SECOND // MICROSECONDS % len(SPINNER)], colour
