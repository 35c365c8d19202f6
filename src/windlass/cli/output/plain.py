"""A running job as timestamped lines, for pipes, logs and terminals that can do no more."""

from datetime import datetime

import click

from windlass.cli.output.progress import NodeProgress, Progress, names, spell_loop, spell_seconds
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS

# Above this many nodes, single steps drown what matters: ends of nodes become counts.
NODES_TOLD_MAX = 200
COUNT_EVERY_MICROSECONDS = 2 * MICROSECONDS
RUNNING_NAMED_MAX = 3

TOLD = {
    "node_started": "started",
    "node_retrying": "will try again",
    "worker_lost": "lost its worker",
    "node_completed": "completed",
    "node_failed": "failed",
    "node_skipped": "skipped",
    "node_cancelled": "cancelled",
}
TOLD_ALWAYS = frozenset({"node_failed", "node_retrying", "worker_lost"})
FAILURES_TOLD_MAX = 50


class PlainView:
    """Prints a line for each event worth one."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.width = min(40, max((len(node_id) for node_id in progress.nodes), default=0))
        self.counted_at = 0
        self.failures_told = 0
        # When each loop was last counted.
        self.loops_told: dict[str, int] = {}

    def show(self, event: Event) -> None:
        """Take the event into account and print what it means."""
        self.progress.apply(event)
        if event.index is not None:
            self._show_loop(event)
        elif event.node_id is None:
            self._show_job(event)
        elif event.type in TOLD and event.node_id in self.progress.nodes:
            self._show_node(event, event.node_id)

    def refresh(self) -> None:
        """Nothing moves here."""

    def _show_job(self, event: Event) -> None:
        progress = self.progress
        if event.type == "job_created":
            self._say(event.at, f"job {progress.job_id} of {progress.workflow_id}: {progress.total:,} nodes")
        elif event.type == "job_retried":
            self._say(event.at, "the job is tried again")
        elif progress.ended_at is not None:
            self._say(event.at, f"job {progress.status} after {spell_seconds(progress.seconds(event.at))}")

    def _show_node(self, event: Event, node_id: str) -> None:
        if self.progress.total > NODES_TOLD_MAX and not self._matters(event):
            if event.at - self.counted_at >= COUNT_EVERY_MICROSECONDS:
                self.counted_at = event.at
                self._say(event.at, self._counts())
            return
        node = self.progress.nodes[node_id]
        self._say(event.at, f"{node_id:<{self.width}}  {TOLD[event.type]}{self._detail(node, event)}")

    def _show_loop(self, event: Event) -> None:
        """A loop's iterations are counted now and then, however many there are."""
        node_id = event.node_id or ""
        if event.at - self.loops_told.setdefault(node_id, event.at) < COUNT_EVERY_MICROSECONDS:
            return
        self.loops_told[node_id] = event.at
        node = self.progress.nodes.get(node_id)
        if node is not None and node.loop is not None:
            self._say(event.at, f"{node_id:<{self.width}}  {spell_loop(node.loop)}")

    def _matters(self, event: Event) -> bool:
        self.failures_told += event.type in TOLD_ALWAYS
        return event.type in TOLD_ALWAYS and self.failures_told <= FAILURES_TOLD_MAX

    def _detail(self, node: NodeProgress, event: Event) -> str:
        attempt = f" (attempt {node.attempt})" if node.attempt > 1 else ""
        seconds = self.progress.seconds_of(node, event.at)
        took = f" in {spell_seconds(seconds)}" if event.type == "node_completed" and seconds is not None else ""
        loop = f" {spell_loop(node.loop)}" if node.loop is not None and node.ended_at is not None else ""
        return f"{loop}{took}{attempt}" + (f": {node.message}" if node.message else "")

    def _counts(self) -> str:
        progress = self.progress
        running = list(progress.active)
        at_work = f", {len(running):,} at work ({names(running, RUNNING_NAMED_MAX)})" if running else ""
        failed = f", {len(progress.failed):,} failed" if progress.failed else ""
        return f"{progress.done:,} of {progress.total:,} nodes done{at_work}{failed}"

    def _say(self, at: int, text: str) -> None:
        # The reader's wall clock, so local time on purpose.
        when = datetime.fromtimestamp(at / MICROSECONDS).astimezone()
        click.echo(f"{when:%H:%M:%S}.{at % MICROSECONDS // 1000:03}  {text}")
