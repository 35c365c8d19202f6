"""Reads single values of a document, noting what is wrong with each and what to write instead."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from windlass.core.errors import TemplateInvalid
from windlass.core.templates.json_values import kind_of, shown
from windlass.core.templates.template import Template, compile_template, is_template
from windlass.spec.reading.findings import Findings, Path
from windlass.spec.reading.trees import is_array, is_object

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

# A reader takes the findings, the path and the value; it gives back None when it noted a problem.
Read = Callable[[Findings, Path, object], Any]


class Section(Struct, frozen=True):
    """The keys that an object of a document may have, how each is read, and which are needed."""

    keys: Mapping[str, Read]
    required: tuple[str, ...] = ()
    # Keys of other systems, and what they are called here.
    meant: Mapping[str, str] = {}


def read_section(findings: Findings, path: Path, value: object, section: Section) -> dict[str, Any] | None:
    """The values of an object's keys; those with problems are left out. None when a needed one is missing."""
    if not is_object(value):
        hint = f"write an object with the keys {', '.join(section.keys)}"
        findings.add(path, f"this is an object, not {kind_of(value)}", hint)
        return None
    read: dict[str, Any] = {}
    for key, inner in value.items():
        reader = section.keys.get(key)
        if reader is None:
            hint = findings.unknown_key(key, list(section.keys), section.meant)
            findings.add((*path, key), f"there is no key '{key}' here", hint, at_key=True)
            continue
        result = reader(findings, (*path, key), inner)
        if result is not None:
            read[key] = result
    missing = [key for key in section.required if key not in value]
    for key in missing:
        findings.add(path, f"'{key}' is missing", f"add {key}")
    return None if any(key not in read for key in section.required) else read


def boolean(findings: Findings, path: Path, value: object) -> bool | None:
    """true or false."""
    if isinstance(value, bool):
        return value
    findings.add(path, f"this is true or false, not {shown(value)}", "write true or false, without quotes")
    return None


def text(findings: Findings, path: Path, value: object) -> str | None:
    """A string that is not empty."""
    if isinstance(value, str) and 0 < len(value) <= TEXT_MAX:
        return value
    what = "too long" if isinstance(value, str) and value else shown(value)
    findings.add(path, f"this is a text of 1 to {TEXT_MAX} characters, not {what}", "write a string")
    return None


def description(findings: Findings, path: Path, value: object) -> str | None:
    """A string that may be empty."""
    return value if value == "" and isinstance(value, str) else text(findings, path, value)


def matching(pattern: re.Pattern[str], what: str, rule: str) -> Read:
    """A string of a certain form."""

    def read(findings: Findings, path: Path, value: object) -> str | None:
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        findings.add(path, f"{shown(value)} is no {what}", rule)
        return None

    return read


def dotted(findings: Findings, path: Path, value: object) -> str | None:
    """Keys with dots between them: where in a value something is."""
    if isinstance(value, str):
        keys = value.split(".", DOTTED_KEYS_MAX)
        if len(keys) <= DOTTED_KEYS_MAX and all(_DOTTED_KEY.fullmatch(key) for key in keys):
            return value
    hint = f"write up to {DOTTED_KEYS_MAX} keys with dots between them, as in data.items"
    findings.add(path, f"{shown(value)} is no path of keys", hint)
    return None


def choice(*options: str) -> Read:
    """One of a few words."""

    def read(findings: Findings, path: Path, value: object) -> str | None:
        if isinstance(value, str) and value in options:
            return value
        hint = findings.like(str(value), options, f"use one of: {', '.join(options)}")
        findings.add(path, f"{shown(value)} is not one of {', '.join(options)}", hint)
        return None

    return read


def whole(least: int, most: int) -> Read:
    """An integer within bounds."""

    def read(findings: Findings, path: Path, value: object) -> int | None:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        findings.add(path, f"this is a whole number from {least} to {most}, not {shown(value)}", "write such a number")
        return None

    return read


def number(least: float, most: float) -> Read:
    """A number within bounds."""

    def read(findings: Findings, path: Path, value: object) -> float | None:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most:
            return float(value)
        findings.add(path, f"this is a number from {least:g} to {most:g}, not {shown(value)}", "write such a number")
        return None

    return read


def seconds_of(value: object) -> float | None:
    """The seconds of a duration, or None when it is none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        return float(match[1]) * _UNITS[match[2]]
    return None


def duration(least: float, most: float = DURATION_SECONDS_MAX) -> Read:
    """A duration within bounds, in seconds."""

    def read(findings: Findings, path: Path, value: object) -> float | None:
        seconds = seconds_of(value)
        if seconds is None:
            findings.add(path, f"{shown(value)} is no duration", DURATION_RULE)
            return None
        if least <= seconds <= most:
            return seconds
        findings.add(
            path, f"{shown(value)} is not between {least:g} s and {most:g} s", "choose a value within this range"
        )
        return None

    return read


def template(findings: Findings, path: Path, value: object) -> Template | None:
    """Any value, with templates in its strings. Each bad string is noted at its own place."""
    try:
        return compile_template(value)
    except TemplateInvalid as error:
        before = findings.count
        _note_templates(findings, path, value, 0)
        if findings.count == before:
            findings.add(path, str(error), "simplify the value")
        return None


NOTED_DEPTH_MAX = 64


def _note_templates(findings: Findings, path: Path, value: object, depth: int) -> None:
    if depth > NOTED_DEPTH_MAX:
        return
    if isinstance(value, str):
        try:
            compile_template(value)
        except TemplateInvalid as error:
            findings.add(path, str(error), "see docs/reference/templates.md for what templates can do")
    elif is_object(value):
        for key, inner in value.items():
            _note_templates(findings, (*path, key), inner, depth + 1)
    elif is_array(value):
        for place, inner in enumerate(value):
            _note_templates(findings, (*path, place), inner, depth + 1)


def condition(findings: Findings, path: Path, value: object) -> Template | None:
    """A template that is read as true or false, or simply true or false."""
    if isinstance(value, bool) or (isinstance(value, str) and is_template(value)):
        return template(findings, path, value)
    hint = 'write {{ … }} around an expression, as in "{{ fetch.output.count > 0 }}"'
    findings.add(path, f"a condition is a template or true or false, not {shown(value)}", hint)
    return None


def object_template(what: str) -> Read:
    """An object with templates in it, or one template that gives an object."""

    def read(findings: Findings, path: Path, value: object) -> Template | None:
        if is_object(value) or (isinstance(value, str) and is_template(value)):
            return template(findings, path, value)
        findings.add(path, f"{what} an object, not {kind_of(value)}", "write {name: value, …}")
        return None

    return read


def anything(findings: Findings, path: Path, value: object) -> object:
    """Whatever there is."""
    return value


def ids(findings: Findings, path: Path, value: object) -> list[str] | None:
    """A list of node ids, or one."""
    if isinstance(value, str):
        return [value]
    if is_array(value):
        usable = True
        for place, item in enumerate(value):
            if type(item) is not str:
                usable = False
                findings.add((*path, place), f"a node is named by its id, not by {kind_of(item)}", "write the id")
        return cast("list[str]", value) if usable else None
    findings.add(path, f"this is a list of node ids, not {kind_of(value)}", "write [id, id]")
    return None


def known_as(keys: Sequence[str], value: Mapping[str, object]) -> list[str]:
    """Which of several spellings of one key are used."""
    return [key for key in keys if key in value]
