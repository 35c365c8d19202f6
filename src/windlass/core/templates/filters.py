"""The filters that templates may use. All are pure and spend fuel before they work."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from windlass.core.errors import TemplateFailed
from windlass.core.templates.json_values import (
    DIGITS_MAX,
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


REQUIRED = object()
MISSING = object()


def _require_text(value: object, name: str) -> str:
    if isinstance(value, str):
        return value
    raise TemplateFailed(f"| {name} needs a string: {kind_of(value)}; convert it with | string")


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
    return text.strip(None if characters is None else _require_text(characters, "trim"))


def _replace(fuel: Fuel, value: object, old: object, new: object, count: object) -> object:
    text = _require_text(value, "replace")
    before, after = _require_text(old, "replace"), _require_text(new, "replace")
    if not before:
        raise TemplateFailed("| replace cannot search for an empty string; give the text to replace")
    fuel.spend_text(len(text))
    found = text.count(before)
    limit = found
    if is_integer(count) and count >= 0:
        limit = min(found, count)
    fuel.spend_text(len(text) + limit * max(len(after) - len(before), 0))
    return text.replace(before, after, limit)


def _join(fuel: Fuel, value: object, separator: object, attribute: object) -> object:
    elements = _elements(fuel, value, "join")
    between = _require_text(separator, "join")
    if attribute is not None:
        elements = [_at(fuel, element, attribute) for element in elements]
    parts: list[str] = []
    size = 0
    for element in elements:
        part = text_of(fuel, element)
        size += len(part) + len(between)
        if size > TEXT_MAX:
            fuel.spend_text(size)
        parts.append(part)
    fuel.spend_text(size)
    return between.join(parts)


def _split(fuel: Fuel, value: object, separator: object, limit: object) -> object:
    text = _require_text(value, "split")
    fuel.spend_text(len(text))
    most = limit if is_integer(limit) else -1
    if separator is None:
        fuel.spend(len(text) // 2 + 1)
        return text.split(None, most)
    between = _require_text(separator, "split")
    if not between:
        raise TemplateFailed("| split needs a separator that is not empty; | list gives the characters")
    fuel.spend(text.count(between) + 1)
    return text.split(between, most)


def _first(fuel: Fuel, value: object) -> object:
    return member(fuel, value, 0, "the value before | first")


def _last(fuel: Fuel, value: object) -> object:
    return member(fuel, value, -1, "the value before | last")


def _sum(fuel: Fuel, value: object, attribute: object, start: object) -> object:
    total = start
    for element in _elements(fuel, value, "sum"):
        number = element if attribute is None else _at(fuel, element, attribute)
        if not is_number(number):
            raise TemplateFailed(f"| sum needs numbers: {kind_of(number)}")
        total = add(fuel, total, number)
    return total


def _extreme_filter(name: str, choose: Callable[..., Any]) -> Callable[..., object]:
    def apply(fuel: Fuel, value: object, attribute: object) -> object:
        elements = _elements(fuel, value, name)
        if not elements:
            raise Undefined(f"| {name} of an empty list; use | default")
        if attribute is None:
            return choose(ordered(fuel, elements))
        keys = ordered(fuel, [_at(fuel, element, attribute) for element in elements])
        return elements[choose(range(len(keys)), key=keys.__getitem__)]

    return apply


def _sort(fuel: Fuel, value: object, reverse: object, attribute: object) -> object:
    elements = _elements(fuel, value, "sort")
    keys = ordered(fuel, elements if attribute is None else [_at(fuel, element, attribute) for element in elements])
    fuel.spend(4 * len(keys))
    order = sorted(range(len(keys)), key=keys.__getitem__, reverse=bool(reverse))
    return [elements[place] for place in order]


def _unique(fuel: Fuel, value: object, attribute: object) -> object:
    seen: set[bytes] = set()
    kept: list[object] = []
    for element in _elements(fuel, value, "unique"):
        key = encode(fuel, element if attribute is None else _at(fuel, element, attribute), TEXT_MAX)
        fuel.spend(1 + len(key) // 8)
        if key not in seen:
            seen.add(key)
            kept.append(element)
    return kept


def _reverse(fuel: Fuel, value: object) -> object:
    if isinstance(value, str):
        fuel.spend_text(len(value))
        return value[::-1]
    return list(_elements(fuel, value, "reverse"))[::-1]


def _round(fuel: Fuel, value: object, precision: object, method: object) -> object:
    if not is_number(value):
        raise TemplateFailed(f"| round needs a number: {kind_of(value)}; convert it with | float")
    if not is_integer(precision) or abs(precision) > ROUND_DIGITS_MAX:
        raise TemplateFailed(f"| round needs a precision up to {ROUND_DIGITS_MAX}: {shown(precision)}")
    number = bounded(value)
    if method == "common":
        return bounded(round(number, precision))
    factor = 10.0**precision
    scaled = bounded(number * factor)
    if method == "floor":
        return bounded((scaled // 1) / factor)
    if method == "ceil":
        return bounded(-(-scaled // 1) / factor)
    raise TemplateFailed(f"unknown method of | round: {shown(method)}; use 'common', 'floor' or 'ceil'")


def _abs(fuel: Fuel, value: object) -> object:
    if not is_number(value):
        raise TemplateFailed(f"| abs needs a number: {kind_of(value)}")
    return bounded(abs(value))


def _int(fuel: Fuel, value: object, default: object) -> object:
    try:
        if isinstance(value, (bool, int, float)):
            return bounded(int(value))
        if isinstance(value, str) and len(value) <= DIGITS_MAX:
            return bounded(int(value))
    except (ValueError, OverflowError):
        pass
    if default is None:
        raise TemplateFailed(f"not an integer: {shown(value)}; use | int(default=0)")
    return default


def _float(fuel: Fuel, value: object, default: object) -> object:
    try:
        if isinstance(value, (bool, int, float)):
            return bounded(float(value))
        if isinstance(value, str) and len(value) <= DIGITS_MAX:
            return bounded(float(value))
    except (ValueError, OverflowError):
        pass
    if default is None:
        raise TemplateFailed(f"not a number: {shown(value)}; use | float(default=0.0)")
    return default


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
    fuel.spend(len(_require_object(value, "keys")))
    return list(_require_object(value, "keys"))


def _values(fuel: Fuel, value: object) -> object:
    fuel.spend(len(_require_object(value, "values")))
    return list(_require_object(value, "values").values())


def _items(fuel: Fuel, value: object) -> object:
    fuel.spend(2 * len(_require_object(value, "items")))
    return [[key, inner] for key, inner in _require_object(value, "items").items()]


def _dict(fuel: Fuel, value: object) -> object:
    made: dict[str, object] = {}
    for pair in _elements(fuel, value, "dict"):
        if not is_list(pair) or len(pair) != 2 or not isinstance(pair[0], str):
            raise TemplateFailed(f"| dict needs a list of [key, value] pairs with string keys: {kind_of(pair)}")
        made[pair[0]] = pair[1]
    return made


def _batch(fuel: Fuel, value: object, size: object) -> object:
    elements = _elements(fuel, value, "batch")
    if not is_integer(size) or size < 1:
        raise TemplateFailed(f"| batch needs a positive size: {shown(size)}")
    fuel.spend(2 * len(elements))
    return [list(elements[at : at + size]) for at in range(0, len(elements), size)]


def _indent(fuel: Fuel, value: object, width: object, first: object) -> object:
    text = _require_text(value, "indent")
    if not is_integer(width) or not 0 <= width <= INDENT_MAX:
        raise TemplateFailed(f"| indent needs a width from 0 to {INDENT_MAX}: {shown(width)}")
    fuel.spend_text(len(text) + width * (text.count("\n") + 1))
    margin = " " * width
    indented = text.replace("\n", "\n" + margin)
    if first:
        return margin + indented
    return indented


def _truncate(fuel: Fuel, value: object, length: object, end: object) -> object:
    text, tail = _require_text(value, "truncate"), _require_text(end, "truncate")
    if not is_integer(length) or length < len(tail):
        raise TemplateFailed(f"| truncate needs a length of at least {len(tail)}: {shown(length)}")
    fuel.spend_text(min(len(text), length))
    if len(text) <= length:
        return text
    return text[: length - len(tail)] + tail


def _tojson(fuel: Fuel, value: object) -> object:
    text = encode(fuel, value, TEXT_MAX).decode()
    fuel.spend_text(len(text))
    return text


def _fromjson(fuel: Fuel, value: object) -> object:
    return decode(fuel, _require_text(value, "fromjson"))


def _default(fuel: Fuel, value: object, fallback: object, boolean: object) -> object:
    return fallback if boolean and not value else value


def _at(fuel: Fuel, element: object, path: object) -> object:
    """Return the part of an element at a key, an index or a dotted path."""
    if is_integer(path):
        return member(fuel, element, path, "an element")
    if not isinstance(path, str):
        raise TemplateFailed(f"an attribute must be a name or a dotted path: {kind_of(path)}")
    value = element
    for part in path.split(".", PATH_PARTS_MAX):
        value = member(fuel, value, int(part) if is_list(value) and part.isdecimal() else part, "an element")
    return value


def _map(fuel: Fuel, value: object, name: object, attribute: object, default: object) -> object:
    elements = _elements(fuel, value, "map")
    if attribute is not None:
        if default is None:
            return [_at(fuel, element, attribute) for element in elements]
        return [_at_or(fuel, element, attribute, default) for element in elements]
    chosen = FILTERS.get(name) if isinstance(name, str) else None
    if chosen is None or any(default is REQUIRED for _, default in chosen.parameters):
        raise TemplateFailed(f"| map needs attribute='…' or the name of a filter without arguments: {shown(name)}")
    fuel.spend(len(elements))
    defaults = [default for _, default in chosen.parameters]
    return [chosen.apply(fuel, element, *defaults) for element in elements]


def _at_or(fuel: Fuel, element: object, path: object, default: object) -> object:
    try:
        return _at(fuel, element, path)
    except Undefined:
        return default


def _passes(fuel: Fuel, value: object, name: object, argument: object) -> bool:
    if name is None:
        return value is not MISSING and bool(value)
    test = TESTS.get(name) if isinstance(name, str) else None
    if test is None:
        raise TemplateFailed(f"unknown test: {shown(name)}; known: {', '.join(sorted(TESTS))}")
    if name in {"defined", "undefined"}:
        return (value is not MISSING) == (name == "defined")
    if value is MISSING:
        return name in {"ne", "!="}
    return test.apply(fuel, value, argument)


def _selection(keep: bool, by_attribute: bool) -> Callable[..., object]:
    name = ("select" if keep else "reject") + ("attr" if by_attribute else "")

    def by_value(fuel: Fuel, value: object, test: object, argument: object) -> object:
        return [item for item in _elements(fuel, value, name) if _passes(fuel, item, test, argument) is keep]

    def by_part(fuel: Fuel, value: object, attribute: object, test: object, argument: object) -> object:
        elements = _elements(fuel, value, name)
        return [e for e in elements if _passes(fuel, _at_or(fuel, e, attribute, MISSING), test, argument) is keep]

    return by_part if by_attribute else by_value


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
    "float": Filter(_float, (("default", None),)),
    "fromjson": Filter(_fromjson),
    "indent": Filter(_indent, (("width", 4), ("first", False))),
    "int": Filter(_int, (("default", None),)),
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
    "reject": Filter(_selection(keep=False, by_attribute=False), _TEST),
    "rejectattr": Filter(_selection(keep=False, by_attribute=True), (("attribute", REQUIRED), *_TEST)),
    "replace": Filter(_replace, (("old", REQUIRED), ("new", REQUIRED), ("count", None))),
    "reverse": Filter(_reverse),
    "round": Filter(_round, (("precision", 0), ("method", "common"))),
    "select": Filter(_selection(keep=True, by_attribute=False), _TEST),
    "selectattr": Filter(_selection(keep=True, by_attribute=True), (("attribute", REQUIRED), *_TEST)),
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
