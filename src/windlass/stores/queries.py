"""Named queries, read from .sql files: those that both dialects share, and those of one dialect.

A file holds queries under `-- name:` lines. Parameters are written `:name` and become the dialect's placeholders when
the files are loaded. These tokens are replaced:

- `{node_columns}`, `{node_columns nodes}`: the columns of a kind of row (see columns.py), plain or with their table.
- `{node_placeholders}`: one `?` for each of these columns.
- `{node_assignments new}`: `column = new.column` for each column but the first, the key.
- `{node_nulls}`: one null for each of these columns.
- `{node_record}`: the columns with their types, a record definition of PostgreSQL.
- `{node_arrays values}`: the columns of a batch as arrays of PostgreSQL, from `values`, an array of texts.
- `{in_texts :ids}`, `{in_integers :numbers}`: whether a value is in a list.
- `{job_filter}`: whether a job has the values of all fields of `JobSelection` but its workflow.
- `{job_filter_is_unset}`: whether none of these values is set.
- `{in_flight_columns}`: the columns of a node that has no row, from an entry of `events.in_flight`.
- `{iteration_state_columns}`: the columns of an iteration, with null for its large values.
- `{greatest}`: the function that returns the largest of its arguments.
- `{with_index name}`: names the index of the table before it for SQLite, which has no statistics to find it by.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct

from windlass.core.changes import InFlightEntry
from windlass.core.jobs import JobSelection
from windlass.stores.columns import COLUMNS, ITERATION, NODE, quoted

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)
# A single colon: two are a cast of PostgreSQL.
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_TOKEN = re.compile(r"\{(\w+)(?: ([:\w]+))?\}")

# Not needed to resume a loop, and possibly large.
_ITERATION_VALUES = ("output", "error", "meta")


class Dialect(Struct, frozen=True, eq=False):
    """What differs between the SQL of two databases."""

    name: str
    placeholder: str
    # By the type of their elements.
    lists: Mapping[str, str]
    greatest: str
    # Names the index of a table; empty for a database that finds it by itself.
    with_index: str
    # A parameter with its type, where the database cannot infer it.
    typed: str
    # An element of a JSON array, by its place and type.
    json_element: Mapping[type, str]


SQLITE = Dialect(
    name="sqlite",
    placeholder="?{}",
    lists={
        "texts": "in (select value from json_each({}))",
        "integers": "in (select value from json_each({}))",
    },
    greatest="max",
    with_index="indexed by {}",
    typed="{}",
    json_element={str: "entry.value ->> {}", int: "entry.value ->> {}"},
)
POSTGRES = Dialect(
    name="postgres",
    placeholder="${}",
    lists={"texts": "= any ({}::text[])", "integers": "= any ({}::integer[])"},
    greatest="greatest",
    with_index="",
    typed="{}::{}",
    json_element={str: "entry.value ->> {}", int: "(entry.value ->> {})::bigint"},
)

_RECORD_TYPES = {int: "bigint", bool: "boolean"}


class Query(Struct, frozen=True):
    """A statement of one dialect, and its parameters in order."""

    sql: str
    parameters: tuple[str, ...]

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        """Return the values of the parameters in order; KeyError for one that is missing or unknown."""
        if len(given) != len(self.parameters):
            raise KeyError(f"parameters {sorted(given)} given, {sorted(self.parameters)} expected")
        return [given[name] for name in self.parameters]


@cache
def queries(dialect: Dialect) -> dict[str, Query]:
    """Return every query of a dialect by its name."""
    stores = files("windlass.stores")
    found: dict[str, Query] = {}
    for folder in (stores / "sql", stores / dialect.name / "sql"):
        for path in sorted(folder.iterdir(), key=lambda item: item.name):
            if path.name.endswith(".sql"):
                _add(found, _queries(path.read_text("utf-8"), dialect))
    return found


def _add(found: dict[str, Query], more: Iterable[tuple[str, Query]]) -> None:
    for name, query in more:
        if name in found:
            raise ValueError(f"two queries with the same name: {name}")
        found[name] = query


def _queries(text: str, dialect: Dialect) -> Iterable[tuple[str, Query]]:
    parts = _NAME.split(text)
    for name, sql in zip(parts[1::2], parts[2::2], strict=True):
        yield name, _query(filled(_COMMENT.sub("", sql).strip(), dialect), dialect)


def _query(sql: str, dialect: Dialect) -> Query:
    names: list[str] = []

    def placeholder(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return dialect.placeholder.format(names.index(found[1]) + 1)

    return Query(sql=_PARAMETER.sub(placeholder, sql), parameters=tuple(names))


def filled(sql: str, dialect: Dialect) -> str:
    """Replace the tokens of a text."""
    return _TOKEN.sub(lambda found: _replacement(found[1], found[2], dialect), sql)


def _replacement(token: str, argument: str | None, dialect: Dialect) -> str:
    if token == "greatest":
        return dialect.greatest
    if token == "with_index":
        return dialect.with_index.format(argument)
    if token == "job_filter":
        return " and ".join(_job_conditions(dialect))
    if token == "job_filter_is_unset":
        return " and ".join(f"{parameter} is null" for _, parameter in _job_filters(dialect))
    if token == "in_flight_columns":
        return in_flight_columns(dialect)
    if token == "iteration_state_columns":
        return ", ".join(
            "null" if name in _ITERATION_VALUES else quoted(name) for name in ITERATION.names
        )
    if token.startswith("in_"):
        return dialect.lists[token.removeprefix("in_")].format(argument)
    kind, _, form = token.rpartition("_")
    return _FORMS[form](kind, argument)


def _job_conditions(dialect: Dialect) -> list[str]:
    return [
        f"({parameter} is null or {name} = {parameter})"
        for name, parameter in _job_filters(dialect)
    ]


def _job_filters(dialect: Dialect) -> list[tuple[str, str]]:
    """Return the columns by which lists of jobs are filtered, each with its parameter."""
    types = {column.name: _RECORD_TYPES.get(column.value_type, "text") for column in COLUMNS["job"]}
    # Each query has its own condition for the workflow, which selects the index.
    names = [name for name in JobSelection.__struct_fields__ if name != "workflow_id"]
    return [(quoted(name), dialect.typed.format(f":{name}", types[name])) for name in names]


def _columns(kind: str, table: str | None) -> str:
    prefix = "" if table is None else f"{table}."
    return ", ".join(f"{prefix}{quoted(column.name)}" for column in COLUMNS[kind])


def _assignments(kind: str, source: str | None) -> str:
    names = [quoted(column.name) for column in COLUMNS[kind][1:]]
    return ", ".join(f"{name} = {source}.{name}" for name in names)


def _record(kind: str) -> str:
    return ", ".join(
        f"{quoted(column.name)} {_RECORD_TYPES.get(column.value_type, 'text')}"
        for column in COLUMNS[kind]
    )


def _arrays(kind: str, parameter: str | None) -> str:
    arrays: list[str] = []
    for number, column in enumerate(COLUMNS[kind], start=1):
        element_type = _RECORD_TYPES.get(column.value_type)
        if element_type is None:
            arrays.append(f"windlass_texts({parameter}[{number}])")
        else:
            arrays.append(f"{parameter}[{number}]::{element_type}[]")
    return ", ".join(arrays)


_FORMS: dict[str, Callable[[str, str | None], str]] = {
    "columns": _columns,
    "assignments": _assignments,
    "placeholders": lambda kind, _: ", ".join("?" for _ in COLUMNS[kind]),
    "nulls": lambda kind, _: ", ".join("null" for _ in COLUMNS[kind]),
    "record": lambda kind, _: _record(kind),
    "arrays": _arrays,
}


def in_flight_columns(dialect: Dialect) -> str:
    """Return the columns of a node that has no row, from an entry of `events.in_flight`.

    Columns that an entry does not have are those of a node that was just dispatched.
    """
    entry = InFlightEntry(number=0, node_id="", dispatched_at=0)
    row = entry.row("")
    found: list[str] = []
    for name in NODE.names:
        if name == "job_id":
            found.append("jobs.job_id")
        elif name in InFlightEntry.__struct_fields__:
            place = InFlightEntry.__struct_fields__.index(name)
            found.append(dialect.json_element[type(getattr(entry, name))].format(place))
        else:
            found.append(_literal(getattr(row, name)))
    return ", ".join(found)


def _literal(value: str | int | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    return f"'{value}'"
