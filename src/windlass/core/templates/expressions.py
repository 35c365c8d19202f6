"""Turns parsed template expressions into functions, after checking every construct against what is allowed.

Only Jinja's parser is used, never its compiler: that one folds constants and so would run a hostile template already
when it is registered. What is not listed in EXPRESSIONS does not exist.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from jinja2 import nodes
from msgspec import Struct

from windlass.core.errors import TemplateFailed
from windlass.core.templates.filters import FILTERS, REQUIRED
from windlass.core.templates.json_values import (
    INTEGER_MAX,
    RANGE_MAX,
    TEXT_MAX,
    Fuel,
    Undefined,
    add,
    bounded,
    contains,
    divide,
    equal,
    floor_divide,
    is_integer,
    is_list,
    is_number,
    kind_of,
    less,
    member,
    modulo,
    multiply,
    nearest,
    negate,
    power,
    shown,
    subtract,
    text_of,
)
from windlass.core.templates.predicates import TESTS
from windlass.core.templates.render_frame import Evaluate, Frame, Reading, follow, refuse, written

EXPRESSION_DEPTH_MAX = 100
CONSTRUCTS_MAX = 5_000


def compile_expression(node: nodes.Node, reading: Reading, depth: int = 0) -> Evaluate:
    """The function that evaluates an expression; TemplateInvalid when it uses anything not allowed."""
    reading.constructs += 1
    if depth > EXPRESSION_DEPTH_MAX:
        refuse(node, f"the expression is nested or chained more than {EXPRESSION_DEPTH_MAX} deep; split it over nodes")
    if reading.constructs > CONSTRUCTS_MAX:
        refuse(node, f"the template has more than {CONSTRUCTS_MAX} parts; split it over nodes")
    build = EXPRESSIONS.get(type(node))
    if build is None:
        refuse(node, f"{type(node).__name__} expressions are not available in templates")
    return build(node, reading, depth + 1)


def _constant(node: nodes.Const, reading: Reading, depth: int) -> Evaluate:
    value: object = node.value
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        refuse(node, "the string has half a surrogate pair, which JSON cannot hold; write the character itself")
    if value is not None and not isinstance(value, (str, bool)):
        if is_integer(value) and abs(value) > INTEGER_MAX:
            refuse(node, "the number is over 64 bits; use a smaller one")
        try:
            value = bounded(value)
        except TemplateFailed:
            refuse(node, "a number in the template is too large; use a smaller one")
    return lambda frame: value


def _name(node: nodes.Name, reading: Reading, depth: int) -> Evaluate:
    name = node.name
    reading.note(name, ())

    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1)
        return frame.name(name)

    return evaluate


def _access(node: nodes.Getattr | nodes.Getitem, reading: Reading, depth: int) -> Evaluate:
    """A chain of `.key` and `[key]`, walked as a loop so that long fixed paths stay one reference."""
    fixed = _fixed_path(node)
    if fixed is not None:
        reading.note(*fixed)
        name, path = fixed
        return lambda frame: follow(frame, name, path)
    inner = node.node
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
        return _slice(node, node.arg, reading, depth)
    subject = compile_expression(inner, reading, depth)
    label = describe(inner)
    key: Evaluate
    if isinstance(node, nodes.Getattr):
        attribute = node.attr
        key = lambda frame: attribute  # noqa: E731
    else:
        key = compile_expression(node.arg, reading, depth)
    return lambda frame: member(frame.fuel, subject(frame), key(frame), label)


def _fixed_path(node: nodes.Node) -> tuple[str, tuple[str | int, ...]] | None:
    path: list[str | int] = []
    here = node
    for _ in range(EXPRESSION_DEPTH_MAX):
        if isinstance(here, nodes.Getattr):
            path.append(here.attr)
            here = here.node
        elif isinstance(here, nodes.Getitem) and isinstance(here.arg, nodes.Const):
            key: object = here.arg.value
            if not isinstance(key, str) and not is_integer(key):
                return None
            path.append(key)
            here = here.node
        elif isinstance(here, nodes.Name):
            return here.name, tuple(reversed(path))
        else:
            return None
    return None


def describe(node: nodes.Node) -> str:
    """How error messages name the value of an expression."""
    fixed = _fixed_path(node)
    return written(*fixed) if fixed is not None else "the value"


def _slice(node: nodes.Getitem, bounds: nodes.Slice, reading: Reading, depth: int) -> Evaluate:
    subject = compile_expression(node.node, reading, depth)
    limits = [
        None if part is None else compile_expression(part, reading, depth)
        for part in (bounds.start, bounds.stop, bounds.step)
    ]

    def evaluate(frame: Frame) -> object:
        value = subject(frame)
        start, stop, step = (None if limit is None else limit(frame) for limit in limits)
        if not (isinstance(value, str) or is_list(value)):
            raise TemplateFailed(f"only lists and strings have slices, not {kind_of(value)}")
        for limit in (start, stop, step):
            if limit is not None and not is_integer(limit):
                raise TemplateFailed(f"a slice needs integers, not {kind_of(limit)}")
        if step == 0:
            raise TemplateFailed("a slice's step cannot be 0")
        frame.fuel.spend(1 + len(value) // (32 if isinstance(value, str) else 1))
        part = value[cast("Any", slice(start, stop, step))]
        return part if isinstance(part, str) else list(cast("Sequence[object]", part))

    return evaluate


def _list(node: nodes.List | nodes.Tuple, reading: Reading, depth: int) -> Evaluate:
    parts = [compile_expression(item, reading, depth) for item in node.items]

    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1 + len(parts))
        return [part(frame) for part in parts]

    return evaluate


def _dict(node: nodes.Dict, reading: Reading, depth: int) -> Evaluate:
    pairs = [
        (compile_expression(pair.key, reading, depth), compile_expression(pair.value, reading, depth))
        for pair in node.items
    ]

    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1 + 4 * len(pairs))
        made: dict[str, object] = {}
        for key, value in pairs:
            name = key(frame)
            if not isinstance(name, str):
                raise TemplateFailed(f"a key of an object is a string, not {kind_of(name)}; use | string")
            made[name] = value(frame)
        return made

    return evaluate


def _operation(
    operate: Callable[[Fuel, object, object], object],
) -> Callable[[nodes.BinExpr, Reading, int], Evaluate]:
    def build(node: nodes.BinExpr, reading: Reading, depth: int) -> Evaluate:
        left = compile_expression(node.left, reading, depth)
        right = compile_expression(node.right, reading, depth)

        def evaluate(frame: Frame) -> object:
            frame.fuel.spend(1)
            return operate(frame.fuel, left(frame), right(frame))

        return evaluate

    return build


def _and(node: nodes.And, reading: Reading, depth: int) -> Evaluate:
    left = compile_expression(node.left, reading, depth)
    right = compile_expression(node.right, reading, depth)
    return lambda frame: left(frame) and right(frame)


def _or(node: nodes.Or, reading: Reading, depth: int) -> Evaluate:
    left = compile_expression(node.left, reading, depth)
    right = compile_expression(node.right, reading, depth)
    return lambda frame: left(frame) or right(frame)


def _not(node: nodes.Not, reading: Reading, depth: int) -> Evaluate:
    inner = compile_expression(node.node, reading, depth)
    return lambda frame: not inner(frame)


def _negative(node: nodes.Neg, reading: Reading, depth: int) -> Evaluate:
    inner = compile_expression(node.node, reading, depth)
    return lambda frame: negate(frame.fuel, inner(frame))


def _positive(node: nodes.Pos, reading: Reading, depth: int) -> Evaluate:
    inner = compile_expression(node.node, reading, depth)

    def evaluate(frame: Frame) -> object:
        value = inner(frame)
        if not is_number(value):
            raise TemplateFailed(f"+ needs a number, not {kind_of(value)}")
        return value

    return evaluate


def _concatenation(node: nodes.Concat, reading: Reading, depth: int) -> Evaluate:
    return joined([compile_expression(part, reading, depth) for part in node.nodes])


def joined(parts: Sequence[Evaluate]) -> Evaluate:
    """The function that writes all parts one after the other, as text."""

    def evaluate(frame: Frame) -> object:
        texts: list[str] = []
        size = 0
        for part in parts:
            text = text_of(frame.fuel, part(frame))
            size += len(text)
            frame.fuel.spend_text(len(text))
            if size > TEXT_MAX:
                frame.fuel.spend_text(size)
            texts.append(text)
        return "".join(texts)

    return evaluate


def _condition(node: nodes.CondExpr, reading: Reading, depth: int) -> Evaluate:
    if node.expr2 is None:
        refuse(node, "`x if y` needs an `else`, so that there is always a value; add `else ''` or `else none`")
    test = compile_expression(node.test, reading, depth)
    positive = compile_expression(node.expr1, reading, depth)
    negative = compile_expression(node.expr2, reading, depth)
    return lambda frame: positive(frame) if test(frame) else negative(frame)


_COMPARISONS: Mapping[str, Callable[[Fuel, object, object], bool]] = {
    "eq": equal,
    "ne": lambda fuel, left, right: not equal(fuel, left, right),
    "lt": less,
    "gt": lambda fuel, left, right: less(fuel, right, left),
    "lteq": lambda fuel, left, right: not less(fuel, right, left),
    "gteq": lambda fuel, left, right: not less(fuel, left, right),
    "in": contains,
    "notin": lambda fuel, item, container: not contains(fuel, item, container),
}


def _comparison(node: nodes.Compare, reading: Reading, depth: int) -> Evaluate:
    first = compile_expression(node.expr, reading, depth)
    rest = [(_COMPARISONS[part.op], compile_expression(part.expr, reading, depth)) for part in node.ops]

    def evaluate(frame: Frame) -> object:
        left = first(frame)
        for compare, operand in rest:
            frame.fuel.spend(1)
            right = operand(frame)
            if not compare(frame.fuel, left, right):
                return False
            left = right
        return True

    return evaluate


class _Call(Struct, frozen=True):
    """The arguments of a filter or test as written."""

    name: str
    positional: list[nodes.Expr]
    named: dict[str, nodes.Expr]


def _call_of(node: nodes.Filter | nodes.Test) -> _Call:
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        refuse(node, "* and ** are not available in templates; write the arguments out")
    named: dict[str, nodes.Expr] = {}
    for pair in node.kwargs:
        if not isinstance(pair, nodes.Keyword):
            refuse(node, "arguments are written as name=value")
        named[cast("str", pair.key)] = pair.value
    return _Call(node.name, list(node.args), named)


def _filter(node: nodes.Filter, reading: Reading, depth: int) -> Evaluate:
    call = _call_of(node)
    chosen = FILTERS.get(call.name)
    if chosen is None or node.node is None:
        near = nearest(call.name, sorted(FILTERS))
        meant = f"did you mean '{near}'?" if near else f"known: {', '.join(sorted(FILTERS))}"
        refuse(node, f"there is no filter '{call.name[:40]}'; {meant}")
    subject = compile_expression(node.node, reading, depth)
    if len(call.positional) > len(chosen.parameters):
        refuse(node, f"| {call.name} takes at most {len(chosen.parameters)} arguments, not {len(call.positional)}")
    given = dict(zip((name for name, _ in chosen.parameters), call.positional, strict=False))
    for name, value in call.named.items():
        if name in given or name not in dict(chosen.parameters):
            known = ", ".join(parameter for parameter, _ in chosen.parameters) or "none"
            refuse(node, f"| {call.name} cannot take '{name[:40]}' here; its arguments: {known}")
        given[name] = value
    arguments: list[Evaluate] = []
    for name, default in chosen.parameters:
        if name in given:
            arguments.append(compile_expression(given[name], reading, depth))
        elif default is REQUIRED:
            refuse(node, f"| {call.name} needs its argument '{name}'")
        else:
            arguments.append(_always(default))
    apply = chosen.apply
    if call.name in {"default", "d"}:
        return _defaulting(subject, arguments)

    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1)
        return apply(frame.fuel, subject(frame), *[argument(frame) for argument in arguments])

    return evaluate


def _always(value: object) -> Evaluate:
    return lambda frame: value


def _defaulting(subject: Evaluate, arguments: Sequence[Evaluate]) -> Evaluate:
    fallback, boolean = arguments

    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1)
        try:
            value = subject(frame)
        except Undefined:
            return fallback(frame)
        return fallback(frame) if boolean(frame) and not value else value

    return evaluate


def _test(node: nodes.Test, reading: Reading, depth: int) -> Evaluate:
    call = _call_of(node)
    chosen = TESTS.get(call.name)
    if chosen is None:
        refuse(node, f"there is no test '{call.name[:40]}'; known: {', '.join(sorted(TESTS))}")
    if call.named or len(call.positional) != int(chosen.takes_argument):
        refuse(node, f"`is {call.name}` takes {'one argument' if chosen.takes_argument else 'no arguments'}")
    subject = compile_expression(node.node, reading, depth)
    if call.name in {"defined", "undefined"}:
        return _is_defined(subject, call.name == "defined")
    argument = compile_expression(call.positional[0], reading, depth) if call.positional else _always(None)
    apply = chosen.apply

    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1)
        return apply(frame.fuel, subject(frame), argument(frame))

    return evaluate


def _is_defined(subject: Evaluate, wanted: bool) -> Evaluate:
    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1)
        try:
            subject(frame)
        except Undefined:
            return not wanted
        return wanted

    return evaluate


INSTEAD_OF_METHODS: Mapping[str, str] = {
    "get": "write x.key | default(…)",
    "strip": "write | trim",
    "append": "write list + [element]",
    "format": "join the parts with ~",
    "startswith": "write `is startswith(…)`",
    "endswith": "write `is endswith(…)`",
}


def _call(node: nodes.Call, reading: Reading, depth: int) -> Evaluate:
    called = node.node
    if isinstance(called, nodes.Getattr):
        name = called.attr[:40]
        instead = INSTEAD_OF_METHODS.get(name) or (f"write | {name}" if name in FILTERS else "use a filter")
        refuse(node, f"methods cannot be called in templates, so .{name}() is refused; {instead}")
    if not isinstance(called, nodes.Name) or called.name != "range" or "range" in reading.locals:
        refuse(node, "nothing but range(…) can be called in templates; use filters, as in {{ x | upper }}")
    if node.kwargs or node.dyn_args is not None or node.dyn_kwargs is not None or not 1 <= len(node.args) <= 3:
        refuse(node, "range takes one to three numbers")
    arguments = [compile_expression(argument, reading, depth) for argument in node.args]

    def evaluate(frame: Frame) -> object:
        limits: list[int] = []
        for argument in arguments:
            value = argument(frame)
            if not is_integer(value):
                raise TemplateFailed(f"range needs integers, not {kind_of(value)}")
            limits.append(value)
        if len(limits) == 3 and limits[2] == 0:
            raise TemplateFailed("range cannot go in steps of 0")
        # A huge range has no len(): its ends are bounded first.
        if any(abs(limit) > INTEGER_MAX // 4 for limit in limits) or len(range(*limits)) > RANGE_MAX:
            raise TemplateFailed(f"range({', '.join(map(shown, limits))}) has over {RANGE_MAX} numbers")
        frame.fuel.spend(len(range(*limits)))
        return list(range(*limits))

    return evaluate


EXPRESSIONS: Mapping[type[nodes.Node], Callable[[Any, Reading, int], Evaluate]] = {
    nodes.Const: _constant,
    nodes.Name: _name,
    nodes.Getattr: _access,
    nodes.Getitem: _access,
    nodes.List: _list,
    nodes.Tuple: _list,
    nodes.Dict: _dict,
    nodes.Add: _operation(add),
    nodes.Sub: _operation(subtract),
    nodes.Mul: _operation(multiply),
    nodes.Div: _operation(divide),
    nodes.FloorDiv: _operation(floor_divide),
    nodes.Mod: _operation(modulo),
    nodes.Pow: _operation(power),
    nodes.And: _and,
    nodes.Or: _or,
    nodes.Not: _not,
    nodes.Neg: _negative,
    nodes.Pos: _positive,
    nodes.Concat: _concatenation,
    nodes.CondExpr: _condition,
    nodes.Compare: _comparison,
    nodes.Filter: _filter,
    nodes.Test: _test,
    nodes.Call: _call,
}
