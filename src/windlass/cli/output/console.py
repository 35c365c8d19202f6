"""Standard output: tables for people, JSON for programs."""

from collections.abc import Container

import click
import msgspec
from rich.console import Console
from rich.table import Table

PIPE_COLUMNS = 200


def console() -> Console:
    """Return standard output for tables."""
    terminal = Console(highlight=False)
    if terminal.is_terminal:
        return terminal
    # Rich wraps at 80 columns without a terminal, and scripts would see truncated names.
    return Console(highlight=False, width=PIPE_COLUMNS)


def new_table(*columns: str, wrapped: Container[str] = ()) -> Table:
    """Return a table without borders; only the columns in `wrapped` may take several lines."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=column not in wrapped, overflow="fold")
    return table


def print_json(document: object) -> None:
    """Print one document, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def print_json_line(document: object) -> None:
    """Print one of several documents on its own line."""
    click.echo(msgspec.json.encode(document))
