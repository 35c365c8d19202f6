"""Values that do not have their declared type: where, what is expected, and how to fix it, in plain words.

What is expected is the `form` of the declared type (`core/fields.py`), or follows from its bounds.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from windlass.core.errors import Problem
from windlass.core.templates.json_values import nearest

_MISSING = re.compile(r"Object missing required field `(.+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`")
_STEP = re.compile(r"\.(?P<field>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")


def problem_of(error: msgspec.ValidationError, expected: Any) -> Problem:
    """Return what is wrong with a value that could not be converted to the type `expected`."""
    text, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`")
    path = place.removeprefix(".")
    declared = _declared_at(inspect.type_info(expected), place)
    missing = _MISSING.fullmatch(text)
    if missing is not None:
        name = missing[1]
        return Problem(
            path=_joined(path, name), message=f"missing field: '{name}'", hint=f"add '{name}'"
        )
    unknown = _UNKNOWN.fullmatch(text)
    if unknown is not None:
        name = unknown[1]
        return Problem(
            path=_joined(path, name), message=f"unknown field: '{name}'", hint=_hint(name, declared)
        )
    wanted = None if declared is None else describe(declared)
    if wanted is None:
        return Problem(path=path, message=text[:1].lower() + text[1:].replace("`", "'"))
    return Problem(path=path, message=f"expected {wanted}")


def describe(declared: inspect.Type) -> str | None:
    """Return what values of a type are like; None if there are no words for it."""
    match declared:
        case inspect.Metadata(extra={"form": str(form)}):
            return form
        case inspect.Metadata():
            return describe(declared.type)
        case inspect.UnionType():
            described = [
                describe(option)
                for option in declared.types
                if not isinstance(option, inspect.NoneType)
            ]
            return (
                " or ".join(dict.fromkeys(text for text in described if text is not None)) or None
            )
        case inspect.LiteralType():
            return f"one of {_listed(declared.values)}"
        case inspect.EnumType():
            return f"one of {_listed([option.value for option in declared.cls])}"
        case inspect.IntType():
            return f"an integer{_range(declared)}"
        case inspect.FloatType():
            return f"a number{_range(declared)}"
        case inspect.StrType():
            return _text(declared)
        case inspect.BoolType():
            return "true or false"
        case inspect.ListType() | inspect.VarTupleType() | inspect.TupleType():
            return "a list"
        case inspect.StructType() | inspect.DictType():
            return "an object"
        case _:
            return None


def _declared_at(declared: inspect.Type, place: str) -> inspect.Type | None:
    """Return the type of the value at a place like `.jobs[3].priority`."""
    found: inspect.Type | None = declared
    for step in _STEP.finditer(place):
        inner = [_inner(option, step) for option in _options(found)]
        found = next((option for option in inner if option is not None), None)
    return found


def _options(declared: inspect.Type | None) -> Iterator[inspect.Type]:
    """Yield the types that a value may have, without their metadata."""
    if isinstance(declared, inspect.Metadata):
        yield from _options(declared.type)
    elif isinstance(declared, inspect.UnionType):
        for option in declared.types:
            yield from _options(option)
    elif declared is not None:
        yield declared


def _inner(declared: inspect.Type, step: "re.Match[str]") -> inspect.Type | None:
    match declared:
        case inspect.StructType():
            return next(
                (field.type for field in declared.fields if field.encode_name == step["field"]),
                None,
            )
        case inspect.ListType() | inspect.VarTupleType() if step["index"]:
            return declared.item_type
        case inspect.DictType() if step["index"]:
            return declared.value_type
        case _:
            return None


def _hint(name: str, declared: inspect.Type | None) -> str:
    known = [
        field.encode_name
        for option in _options(declared)
        if isinstance(option, inspect.StructType)
        for field in option.fields
    ]
    similar = nearest(name, known)
    if similar is not None:
        return f"did you mean '{similar}'?"
    if known:
        return f"known fields: {', '.join(known)}"
    return "remove it"


def _range(declared: inspect.IntType | inspect.FloatType) -> str:
    lowest = declared.ge if declared.ge is not None else declared.gt
    highest = declared.le if declared.le is not None else declared.lt
    if lowest is not None and highest is not None:
        return f" from {lowest:,} to {highest:,}"
    if lowest is not None:
        return f" of at least {lowest:,}"
    if highest is not None:
        return f" of at most {highest:,}"
    return ""


def _text(declared: inspect.StrType) -> str:
    if declared.pattern is not None:
        pattern = declared.pattern.removeprefix("^").removesuffix(r"\Z")
        return f"text that matches {pattern}"
    if declared.min_length and declared.max_length is not None:
        return f"text of {declared.min_length:,} to {declared.max_length:,} characters"
    if declared.max_length is not None:
        return f"text of at most {declared.max_length:,} characters"
    return "text"


def _listed(values: Sequence[object]) -> str:
    return ", ".join(str(value) for value in values)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
