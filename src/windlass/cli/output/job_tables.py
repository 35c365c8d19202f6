"""Jobs, iterations, events, logs and workers as tables."""

from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from windlass.cli.output.console import Cells, console, new_table, print_rows
from windlass.cli.output.event_data import (
    LoopCounts,
    decode_data,
    format_counts,
    format_failures,
    format_loop_event,
    format_raw_error,
    format_reason,
    from_wire,
    is_null,
)
from windlass.cli.output.results import exhausted_pages, format_result, format_warnings
from windlass.cli.output.styles import LEVEL_STYLES, STATUS_STYLES
from windlass.cli.output.text import one_line, plural
from windlass.cli.output.times import format_duration, local_clock_time, local_time
from windlass.wire import (
    EventView,
    IterationView,
    JobView,
    LogView,
    LoopView,
    NodeView,
    QueueView,
    WorkerView,
)

NODES_LISTED_MAX = 100
OUTPUT_CHARS_MAX = 100
# In long lists, nodes that failed or have not finished come first.
STATUS_RANKS = {
    "failed": 0,
    "running": 1,
    "waiting": 1,
    "dispatched": 1,
    "cancelled": 3,
    "completed": 4,
}
OTHER_RANK = 2


def print_jobs(jobs: Sequence[JobView]) -> None:
    """Print one line per job."""
    columns = ("job", "workflow", "status", "created", "duration")
    wrapped = {"workflow", "status"}
    print_rows(jobs, _job_row, columns=columns, wrapped=wrapped, empty="no jobs found")


def _job_row(job: JobView) -> Cells:
    return (
        job.job_id,
        f"{job.workflow_id} v{job.version}",
        job_status(job.status, job.failures),
        local_time(job.created_at),
        format_duration(job.started_at, job.completed_at),
    )


def print_job(job: JobView) -> None:
    """Print a job, its nodes and its result."""
    out = console()
    out.print(_job_heading(job))
    out.print(_job_times(job), style="dim")
    parents = _parents(job)
    if parents:
        out.print(f"{job.origin} of {parents}", style="dim")
    nodes = sorted(job.nodes or [], key=_chronological)
    if len(nodes) > NODES_LISTED_MAX:
        nodes.sort(key=_rank)
    out.print(_node_table(nodes[:NODES_LISTED_MAX]))
    if len(nodes) > NODES_LISTED_MAX:
        out.print(
            f"and {len(nodes) - NODES_LISTED_MAX:,} more nodes; --json lists all of them",
            style="dim",
        )
    click.echo(f"result: {format_result(job, is_terminal=out.is_terminal)}")
    if not is_null(job.error):
        click.echo(f"error: {format_raw_error(job.error)}")
    for line in format_warnings(job):
        click.echo(f"warning: {line}")


def _job_heading(job: JobView) -> Text:
    return Text.assemble(
        (job.workflow_id, "bold"),
        f" version {job.version}  job {job.job_id}  ",
        job_status(job.status, job.failures),
    )


def _parents(job: JobView) -> str:
    """Return the run and the job that a job was started for."""
    found = {"run": job.parent_run_id, "job": job.parent_job_id}
    return ", ".join(f"{kind} {one}" for kind, one in found.items() if one is not None)


def _job_times(job: JobView) -> str:
    times = f"created {local_time(job.created_at)}"
    duration = format_duration(job.started_at, job.completed_at)
    if duration:
        times += f", duration {duration}"
    return times


def _node_table(nodes: Sequence[NodeView]) -> Table:
    has_loops = any(node.loop is not None for node in nodes)
    columns = ["node", "status", "attempt", "duration", "error"]
    if has_loops:
        columns.insert(4, "iterations")
    table = new_table(*columns, wrapped={"error"})
    for node in nodes:
        cells: list[str | Text] = [
            node.node_id,
            _status(node.status),
            str(node.attempt or ""),
            _duration(node),
            Text(format_raw_error(node.error)),
        ]
        if has_loops:
            cells.insert(4, _loop(node.loop))
        table.add_row(*cells)
    return table


def print_iterations(iterations: Sequence[IterationView]) -> None:
    """Print one line per iteration of a loop."""
    columns = ("index", "status", "attempt", "duration", "output or error")
    print_rows(
        iterations,
        _iteration_row,
        columns=columns,
        wrapped={"output or error"},
        empty="no iterations found",
    )


def _iteration_row(iteration: IterationView) -> Cells:
    return (
        str(iteration.index),
        _status(iteration.status),
        str(iteration.attempt or ""),
        _duration(iteration),
        _outcome(iteration),
    )


def _duration(unit: NodeView | IterationView) -> str:
    """Return the time over all attempts, and that of the last one if there were several."""
    total = format_duration(unit.started_at, unit.completed_at)
    if not total or unit.attempt_started_at in (None, unit.started_at):
        return total
    return f"{total}, last {format_duration(unit.attempt_started_at, unit.completed_at)}"


def _outcome(iteration: IterationView) -> Text:
    if not is_null(iteration.error):
        return Text(format_raw_error(iteration.error))
    if is_null(iteration.output):
        return Text()
    # Outputs may be large, and a character has at most four bytes.
    head = bytes(memoryview(iteration.output)[: 4 * OUTPUT_CHARS_MAX + 4]).decode(errors="replace")
    text = one_line(head, OUTPUT_CHARS_MAX)
    if exhausted_pages(iteration.meta) is not None:
        text = f"more pages left: {text}"
    return Text(text, no_wrap=True, overflow="ellipsis")


def print_events(events: Sequence[EventView]) -> None:
    """Print one line per event."""
    columns = ("seq", "time", "event", "node", "attempt", "details")
    print_rows(events, _event_row, columns=columns, wrapped={"details"}, empty="no events found")


def _event_row(event: EventView) -> Cells:
    data = decode_data(from_wire(event))
    return (
        str(event.seq),
        local_clock_time(event.timestamp),
        event.event_type,
        _node_name(event.node_id or "", event.index),
        str(data.attempt_number or ""),
        Text(format_reason(data) or format_loop_event(data) or format_failures(data.failures)),
    )


def print_log(line: LogView, out: Console) -> None:
    """Print a log line without wrapping, so that it can be searched."""
    name = _node_name(line.node_id, line.index or None)
    if line.attempt > 1:
        name += f"#{line.attempt}"
    text = Text.assemble(
        (f"{local_clock_time(line.timestamp)}  ", "dim"),
        f"{name}  ",
        (f"{line.level:<7}  ", LEVEL_STYLES.get(line.level, "")),
        one_line(line.message, len(line.message)),
    )
    out.print(text, soft_wrap=True)


def print_workers(workers: Sequence[WorkerView]) -> None:
    """Print one line per worker."""
    columns = ("worker", "status", "queues", "running", "last heartbeat")
    print_rows(
        workers, _worker_row, columns=columns, wrapped={"queues"}, empty="no workers connected"
    )


def print_unserved(queues: Sequence[QueueView]) -> None:
    """Print one line per handler whose tasks wait for a worker that has it."""
    for queue in queues:
        for unserved in queue.unserved:
            click.echo(
                f"no worker on queue {queue.queue} has the handler {unserved.handler}: "
                f"{plural(unserved.tasks, 'waiting task')}"
            )


def _worker_row(worker: WorkerView) -> Cells:
    status = Text("stale", "red")
    if worker.alive:
        status = Text("healthy", "green")
    return (
        worker.worker_id,
        status,
        ", ".join(worker.queues),
        str(worker.running),
        local_time(worker.seen_at),
    )


def _chronological(node: NodeView) -> tuple[bool, str]:
    """Sort by start; ISO instants sort as text. Nodes that have not started come last."""
    at = node.started_at or node.completed_at
    return at is None, at or ""


def _rank(node: NodeView) -> int:
    return STATUS_RANKS.get(node.status, OTHER_RANK)


def _node_name(node_id: str, index: int | None) -> str:
    if index is None:
        return node_id
    return f"{node_id}[{index}]"


def _status(status: str) -> Text:
    return Text(status, STATUS_STYLES[status])


def job_status(status: str, failures: int) -> Text:
    """Return the status of a job, and how many failures it tolerated."""
    text = _status(status)
    if failures and status == "completed":
        text.append(f" with {format_failures(failures)}", STATUS_STYLES["failed"])
    return text


def _loop(loop: LoopView | None) -> str:
    if loop is None:
        return ""
    counts = LoopCounts(
        total=loop.total,
        completed=loop.completed,
        failed=loop.failed,
        skipped=loop.skipped,
        cancelled=loop.cancelled,
    )
    if loop.waiting:
        return f"{format_counts(counts)}, {loop.waiting:,} waiting"
    return format_counts(counts)
