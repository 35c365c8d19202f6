"""The `sink` section of a node: the options of each tool. The sink itself checks options that are templates."""

import re
from collections.abc import Mapping

from windlass.core.plan import SinkPlan
from windlass.core.templates.json_values import kind_of, shown
from windlass.core.templates.template import is_template
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_array, is_object
from windlass.spec.sections.fields import (
    Read,
    Section,
    choice,
    duration,
    is_text_template,
    matching,
    read_fields,
    read_key_path,
    read_object,
    read_template,
    read_text,
)

COLUMNS_MAX = 1_000
KEY_COLUMNS_MAX = 32
MODES = ("append", "upsert", "replace")
FORMATS = ("jsonl", "csv", "parquet")
# File extensions that determine the format.
EXTENSIONS = (".jsonl", ".ndjson", ".csv", ".parquet")
METHODS = ("POST", "PUT", "PATCH")

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_$]{0,62}"
_TABLE = re.compile(rf"(?:{_IDENTIFIER}\.)?{_IDENTIFIER}")
_SCHEMA = re.compile(_IDENTIFIER)
# Columns are keys of rows, which may have any name.
_COLUMN = re.compile(r".{1,200}", re.DOTALL)
_NAME_RULE = "use up to 63 letters, digits and _, not starting with a digit"
_URL = re.compile(r"https?://\S+")


def _or_template(read: Read) -> Read:
    """Return a reader that accepts templates without checking them."""

    def read_or_template(findings: Findings, path: Path, value: object) -> object:
        if is_text_template(value):
            return value
        return read(findings, path, value)

    return read_or_template


_read_column = matching(_COLUMN, "column name", "write a string of 1 to 200 characters")
_read_column_or_template = _or_template(_read_column)


def _read_key(findings: Findings, path: Path, value: object) -> object:
    """Read the column or columns that identify a row."""
    if not is_array(value):
        return _read_column(findings, path, value)
    if not 0 < len(value) <= KEY_COLUMNS_MAX:
        findings.reject(
            path,
            f"a key must have 1 to {KEY_COLUMNS_MAX} columns: {len(value)}",
            "write [column, …]",
        )
    for index, column in enumerate(value):
        _read_column_or_template(findings, (*path, index), column)
        if column in value[:index]:
            findings.reject(
                (*path, index), f"duplicate column: {shown(column)}", "remove one of the two"
            )
    return value


def _read_columns(findings: Findings, path: Path, value: object) -> object:
    """Read the header of a CSV file."""
    if not is_array(value) or not 0 < len(value) <= COLUMNS_MAX:
        findings.reject(
            path, f"columns must be a list of 1 to {COLUMNS_MAX} names", "write [column, …]"
        )
    for index, column in enumerate(value):
        read_text(findings, (*path, index), column)
        if column in value[:index]:
            findings.reject(
                (*path, index), f"duplicate column: {shown(column)}", "remove one of the two"
            )
    return value


def _read_connection(findings: Findings, path: Path, value: object) -> str:
    """Read the name of a connection in the settings."""
    name = read_text(findings, path, value)
    if "://" in name:
        # The value may contain a password, so the message does not show it.
        message = "a connection must be a name from the settings: this is an address"
        hint = 'add [connections] main_db = "…" to the settings, and write connection: main_db'
        findings.reject(path, message, hint)
    return name


def _read_headers(findings: Findings, path: Path, value: object) -> object:
    headers = read_object(findings, path, value)
    for name, header in headers.items():
        if not isinstance(header, str):
            findings.add(
                (*path, name), f"a header must be a string: {shown(header)}", "put quotes around it"
            )
    return headers


_ROWS: Mapping[str, Read] = {
    "rows": _or_template(read_key_path),
    "column": _read_column_or_template,
    "json_column": _read_column_or_template,
}
_TABLE_OPTIONS: Mapping[str, Read] = {
    "table": _or_template(
        matching(_TABLE, "table name", "write table or schema.table; " + _NAME_RULE)
    ),
    "connection": _or_template(_read_connection),
    "mode": _or_template(choice(*MODES)),
    "key": _or_template(_read_key),
    **_ROWS,
}
_SYNONYMS: Mapping[str, str] = {
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
        {**_TABLE_OPTIONS, "schema": _or_template(matching(_SCHEMA, "schema name", _NAME_RULE))},
        ("table",),
        _SYNONYMS,
    ),
    "sqlite": Section(
        {**_TABLE_OPTIONS, "database": _or_template(read_text)},
        ("table",),
        {**_SYNONYMS, "file": "database"},
    ),
    "file": Section(
        {
            "path": _or_template(read_text),
            "format": _or_template(choice(*FORMATS)),
            "mode": _or_template(choice("append", "replace")),
            "columns": _or_template(_read_columns),
            **_ROWS,
        },
        ("path",),
        {"file": "path", "filename": "path", "type": "format"},
    ),
    "http": Section(
        {
            "url": _or_template(matching(_URL, "URL", "write http://… or https://…")),
            "method": _or_template(choice(*METHODS)),
            "headers": _or_template(_read_headers),
            "timeout": _or_template(duration(0.001, 3600)),
            "rows": _or_template(read_key_path),
        },
        ("url",),
        {"path": "rows", "endpoint": "url", "uri": "url"},
    ),
}


_read_tool = choice(*TOOLS)


def read_sink(findings: Findings, path: Path, value: object) -> SinkPlan:
    """Read where results are written."""
    if not is_object(value):
        findings.reject(
            path, f"must be an object: {kind_of(value)}", "write {tool: postgres, table: …}"
        )
    options = dict(value)
    if "tool" not in options:
        findings.reject(path, "missing key: 'tool'", f"add tool: one of {', '.join(TOOLS)}")
    tool: str = _read_tool(findings, (*path, "tool"), options.pop("tool"))
    before = findings.count
    read_fields(findings, path, options, TOOLS[tool])
    _check_options(findings, path, tool, options)
    template = read_template(findings, path, options)
    findings.stop_if_more_than(before)
    return SinkPlan(tool=tool, options=template)


def _check_options(
    findings: Findings, path: Path, tool: str, options: Mapping[str, object]
) -> None:
    """Check options against each other."""
    if tool == "file" and "format" not in options:
        _check_extension(findings, path, options.get("path"))
    if "columns" in options and options.get("format", "csv") != "csv":
        message = "columns has no effect: they are the header of CSV files"
        findings.add((*path, "columns"), message, "write format: csv, or remove columns")
    if options.get("mode") == "upsert" and "key" not in options:
        hint = "add key: [column, …], the columns that identify a row"
        findings.add((*path, "mode"), "missing key: mode upsert needs 'key'", hint)
    if "connection" in options and "database" in options:
        message = "conflicting keys: 'connection' and 'database' both locate the table"
        findings.add((*path, "database"), message, "keep one of the two", at_key=True)
    table = str(options.get("table"))
    if "schema" in options and "." in table and not is_template(table):
        message = f"conflicting keys: the table already has a schema: {shown(table)}"
        findings.add((*path, "schema"), message, "remove 'schema'", at_key=True)


def _check_extension(findings: Findings, path: Path, file: object) -> None:
    if not isinstance(file, str) or is_template(file) or file.lower().endswith(EXTENSIONS):
        return
    message = f"unknown file format: {shown(file)}"
    findings.add((*path, "path"), message, f"use {', '.join(EXTENSIONS)}, or add format: jsonl")
