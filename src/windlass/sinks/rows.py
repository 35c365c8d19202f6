"""From an attempt's output to rows: where in it they are, and what each of them says."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from windlass.core.errors import FatalError
from windlass.core.templates.json_values import available, is_list, is_mapping, kind_of

ROWS_MAX = 100_000
COLUMNS_MAX = 1_000
# An output of this size takes milliseconds to read.
THREAD_BYTES_MIN = 1 << 20

Row = dict[str, Any]
Options = TypeVar("Options", bound=Struct)
Result = TypeVar("Result")


class OptionsInvalid(FatalError):
    """A sink's options do not say what it needs to know."""

    type = "options_invalid"


class RowsRefused(FatalError):
    """An output has no rows where the sink looks for them, or has such as cannot be written."""

    type = "rows_refused"


class RowSource(Struct, frozen=True):
    """Where the rows of an output are, and what becomes of values that are no rows by themselves."""

    # The author's own word, dotted; it must be there.
    rows: str | None = None
    # Where the node merges its pages; used if the output has it.
    path: tuple[str, ...] = ()
    column: str = "value"
    json_column: str | None = None


def options_of(encoded: bytes, shape: type[Options]) -> Options:
    """A sink's options; OptionsInvalid names the one that does not fit."""
    try:
        given = msgspec.json.decode(encoded, type=dict[str, Any])
        # A template that renders null means that the option is not given.
        return msgspec.convert({name: value for name, value in given.items() if value is not None}, shape)
    except msgspec.ValidationError as error:
        raise OptionsInvalid(f"the sink's options cannot be used: {error}".replace("`", "'")) from None


async def thought(output: Raw, think: Callable[[], Result]) -> Result:
    """What `think` finds in an output; in a thread when that takes so long that the worker's loop should not wait."""
    return think() if len(memoryview(output)) < THREAD_BYTES_MIN else await asyncio.to_thread(think)


def value_at(output: Raw, place: RowSource) -> object:
    """The part of an output that is to be written; RowsRefused when the author's path leads nowhere."""
    value: object = msgspec.json.decode(output)
    if place.rows:
        for step in place.rows.split("."):
            value = _step(value, step, place.rows)
        return value
    merged = value
    for step in place.path:
        if not is_mapping(merged) or step not in merged:
            return value
        merged = merged[step]
    return merged


def rows_of(output: Raw, place: RowSource) -> list[Row]:
    """The rows of an output; RowsRefused beyond the bounds."""
    value = value_at(output, place)
    if value is None:
        return []
    items = value if is_list(value) else [value]
    if len(items) > ROWS_MAX:
        raise RowsRefused(f"{len(items)} rows at once, {ROWS_MAX} is the most: write them in pages, or loop in chunks")
    rows = [_row(item, place) for item in items]
    for row in rows:
        if len(row) > COLUMNS_MAX:
            raise RowsRefused(
                f"a row of {len(row)} columns, {COLUMNS_MAX} is the most: set 'json_column' to keep it whole"
            )
    return rows


def is_nested(value: object) -> bool:
    """Whether a value has parts, so that a single field can only hold it as JSON."""
    return isinstance(value, dict | list)


def json_text(value: object) -> str:
    """A value as JSON."""
    return msgspec.json.encode(value).decode()


def _row(item: object, place: RowSource) -> Row:
    if place.json_column is not None:
        return {place.json_column: item}
    return cast("Row", item) if isinstance(item, dict) else {place.column: item}


def _step(value: object, step: str, path: str) -> object:
    if is_list(value) and step.isascii() and step.isdigit() and int(step) < len(value):
        return value[int(step)]
    if not is_mapping(value):
        raise RowsRefused(f"the output has no rows at {path!r}: {step!r} is looked for in {kind_of(value)}")
    if step not in value:
        raise RowsRefused(f"the output has no rows at {path!r}: there is no {step!r}; {available(step, list(value))}")
    return value[step]
