"""What the SQL handlers share: the query, names of params, and results as bounded JSON."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Raw

from windlass.core.errors import FatalError, ParamsInvalid
from windlass.core.report_limits import INTEGER_MAX, INTEGER_MIN
from windlass.core.templates.json_values import available

QUERY_CHARS_MAX = 1 << 20
ROWS_MAX = 10_000
ROWS_MAX_LIMIT = 100_000
RESULT_BYTES_MAX = 64 * 1024 * 1024
TIMEOUT_SECONDS = 300.0
# Rows read before other tasks of the event loop may run.
PAGE_ROWS = 500

# Params that both SQL handlers take.
Connection = Annotated[
    str | None,
    Meta(
        description="name of a connection in the settings (`connections.NAME`); optional if there is only one"
    ),
]
Query = Annotated[str | None, Meta(description="the query; required, unless given as `sql`")]
Sql = Annotated[str | None, Meta(description="another name for `query`")]
QueryParams = Annotated[
    list[Any] | dict[str, Any] | None,
    Meta(description="a list for `$1, $2` (`?` in SQLite), or an object for `:name`"),
]
RowsMax = Annotated[
    int,
    Meta(
        ge=1,
        le=ROWS_MAX_LIMIT,
        description=f"at most {ROWS_MAX_LIMIT:,}; more rows are an error, which rolls back the statement",
    ),
]
Timeout = Annotated[float, Meta(gt=0, description="seconds, at most the node's own timeout")]

# Strings, comments and casts, in which a colon does not start a param; then the param itself.
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
    """A query returned more than a node may output."""

    type = "result_too_large"


def query_text(query: str | None, sql: str | None) -> str:
    """Return the one query of a node; raise ParamsInvalid if there is none or more than one."""
    if query is not None and sql is None:
        text = query
    elif sql is not None and query is None:
        text = sql
    else:
        raise ParamsInvalid("use exactly one of 'query' and 'sql', which mean the same")
    if not text.strip() or len(text) > QUERY_CHARS_MAX:
        raise ParamsInvalid(
            f"a query must have 1 to {QUERY_CHARS_MAX} characters; pass values in 'params'"
        )
    return text


def positional(sql: str, params: Mapping[str, object]) -> tuple[str, list[object]]:
    """Replace `:name` by `$1`; raise ParamsInvalid if a name has no value or a value is not used."""
    numbers: dict[str, int] = {}

    def number(token: re.Match[str]) -> str:
        name = token["name"]
        if name is None:
            return token[0]
        if name not in params:
            raise unknown_param(name, list(params))
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    text = _TOKENS.sub(number, sql)
    for name in params:
        if name not in numbers:
            raise ParamsInvalid(
                f"unused param: {name!r}; use :{name} in the query or remove it from 'params'"
            )
    return text, [params[name] for name in numbers]


def unknown_param(name: str, known: Sequence[str]) -> ParamsInvalid:
    """Return the error of a query that uses a name without a value."""
    return ParamsInvalid(
        f"the query uses :{name}, which is not in 'params'; {available(name, known)}"
    )


class ResultRows:
    """Rows as JSON, encoded once and counted; raises ResultTooLarge beyond the limits."""

    def __init__(self, names: Sequence[str], rows_max: int) -> None:
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise ParamsInvalid(
                    f"duplicate column in the result: {name!r}; rename one of them with 'as'"
                )
            seen.add(name)
        self._names = tuple(names)
        self._rows_max = rows_max
        self._rows: list[bytes] = []
        self._bytes = 0

    @property
    def fetch_count(self) -> int:
        """How many rows to fetch next; one more than allowed, to detect a result that is too large."""
        return min(PAGE_ROWS, self._rows_max + 1 - len(self._rows))

    def add(self, values: Sequence[object]) -> None:
        """Add one row."""
        if len(self._rows) >= self._rows_max:
            raise ResultTooLarge(
                f"result too large: more than {self._rows_max} rows; add a limit to the query or raise 'rows_max' "
                f"(at most {ROWS_MAX_LIMIT})"
            )
        row = msgspec.json.encode(dict(zip(self._names, map(to_json, values), strict=True)))
        self._bytes += len(row)
        if self._bytes > RESULT_BYTES_MAX:
            raise ResultTooLarge(
                f"result too large: more than {RESULT_BYTES_MAX} bytes; select less"
            )
        self._rows.append(row)

    def output(self) -> dict[str, Any]:
        """Return the output of the node."""
        return output(Raw(b"[" + b",".join(self._rows) + b"]"), len(self._rows))


def output(rows: object, row_count: int) -> dict[str, Any]:
    """Return the output of a SQL node."""
    return {"rows": rows, "row_count": row_count}


def json_text(value: object) -> str:
    """Encode a value as JSON."""
    return msgspec.json.encode(value).decode()


_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def to_json(value: object) -> object:
    """Convert a value of a database to JSON; types without a JSON equivalent become text."""
    match value:
        case None | bool() | str():
            return value
        case int() if not INTEGER_MIN <= value <= INTEGER_MAX:
            return str(value)
        case float() if not math.isfinite(value):
            return _NON_FINITE[str(value)]
        case int() | float():
            return value
        case bytes():
            return "\\x" + value.hex()
        case datetime() | date() | time():
            return value.isoformat()
        case list() | tuple():
            return [to_json(part) for part in cast("Sequence[object]", value)]
        case _:
            return _object_to_json(value)


def _object_to_json(value: object) -> object:
    # A composite value of PostgreSQL has items, but is not a mapping.
    items = cast("Any", getattr(value, "items", None))
    if items is None:
        return str(value)
    return {str(key): to_json(part) for key, part in items()}
