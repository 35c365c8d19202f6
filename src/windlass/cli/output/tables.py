"""Jobs, nodes, events, logs and workers as tables and lines for people, as JSON for programs."""

from collections.abc import Sequence
from datetime import datetime

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from windlass.cli.output.live import LOOKS
from windlass.cli.output.progress import (
    LoopCounts,
    one_line,
    reason_in,
    spell_loop,
    spell_seconds,
    told,
    told_error,
    told_loop,
)
from windlass.cli.output.shapes import duration_seconds, is_null, told_event
from windlass.wire import EventView, IterationView, JobView, LogView, LoopView, NodeView, WorkerView

NODES_LISTED_MAX = 100
RESULT_CHARS_MAX = 10_000
OUTPUT_CHARS_MAX = 100
PIPE_COLUMNS = 200
UNWRAPPED = frozenset({"job", "status", "time", "event", "took", "created", "worker", "seen", "loop", "index"})
LEVEL_COLOURS = {"debug": "dim", "warning": "yellow", "error": "red"}


def print_json(document: object) -> None:
    """One document, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def print_json_line(document: object) -> None:
    """One document of many, on a line of its own."""
    click.echo(msgspec.json.encode(document))


def print_jobs(jobs: Sequence[JobView]) -> None:
    """A line a job."""
    if not jobs:
        click.echo("no such jobs")
        return
    table = _table("job", "workflow", "version", "status", "created", "took")
    for job in jobs:
        row = (job.job_id, job.workflow_id, str(job.version), _status(job.status), when(job.created_at))
        table.add_row(*row, _took(job.started_at, job.completed_at))
    console().print(table)


def print_job(job: JobView) -> None:
    """A job, its nodes and its result."""
    out = console()
    took = _took(job.started_at, job.completed_at)
    heading = Text.assemble(
        (job.workflow_id, "bold"), f" version {job.version}  job {job.job_id}  ", _status(job.status)
    )
    out.print(heading.append(f"  created {when(job.created_at)}" + (f"  took {took}" if took else "")))
    nodes = job.nodes or []
    has_loops = any(node.loop is not None for node in nodes)
    table = _table("node", "status", "attempt", "took", *(["loop"] if has_loops else []), "error")
    long = len(nodes) > NODES_LISTED_MAX
    listed = sorted(nodes, key=_urgency if long else _order)
    for node in listed[:NODES_LISTED_MAX]:
        cells = (node.node_id, _status(node.status), str(node.attempt or ""), _took(node.started_at, node.completed_at))
        loop = [_loop(node.loop)] if has_loops else []
        table.add_row(*cells, *loop, Text("" if is_null(node.error) else told_error(node.error)))
    out.print(table)
    if long:
        out.print(f"and {len(listed) - NODES_LISTED_MAX:,} more nodes; --json has them all", style="dim")
    text = msgspec.json.format(bytes(job.result_data), indent=2).decode()
    if out.is_terminal and len(text) > RESULT_CHARS_MAX:
        text = f"{text[:RESULT_CHARS_MAX]}\n… --json has the whole"
    click.echo(f"result: {text}")
    if not is_null(job.error):
        click.echo(f"error: {told_error(job.error)}")


def print_tasks(tasks: Sequence[IterationView]) -> None:
    """A line an iteration."""
    if not tasks:
        click.echo("no such tasks")
        return
    table = _table("index", "status", "attempt", "took", "")
    for task in tasks:
        cells = (str(task.index), _status(task.status), str(task.attempt or ""))
        table.add_row(*cells, _took(task.started_at, task.completed_at), Text(_brought(task)))
    console().print(table)


def _brought(task: IterationView) -> str:
    """What came of an iteration, in one short line."""
    if not is_null(task.error):
        return told_error(task.error)
    if is_null(task.output):
        return ""
    # A character has at most four bytes.
    head = bytes(memoryview(task.output)[: 4 * OUTPUT_CHARS_MAX + 4]).decode(errors="replace")
    return one_line(head, OUTPUT_CHARS_MAX)


def print_events(events: Sequence[EventView]) -> None:
    """A timeline."""
    table = _table("seq", "time", "event", "node", "attempt", "")
    for event in events:
        data = told(told_event(event))
        node = event.node_id or ""
        name = f"{node}[{event.index}]" if event.index is not None else node
        cells = (str(event.seq), when(event.timestamp, exact=True), event.event_type, name)
        table.add_row(*cells, str(data.attempt_number or ""), Text(reason_in(data) or told_loop(data)))
    console().print(table)


def print_log(line: LogView, out: Console) -> None:
    """A line of a log; a long one is not folded, so that it can be searched."""
    attempt = f"#{line.attempt}" if line.attempt > 1 else ""
    text = Text.assemble(
        (f"{when(line.timestamp, exact=True)}  ", "dim"),
        f"{line.node_id}{f'[{line.index}]' if line.index else ''}{attempt}  ",
        (f"{line.level:<7}  ", LEVEL_COLOURS.get(line.level, "")),
        one_line(line.message, len(line.message)),
    )
    out.print(text, soft_wrap=True)


def print_workers(workers: Sequence[WorkerView]) -> None:
    """A line a worker."""
    if not workers:
        click.echo("no workers")
        return
    table = _table("worker", "status", "queues", "running", "seen")
    for worker in workers:
        status = Text("alive", "green") if worker.alive else Text("silent", "red")
        cells = (worker.worker_id, status, ", ".join(worker.queues), str(worker.running))
        table.add_row(*cells, when(worker.seen_at))
    console().print(table)


def console() -> Console:
    """Standard output for tables."""
    out = Console(highlight=False)
    # Without a terminal rich would fold everything into 80 columns, and scripts would see cut names.
    return out if out.is_terminal else Console(highlight=False, width=PIPE_COLUMNS)


def when(instant: str, *, exact: bool = False) -> str:
    """An instant on the reader's wall clock."""
    local = datetime.fromisoformat(instant).astimezone()
    return f"{local:%H:%M:%S.%f}"[:-3] if exact else f"{local:%Y-%m-%d %H:%M:%S}"


def _order(node: NodeView) -> tuple[bool, str]:
    """As things happened; ISO instants sort as texts."""
    at = node.started_at or node.completed_at
    return at is None, at or ""


def _urgency(node: NodeView) -> tuple[int, bool, str]:
    """What went wrong first, then what is still to end: that is what one looks for in a long list."""
    rank = {"failed": 0, "running": 1, "waiting": 1, "dispatched": 1, "cancelled": 3, "completed": 4}
    return rank.get(node.status, 2), *_order(node)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column in UNWRAPPED)
    return table


def _status(status: str) -> Text:
    return Text(status, LOOKS[status][1])


def _loop(loop: LoopView | None) -> str:
    if loop is None:
        return ""
    counts = LoopCounts(loop.total, loop.completed, loop.failed, loop.skipped, loop.cancelled)
    waiting = f", {loop.waiting:,} waiting" if loop.waiting else ""
    return spell_loop(counts) + waiting


def _took(started_at: str | None, completed_at: str | None) -> str:
    seconds = duration_seconds(started_at, completed_at)
    return "" if seconds is None else spell_seconds(seconds)
