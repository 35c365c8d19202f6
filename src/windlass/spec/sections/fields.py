"""Readers of single values: each returns the value, or records a problem and returns None."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from windlass.core.errors import TemplateInvalid
from windlass.core.templates.json_values import kind_of, shown
from windlass.core.templates.template import Template, compile_template, is_template
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_array, is_integer, is_object

ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
ID_RULE = "use 1 to 128 letters, digits, _ and -"
QUEUE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION_RULE = "write a number of seconds, or 500ms, 10s, 5m, 2h, 1d"

DAY_SECONDS = 86400.0
DURATION_SECONDS_MAX = 365 * DAY_SECONDS
TEXT_MAX = 10_000
DOTTED_KEYS_MAX = 32
_DOTTED_KEY = re.compile(r"(?!\$?\Z)[^.\[\]{}\s]{1,128}")
TEMPLATE_DEPTH_MAX = 64

Read = Callable[[Findings, Path, object], Any]
Built = TypeVar("Built", bound=Struct)


class Section(Struct, frozen=True):
    """The keys that an object of a document may have, with their readers."""

    keys: Mapping[str, Read]
    required: tuple[str, ...] = ()
    # Keys of other systems, and the keys that authors mean by them.
    synonyms: Mapping[str, str] = {}


def read_section(findings: Findings, path: Path, value: object, section: Section) -> dict[str, Any] | None:
    """Return the valid values of an object. Return None if it is not an object or a required key has no value."""
    if not is_object(value):
        hint = f"write an object with the keys {', '.join(section.keys)}"
        findings.add(path, f"must be an object: {kind_of(value)}", hint)
        return None
    fields: dict[str, Any] = {}
    for key, inner in value.items():
        read = section.keys.get(key)
        if read is None:
            findings.add_unknown_key((*path, key), list(section.keys), section.synonyms)
            continue
        field = read(findings, (*path, key), inner)
        if field is not None:
            fields[key] = field
    for key in section.required:
        if key not in value:
            findings.add(path, f"missing key: '{key}'", f"add {key}")
    if any(key not in fields for key in section.required):
        return None
    return fields


def build(struct: type[Built], fields: Mapping[str, Any]) -> Built:
    """Build a struct whose encoded field names are the keys of a section."""
    return msgspec.convert(fields, struct)


def read_boolean(findings: Findings, path: Path, value: object) -> bool | None:
    """Read true or false."""
    if isinstance(value, bool):
        return value
    findings.add(path, f"must be true or false: {shown(value)}", "write true or false, without quotes")
    return None


def read_text(findings: Findings, path: Path, value: object) -> str | None:
    """Read a string that is not empty."""
    if not isinstance(value, str) or not value:
        findings.add(path, f"must be a non-empty string: {shown(value)}", "write a string")
        return None
    if len(value) > TEXT_MAX:
        findings.add(path, f"string too long: {len(value)} characters, limit {TEXT_MAX}", "shorten it")
        return None
    return value


def read_description(findings: Findings, path: Path, value: object) -> str | None:
    """Read a string that may be empty."""
    if value == "":
        return ""
    return read_text(findings, path, value)


def matching(pattern: re.Pattern[str], what: str, rule: str) -> Read:
    """Return a reader of strings that match a pattern."""

    def read(findings: Findings, path: Path, value: object) -> str | None:
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        findings.add(path, f"invalid {what}: {shown(value)}", rule)
        return None

    return read


def read_key_path(findings: Findings, path: Path, value: object) -> tuple[str, ...] | None:
    """Read keys separated by dots: the location of something inside a value."""
    if isinstance(value, str):
        keys = value.split(".", DOTTED_KEYS_MAX)
        if len(keys) <= DOTTED_KEYS_MAX and all(_DOTTED_KEY.fullmatch(key) for key in keys):
            return tuple(keys)
    hint = f"write up to {DOTTED_KEYS_MAX} keys separated by dots, as in data.items"
    findings.add(path, f"invalid path of keys: {shown(value)}", hint)
    return None


def choice(*options: str) -> Read:
    """Return a reader of one of several words."""

    def read(findings: Findings, path: Path, value: object) -> str | None:
        if isinstance(value, str) and value in options:
            return value
        hint = findings.suggest(str(value), options, f"use one of: {', '.join(options)}")
        findings.add(path, f"unknown value: {shown(value)}", hint)
        return None

    return read


def integer(least: int, most: int) -> Read:
    """Return a reader of integers within limits."""
    hint = f"write an integer from {least} to {most}"

    def read(findings: Findings, path: Path, value: object) -> int | None:
        if not is_integer(value):
            findings.add(path, f"must be an integer: {shown(value)}", hint)
        elif value < least:
            findings.add(path, f"must be at least {least}: {shown(value)}", hint)
        elif value > most:
            findings.add(path, f"must be at most {most}: {shown(value)}", hint)
        else:
            return value
        return None

    return read


def number(least: float, most: float) -> Read:
    """Return a reader of numbers within limits."""
    hint = f"write a number from {least:g} to {most:g}"

    def read(findings: Findings, path: Path, value: object) -> float | None:
        if not is_integer(value) and not isinstance(value, float):
            findings.add(path, f"must be a number: {shown(value)}", hint)
        elif value < least:
            findings.add(path, f"must be at least {least:g}: {shown(value)}", hint)
        elif value > most:
            findings.add(path, f"must be at most {most:g}: {shown(value)}", hint)
        else:
            return float(value)
        return None

    return read


def parse_duration(value: object) -> float | None:
    """Return the seconds of a duration; None if the value is not a duration."""
    if is_integer(value) or isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        return float(match[1]) * _UNITS[match[2]]
    return None


def format_duration(seconds: float) -> str:
    """Write a duration in the largest unit that divides it."""
    for unit in ("d", "h", "m", "s"):
        if seconds % _UNITS[unit] == 0 and (seconds or unit == "s"):
            return f"{seconds / _UNITS[unit]:g}{unit}"
    return f"{seconds / _UNITS['ms']:g}ms"


def duration(least: float, most: float = DURATION_SECONDS_MAX) -> Read:
    """Return a reader of durations within limits, in seconds."""
    least_text, most_text = format_duration(least), format_duration(most)
    hint = f"write a duration from {least_text} to {most_text}"

    def read(findings: Findings, path: Path, value: object) -> float | None:
        seconds = parse_duration(value)
        if seconds is None:
            findings.add(path, f"invalid duration: {shown(value)}", DURATION_RULE)
        elif seconds < least:
            findings.add(path, f"must be at least {least_text}: {shown(value)}", hint)
        elif seconds > most:
            findings.add(path, f"must be at most {most_text}: {shown(value)}", hint)
        else:
            return seconds
        return None

    return read


def read_template(findings: Findings, path: Path, value: object) -> Template | None:
    """Read any value with templates in its strings. Each invalid string is reported at its own position."""
    try:
        return compile_template(value)
    except TemplateInvalid as error:
        before = findings.count
        _report_templates(findings, path, value, depth=0)
        if findings.count == before:
            findings.add(path, str(error), "simplify the value")
        return None


def _report_templates(findings: Findings, path: Path, value: object, depth: int) -> None:
    if depth > TEMPLATE_DEPTH_MAX:
        return
    if isinstance(value, str):
        try:
            compile_template(value)
        except TemplateInvalid as error:
            findings.add(path, str(error), "see docs/reference/templates.md")
    elif is_object(value):
        for key, inner in value.items():
            _report_templates(findings, (*path, key), inner, depth + 1)
    elif is_array(value):
        for index, inner in enumerate(value):
            _report_templates(findings, (*path, index), inner, depth + 1)


def read_condition(findings: Findings, path: Path, value: object) -> Template | None:
    """Read a template that evaluates to true or false, or a boolean."""
    if isinstance(value, bool) or (isinstance(value, str) and is_template(value)):
        return read_template(findings, path, value)
    hint = 'write {{ … }} around an expression, as in "{{ fetch.output.count > 0 }}"'
    findings.add(path, f"must be a template, true or false: {shown(value)}", hint)
    return None


def read_object_template(findings: Findings, path: Path, value: object) -> Template | None:
    """Read an object with templates in it, or one template that evaluates to an object."""
    if is_object(value) or (isinstance(value, str) and is_template(value)):
        return read_template(findings, path, value)
    findings.add(path, f"must be an object: {kind_of(value)}", "write {name: value, …}")
    return None


def read_anything(findings: Findings, path: Path, value: object) -> object:
    """Read any value."""
    return value


def read_node_ids(findings: Findings, path: Path, value: object) -> list[str] | None:
    """Read a list of node ids, or a single id."""
    if isinstance(value, str):
        return [value]
    if not is_array(value):
        findings.add(path, f"must be a list of node ids: {kind_of(value)}", "write [id, id]")
        return None
    is_valid = True
    for index, item in enumerate(value):
        if type(item) is not str:
            is_valid = False
            findings.add((*path, index), f"must be a node id: {kind_of(item)}", "write the id of a node")
    return cast("list[str]", value) if is_valid else None
