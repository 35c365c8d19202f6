"""Standard output: tables for people, JSON for programs."""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TypeVar

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from windlass.cli.exit_codes import COMPLETED

PIPE_COLUMNS = 200

Item = TypeVar("Item")
Cells = Sequence[str | Text]


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


def print_rows(
    items: Iterable[Item],
    row: Callable[[Item], Cells],
    *,
    columns: Sequence[str],
    wrapped: Container[str] = (),
    empty: str,
) -> None:
    """Print one line per item, or the text `empty` if there is none."""
    table = new_table(*columns, wrapped=wrapped)
    for cells in map(row, items):
        table.add_row(*cells)
    if table.row_count:
        console().print(table)
    else:
        click.echo(empty)


def show(document: Item, as_json: bool, print_text: Callable[[Item], None]) -> int:
    """Print a document, for programs as JSON and for people as text; return the exit code of a success."""
    if as_json:
        print_json(document)
    else:
        print_text(document)
    return COMPLETED


def print_json(document: object) -> None:
    """Print one document, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


def print_json_line(document: object) -> None:
    """Print one of several documents on its own line."""
    click.echo(msgspec.json.encode(document))
