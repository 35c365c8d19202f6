"""Formats of files: what rows look like in a new file, and what has to be added to one that is there."""

import csv
import importlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from windlass.core.errors import FatalError
from windlass.core.templates.json_values import available
from windlass.sinks.rows import Row, RowsRefused, is_nested, json_text

HEADER_CHARS_MAX = 256 * 1024
# A Parquet file cannot grow: each write reads and writes all of it.
PARQUET_BYTES_MAX = 64 * 1024 * 1024


class FormatMissing(FatalError):
    """The package that writes this format is not installed."""

    type = "driver_missing"


class FileUpdate(Struct, frozen=True):
    """What to do with a file: write `content` behind its end, or in place of all it holds."""

    content: bytes
    is_whole: bool


# Rows, and the file to add them to, if there is one that holds something.
Format = Callable[[Sequence[Row], Path | None], FileUpdate]


def json_lines(rows: Sequence[Row], existing: Path | None) -> FileUpdate:
    """One JSON object a line."""
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    return FileUpdate(lines, existing is None)


def csv_text(rows: Sequence[Row], existing: Path | None) -> FileUpdate:
    """Comma-separated values under the header of the first write; nested values are JSON, null is empty."""
    header = _names(rows) if existing is None else _header(existing)
    if existing is not None:
        _refuse_unknown(rows, header, existing)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if existing is None and header:
        writer.writerow(header)
    writer.writerows([_field(row.get(name)) for name in header] for row in rows)
    return FileUpdate(text.getvalue().encode(), existing is None)


def parquet_file(rows: Sequence[Row], existing: Path | None) -> FileUpdate:
    """A Parquet file of all rows, types found in their values."""
    try:
        # An optional extra, and slow to import.
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise FormatMissing(
            "Parquet needs the package pyarrow, which is not installed: pip install 'windlass[parquet]'"
        ) from None
    try:
        table = arrow.table({name: [row.get(name) for row in rows] for name in _names(rows)})
        if existing is not None:
            _refuse_large(existing)
            table = arrow.concat_tables([parquet.read_table(existing), table], promote_options="permissive")
    except (arrow.ArrowException, OverflowError) as error:
        raise RowsRefused(f"the rows do not fit into one Parquet table: {error}: write jsonl instead") from None
    sink = arrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return FileUpdate(sink.getvalue().to_pybytes(), True)


def _names(rows: Sequence[Row]) -> list[str]:
    """All columns, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _header(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(io.StringIO(file.read(HEADER_CHARS_MAX), newline="")), list[str]())


def _refuse_unknown(rows: Sequence[Row], header: Sequence[str], path: Path) -> None:
    known = set(header)
    for name in _names(rows):
        if name not in known:
            there = available(name, header)
            raise RowsRefused(f"the header of {path.name} has no column {name!r}: {there}; write jsonl, or replace it")


def _refuse_large(path: Path) -> None:
    size = path.stat().st_size
    if size > PARQUET_BYTES_MAX:
        raise RowsRefused(
            f"{path.name} has {size} bytes, and a Parquet file cannot grow in place: beyond {PARQUET_BYTES_MAX} bytes "
            "write jsonl, or a file for each task"
        )


def _field(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json_text(value) if is_nested(value) else value
