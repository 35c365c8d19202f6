"""Readers of single values: each returns the value, or records a problem and raises Unreadable."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, TypeVar, cast

import msgspec
from msgspec import Struct

from windlass.core.durations import DAY_SECONDS, DURATION_RULE, format_duration, parse_duration
from windlass.core.errors import TemplateInvalid
from windlass.core.fields import ID_PATTERN
from windlass.core.templates.json_values import kind_of, shown
from windlass.core.templates.template import Template, compile_template, is_template
from windlass.spec.reading.findings import Findings, Path, Unreadable
from windlass.spec.reading.trees import is_array, is_integer, is_object, walk

ID = re.compile(ID_PATTERN)
QUEUE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

DURATION_SECONDS_MAX = 365 * DAY_SECONDS
TEXT_MAX = 10_000
DOTTED_KEYS_MAX = 32
_DOTTED_KEY = r"(?!\$?(?:\.|\Z))[^.\[\]{}\s]{1,128}"
_KEY_PATH = re.compile(rf"{_DOTTED_KEY}(?:\.{_DOTTED_KEY}){{0,{DOTTED_KEYS_MAX - 1}}}")

Read = Callable[[Findings, Path, object], Any]
Built = TypeVar("Built", bound=Struct)


class Section(Struct, frozen=True):
    """The keys that an object of a document may have, with their readers."""

    keys: Mapping[str, Read]
    required: tuple[str, ...] = ()
    # Keys of other systems, and the keys that authors mean by them.
    synonyms: Mapping[str, str] = {}


def read_fields(findings: Findings, path: Path, value: object, section: Section) -> dict[str, Any]:
    """Return the valid values of an object. Reject what is not an object, and report missing keys."""
    if not is_object(value):
        hint = f"write an object with the keys {', '.join(section.keys)}"
        findings.reject(path, f"must be an object: {kind_of(value)}", hint)
    fields: dict[str, Any] = {}
    for key, inner in value.items():
        read = section.keys.get(key)
        if read is None:
            findings.add_unknown_key((*path, key), list(section.keys), section.synonyms)
            continue
        try:
            fields[key] = read(findings, (*path, key), inner)
        except Unreadable:
            continue
    for key in section.required:
        if key not in value:
            findings.add(path, f"missing key: '{key}'", f"add {key}")
    return fields


def read_section(findings: Findings, path: Path, value: object, section: Section) -> dict[str, Any]:
    """Return the valid values of an object that has all its required keys."""
    fields = read_fields(findings, path, value, section)
    if not fields.keys() >= set(section.required):
        raise Unreadable
    return fields


def build(struct: type[Built], fields: Mapping[str, Any]) -> Built:
    """Build a struct whose encoded field names are the keys of a section."""
    return msgspec.convert(fields, struct)


def struct_of(struct: type[Built], section: Section) -> Read:
    """Return a reader of a section into a struct."""

    def read(findings: Findings, path: Path, value: object) -> Built:
        return build(struct, read_section(findings, path, value, section))

    return read


def read_boolean(findings: Findings, path: Path, value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        findings.reject(
            path, f"must be true or false: {shown(value)}", "write true or false, without quotes"
        )
    return value


def read_text(findings: Findings, path: Path, value: object) -> str:
    """Read a string that is not empty."""
    if not isinstance(value, str) or not value:
        findings.reject(path, f"must be a non-empty string: {shown(value)}", "write a string")
    if len(value) > TEXT_MAX:
        findings.reject(
            path, f"string too long: {len(value)} characters, limit {TEXT_MAX}", "shorten it"
        )
    return value


def read_description(findings: Findings, path: Path, value: object) -> str:
    """Read a string that may be empty."""
    if value == "":
        return ""
    return read_text(findings, path, value)


def read_object(findings: Findings, path: Path, value: object) -> dict[str, Any]:
    """Read an object with any keys."""
    if not is_object(value):
        findings.reject(path, f"must be an object: {kind_of(value)}", "write {name: value, …}")
    return value


def matching(pattern: re.Pattern[str], what: str, rule: str) -> Read:
    """Return a reader of strings that match a pattern."""

    def read(findings: Findings, path: Path, value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            findings.reject(path, f"invalid {what}: {shown(value)}", rule)
        return value

    return read


def read_key_path(findings: Findings, path: Path, value: object) -> tuple[str, ...]:
    """Read keys separated by dots: the location of something inside a value."""
    if not isinstance(value, str) or not _KEY_PATH.fullmatch(value):
        hint = f"write up to {DOTTED_KEYS_MAX} keys separated by dots, as in data.items"
        findings.reject(path, f"invalid path of keys: {shown(value)}", hint)
    return tuple(value.split("."))


def choice(*options: str) -> Read:
    """Return a reader of one of several words."""

    def read(findings: Findings, path: Path, value: object) -> str:
        if not isinstance(value, str) or value not in options:
            hint = findings.suggest(str(value), options, f"use one of: {', '.join(options)}")
            findings.reject(path, f"unknown value: {shown(value)}", hint)
        return value

    return read


class _Quantity(Struct, frozen=True):
    """How a kind of number is read and shown in messages."""

    name: str
    # Returns None for values of other types.
    parse: Callable[[object], float | None]
    format: Callable[[float], str]
    invalid: str
    # How to write one; by default the limits are shown.
    rule: str = ""


def _limited(quantity: _Quantity, least: float, most: float) -> Read:
    """Return a reader of numbers within limits."""
    least_text, most_text = quantity.format(least), quantity.format(most)
    hint = f"write {quantity.name} from {least_text} to {most_text}"

    def read(findings: Findings, path: Path, value: object) -> float:
        number = quantity.parse(value)
        if number is None:
            findings.reject(path, f"{quantity.invalid}: {shown(value)}", quantity.rule or hint)
        if number < least:
            findings.reject(path, f"must be at least {least_text}: {shown(value)}", hint)
        if number > most:
            findings.reject(path, f"must be at most {most_text}: {shown(value)}", hint)
        return number

    return read


def _parse_integer(value: object) -> int | None:
    if is_integer(value):
        return value
    return None


def _parse_number(value: object) -> float | None:
    if is_integer(value) or isinstance(value, float):
        return float(value)
    return None


_INTEGER = _Quantity("an integer", _parse_integer, str, "must be an integer")
_NUMBER = _Quantity("a number", _parse_number, "{:g}".format, "must be a number")
_SECONDS = _Quantity(
    "a duration", parse_duration, format_duration, "invalid duration", DURATION_RULE
)


def integer(least: int, most: int) -> Read:
    """Return a reader of integers within limits."""
    return _limited(_INTEGER, least, most)


def number(least: float, most: float) -> Read:
    """Return a reader of numbers within limits."""
    return _limited(_NUMBER, least, most)


def duration(least: float, most: float = DURATION_SECONDS_MAX) -> Read:
    """Return a reader of durations within limits, in seconds."""
    return _limited(_SECONDS, least, most)


def read_template(findings: Findings, path: Path, value: object) -> Template:
    """Read any value with templates in its strings. Each invalid string is reported at its own position."""
    try:
        return compile_template(value)
    except TemplateInvalid as error:
        before = findings.count
        _report_templates(findings, path, value)
        if findings.count == before:
            findings.add(path, str(error), "simplify the value")
        raise Unreadable from None


def _report_templates(findings: Findings, path: Path, value: object) -> None:
    for inner_path, inner in walk(value):
        if not isinstance(inner, str):
            continue
        try:
            compile_template(inner)
        except TemplateInvalid as error:
            findings.add((*path, *inner_path), str(error), "see docs/reference/templates.md")


def is_text_template(value: object) -> TypeGuard[str]:
    """Return whether a value is a string with a template in it."""
    return isinstance(value, str) and is_template(value)


def read_expression(findings: Findings, path: Path, value: object) -> Template:
    """Read a template in place of a value that is never a text: the white space around it has no meaning."""
    if isinstance(value, str):
        # Block scalars of YAML end with a line feed.
        value = value.strip()
    return read_template(findings, path, value)


def read_condition(findings: Findings, path: Path, value: object) -> Template:
    """Read a template that evaluates to true or false, or a boolean."""
    if not isinstance(value, bool) and not is_text_template(value):
        hint = 'write {{ … }} around an expression, as in "{{ fetch.output.count > 0 }}"'
        findings.reject(path, f"must be a template, true or false: {shown(value)}", hint)
    return read_expression(findings, path, value)


def read_object_template(findings: Findings, path: Path, value: object) -> Template:
    """Read an object with templates in it, or one template that evaluates to an object."""
    if not is_text_template(value):
        read_object(findings, path, value)
    return read_expression(findings, path, value)


def read_anything(findings: Findings, path: Path, value: object) -> object:
    """Read any value."""
    return value


def read_node_ids(findings: Findings, path: Path, value: object) -> list[str]:
    """Read a list of node ids, or a single id."""
    if isinstance(value, str):
        return [value]
    if not is_array(value):
        findings.reject(path, f"must be a list of node ids: {kind_of(value)}", "write [id, id]")
    invalid = [index for index, item in enumerate(value) if type(item) is not str]
    if not invalid:
        return cast("list[str]", value)
    for index in invalid:
        findings.add(
            (*path, index), f"must be a node id: {kind_of(value[index])}", "write the id of a node"
        )
    raise Unreadable
