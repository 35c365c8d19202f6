"""What all SQL sinks need: their options, names that are safe to write, and batches of rows with the same columns."""

import re
from collections.abc import Collection, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from windlass.core.changes import SinkSpec
from windlass.core.errors import FatalError
from windlass.core.templates.json_values import available
from windlass.sinks.rows import OptionsInvalid, Row, RowSource, RowsRefused, options_of, rows_of, thought

# Sets of columns that differ from each other, in the rows of one write: each is a statement.
BATCHES_MAX = 1_000
KEY_COLUMNS_MAX = 32
# Rows of one statement.
ROWS_PER_STATEMENT = 5_000
# Where the identities of written tasks are kept, in the same database as the rows.
EFFECTS = "windlass_effects"

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_$]{0,62}"
_NAME = re.compile(_IDENTIFIER)
_RULE = "use letters, digits and _, up to 63, and no digit first"

Column = Annotated[str, Meta(min_length=1, max_length=200)]


class TableOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """What an author says about a table."""

    table: str
    connection: str | None = None
    database: str | None = None
    schema: str | None = None
    mode: Literal["append", "upsert", "replace"] = "append"
    key: Column | list[Column] | None = None
    rows: str | None = None
    column: Column = "value"
    json_column: Column | None = None


class RowBatch(Struct, frozen=True):
    """Rows with the same columns."""

    columns: tuple[str, ...]
    rows: list[Row]


class TableWrite(Struct, frozen=True):
    """One write of one task, ready to be carried out."""

    options: TableOptions
    # The table, perhaps with its schema before it; and the same as SQL, quoted.
    names: tuple[str, ...]
    table: str
    key: tuple[str, ...]
    batches: list[RowBatch]
    count: int
    identity: str
    run_key: str

    @property
    def replace_identity(self) -> str:
        """Names the one replacement of the table's content by the whole run."""
        return f"{self.run_key or self.identity} replaces {self.table}"


class ColumnUnknown(RowsRefused):
    """A row has a column that the table has not."""

    type = "column_unknown"


class TableUnknown(FatalError):
    """The database has no such table."""

    type = "table_unknown"

    def __init__(self, database: str, table: str, like: str | None) -> None:
        meant = f"did you mean {like!r}?" if like else "create it before the job runs"
        super().__init__(f"{database}: there is no table {table!r}: {meant}")


async def prepared(order: SinkSpec, output: Raw, identity: str) -> TableWrite:
    """What is to be written; OptionsInvalid, RowsRefused."""
    return await thought(output, lambda: read_write(order, output, identity))


def read_write(order: SinkSpec, output: Raw, identity: str) -> TableWrite:
    """What is to be written, by reading all of the output."""
    options = options_of(order.options, TableOptions)
    key = _key(options)
    rows = rows_of(output, RowSource(options.rows, order.path, options.column, options.json_column))
    if options.mode == "upsert":
        rows = _merged(rows, key)
    batches = _batches(rows)
    names = _names(options)
    table = ".".join(map(quoted, names))
    return TableWrite(options, names, table, key, batches, len(rows), identity, order.run_key)


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever its characters."""
    return '"' + name.replace('"', '""') + '"'


def insert_into(write: TableWrite, columns: Sequence[str]) -> str:
    """The beginning of the statement, up to its rows."""
    return f"insert into {write.table} ({', '.join(map(quoted, columns))})"


def on_conflict(write: TableWrite, columns: Sequence[str]) -> str:
    """The end of the statement: what becomes of a row whose key is there already."""
    if write.options.mode != "upsert":
        return ""
    updates = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in columns if name not in write.key)
    action = f"do update set {updates}" if updates else "do nothing"
    return f" on conflict ({', '.join(map(quoted, write.key))}) {action}"


def refuse_unknown(write: TableWrite, known: Collection[str]) -> None:
    """ColumnUnknown when a row has a column that the table has not."""
    for batch in write.batches:
        for name in batch.columns:
            if name not in known:
                there = available(name, list(known))
                way_out = "" if write.options.json_column else "; or set 'json_column' to keep rows whole as JSON"
                raise ColumnUnknown(f"the table {write.options.table} has no column {name!r}: {there}{way_out}")


def _names(options: TableOptions) -> tuple[str, ...]:
    parts = options.table.split(".")
    if options.schema is not None:
        parts.insert(0, options.schema)
    if len(parts) > 2 or not all(_NAME.fullmatch(part) for part in parts):
        shown = ".".join(parts)[:100]
        raise OptionsInvalid(f"{shown!r} is no name of a table: write table or schema.table; {_RULE}")
    if parts[-1] == EFFECTS:
        raise OptionsInvalid(f"the table {EFFECTS} is where sinks keep what they have written: choose another")
    return tuple(parts)


def _key(options: TableOptions) -> tuple[str, ...]:
    key = (options.key,) if isinstance(options.key, str) else tuple(options.key or ())
    if options.mode == "upsert" and not 0 < len(key) <= KEY_COLUMNS_MAX:
        raise OptionsInvalid(
            f"mode upsert needs 'key', the 1 to {KEY_COLUMNS_MAX} columns that tell rows apart: it is {list(key)}"
        )
    return key


def _merged(rows: list[Row], key: tuple[str, ...]) -> list[Row]:
    """One row for each key, as if they had been written one after the other; in an order that all writers share."""
    found: dict[bytes, Row] = {}
    for number, row in enumerate(rows):
        missing = [name for name in key if row.get(name) is None]
        if missing:
            raise RowsRefused(f"row {number} has no {missing[0]!r}, which is in the key of the upsert")
        identity = msgspec.json.encode([row[name] for name in key])
        found[identity] = {**found.get(identity, {}), **row}
    # Two writers that lock the same rows in the same order do not deadlock.
    return [found[identity] for identity in sorted(found)]


def _batches(rows: list[Row]) -> list[RowBatch]:
    found: dict[tuple[str, ...], list[Row]] = {}
    for number, row in enumerate(rows):
        if not row:
            raise RowsRefused(f"row {number} has no columns")
        found.setdefault(tuple(sorted(row)), []).append(row)
    if len(found) > BATCHES_MAX:
        raise RowsRefused(
            f"the rows have {len(found)} different sets of columns, {BATCHES_MAX} is the most: "
            "give them the same columns, or set 'json_column'"
        )
    return [
        RowBatch(columns, alike[start : start + ROWS_PER_STATEMENT])
        for columns, alike in found.items()
        for start in range(0, len(alike), ROWS_PER_STATEMENT)
    ]
