"""Displays a running job as lines with timestamps, for pipes and logs."""

from datetime import datetime

import click

from windlass.cli.output.event_data import (
    decode_data,
    format_counts,
    format_failures,
    format_reason,
)
from windlass.cli.output.progress import JobProgress, NodeProgress
from windlass.cli.output.text import list_names, plural
from windlass.cli.output.times import format_seconds
from windlass.core.events import Event, EventType, Subject
from windlass.core.instants import MICROSECONDS

JOB_CREATED: str = EventType.JOB_CREATED
JOB_RETRIED: str = EventType.JOB_RETRIED
NODE_COMPLETED: str = EventType.NODE_COMPLETED
# Above this many nodes, transitions are summarized as counts.
NODES_LISTED_MAX = 200
SUMMARY_MICROSECONDS = 2 * MICROSECONDS
RUNNING_LISTED_MAX = 3
NAME_COLUMNS_MAX = 40
# Problems have lines of their own in large jobs too, up to a limit.
PROBLEMS = frozenset({EventType.NODE_FAILED, EventType.NODE_RETRYING, EventType.WORKER_LOST})
PROBLEMS_LISTED_MAX = 50
# Events of nodes have lines, except steps that other lines imply.
NOT_LISTED = {
    EventType.NODE_READY,
    EventType.NODE_DISPATCHED,
    EventType.CALLS_COMPLETED,
    EventType.RESULT_IGNORED,
}
LISTED = {event for event in EventType if event.subject is Subject.NODE} - NOT_LISTED


class PlainDisplay:
    """Prints a line for each important event."""

    def __init__(self, progress: JobProgress) -> None:
        self.progress = progress
        self.name_columns = min(
            NAME_COLUMNS_MAX, max((len(node_id) for node_id in progress.nodes), default=0)
        )
        self.summarized_at = 0
        self.problems_listed = 0
        # When the counts of each loop were last printed.
        self.loops_printed_at: dict[str, int] = {}

    def show(self, event: Event) -> None:
        """Apply the event and print its line."""
        self.progress.apply(event)
        if event.index is not None:
            self._show_loop(event)
        elif event.node_id is None:
            self._show_job(event)
        elif event.type in LISTED and event.node_id in self.progress.nodes:
            self._show_node(event, event.node_id)

    def refresh(self) -> None:
        """Do nothing: lines are printed once."""

    def _show_job(self, event: Event) -> None:
        progress = self.progress
        if event.type == JOB_CREATED:
            nodes = plural(progress.total, "node")
            self._print(
                event.at, f"job {progress.job_id} created: workflow {progress.workflow_id}, {nodes}"
            )
        elif event.type == JOB_RETRIED:
            self._print(event.at, "job retried")
        elif progress.ended_at is not None:
            outcome = progress.status
            if progress.failures:
                outcome += f" with {format_failures(progress.failures)}"
            seconds = format_seconds(progress.seconds(event.at))
            self._print(event.at, f"job {outcome} after {seconds}")

    def _show_node(self, event: Event, node_id: str) -> None:
        if self.progress.total > NODES_LISTED_MAX and not self._is_listed(event):
            self._print_summary(event.at)
            return
        node = self.progress.nodes[node_id]
        data = decode_data(event)
        if data.is_call:
            self._print_for(event.at, node_id, format_reason(data))
            return
        words = EventType(event.type).words
        self._print_for(event.at, node_id, f"{words}{self._details(node, event)}")

    def _show_loop(self, event: Event) -> None:
        """Print the counts of a loop from time to time, regardless of its size."""
        node_id = event.node_id or ""
        printed_at = self.loops_printed_at.setdefault(node_id, event.at)
        if event.at - printed_at < SUMMARY_MICROSECONDS:
            return
        self.loops_printed_at[node_id] = event.at
        node = self.progress.nodes.get(node_id)
        if node is not None and node.loop is not None:
            self._print_for(event.at, node_id, format_counts(node.loop))

    def _is_listed(self, event: Event) -> bool:
        if event.type not in PROBLEMS or decode_data(event).is_call:
            return False
        self.problems_listed += 1
        return self.problems_listed <= PROBLEMS_LISTED_MAX

    def _details(self, node: NodeProgress, event: Event) -> str:
        details = ""
        if node.loop is not None and node.ended_at is not None:
            details += f" {format_counts(node.loop)}"
        seconds = node.seconds(event.at)
        if event.type == NODE_COMPLETED and seconds is not None:
            details += f" in {format_seconds(seconds)}"
        if node.attempt > 1:
            details += f" (attempt {node.attempt})"
        # An event without a status is not part of the node's progress, so its reason is not in the node.
        reason = format_reason(decode_data(event))
        if reason:
            details += f": {reason}"
        return details

    def _print_summary(self, at: int) -> None:
        if at - self.summarized_at < SUMMARY_MICROSECONDS:
            return
        self.summarized_at = at
        progress = self.progress
        parts = [f"{progress.finished:,} of {progress.total:,} nodes finished"]
        if progress.active:
            names = list_names(list(progress.active), RUNNING_LISTED_MAX)
            parts.append(f"{len(progress.active):,} active ({names})")
        if progress.failed:
            parts.append(f"{len(progress.failed):,} failed")
        self._print(at, ", ".join(parts))

    def _print_for(self, at: int, node_id: str, text: str) -> None:
        self._print(at, f"{node_id:<{self.name_columns}}  {text}")

    def _print(self, at: int, text: str) -> None:
        # Local time, for the person who reads the lines.
        time = datetime.fromtimestamp(at / MICROSECONDS).astimezone()
        click.echo(f"{time:%H:%M:%S}.{at % MICROSECONDS // 1000:03}  {text}")
