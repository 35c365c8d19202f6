"""Extracts rows from an attempt's output."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from windlass.core.errors import FatalError
from windlass.core.templates.json_values import available, is_list, is_mapping, kind_of
from windlass.core.type_errors import problem_of

ROWS_MAX = 100_000
COLUMNS_MAX = 1_000
# Decoding an output of this size takes 8 ms (timeit of rows with three columns).
THREAD_BYTES_MIN = 1 << 20

Row = dict[str, Any]
Options = TypeVar("Options", bound=Struct)
Result = TypeVar("Result")


class OptionsInvalid(FatalError):
    """The options of a sink are invalid."""

    type = "options_invalid"


class RowsRefused(FatalError):
    """The output has no rows at the given path, or rows that cannot be written."""

    type = "rows_refused"


class RowSource(Struct, frozen=True, kw_only=True):
    """Where the rows of an output are, and how values that are not objects become rows."""

    # A dotted path given by the author; it must exist.
    rows: str | None = None
    # The path where the node merges its pages; used if the output has it.
    path: tuple[str, ...] = ()
    column: str = "value"
    json_column: str | None = None


def options_of(encoded: bytes, shape: type[Options]) -> Options:
    """Decode the options of a sink; raise OptionsInvalid."""
    try:
        given = msgspec.json.decode(encoded, type=dict[str, Any])
        # A template that renders to null counts as an absent option.
        return msgspec.convert(
            {name: value for name, value in given.items() if value is not None}, shape
        )
    except msgspec.ValidationError as error:
        raise OptionsInvalid(f"invalid sink options: {problem_of(error, shape)}") from None


async def parse_output(output: Raw, parse: Callable[[], Result]) -> Result:
    """Run `parse`, in a thread if the output is so large that parsing it would block the event loop."""
    if len(memoryview(output)) < THREAD_BYTES_MIN:
        return parse()
    return await asyncio.to_thread(parse)


def value_at(output: Raw, source: RowSource) -> object:
    """Return the part of an output to write; raise RowsRefused if the author's path does not exist."""
    value: object = msgspec.json.decode(output)
    if source.rows:
        for step in source.rows.split("."):
            value = _step(value, step, source.rows)
        return value
    merged = value
    for step in source.path:
        if not is_mapping(merged) or step not in merged:
            return value
        merged = merged[step]
    return merged


def rows_of(output: Raw, source: RowSource) -> list[Row]:
    """Return the rows of an output; raise RowsRefused beyond the limits."""
    value = value_at(output, source)
    if value is None:
        return []
    items = as_list(value)
    if len(items) > ROWS_MAX:
        raise RowsRefused(
            f"too many rows: {len(items)}, at most {ROWS_MAX}; write them in pages, or loop in chunks"
        )
    rows = [_row(item, source) for item in items]
    for row in rows:
        if len(row) > COLUMNS_MAX:
            raise RowsRefused(
                f"too many columns in a row: {len(row)}, at most {COLUMNS_MAX}; set 'json_column' to store it as JSON"
            )
    return rows


def as_list(value: object) -> Sequence[object]:
    """Return the elements of a list; any other value is the only element."""
    if is_list(value):
        return value
    return [value]


def is_nested(value: object) -> bool:
    """Whether a value is an object or an array, which a single field stores as JSON."""
    return isinstance(value, dict | list)


def json_text(value: object) -> str:
    """Encode a value as JSON."""
    return msgspec.json.encode(value).decode()


def _row(item: object, source: RowSource) -> Row:
    if source.json_column is not None:
        return {source.json_column: item}
    if isinstance(item, dict):
        return cast("Row", item)
    return {source.column: item}


def _step(value: object, step: str, path: str) -> object:
    if is_list(value) and step.isascii() and step.isdigit() and int(step) < len(value):
        return value[int(step)]
    if not is_mapping(value):
        raise RowsRefused(
            f"no rows at {path!r} in the output: {step!r} is looked up in {kind_of(value)}"
        )
    if step not in value:
        raise RowsRefused(
            f"no rows at {path!r} in the output: {step!r} does not exist; {available(step, list(value))}"
        )
    return value[step]
