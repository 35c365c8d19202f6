"""`windlass jobs`: looks into the jobs of the embedded database, also while another process runs them."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from windlass.cli.live import LOOKS
from windlass.cli.loop import run_async
from windlass.cli.progress import MICROSECONDS, reason_in, spell_seconds, told, told_error
from windlass.cli.shapes import duration_seconds, event_shape, job_shape, node_shape
from windlass.core.changes import Event, NodeRow
from windlass.core.errors import JobNotFound
from windlass.core.states import JOB_STATES
from windlass.ports.store import JobFilter, Store, StoredJob
from windlass.settings import load_settings
from windlass.wiring import JobResult, job_result, open_reader

Result = TypeVar("Result")

LIST_MAX = 1_000
EVENTS_MAX = 100_000
EVENTS_PAGE = 1_000
NODES_LISTED_MAX = 100
RESULT_CHARS_MAX = 10_000
PIPE_COLUMNS = 200
NEVER = 1 << 62

DATABASE = click.option("--database", metavar="URL", help="Where the jobs are (default: this folder's .windlass/).")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """Look into the jobs of the embedded database, also while another process runs them."""


@command.command("list")
@DATABASE
@AS_JSON
@click.option("--limit", type=click.IntRange(1, LIST_MAX), default=20, show_default=True)
@click.option("--status", type=click.Choice(sorted(JOB_STATES)), help="Only jobs in this state.")
@click.option("--workflow", metavar="ID", help="Only jobs of this workflow.")
@click.option("--cursor", metavar="CURSOR", help="Go on after a page: its next_cursor.")
def list_jobs(
    database: str | None, as_json: bool, limit: int, status: str | None, workflow: str | None, cursor: str | None
) -> int:
    """List jobs, newest first."""
    wanted = JobFilter(workflow_id=workflow, status=status, before=_before(cursor), limit=limit)
    jobs = _read(database, lambda store: store.jobs(wanted))
    if as_json:
        last = jobs[-1] if len(jobs) == limit else None
        after = f"{last.created_at}:{last.job_id}" if last is not None else None
        _print_json({"items": [job_shape(job) for job in jobs], "next_cursor": after})
    elif not jobs:
        click.echo("no such jobs")
    else:
        _print_jobs(jobs)
    return 0


@command.command("show")
@click.argument("job_id", required=False)
@DATABASE
@AS_JSON
def show_job(job_id: str | None, database: str | None, as_json: bool) -> int:
    """Show one job with its nodes and its result (the newest one, unless JOB_ID names another)."""

    async def read(store: Store) -> JobResult:
        return await job_result(store, await _job_id(store, job_id))

    result = _read(database, read)
    if as_json:
        nodes = [node_shape(row) for row in result.nodes]
        _print_json({**job_shape(result.job), "result_data": result.result_data, "nodes": nodes})
    else:
        _print_job(result)
    return 0


@command.command("events")
@click.argument("job_id", required=False)
@DATABASE
@AS_JSON
@click.option("--limit", type=click.IntRange(1, EVENTS_MAX), default=1_000, show_default=True)
@click.option("--after", type=click.IntRange(0), default=0, metavar="SEQ", help="Only events after this one.")
def show_events(job_id: str | None, database: str | None, as_json: bool, limit: int, after: int) -> int:
    """Show a job's timeline (the newest job's, unless JOB_ID names another)."""

    async def read(store: Store) -> tuple[str, list[Event]]:
        found = await _job_id(store, job_id)
        await store.job(found)
        return found, await _events(store, found, after, limit)

    found, events = _read(database, read)
    if as_json:
        _print_json({"items": [event_shape(found, event) for event in events], "next_cursor": None})
    else:
        _print_events(events)
    return 0


def _read(database: str | None, question: Callable[[Store], Awaitable[Result]]) -> Result:
    settings = load_settings({} if database is None else {"database_url": database}).settings

    async def ask() -> Result:
        async with open_reader(settings) as store:
            return await question(store)

    return run_async(ask())


async def _job_id(store: Store, job_id: str | None) -> str:
    if job_id is not None:
        return job_id
    newest = await store.jobs(JobFilter(limit=1))
    if not newest:
        raise JobNotFound("there is no job yet: `windlass run FILE` makes one")
    return newest[0].job_id


async def _events(store: Store, job_id: str, after: int, limit: int) -> list[Event]:
    events: list[Event] = []
    while len(events) < limit:
        page = await store.events(job_id, after, min(EVENTS_PAGE, limit - len(events)))
        if not page:
            break
        events.extend(page)
        after = page[-1].seq
    return events


def _before(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    created_at, _, job_id = cursor.partition(":")
    if not created_at.isdigit() or not job_id:
        raise click.BadParameter(f"{cursor!r} is not the next_cursor of a page", param_hint="--cursor")
    return int(created_at), job_id


def _print_json(document: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def _print_jobs(jobs: Sequence[StoredJob]) -> None:
    table = _table("job", "workflow", "version", "status", "created", "took")
    for job in jobs:
        row = (job.job_id, job.workflow_id, str(job.version), _status(job.status), _when(job.created_at))
        table.add_row(*row, _took(job.started_at, job.completed_at))
    _console().print(table)


def _print_job(result: JobResult) -> None:
    job, console = result.job, _console()
    took = _took(job.started_at, job.completed_at)
    heading = Text.assemble(
        (job.workflow_id, "bold"), f" version {job.version}  job {job.job_id}  ", _status(job.status)
    )
    console.print(heading.append(f"  created {_when(job.created_at)}" + (f"  took {took}" if took else "")))
    table = _table("node", "status", "attempt", "took", "error")
    long = len(result.nodes) > NODES_LISTED_MAX
    listed = sorted(result.nodes, key=_urgency if long else _order)
    for row in listed[:NODES_LISTED_MAX]:
        cells = (row.node_id, _status(row.status), str(row.attempt or ""), _took(row.started_at, row.completed_at))
        table.add_row(*cells, _error(row))
    console.print(table)
    if long:
        console.print(f"and {len(listed) - NODES_LISTED_MAX:,} more nodes; --json has them all", style="dim")
    text = msgspec.json.format(bytes(result.result_data), indent=2).decode()
    if console.is_terminal and len(text) > RESULT_CHARS_MAX:
        text = f"{text[:RESULT_CHARS_MAX]}\n… --json has the whole"
    click.echo(f"result: {text}")
    if job.error is not None:
        click.echo(f"error: {told_error(job.error)}")


def _order(row: NodeRow) -> int:
    """As things happened."""
    return row.started_at or row.dispatched_at or row.completed_at or NEVER


def _urgency(row: NodeRow) -> tuple[int, int]:
    """What went wrong first, then what is still to end: that is what one looks for in a long list."""
    rank = {"failed": 0, "running": 1, "waiting": 1, "dispatched": 1, "cancelled": 3, "completed": 4}
    return rank.get(row.status, 2), _order(row)


def _print_events(events: Sequence[Event]) -> None:
    table = _table("seq", "time", "event", "node", "attempt", "")
    for event in events:
        data = told(event)
        node = event.node_id or ""
        name = f"{node}[{event.index}]" if event.index is not None else node
        cells = (str(event.seq), _when(event.at, exact=True), event.type, name, str(data.attempt_number or ""))
        table.add_row(*cells, Text(reason_in(data)))
    _console().print(table)


def _console() -> Console:
    console = Console(highlight=False)
    # Without a terminal rich would fold everything into 80 columns, and scripts would see cut names.
    return console if console.is_terminal else Console(highlight=False, width=PIPE_COLUMNS)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column in ("job", "status", "time", "event", "took", "created"))
    return table


def _status(status: str) -> Text:
    return Text(status, LOOKS[status][1])


def _error(row: NodeRow) -> Text:
    return Text("" if row.error is None else told_error(row.error))


def _when(at: int, *, exact: bool = False) -> str:
    local = datetime.fromtimestamp(at / MICROSECONDS).astimezone()
    return f"{local:%H:%M:%S.%f}"[:-3] if exact else f"{local:%Y-%m-%d %H:%M:%S}"


def _took(started_at: int | None, completed_at: int | None) -> str:
    seconds = duration_seconds(started_at, completed_at)
    return "" if seconds is None else spell_seconds(seconds)
