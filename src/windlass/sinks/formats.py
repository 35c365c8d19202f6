"""File formats: the content of a new file, or what to append to an existing one."""

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
# A Parquet file cannot be appended to: each write reads and rewrites all of it.
PARQUET_BYTES_MAX = 64 * 1024 * 1024


class FormatMissing(FatalError):
    """The package for this format is not installed."""

    type = "driver_missing"


class FileUpdate(Struct, frozen=True):
    """Content to append to a file, or to replace it with."""

    content: bytes
    replaces_file: bool


# Takes rows and the existing file, if there is one that is not empty.
Format = Callable[[Sequence[Row], Path | None], FileUpdate]


def json_lines(rows: Sequence[Row], existing: Path | None) -> FileUpdate:
    """Encode one JSON object per line."""
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    return FileUpdate(lines, existing is None)


def csv_text(
    rows: Sequence[Row], existing: Path | None, columns: Sequence[str] | None = None
) -> FileUpdate:
    """Encode comma-separated values; nested values are JSON, null is empty.

    The header is that of the file; of a new file the declared columns, or else those of all rows of this write.
    """
    if existing is not None:
        header = _header(existing)
        if columns is not None and header != list(columns):
            shown = ", ".join(header)
            raise RowsRefused(
                f"the header of {existing.name} differs from columns: {shown}; correct columns, or replace the file"
            )
    elif columns is not None:
        header = list(columns)
    else:
        header = _column_names(rows)
    _reject_unknown_columns(rows, header, existing)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if existing is None and header:
        writer.writerow(header)
    writer.writerows([_field(row.get(name)) for name in header] for row in rows)
    return FileUpdate(text.getvalue().encode(), existing is None)


def parquet_file(rows: Sequence[Row], existing: Path | None) -> FileUpdate:
    """Encode all rows as a Parquet file, with types inferred from their values."""
    try:
        # An optional extra, and slow to import.
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise FormatMissing(
            "Parquet requires the package pyarrow, which is not installed; pip install 'windlass[parquet]'"
        ) from None
    try:
        table = arrow.table({name: [row.get(name) for row in rows] for name in _column_names(rows)})
        if existing is not None:
            _reject_large(existing)
            table = arrow.concat_tables(
                [parquet.read_table(existing), table], promote_options="permissive"
            )
    except (arrow.ArrowException, OverflowError) as error:
        raise RowsRefused(
            f"the rows do not fit into one Parquet table: {error}; write jsonl instead"
        ) from None
    sink = arrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return FileUpdate(sink.getvalue().to_pybytes(), True)


def _column_names(rows: Sequence[Row]) -> list[str]:
    """Return all column names, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _header(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(io.StringIO(file.read(HEADER_CHARS_MAX), newline="")), list[str]())


def _reject_unknown_columns(rows: Sequence[Row], header: Sequence[str], path: Path | None) -> None:
    known = set(header)
    place = "the columns of the sink" if path is None else path.name
    for name in _column_names(rows):
        if name not in known:
            hint = available(name, header)
            raise RowsRefused(
                f"unknown column in {place}: {name!r}; {hint}; list every column in the sink's columns, or write jsonl"
            )


def _reject_large(path: Path) -> None:
    size = path.stat().st_size
    if size > PARQUET_BYTES_MAX:
        raise RowsRefused(
            f"Parquet file too large to rewrite: {path.name} has {size} bytes, at most {PARQUET_BYTES_MAX}; "
            "write jsonl, or a file per task"
        )


def _field(value: object) -> object:
    if isinstance(value, bool) or is_nested(value):
        return json_text(value)
    return value
