"""What the SQL sinks share: options, checked names, and batches of rows with the same columns."""

import re
from collections.abc import Collection, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from windlass.core.changes import SinkSpec
from windlass.core.errors import FatalError
from windlass.core.templates.json_values import available
from windlass.sinks.rows import (
    OptionsInvalid,
    Row,
    RowSource,
    RowsRefused,
    options_of,
    parse_output,
    rows_of,
)

# Different sets of columns in the rows of one write; each needs its own statement.
BATCHES_MAX = 1_000
KEY_COLUMNS_MAX = 32
ROWS_PER_STATEMENT = 5_000
# The table that stores the identities of written tasks, in the same database as the rows.
EFFECTS = "windlass_effects"

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_$]{0,62}"
_NAME = re.compile(_IDENTIFIER)
_RULE = "use at most 63 letters, digits and _, not starting with a digit"

Column = Annotated[str, Meta(min_length=1, max_length=200)]


class TableOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a SQL sink."""

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


class TableWrite(Struct, frozen=True, kw_only=True):
    """One write of one task."""

    options: TableOptions
    # The table name, optionally after its schema; `table` is the same as quoted SQL.
    names: tuple[str, ...]
    table: str
    key: tuple[str, ...]
    batches: list[RowBatch]
    count: int
    identity: str
    run_key: str

    @property
    def replace_identity(self) -> str:
        """The identity of the one replacement of the table's content by the whole run."""
        return f"{self.run_key or self.identity} replaces {self.table}"


class ColumnUnknown(RowsRefused):
    """A row has a column that the table does not have."""

    type = "column_unknown"


class TableUnknown(FatalError):
    """The table does not exist in the database."""

    type = "table_unknown"

    def __init__(self, database: str, table: str, like: str | None) -> None:
        hint = "create it before the job runs"
        if like is not None:
            hint = f"did you mean {like!r}?"
        super().__init__(f"{database}: table not found: {table!r}; {hint}")


async def prepare_write(spec: SinkSpec, output: Raw, identity: str) -> TableWrite:
    """Prepare a write; raise OptionsInvalid or RowsRefused."""
    return await parse_output(output, lambda: read_write(spec, output, identity))


def read_write(spec: SinkSpec, output: Raw, identity: str) -> TableWrite:
    """Prepare a write by reading the whole output."""
    options = options_of(spec.options, TableOptions)
    key = _key(options)
    source = RowSource(
        rows=options.rows, path=spec.path, column=options.column, json_column=options.json_column
    )
    rows = rows_of(output, source)
    if options.mode == "upsert":
        rows = _merge_rows(rows, key)
    batches = _batches(rows)
    names = _names(options)
    table = ".".join(map(quoted, names))
    return TableWrite(
        options=options,
        names=names,
        table=table,
        key=key,
        batches=batches,
        count=len(rows),
        identity=identity,
        run_key=spec.run_key,
    )


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def insert_into(write: TableWrite, columns: Sequence[str]) -> str:
    """Return the beginning of the statement, up to its rows."""
    return f"insert into {write.table} ({', '.join(map(quoted, columns))})"


def on_conflict(write: TableWrite, columns: Sequence[str]) -> str:
    """Return the end of the statement: what happens to a row whose key exists."""
    if write.options.mode != "upsert":
        return ""
    updates = ", ".join(
        f"{quoted(name)} = excluded.{quoted(name)}" for name in columns if name not in write.key
    )
    action = "do nothing"
    if updates:
        action = f"do update set {updates}"
    return f" on conflict ({', '.join(map(quoted, write.key))}) {action}"


def reject_unknown_columns(write: TableWrite, known: Collection[str]) -> None:
    """Raise ColumnUnknown if a row has a column that the table does not have."""
    columns = dict.fromkeys(name for batch in write.batches for name in batch.columns)
    unknown = [name for name in columns if name not in known]
    if not unknown:
        return
    hint = available(unknown[0], list(known))
    if write.options.json_column is None:
        hint += "; or set 'json_column' to store rows as JSON"
    raise ColumnUnknown(f"unknown column in table {write.options.table}: {unknown[0]!r}; {hint}")


def _names(options: TableOptions) -> tuple[str, ...]:
    parts = options.table.split(".")
    if options.schema is not None:
        parts.insert(0, options.schema)
    if len(parts) > 2 or not all(_NAME.fullmatch(part) for part in parts):
        shown = ".".join(parts)[:100]
        raise OptionsInvalid(f"invalid table name: {shown!r}; write table or schema.table; {_RULE}")
    if parts[-1] == EFFECTS:
        raise OptionsInvalid(
            f"table not allowed: {EFFECTS} is used by the sinks themselves; use another"
        )
    return tuple(parts)


def _key(options: TableOptions) -> tuple[str, ...]:
    key = tuple(options.key or ())
    if isinstance(options.key, str):
        key = (options.key,)
    if options.mode == "upsert" and not 0 < len(key) <= KEY_COLUMNS_MAX:
        raise OptionsInvalid(
            f"invalid key for mode upsert: {list(key)}; name the 1 to {KEY_COLUMNS_MAX} columns that identify a row"
        )
    return key


def _merge_rows(rows: list[Row], key: tuple[str, ...]) -> list[Row]:
    """Merge rows with the same key in their order; return them in an order that all writers share."""
    found: dict[bytes, Row] = {}
    for number, row in enumerate(rows):
        missing = [name for name in key if row.get(name) is None]
        if missing:
            raise RowsRefused(
                f"row {number} has no value for {missing[0]!r}, a key column of the upsert"
            )
        identity = msgspec.json.encode([row[name] for name in key])
        found[identity] = {**found.get(identity, {}), **row}
    # Writers that lock rows in the same order do not deadlock.
    return [found[identity] for identity in sorted(found)]


def _batches(rows: list[Row]) -> list[RowBatch]:
    found: dict[tuple[str, ...], list[Row]] = {}
    for number, row in enumerate(rows):
        if not row:
            raise RowsRefused(f"row {number} has no columns")
        found.setdefault(tuple(sorted(row)), []).append(row)
    if len(found) > BATCHES_MAX:
        raise RowsRefused(
            f"too many different sets of columns: {len(found)}, at most {BATCHES_MAX}; "
            "give the rows the same columns, or set 'json_column'"
        )
    return [
        RowBatch(columns, alike[start : start + ROWS_PER_STATEMENT])
        for columns, alike in found.items()
        for start in range(0, len(alike), ROWS_PER_STATEMENT)
    ]
