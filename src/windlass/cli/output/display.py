"""Displays a job while it runs: redrawn on a terminal, as lines in a pipe."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager, suppress
from typing import Protocol

from windlass.cli.output.plain import PlainDisplay
from windlass.cli.output.progress import JobProgress
from windlass.core.events import Event

REFRESH_SECONDS = 0.1


class Display(Protocol):
    """Displays a job while it runs."""

    def show(self, event: Event) -> None:
        """Apply an event."""
        ...

    def refresh(self) -> None:
        """Redraw, on a terminal."""
        ...


@contextmanager
def open_display(progress: JobProgress) -> Generator[Display]:
    """Open the display that fits standard output."""
    if not sys.stdout.isatty():
        yield PlainDisplay(progress)
        return
    # rich is slow to import, and only terminals need it.
    from rich.console import Console

    from windlass.cli.output.live import LiveDisplay

    with LiveDisplay(progress, Console()) as display:
        yield display


async def show_events(events: AsyncGenerator[Event, None], display: Display) -> None:
    """Display events until the last one, and close the generator."""
    refresher = asyncio.create_task(_refresh(display))
    try:
        async with aclosing(events):
            async for event in events:
                display.show(event)
    finally:
        refresher.cancel()
        with suppress(asyncio.CancelledError):
            await refresher


async def _refresh(display: Display) -> None:
    while True:
        display.refresh()
        await asyncio.sleep(REFRESH_SECONDS)
