"""`windlass jobs`: looks into jobs of the embedded database or of a server, and acts on those of a server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import click

from windlass.cli.follow import follow_to_end
from windlass.cli.job_sources import Source, Wanted, WantedLines, opened
from windlass.cli.output.tables import (
    console,
    print_events,
    print_job,
    print_jobs,
    print_json,
    print_json_line,
    print_log,
    print_tasks,
)
from windlass.cli.runner import run_async
from windlass.cli.server_address import SERVER, ask, ask_until_stopped
from windlass.client import Client
from windlass.core.errors import JobNotFound
from windlass.core.states import NODE_STATES, JobStatus
from windlass.wire import Event, Job, Log, Page, Task

Result = TypeVar("Result")
Item = TypeVar("Item")

LIST_MAX = 1_000
EVENTS_MAX = 100_000
LINES_MAX = 1_000_000
TASKS_MAX = 1_000_000
# Nobody sees an iteration that is ready: it is dispatched in the same step.
TASK_STATES = sorted(NODE_STATES.keys() - {"ready"})

DATABASE = click.option("--database", metavar="URL", help="Where the jobs are (default: this folder's .windlass/).")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
WAIT = click.option("--wait", is_flag=True, help="Follow the job to its end; exit 1 if it does not complete.")
NODE = click.option("--node", metavar="NODE", help="Only lines of this node.")
ATTEMPT = click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only lines of this attempt.")
INDEX = click.option("--index", type=click.IntRange(0), metavar="N", help="Only lines of this iteration of a loop.")
STATUS = click.option("--status", type=click.Choice(sorted(JobStatus)), help="Only jobs in this state.")
TASK_STATUS = click.option("--status", type=click.Choice(TASK_STATES), help="Only iterations in this state.")


@click.group()
def command() -> None:
    """Look into jobs, stop them and run them again.

    With --server or WINDLASS_SERVER the jobs are those of a server; without, list, show, events and logs read the
    embedded database, also while another process works on it.
    """


@command.command("list")
@SERVER
@DATABASE
@AS_JSON
@click.option("--limit", type=click.IntRange(1, LIST_MAX), default=20, show_default=True)
@STATUS
@click.option("--workflow", metavar="ID", help="Only jobs of this workflow.")
@click.option("--cursor", metavar="CURSOR", help="Go on after a page: its next_cursor.")
def list_jobs(
    server: str | None,
    database: str | None,
    as_json: bool,
    limit: int,
    status: str | None,
    workflow: str | None,
    cursor: str | None,
) -> int:
    """List jobs, newest first."""
    page = _look(server, database, lambda source: source.jobs(Wanted(limit, workflow, status, cursor)))
    if as_json:
        print_json(page)
    else:
        print_jobs(page.items)
    return 0


@command.command("show")
@click.argument("job_id", required=False)
@SERVER
@DATABASE
@AS_JSON
def show_job(job_id: str | None, server: str | None, database: str | None, as_json: bool) -> int:
    """Show one job with its nodes and its result (the newest one, unless JOB_ID names another)."""

    async def read(source: Source) -> Job:
        return await source.job(await _job_id(source, job_id))

    job = _look(server, database, read)
    if as_json:
        print_json(job)
    else:
        print_job(job)
    return 0


@command.command("tasks")
@click.argument("job_id")
@click.argument("node_id")
@SERVER
@DATABASE
@AS_JSON
@TASK_STATUS
@click.option("--limit", type=click.IntRange(1, TASKS_MAX), default=1_000, show_default=True)
def show_tasks(
    job_id: str,
    node_id: str,
    server: str | None,
    database: str | None,
    as_json: bool,
    status: str | None,
    limit: int,
) -> int:
    """Show the iterations of a loop, in their order, those not begun too."""

    async def read(source: Source) -> list[Task]:
        return await _some(source.tasks(job_id, node_id, status), limit)

    tasks = _look(server, database, read)
    if as_json:
        print_json(Page(tasks))
    else:
        print_tasks(tasks)
    return 0


@command.command("events")
@click.argument("job_id", required=False)
@SERVER
@DATABASE
@AS_JSON
@click.option("--limit", type=click.IntRange(1, EVENTS_MAX), default=1_000, show_default=True)
@click.option("--after", type=click.IntRange(0), default=0, metavar="SEQ", help="Only events after this one.")
def show_events(
    job_id: str | None, server: str | None, database: str | None, as_json: bool, limit: int, after: int
) -> int:
    """Show a job's timeline (the newest job's, unless JOB_ID names another)."""

    async def read(source: Source) -> list[Event]:
        return await _some(source.events(await _job_id(source, job_id), after, context=as_json), limit)

    events = _look(server, database, read)
    if as_json:
        print_json(Page(events))
    else:
        print_events(events)
    return 0


@command.command("logs")
@click.argument("job_id", required=False)
@SERVER
@DATABASE
@AS_JSON
@NODE
@INDEX
@ATTEMPT
@click.option("--follow", "-f", is_flag=True, help="Go on until the job has ended (needs a server); JSON by lines.")
@click.option("--limit", type=click.IntRange(1, LINES_MAX), default=10_000, show_default=True)
def show_logs(
    job_id: str | None,
    server: str | None,
    database: str | None,
    as_json: bool,
    node: str | None,
    index: int | None,
    attempt: int | None,
    follow: bool,
    limit: int,
) -> int:
    """Show what a job's tasks wrote (the newest job's, unless JOB_ID names another)."""
    wanted = WantedLines(node, attempt, index)
    if follow and database is not None:
        raise click.UsageError("--follow asks a server: leave --database out, and name one with --server")
    if follow:
        return ask_until_stopped(server, lambda client: _tail(client, job_id, wanted, as_json))

    async def read(source: Source) -> list[Log]:
        return await _some(source.logs(await _job_id(source, job_id), wanted), limit)

    lines = _look(server, database, read)
    if as_json:
        print_json(Page(lines))
    else:
        out = console()
        for line in lines:
            print_log(line, out)
    return 0


@command.command("cancel")
@click.argument("job_id")
@SERVER
@AS_JSON
@click.option("--reason", metavar="TEXT", help="Why; it is kept with the job.")
def cancel_job(job_id: str, server: str | None, as_json: bool, reason: str | None) -> int:
    """Stop a job. One that has ended stays as it is."""
    return _told(ask(server, lambda client: client.cancel(job_id, reason)), as_json)


@command.command("retry")
@click.argument("job_id")
@SERVER
@AS_JSON
@click.option("--from", "from_node", metavar="NODE", help="Run this node and everything after it again.")
@WAIT
def retry_job(job_id: str, server: str | None, as_json: bool, from_node: str | None, wait: bool) -> int:
    """Run again what failed or was cancelled in a job; what completed keeps its output."""

    async def retry(client: Client) -> int:
        job = await client.retry(job_id, from_node=from_node)
        return await follow_to_end(client, job_id, as_json=as_json) if wait else _told(job, as_json)

    return ask_until_stopped(server, retry)


@command.command("rerun")
@click.argument("job_id")
@SERVER
@AS_JSON
@WAIT
def rerun_job(job_id: str, server: str | None, as_json: bool, wait: bool) -> int:
    """Start a new job of the same version with the same input."""

    async def rerun(client: Client) -> int:
        new = await client.rerun(job_id)
        if wait:
            return await follow_to_end(client, new.job_id, as_json=as_json)
        if as_json:
            print_json(new)
        else:
            click.echo(f"job {new.job_id} runs what {job_id} ran")
        return 0

    return ask_until_stopped(server, rerun)


@command.command("watch")
@click.argument("job_id", required=False)
@SERVER
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
def watch_job(job_id: str | None, server: str | None, as_json: bool) -> int:
    """Follow a job to its end (the newest one, unless JOB_ID names another); exit 1 if it does not complete."""

    async def watch(client: Client) -> int:
        wanted = job_id or await _newest(client)
        if not as_json:
            return await follow_to_end(client, wanted, as_json=False)
        async for event in client.watch(wanted):
            print_json_line(event)
        return 0 if (await client.job(wanted)).status == "completed" else 1

    return ask_until_stopped(server, watch)


def _look(server: str | None, database: str | None, question: Callable[[Source], Awaitable[Result]]) -> Result:
    async def look() -> Result:
        async with opened(server, database) as source:
            return await question(source)

    return run_async(look())


async def _some(items: AsyncIterator[Item], limit: int) -> list[Item]:
    found: list[Item] = []
    async for item in items:
        found.append(item)
        if len(found) == limit:
            break
    return found


async def _job_id(source: Source, job_id: str | None) -> str:
    if job_id is not None:
        return job_id
    newest = await source.jobs(Wanted(limit=1))
    if not newest.items:
        raise JobNotFound("there is no job yet: `windlass run FILE` or `windlass trigger WORKFLOW` makes one")
    return newest.items[0].job_id


async def _newest(client: Client) -> str:
    page = await client.jobs_page(limit=1)
    if not page.items:
        raise JobNotFound(f"{client.url} has no job yet: `windlass trigger WORKFLOW` makes one")
    return page.items[0].job_id


async def _tail(client: Client, job_id: str | None, wanted: WantedLines, as_json: bool) -> int:
    out = console()
    async for line in client.follow_logs(
        job_id or await _newest(client), node=wanted.node, attempt=wanted.attempt, index=wanted.index
    ):
        if as_json:
            print_json_line(line)
        else:
            print_log(line, out)
    return 0


def _told(job: Job, as_json: bool) -> int:
    if as_json:
        print_json(job)
    else:
        click.echo(f"job {job.job_id} is {job.status}")
    return 0
