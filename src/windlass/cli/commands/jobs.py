"""`windlass jobs`: shows jobs of a database or a server, and changes those of a server."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, TypeVar

import click

from windlass.cli.exit_codes import COMPLETED, FAILED
from windlass.cli.follow import follow_job
from windlass.cli.job_sources import (
    JobPageSelection,
    JobSource,
    LogSelection,
    ServerJobs,
    read_jobs,
)
from windlass.cli.options import (
    AS_JSON,
    CURSOR,
    DATABASE,
    EVENTS_AFTER,
    EVENTS_LIMIT,
    SERVER,
    WAIT,
    WORKFLOW_FILTER,
    version_option,
)
from windlass.cli.output.console import console, print_json, print_json_line
from windlass.cli.output.job_tables import (
    print_events,
    print_iterations,
    print_job,
    print_jobs,
    print_log,
)
from windlass.cli.server_address import call_server, call_server_until_stopped
from windlass.client import Client
from windlass.core.errors import JobNotFound
from windlass.core.states import JobStatus
from windlass.views.loops import ITERATION_STATES
from windlass.wire import EventView, IterationView, JobView, LogView, Page

Item = TypeVar("Item")

JOBS_MAX = 1_000
LOG_LINES_MAX = 1_000_000
ITERATIONS_MAX = 1_000_000


@click.group()
def command() -> None:
    """List, show, cancel and retry jobs.

    With --server or WINDLASS_SERVER these commands use a server. Without, list, show, iterations, events and logs read
    the database, even while another process uses it; the others use the server on this machine.
    """


@command.command("list")
@SERVER
@DATABASE
@AS_JSON
@click.option("--limit", type=click.IntRange(1, JOBS_MAX), default=20, show_default=True)
@click.option(
    "--status",
    type=click.Choice(sorted(status.value for status in JobStatus)),
    help="Only jobs with this status.",
)
@WORKFLOW_FILTER
@click.option(
    "--parent", "parent_job_id", metavar="JOB", help="Only jobs that this job's run started."
)
@CURSOR
def list_jobs(
    server: str | None,
    database: str | None,
    as_json: bool,
    # The options that are named like a field of the selection.
    **options: Any,
) -> int:
    """List jobs, newest first."""
    selection = JobPageSelection(**options)
    page = read_jobs(server, database, lambda source: source.jobs(selection))
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
    """Show a job (default: the newest one) with its nodes and result."""

    async def read(source: JobSource) -> JobView:
        return await source.job(job_id or await _newest_job(source))

    job = read_jobs(server, database, read)
    if as_json:
        print_json(job)
    else:
        print_job(job)
    return 0


@command.command("iterations")
@click.argument("job_id")
@click.argument("node_id", metavar="NODE")
@SERVER
@DATABASE
@AS_JSON
@click.option(
    "--status",
    type=click.Choice(sorted(ITERATION_STATES)),
    help="Only iterations with this status.",
)
@click.option("--limit", type=click.IntRange(1, ITERATIONS_MAX), default=1_000, show_default=True)
def list_iterations(
    job_id: str,
    node_id: str,
    server: str | None,
    database: str | None,
    as_json: bool,
    status: str | None,
    limit: int,
) -> int:
    """List the iterations of a loop.

    They are listed in order, including those that have not started.
    """

    async def read(source: JobSource) -> list[IterationView]:
        return await _first(source.iterations(job_id, node_id, status), limit)

    iterations = read_jobs(server, database, read)
    if as_json:
        print_json(Page(iterations))
    else:
        print_iterations(iterations)
    return 0


@command.command("events")
@click.argument("job_id", required=False)
@SERVER
@DATABASE
@AS_JSON
@EVENTS_LIMIT
@EVENTS_AFTER
def list_events(
    job_id: str | None,
    server: str | None,
    database: str | None,
    as_json: bool,
    limit: int,
    after: int,
) -> int:
    """List the events of a job (default: the newest one)."""

    async def read(source: JobSource) -> list[EventView]:
        found = source.events(job_id or await _newest_job(source), after, context=as_json)
        return await _first(found, limit)

    events = read_jobs(server, database, read)
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
@click.option("--node", metavar="NODE", help="Only lines of this node.")
@click.option(
    "--index", type=click.IntRange(0), metavar="N", help="Only lines of this iteration of a loop."
)
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only lines of this attempt.")
@click.option(
    "--follow",
    "-f",
    is_flag=True,
    help="Continue until the job has finished; needs a server. JSON is one line each.",
)
@click.option("--limit", type=click.IntRange(1, LOG_LINES_MAX), default=10_000, show_default=True)
def list_logs(
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
    """List the log lines of a job (default: the newest one)."""
    selection = LogSelection(node=node, attempt=attempt, index=index)
    if follow and database is not None:
        raise click.UsageError("--follow needs a server: use --server instead of --database")
    if follow:
        return call_server_until_stopped(
            server, lambda client: _follow_logs(client, job_id, selection, as_json)
        )

    async def read(source: JobSource) -> list[LogView]:
        found = source.logs(job_id or await _newest_job(source), selection)
        return await _first(found, limit)

    lines = read_jobs(server, database, read)
    if as_json:
        print_json(Page(lines))
        return 0
    out = console()
    for line in lines:
        print_log(line, out)
    return 0


@command.command("cancel")
@click.argument("job_id")
@SERVER
@AS_JSON
@click.option("--reason", metavar="TEXT", help="The reason, stored with the job.")
def cancel_job(job_id: str, server: str | None, as_json: bool, reason: str | None) -> int:
    """Cancel a job. Finished jobs do not change."""
    return _print_status(
        call_server(server, lambda client: client.jobs.cancel(job_id, reason)), as_json
    )


@command.command("retry")
@click.argument("job_id")
@SERVER
@AS_JSON
@click.option(
    "--from", "from_node", metavar="NODE", help="Run this node and everything downstream again."
)
@WAIT
def retry_job(
    job_id: str, server: str | None, as_json: bool, from_node: str | None, wait: bool
) -> int:
    """Run the failed and cancelled nodes of a job again. Completed nodes keep their output."""

    async def retry(client: Client) -> int:
        job = await client.jobs.retry(job_id, from_node=from_node)
        if wait:
            return await follow_job(client, job_id, as_json=as_json)
        return _print_status(job, as_json)

    return call_server_until_stopped(server, retry)


@command.command("rerun")
@click.argument("job_id")
@SERVER
@AS_JSON
@WAIT
@version_option("Another version: a number or an alias.")
def rerun_job(
    job_id: str, server: str | None, as_json: bool, wait: bool, version: int | str | None
) -> int:
    """Start a new job with the same input, of the same version or of another one."""

    async def rerun(client: Client) -> int:
        new = await client.jobs.rerun(job_id, version=version)
        if wait:
            return await follow_job(client, new.job_id, as_json=as_json)
        if as_json:
            print_json(new)
        else:
            click.echo(f"job {new.job_id} started as a rerun of {job_id}")
        return 0

    return call_server_until_stopped(server, rerun)


@command.command("watch")
@click.argument("job_id", required=False)
@SERVER
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
def watch_job(job_id: str | None, server: str | None, as_json: bool) -> int:
    """Follow a job (default: the newest one) until it finishes.

    Exit code: 0 completed, 1 failed or cancelled, 130 interrupted.
    """

    async def watch(client: Client) -> int:
        watched = job_id or await _newest_job(ServerJobs(client))
        if not as_json:
            return await follow_job(client, watched, as_json=False)
        async with aclosing(client.jobs.watch(watched)) as events:
            async for event in events:
                print_json_line(event)
        job = await client.jobs.get(watched)
        if job.status == "completed":
            return COMPLETED
        return FAILED

    return call_server_until_stopped(server, watch)


async def _first(items: AsyncIterator[Item], limit: int) -> list[Item]:
    found: list[Item] = []
    async for item in items:
        found.append(item)
        if len(found) == limit:
            break
    return found


async def _newest_job(source: JobSource) -> str:
    page = await source.jobs(JobPageSelection(limit=1))
    if not page.items:
        raise JobNotFound(
            "no jobs found; start one with `windlass run FILE` or `windlass trigger WORKFLOW`"
        )
    return page.items[0].job_id


async def _follow_logs(
    client: Client, job_id: str | None, selection: LogSelection, as_json: bool
) -> int:
    out = console()
    followed = job_id or await _newest_job(ServerJobs(client))
    lines = client.jobs.follow_logs(
        followed, node=selection.node, attempt=selection.attempt, index=selection.index
    )
    async with aclosing(lines):
        async for line in lines:
            if as_json:
                print_json_line(line)
            else:
                print_log(line, out)
    return 0


def _print_status(job: JobView, as_json: bool) -> int:
    if as_json:
        print_json(job)
    else:
        click.echo(f"job {job.job_id} is {job.status}")
    return 0
