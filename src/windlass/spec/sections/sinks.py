"""Sinks of a document: the options that each tool has. An option that is a template is checked by the sink itself."""

import re
from collections.abc import Mapping

from windlass.core.templates.json_values import kind_of, shown
from windlass.core.templates.template import is_template
from windlass.spec.definition import Sink
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_array, is_object
from windlass.spec.sections.fields import (
    Read,
    Section,
    choice,
    dotted,
    duration,
    matching,
    read_section,
    template,
    text,
)

KEY_COLUMNS_MAX = 32
MODES = ("append", "upsert", "replace")
FORMATS = ("jsonl", "csv", "parquet")
# Endings of files that tell their format.
ENDINGS = (".jsonl", ".ndjson", ".csv", ".parquet")
METHODS = ("POST", "PUT", "PATCH")

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_$]{0,62}"
_TABLE = re.compile(rf"(?:{_IDENTIFIER}\.)?{_IDENTIFIER}")
_SCHEMA = re.compile(_IDENTIFIER)
# Columns are keys of rows, and those may have any name.
_COLUMN = re.compile(r".{1,200}", re.DOTALL)
_NAME_RULE = "use letters, digits and _, up to 63, and no digit first"
_URL = re.compile(r"https?://\S+")


def _or_template(read: Read) -> Read:
    """A value that is checked here, unless a template makes it."""

    def checked(findings: Findings, path: Path, value: object) -> object:
        return value if isinstance(value, str) and is_template(value) else read(findings, path, value)

    return checked


_column = matching(_COLUMN, "name of a column", "write a string of 1 to 200 characters")


def _key(findings: Findings, path: Path, value: object) -> object:
    """The column, or the columns, that tell rows apart."""
    if not is_array(value):
        return _column(findings, path, value)
    if not 0 < len(value) <= KEY_COLUMNS_MAX:
        findings.add(path, f"a key has 1 to {KEY_COLUMNS_MAX} columns, not {len(value)}", "write [column, …]")
        return None
    before = findings.count
    for place, column in enumerate(value):
        if _or_template(_column)(findings, (*path, place), column) is not None and column in value[:place]:
            findings.add((*path, place), f"the column {shown(column)} is in the key twice", "remove one of the two")
    return value if findings.count == before else None


def _connection(findings: Findings, path: Path, value: object) -> str | None:
    """The name of a connection of the settings."""
    if isinstance(value, str) and "://" in value:
        # Not a word of it is told: it may hold a password.
        message = "a connection is a name of the settings, and this is an address"
        findings.add(path, message, 'add [connections] main_db = "…" to the settings, and write connection: main_db')
        return None
    return text(findings, path, value)


def _headers(findings: Findings, path: Path, value: object) -> object:
    """An object of texts."""
    if not is_object(value):
        findings.add(path, f"headers are an object, not {kind_of(value)}", "write {Name: value, …}")
        return None
    for name, header in value.items():
        if not isinstance(header, str):
            findings.add((*path, name), f"a header is a text, not {shown(header)}", "write it in quotes")
    return value


_ROWS: Mapping[str, Read] = {
    "rows": _or_template(dotted),
    "column": _or_template(_column),
    "json_column": _or_template(_column),
}
_TABLE_OPTIONS: Mapping[str, Read] = {
    "table": _or_template(matching(_TABLE, "name of a table", "write table or schema.table; " + _NAME_RULE)),
    "connection": _or_template(_connection),
    "mode": _or_template(choice(*MODES)),
    "key": _or_template(_key),
    **_ROWS,
}
_MEANT: Mapping[str, str] = {
    "path": "rows",
    "data": "rows",
    "items": "rows",
    "keys": "key",
    "primary_key": "key",
    "method": "mode",
    "db": "connection",
    "connection_string": "connection",
    "url": "connection",
}
TOOLS: Mapping[str, Section] = {
    "postgres": Section(
        {**_TABLE_OPTIONS, "schema": _or_template(matching(_SCHEMA, "name of a schema", _NAME_RULE))},
        ("table",),
        _MEANT,
    ),
    "sqlite": Section({**_TABLE_OPTIONS, "database": _or_template(text)}, ("table",), {**_MEANT, "file": "database"}),
    "file": Section(
        {
            "path": _or_template(text),
            "format": _or_template(choice(*FORMATS)),
            "mode": _or_template(choice("append", "replace")),
            **_ROWS,
        },
        ("path",),
        {"file": "path", "filename": "path", "type": "format"},
    ),
    "http": Section(
        {
            "url": _or_template(matching(_URL, "http address", "write http://… or https://…")),
            "method": _or_template(choice(*METHODS)),
            "headers": _or_template(_headers),
            "timeout": _or_template(duration(0.001, 3600)),
            "rows": _or_template(dotted),
        },
        ("url",),
        {"path": "rows", "endpoint": "url", "uri": "url"},
    ),
}


def sink(findings: Findings, path: Path, value: object) -> Sink | None:
    """Where results are written."""
    if not is_object(value):
        findings.add(path, f"a sink is an object, not {kind_of(value)}", "write {tool: postgres, table: …}")
        return None
    options = dict(value)
    if "tool" not in options:
        findings.add(path, "'tool' is missing", f"add tool: one of {', '.join(TOOLS)}")
        return None
    tool = choice(*TOOLS)(findings, (*path, "tool"), options.pop("tool"))
    if tool is None:
        return None
    before = findings.count
    read_section(findings, path, options, TOOLS[tool])
    _check_together(findings, path, tool, options)
    compiled = template(findings, path, options)
    return Sink(tool=tool, options=compiled) if compiled is not None and findings.count == before else None


def _check_together(findings: Findings, path: Path, tool: str, options: Mapping[str, object]) -> None:
    """What one option says about another."""
    file = options.get("path") if tool == "file" and "format" not in options else None
    if isinstance(file, str) and not is_template(file) and not file.lower().endswith(ENDINGS):
        message = f"the ending of {shown(file)} tells no format"
        findings.add((*path, "path"), message, f"use {', '.join(ENDINGS)}, or add format: jsonl")
    if options.get("mode") == "upsert" and "key" not in options:
        findings.add(
            (*path, "mode"), "mode upsert needs a 'key'", "add key: [column, …], the columns that tell rows apart"
        )
    if "connection" in options and "database" in options:
        message = "'connection' and 'database' both say where the table is"
        findings.add((*path, "database"), message, "keep one of the two", at_key=True)
    table = options.get("table")
    if "schema" in options and isinstance(table, str) and "." in table and not is_template(table):
        findings.add(
            (*path, "schema"), f"the table {shown(table)} has a schema already", "remove 'schema'", at_key=True
        )
