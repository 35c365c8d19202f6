"""The filters that templates may use. All are pure and spend fuel before they work."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from windlass.core.errors import TemplateFailed
from windlass.core.templates.json_values import (
    DIGITS_MAX,
    INTEGER_MAX,
    TEXT_MAX,
    Fuel,
    Undefined,
    add,
    bounded,
    decode,
    encode,
    is_integer,
    is_list,
    is_mapping,
    is_number,
    kind_of,
    member,
    ordered,
    shown,
    text_of,
)
from windlass.core.templates.predicates import TESTS, is_true

ROUND_DIGITS_MAX = 15
INDENT_MAX = 100
PATH_PARTS_MAX = 16


class Filter(Struct, frozen=True):
    """A filter and its parameters in order. REQUIRED as a default marks a required argument."""

    apply: Callable[..., object]
    parameters: tuple[tuple[str, object], ...] = ()

    @property
    def defaults(self) -> list[object]:
        """The default of each parameter."""
        return [default for _, default in self.parameters]


REQUIRED = object()
MISSING = object()


def _require_text(value: object, name: str) -> str:
    if isinstance(value, str):
        return value
    raise TemplateFailed(f"| {name} needs a string: {kind_of(value)}; convert it with | string")


def _require_number(value: object, name: str) -> int | float:
    if is_number(value):
        return value
    raise TemplateFailed(f"| {name} needs a number: {kind_of(value)}; convert it with | float")


def _require_integer(value: object, lowest: int, highest: int, needed: str) -> int:
    if is_integer(value) and lowest <= value <= highest:
        return value
    raise TemplateFailed(f"{needed}: {shown(value)}")


def _elements(fuel: Fuel, value: object, name: str) -> Sequence[object]:
    if is_list(value):
        fuel.spend(len(value))
        return value
    if is_mapping(value):
        fuel.spend(len(value))
        return list(value)
    raise TemplateFailed(f"| {name} needs a list: {kind_of(value)}")


def _length(fuel: Fuel, value: object) -> object:
    if isinstance(value, str) or is_list(value) or is_mapping(value):
        return len(value)
    raise TemplateFailed(f"| length needs a list, an object or a string: {kind_of(value)}")


def _case_filter(name: str, change: Callable[[str], str]) -> Callable[..., object]:
    def apply(fuel: Fuel, value: object) -> object:
        text = _require_text(value, name)
        fuel.spend_text(2 * len(text))
        return change(text)

    return apply


def _trim(fuel: Fuel, value: object, characters: object) -> object:
    text = _require_text(value, "trim")
    fuel.spend_text(len(text))
    if characters is None:
        return text.strip()
    return text.strip(_require_text(characters, "trim"))


def _replace(fuel: Fuel, value: object, old: object, new: object, count: object) -> object:
    text = _require_text(value, "replace")
    before, after = _require_text(old, "replace"), _require_text(new, "replace")
    if not before:
        raise TemplateFailed(
            "| replace cannot search for an empty string; give the text to replace"
        )
    fuel.spend_text(len(text))
    found = text.count(before)
    limit = found
    if is_integer(count) and count >= 0:
        limit = min(found, count)
    fuel.spend_text(len(text) + limit * max(len(after) - len(before), 0))
    return text.replace(before, after, limit)


def _join(fuel: Fuel, value: object, separator: object, attribute: object) -> object:
    elements = _at_each(fuel, _elements(fuel, value, "join"), attribute)
    between = _require_text(separator, "join")
    parts = [text_of(fuel, element) for element in elements]
    fuel.spend_text(sum(map(len, parts)) + len(parts) * len(between))
    return between.join(parts)


def _split(fuel: Fuel, value: object, separator: object, limit: object) -> object:
    text = _require_text(value, "split")
    fuel.spend_text(len(text))
    most = -1
    if is_integer(limit):
        most = limit
    if separator is None:
        fuel.spend(len(text) // 2 + 1)
        return text.split(None, most)
    between = _require_text(separator, "split")
    if not between:
        raise TemplateFailed(
            "| split needs a separator that is not empty; | list gives the characters"
        )
    fuel.spend(text.count(between) + 1)
    return text.split(between, most)


def _first(fuel: Fuel, value: object) -> object:
    return member(fuel, value, 0, "the value before | first")


def _last(fuel: Fuel, value: object) -> object:
    return member(fuel, value, -1, "the value before | last")


def _sum(fuel: Fuel, value: object, attribute: object, start: object) -> object:
    total = start
    for number in _at_each(fuel, _elements(fuel, value, "sum"), attribute):
        total = add(fuel, total, _require_number(number, "sum"))
    return total


def _extreme_filter(name: str, choose: Callable[..., Any]) -> Callable[..., object]:
    def apply(fuel: Fuel, value: object, attribute: object) -> object:
        elements = _elements(fuel, value, name)
        if not elements:
            raise Undefined(f"| {name} of an empty list; use | default")
        keys = ordered(fuel, _at_each(fuel, elements, attribute))
        return elements[choose(range(len(keys)), key=keys.__getitem__)]

    return apply


def _sort(fuel: Fuel, value: object, reverse: object, attribute: object) -> object:
    elements = _elements(fuel, value, "sort")
    keys = ordered(fuel, _at_each(fuel, elements, attribute))
    fuel.spend(4 * len(keys))
    order = sorted(range(len(keys)), key=keys.__getitem__, reverse=bool(reverse))
    return [elements[place] for place in order]


def _unique(fuel: Fuel, value: object, attribute: object) -> object:
    kept: dict[bytes, object] = {}
    elements = _elements(fuel, value, "unique")
    for element, part in zip(elements, _at_each(fuel, elements, attribute), strict=True):
        key = encode(fuel, part, TEXT_MAX)
        fuel.spend(1 + len(key) // 8)
        kept.setdefault(key, element)
    return list(kept.values())


def _reverse(fuel: Fuel, value: object) -> object:
    if isinstance(value, str):
        fuel.spend_text(len(value))
        return value[::-1]
    return list(_elements(fuel, value, "reverse"))[::-1]


def _round(fuel: Fuel, value: object, precision: object, method: object) -> object:
    number = bounded(_require_number(value, "round"))
    needed = f"| round needs a precision up to {ROUND_DIGITS_MAX}"
    digits = _require_integer(precision, -ROUND_DIGITS_MAX, ROUND_DIGITS_MAX, needed)
    if method == "common":
        return bounded(round(number, digits))
    factor = 10.0**digits
    scaled = bounded(number * factor)
    if method == "floor":
        return bounded((scaled // 1) / factor)
    if method == "ceil":
        return bounded(-(-scaled // 1) / factor)
    raise TemplateFailed(
        f"unknown method of | round: {shown(method)}; use 'common', 'floor' or 'ceil'"
    )


def _abs(fuel: Fuel, value: object) -> object:
    return bounded(abs(_require_number(value, "abs")))


def _conversion(
    convert: type[int] | type[float], failure: str, advice: str
) -> Callable[..., object]:
    def apply(fuel: Fuel, value: object, default: object) -> object:
        is_short_text = isinstance(value, str) and len(value) <= DIGITS_MAX
        if is_short_text or isinstance(value, (int, float)):
            try:
                return bounded(convert(cast("str | float", value)))
            except (ValueError, OverflowError):
                pass
        if default is None:
            raise TemplateFailed(f"{failure}: {shown(value)}; {advice}")
        return default

    return apply


def _string(fuel: Fuel, value: object) -> object:
    text = text_of(fuel, value)
    fuel.spend_text(len(text))
    return text


def _bool(fuel: Fuel, value: object) -> object:
    return is_true(value)


def _list(fuel: Fuel, value: object) -> object:
    if isinstance(value, str):
        fuel.spend(len(value))
        return list(value)
    return list(_elements(fuel, value, "list"))


def _require_object(value: object, name: str) -> Mapping[str, object]:
    if is_mapping(value):
        return value
    raise TemplateFailed(f"| {name} needs an object: {kind_of(value)}")


def _keys(fuel: Fuel, value: object) -> object:
    fields = _require_object(value, "keys")
    fuel.spend(len(fields))
    return list(fields)


def _values(fuel: Fuel, value: object) -> object:
    fields = _require_object(value, "values")
    fuel.spend(len(fields))
    return list(fields.values())


def _items(fuel: Fuel, value: object) -> object:
    fields = _require_object(value, "items")
    fuel.spend(2 * len(fields))
    return list(map(list, fields.items()))


def _dict(fuel: Fuel, value: object) -> object:
    made: dict[str, object] = {}
    for pair in _elements(fuel, value, "dict"):
        if not is_list(pair) or len(pair) != 2 or not isinstance(pair[0], str):
            raise TemplateFailed(
                f"| dict needs a list of [key, value] pairs with string keys: {kind_of(pair)}"
            )
        made[pair[0]] = pair[1]
    return made


def _batch(fuel: Fuel, value: object, size: object) -> object:
    elements = _elements(fuel, value, "batch")
    count = _require_integer(size, 1, INTEGER_MAX, "| batch needs a positive size")
    fuel.spend(2 * len(elements))
    return [list(elements[at : at + count]) for at in range(0, len(elements), count)]


def _indent(fuel: Fuel, value: object, width: object, first: object) -> object:
    text = _require_text(value, "indent")
    columns = _require_integer(
        width, 0, INDENT_MAX, f"| indent needs a width from 0 to {INDENT_MAX}"
    )
    fuel.spend_text(len(text) + columns * (text.count("\n") + 1))
    margin = " " * columns
    indented = text.replace("\n", "\n" + margin)
    if first:
        return margin + indented
    return indented


def _truncate(fuel: Fuel, value: object, length: object, end: object) -> object:
    text, tail = _require_text(value, "truncate"), _require_text(end, "truncate")
    needed = f"| truncate needs a length of at least {len(tail)}"
    chars_max = _require_integer(length, len(tail), INTEGER_MAX, needed)
    fuel.spend_text(min(len(text), chars_max))
    if len(text) <= chars_max:
        return text
    return text[: chars_max - len(tail)] + tail


def _tojson(fuel: Fuel, value: object) -> object:
    text = encode(fuel, value, TEXT_MAX).decode()
    fuel.spend_text(len(text))
    return text


def _fromjson(fuel: Fuel, value: object) -> object:
    return decode(fuel, _require_text(value, "fromjson"))


def _default(fuel: Fuel, value: object, fallback: object, boolean: object) -> object:
    if boolean and not value:
        return fallback
    return value


def _at(fuel: Fuel, element: object, path: object) -> object:
    """Return the part of an element at a key, an index or a dotted path."""
    if is_integer(path):
        return member(fuel, element, path, "an element")
    if not isinstance(path, str):
        raise TemplateFailed(f"an attribute must be a name or a dotted path: {kind_of(path)}")
    value = element
    for part in path.split(".", PATH_PARTS_MAX):
        key: str | int = part
        if is_list(value) and part.isdecimal():
            key = int(part)
        value = member(fuel, value, key, "an element")
    return value


def _at_each(fuel: Fuel, elements: Sequence[object], path: object) -> Sequence[object]:
    """Return the part of each element at a path; the elements themselves without a path."""
    if path is None:
        return elements
    return [_at(fuel, element, path) for element in elements]


def _map(fuel: Fuel, value: object, name: object, attribute: object, default: object) -> object:
    elements = _elements(fuel, value, "map")
    if attribute is None:
        return _apply_to_each(fuel, elements, name)
    if default is None:
        return _at_each(fuel, elements, attribute)
    return [_at_or(fuel, element, attribute, default) for element in elements]


def _apply_to_each(fuel: Fuel, elements: Sequence[object], name: object) -> object:
    """Apply the filter of this name, without arguments, to each element."""
    # Only strings are names; other values may not be hashable.
    chosen = FILTERS.get(str(name))
    if chosen is None or REQUIRED in chosen.defaults:
        raise TemplateFailed(
            f"| map needs attribute='…' or the name of a filter without arguments: {shown(name)}"
        )
    fuel.spend(len(elements))
    defaults = chosen.defaults
    return [chosen.apply(fuel, element, *defaults) for element in elements]


def _at_or(fuel: Fuel, element: object, path: object, default: object) -> object:
    try:
        return _at(fuel, element, path)
    except Undefined:
        return default


def _passes(fuel: Fuel, value: object, name: object, argument: object) -> bool:
    if name is None:
        return value is not MISSING and bool(value)
    test = TESTS.get(str(name))
    if test is None:
        raise TemplateFailed(f"unknown test: {shown(name)}; known: {', '.join(sorted(TESTS))}")
    if name in {"defined", "undefined"}:
        return (value is not MISSING) == (name == "defined")
    if value is MISSING:
        return name in {"ne", "!="}
    return test.apply(fuel, value, argument)


def _selection(name: str, *, keep: bool) -> Callable[..., object]:
    def apply(fuel: Fuel, value: object, test: object, argument: object) -> object:
        return [
            item
            for item in _elements(fuel, value, name)
            if _passes(fuel, item, test, argument) is keep
        ]

    return apply


def _selection_by_attribute(name: str, *, keep: bool) -> Callable[..., object]:
    def apply(
        fuel: Fuel, value: object, attribute: object, test: object, argument: object
    ) -> object:
        elements = _elements(fuel, value, name)
        return [
            e
            for e in elements
            if _passes(fuel, _at_or(fuel, e, attribute, MISSING), test, argument) is keep
        ]

    return apply


_ATTRIBUTE = ("attribute", None)
_TEST = (("test", None), ("argument", None))

FILTERS: Mapping[str, Filter] = {
    "abs": Filter(_abs),
    "batch": Filter(_batch, (("size", REQUIRED),)),
    "bool": Filter(_bool),
    "capitalize": Filter(_case_filter("capitalize", str.capitalize)),
    "count": Filter(_length),
    "d": Filter(_default, (("fallback", ""), ("boolean", False))),
    "default": Filter(_default, (("fallback", ""), ("boolean", False))),
    "dict": Filter(_dict),
    "first": Filter(_first),
    "float": Filter(
        _conversion(float, "not a number", "use | float(default=0.0)"), (("default", None),)
    ),
    "fromjson": Filter(_fromjson),
    "indent": Filter(_indent, (("width", 4), ("first", False))),
    "int": Filter(_conversion(int, "not an integer", "use | int(default=0)"), (("default", None),)),
    "items": Filter(_items),
    "join": Filter(_join, (("separator", ""), _ATTRIBUTE)),
    "keys": Filter(_keys),
    "last": Filter(_last),
    "length": Filter(_length),
    "list": Filter(_list),
    "lower": Filter(_case_filter("lower", str.lower)),
    "map": Filter(_map, (("filter", None), _ATTRIBUTE, ("default", None))),
    "max": Filter(_extreme_filter("max", max), (_ATTRIBUTE,)),
    "min": Filter(_extreme_filter("min", min), (_ATTRIBUTE,)),
    "reject": Filter(_selection("reject", keep=False), _TEST),
    "rejectattr": Filter(
        _selection_by_attribute("rejectattr", keep=False), (("attribute", REQUIRED), *_TEST)
    ),
    "replace": Filter(_replace, (("old", REQUIRED), ("new", REQUIRED), ("count", None))),
    "reverse": Filter(_reverse),
    "round": Filter(_round, (("precision", 0), ("method", "common"))),
    "select": Filter(_selection("select", keep=True), _TEST),
    "selectattr": Filter(
        _selection_by_attribute("selectattr", keep=True), (("attribute", REQUIRED), *_TEST)
    ),
    "sort": Filter(_sort, (("reverse", False), _ATTRIBUTE)),
    "split": Filter(_split, (("separator", None), ("limit", None))),
    "string": Filter(_string),
    "sum": Filter(_sum, (_ATTRIBUTE, ("start", 0))),
    "title": Filter(_case_filter("title", str.title)),
    "tojson": Filter(_tojson),
    "trim": Filter(_trim, (("characters", None),)),
    "truncate": Filter(_truncate, (("length", 255), ("end", "..."))),
    "unique": Filter(_unique, (_ATTRIBUTE,)),
    "upper": Filter(_case_filter("upper", str.upper)),
    "values": Filter(_values),
}
