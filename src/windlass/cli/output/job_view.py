"""Shows a job while it runs, live on a terminal and as lines in a pipe, and what came of it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, suppress
from typing import Protocol

import click
import msgspec

from windlass import wire
from windlass.cli.output.plain import PlainView
from windlass.cli.output.progress import Progress, told_error
from windlass.cli.output.shapes import is_null, outcome_shape
from windlass.core.events import Event

COMPLETED, FAILED = 0, 1
REFRESH_SECONDS = 0.1
# What a terminal shows of a result; the whole is in the database.
RESULT_CHARS_MAX = 10_000


class View(Protocol):
    """Shows a job while it runs."""

    def show(self, event: Event) -> None:
        """Take an event into account."""
        ...

    def refresh(self) -> None:
        """Redraw, where that means anything."""
        ...


@contextmanager
def viewing(progress: Progress) -> Generator[View]:
    """The view that fits standard output."""
    if sys.stdout.isatty():
        # rich is slow to import, and only a terminal needs it.
        from rich.console import Console

        from windlass.cli.output.live import LiveView

        with LiveView(progress, Console()) as view:
            yield view
    else:
        yield PlainView(progress)


async def follow(events: AsyncIterator[Event], view: View) -> None:
    """Show events until there are no more."""
    ticker = asyncio.create_task(_tick(view))
    try:
        async for event in events:
            view.show(event)
    finally:
        ticker.cancel()
        with suppress(asyncio.CancelledError):
            await ticker


async def _tick(view: View) -> None:
    while True:
        view.refresh()
        await asyncio.sleep(REFRESH_SECONDS)


def print_outcome(job: wire.Job, *, as_json: bool) -> int:
    """Print a finished job's result; the exit code."""
    if as_json:
        click.echo(msgspec.json.encode(outcome_shape(job)))
    else:
        text = msgspec.json.format(bytes(job.result_data), indent=2).decode()
        if sys.stdout.isatty() and len(text) > RESULT_CHARS_MAX:
            text = f"{text[:RESULT_CHARS_MAX]}\n… the whole: windlass jobs show {job.job_id} --json"
        click.echo(text)
        if not is_null(job.error):
            click.echo(f"{job.status}: {told_error(job.error)}", err=True)
    return COMPLETED if job.status == "completed" else FAILED
