"""What the SQL handlers share: which query is meant, names of params, and results as bounded JSON."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, cast

import msgspec
from msgspec import Raw

from windlass.core.errors import FatalError, ParamsInvalid
from windlass.core.templates.json_values import available

QUERY_CHARS_MAX = 1 << 20
ROWS_MAX = 10_000
ROWS_MAX_LIMIT = 100_000
RESULT_BYTES_MAX = 64 * 1024 * 1024
TIMEOUT_SECONDS = 300.0
# Rows read before others on the worker's loop get their turn.
PAGE_ROWS = 500

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
# Everything in which a colon is no param; then the param itself, which no second colon precedes.
_TOKENS = re.compile(
    r"'(?:[^']|'')*'"
    r'|"(?:[^"]|"")*"'
    r"|--[^\n]*"
    r"|/\*.*?\*/"
    r"|\$([A-Za-z_]\w*)?\$.*?\$(?:\1)?\$"
    r"|::"
    r"|:(?P<name>[A-Za-z_][A-Za-z0-9_]*)",
    re.DOTALL,
)


class ResultTooLarge(FatalError):
    """A query found more than its node may hold."""

    type = "result_too_large"


def query_text(query: str | None, sql: str | None) -> str:
    """The one query that a node gives; ParamsInvalid."""
    given = [text for text in (query, sql) if text is not None]
    if len(given) != 1:
        raise ParamsInvalid("give 'query' (or 'sql', which is the same), and only one of them")
    if not given[0].strip() or len(given[0]) > QUERY_CHARS_MAX:
        raise ParamsInvalid(f"a query has 1 to {QUERY_CHARS_MAX} characters: pass values through 'params'")
    return given[0]


def positional(sql: str, params: Mapping[str, object]) -> tuple[str, list[object]]:
    """A query with `:name` in it as one with `$1`; ParamsInvalid when a name has no value, or a value no name."""
    numbers: dict[str, int] = {}

    def numbered(token: re.Match[str]) -> str:
        name = token["name"]
        if name is None:
            return token[0]
        if name not in params:
            raise ParamsInvalid(
                f"the query names :{name}, which 'params' does not give; {available(name, list(params))}"
            )
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    text = _TOKENS.sub(numbered, sql)
    unused = [name for name in params if name not in numbers]
    if unused:
        raise ParamsInvalid(f"'params' gives {unused[0]!r}, which the query does not name: write :{unused[0]} in it")
    return text, [params[name] for name in numbers]


class ResultRows:
    """Rows as JSON, encoded once and counted; ResultTooLarge beyond the bounds."""

    def __init__(self, names: Sequence[str], rows_max: int) -> None:
        twice = [name for at, name in enumerate(names) if name in names[:at]]
        if twice:
            raise ParamsInvalid(f"two columns of the result are called {twice[0]!r}: rename one of them with 'as'")
        self._names = tuple(names)
        self._rows_max = rows_max
        self._rows: list[bytes] = []
        self._bytes = 0

    @property
    def room(self) -> int:
        """How many rows to ask for: one more than may come tells that there are too many."""
        return min(PAGE_ROWS, self._rows_max + 1 - len(self._rows))

    def add(self, values: Sequence[object]) -> None:
        """One more row."""
        if len(self._rows) >= self._rows_max:
            raise ResultTooLarge(
                f"the query found more than {self._rows_max} rows: add a limit to it, or raise 'rows_max' "
                f"(up to {ROWS_MAX_LIMIT})"
            )
        row = msgspec.json.encode(dict(zip(self._names, map(plain, values), strict=True)))
        self._bytes += len(row)
        if self._bytes > RESULT_BYTES_MAX:
            raise ResultTooLarge(f"the query found more than {RESULT_BYTES_MAX} bytes: ask for less of it")
        self._rows.append(row)

    def output(self) -> dict[str, Any]:
        """What the node returns."""
        return output(Raw(b"[" + b",".join(self._rows) + b"]"), len(self._rows))


def output(rows: object, row_count: int) -> dict[str, Any]:
    """What a SQL node returns."""
    return {"rows": rows, "row_count": row_count}


def json_text(value: object) -> str:
    """A value as JSON."""
    return msgspec.json.encode(value).decode()


def plain(value: object) -> object:
    """A value of a database in JSON's terms: what JSON has no type for becomes text."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if _INT_MIN <= value <= _INT_MAX else str(value)
        case float():
            return value if math.isfinite(value) else _unfinite(value)
        case bytes():
            return "\\x" + value.hex()
        case datetime() | date() | time():
            return value.isoformat()
        case list() | tuple():
            return [plain(part) for part in cast("Sequence[object]", value)]
        case dict():
            return {str(key): plain(part) for key, part in cast("dict[object, object]", value).items()}
        case _:
            # A composite value of PostgreSQL's has names and values, but is no mapping.
            parts = cast("Any", getattr(value, "items", None))
            return {str(key): plain(part) for key, part in parts()} if parts is not None else str(value)


def _unfinite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
