"""Compile parsed template expressions into functions.

Only Jinja's parser is used, not its compiler, which folds constants and would run a hostile template when it is
registered. Constructs that are not listed in EXPRESSIONS are rejected.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from jinja2 import nodes
from msgspec import Struct

from windlass.core.errors import TemplateFailed
from windlass.core.templates.filters import FILTERS, REQUIRED, Filter
from windlass.core.templates.json_values import (
    INTEGER_MAX,
    RANGE_MAX,
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
from windlass.core.templates.render_frame import (
    Evaluate,
    Frame,
    Reading,
    follow,
    format_reference,
    reject,
)

EXPRESSION_DEPTH_MAX = 100
CONSTRUCTS_MAX = 5_000
_SURROGATE = re.compile("[\ud800-\udfff]")


def compile_expression(node: nodes.Node, reading: Reading, depth: int = 0) -> Evaluate:
    """Return the function that evaluates an expression. Raise TemplateInvalid for constructs that are not allowed."""
    reading.constructs += 1
    if depth > EXPRESSION_DEPTH_MAX:
        reject(
            node,
            f"expression nested deeper than {EXPRESSION_DEPTH_MAX} levels; split it over nodes",
        )
    if reading.constructs > CONSTRUCTS_MAX:
        reject(node, f"template too large: more than {CONSTRUCTS_MAX} parts; split it over nodes")
    build = EXPRESSIONS.get(type(node))
    if build is None:
        reject(node, f"{type(node).__name__} expressions are not available in templates")
    return build(node, reading, depth + 1)


def _build_constant(node: nodes.Const, reading: Reading, depth: int) -> Evaluate:
    value: object = node.value
    if isinstance(value, str) and _SURROGATE.search(value):
        reject(node, "half a surrogate pair in a string; write the character itself")
    if is_number(value):
        try:
            bounded(value)
        except TemplateFailed as error:
            reject(node, str(error))
    return build_always(value)


def _build_name(node: nodes.Name, reading: Reading, depth: int) -> Evaluate:
    name = node.name
    reading.note(name, ())

    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1)
        return frame.name(name)

    return evaluate


def _build_access(node: nodes.Getattr | nodes.Getitem, reading: Reading, depth: int) -> Evaluate:
    """Compile `.key` and `[key]`. A chain of fixed keys becomes one reference."""
    fixed = _find_fixed_path(node)
    if fixed is not None:
        reading.note(*fixed)
        name, path = fixed
        return lambda frame: follow(frame, name, path)
    inner = node.node
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
        return _build_slice(node, node.arg, reading, depth)
    subject = compile_expression(inner, reading, depth)
    label = describe(inner)
    if isinstance(node, nodes.Getattr):
        key = build_always(node.attr)
    else:
        key = compile_expression(node.arg, reading, depth)
    return lambda frame: member(frame.fuel, subject(frame), key(frame), label)


def _find_fixed_path(node: nodes.Node) -> tuple[str, tuple[str | int, ...]] | None:
    """Return the name and the keys of a chain of fixed keys; None for any other expression."""
    path: list[str | int] = []
    here = node
    for _ in range(EXPRESSION_DEPTH_MAX):
        if isinstance(here, nodes.Name):
            return here.name, tuple(reversed(path))
        key = _find_fixed_key(here)
        if key is None:
            return None
        path.append(key)
        here = cast("nodes.Getattr | nodes.Getitem", here).node
    return None


def _find_fixed_key(node: nodes.Node) -> str | int | None:
    if isinstance(node, nodes.Getattr):
        return node.attr
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        key: object = node.arg.value
        if isinstance(key, str) or is_integer(key):
            return key
    return None


def describe(node: nodes.Node) -> str:
    """Return how error messages name the value of an expression."""
    fixed = _find_fixed_path(node)
    if fixed is None:
        return "the value"
    return format_reference(*fixed)


def _build_slice(
    node: nodes.Getitem, bounds: nodes.Slice, reading: Reading, depth: int
) -> Evaluate:
    subject = compile_expression(node.node, reading, depth)
    start, stop, step = (
        _build_optional(part, reading, depth) for part in (bounds.start, bounds.stop, bounds.step)
    )

    def evaluate(frame: Frame) -> object:
        return _take_slice(frame.fuel, subject(frame), start(frame), stop(frame), step(frame))

    return evaluate


def _build_optional(node: nodes.Expr | None, reading: Reading, depth: int) -> Evaluate:
    if node is None:
        return build_always(None)
    return compile_expression(node, reading, depth)


def _take_slice(fuel: Fuel, value: object, start: object, stop: object, step: object) -> object:
    for limit in (start, stop, step):
        if limit is not None and not is_integer(limit):
            raise TemplateFailed(f"a slice needs integers: {kind_of(limit)}; convert it with | int")
    if step == 0:
        raise TemplateFailed("the step of a slice cannot be 0; leave it out")
    limits = cast("Any", slice(start, stop, step))
    if isinstance(value, str):
        fuel.spend(1 + len(value) // 32)
        return value[limits]
    if is_list(value):
        fuel.spend(1 + len(value))
        return list(cast("Sequence[object]", value[limits]))
    raise TemplateFailed(
        f"only lists and strings have slices: {kind_of(value)}; convert it with | list"
    )


def _build_list(node: nodes.List | nodes.Tuple, reading: Reading, depth: int) -> Evaluate:
    parts = [compile_expression(item, reading, depth) for item in node.items]

    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1 + len(parts))
        return [part(frame) for part in parts]

    return evaluate


def _build_dict(node: nodes.Dict, reading: Reading, depth: int) -> Evaluate:
    pairs = [
        (
            compile_expression(pair.key, reading, depth),
            compile_expression(pair.value, reading, depth),
        )
        for pair in node.items
    ]

    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1 + 4 * len(pairs))
        made: dict[str, object] = {}
        for key, value in pairs:
            name = key(frame)
            if not isinstance(name, str):
                raise TemplateFailed(
                    f"a key of an object must be a string: {kind_of(name)}; use | string"
                )
            made[name] = value(frame)
        return made

    return evaluate


def _build_operation(
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


def _build_and(node: nodes.And, reading: Reading, depth: int) -> Evaluate:
    left = compile_expression(node.left, reading, depth)
    right = compile_expression(node.right, reading, depth)
    return lambda frame: left(frame) and right(frame)


def _build_or(node: nodes.Or, reading: Reading, depth: int) -> Evaluate:
    left = compile_expression(node.left, reading, depth)
    right = compile_expression(node.right, reading, depth)
    return lambda frame: left(frame) or right(frame)


def _build_not(node: nodes.Not, reading: Reading, depth: int) -> Evaluate:
    inner = compile_expression(node.node, reading, depth)
    return lambda frame: not inner(frame)


def _build_negative(node: nodes.Neg, reading: Reading, depth: int) -> Evaluate:
    inner = compile_expression(node.node, reading, depth)
    return lambda frame: negate(frame.fuel, inner(frame))


def _build_positive(node: nodes.Pos, reading: Reading, depth: int) -> Evaluate:
    inner = compile_expression(node.node, reading, depth)

    def evaluate(frame: Frame) -> object:
        value = inner(frame)
        if not is_number(value):
            raise TemplateFailed(f"+ needs a number: {kind_of(value)}; convert it with | int")
        return value

    return evaluate


def _build_concatenation(node: nodes.Concat, reading: Reading, depth: int) -> Evaluate:
    return joined([compile_expression(part, reading, depth) for part in node.nodes])


def joined(parts: Sequence[Evaluate]) -> Evaluate:
    """Return the function that concatenates all parts as text."""

    def evaluate(frame: Frame) -> object:
        fuel = frame.fuel
        texts = [text_of(fuel, part(frame)) for part in parts]
        fuel.spend_text(sum(map(len, texts)))
        return "".join(texts)

    return evaluate


def _build_condition(node: nodes.CondExpr, reading: Reading, depth: int) -> Evaluate:
    if node.expr2 is None:
        reject(node, "`x if y` needs an `else`; add `else ''` or `else none`")
    test = compile_expression(node.test, reading, depth)
    positive = compile_expression(node.expr1, reading, depth)
    negative = compile_expression(node.expr2, reading, depth)

    def evaluate(frame: Frame) -> object:
        if test(frame):
            return positive(frame)
        return negative(frame)

    return evaluate


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


def _build_comparison(node: nodes.Compare, reading: Reading, depth: int) -> Evaluate:
    first = compile_expression(node.expr, reading, depth)
    rest = [
        (_COMPARISONS[part.op], compile_expression(part.expr, reading, depth)) for part in node.ops
    ]

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
    """The arguments of a filter or test, as written."""

    name: str
    positional: list[nodes.Expr]
    named: dict[str, nodes.Expr]


def _read_call(node: nodes.Filter | nodes.Test) -> _Call:
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        reject(node, "* and ** are not available in templates; write the arguments out")
    named: dict[str, nodes.Expr] = {}
    for pair in node.kwargs:
        if not isinstance(pair, nodes.Keyword):
            reject(node, "invalid argument; write name=value")
        named[cast("str", pair.key)] = pair.value
    return _Call(node.name, list(node.args), named)


def _build_filter(node: nodes.Filter, reading: Reading, depth: int) -> Evaluate:
    call = _read_call(node)
    chosen = FILTERS.get(call.name)
    if chosen is None or node.node is None:
        reject(node, f"unknown filter: '{call.name[:40]}'; {_suggest_filter(call.name)}")
    subject = compile_expression(node.node, reading, depth)
    arguments = _build_arguments(node, call, chosen, reading, depth)
    if call.name in {"default", "d"}:
        return _build_default(subject, arguments)
    apply = chosen.apply

    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1)
        return apply(frame.fuel, subject(frame), *[argument(frame) for argument in arguments])

    return evaluate


def _suggest_filter(name: str) -> str:
    similar = nearest(name, sorted(FILTERS))
    if similar is None:
        return f"known: {', '.join(sorted(FILTERS))}"
    return f"did you mean '{similar}'?"


def _build_arguments(
    node: nodes.Filter, call: _Call, chosen: Filter, reading: Reading, depth: int
) -> list[Evaluate]:
    """Return a function for each parameter of a filter, in order."""
    names = [name for name, _ in chosen.parameters]
    if len(call.positional) > len(names):
        reject(
            node,
            f"too many arguments: | {call.name} takes at most {len(names)}; remove {len(call.positional) - len(names)}",
        )
    given = dict(zip(names, call.positional, strict=False))
    for name, value in call.named.items():
        if name in given or name not in names:
            known = ", ".join(names) or "none"
            reject(
                node, f"unexpected argument of | {call.name}: '{name[:40]}'; its arguments: {known}"
            )
        given[name] = value
    arguments: list[Evaluate] = []
    for name, default in chosen.parameters:
        if name in given:
            arguments.append(compile_expression(given[name], reading, depth))
        elif default is REQUIRED:
            reject(node, f"missing argument of | {call.name}: '{name}'")
        else:
            arguments.append(build_always(default))
    return arguments


def build_always(value: object) -> Evaluate:
    """Return the function that evaluates to a constant."""
    return lambda frame: value


def _build_default(subject: Evaluate, arguments: Sequence[Evaluate]) -> Evaluate:
    fallback, boolean = arguments

    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1)
        try:
            value = subject(frame)
        except Undefined:
            return fallback(frame)
        if boolean(frame) and not value:
            return fallback(frame)
        return value

    return evaluate


def _build_test(node: nodes.Test, reading: Reading, depth: int) -> Evaluate:
    call = _read_call(node)
    chosen = TESTS.get(call.name)
    if chosen is None:
        reject(node, f"unknown test: '{call.name[:40]}'; known: {', '.join(sorted(TESTS))}")
    if call.named or len(call.positional) != int(chosen.takes_argument):
        reject(
            node, f"wrong number of arguments: `is {call.name}` takes {int(chosen.takes_argument)}"
        )
    subject = compile_expression(node.node, reading, depth)
    if call.name in {"defined", "undefined"}:
        return _build_is_defined(subject, call.name == "defined")
    argument = _build_optional(next(iter(call.positional), None), reading, depth)
    apply = chosen.apply

    def evaluate(frame: Frame) -> object:
        frame.fuel.spend(1)
        return apply(frame.fuel, subject(frame), argument(frame))

    return evaluate


def _build_is_defined(subject: Evaluate, wanted: bool) -> Evaluate:
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


def _build_call(node: nodes.Call, reading: Reading, depth: int) -> Evaluate:
    """Compile `range(…)`, the only call."""
    called = node.node
    if isinstance(called, nodes.Getattr):
        name = called.attr[:40]
        reject(
            node, f"methods cannot be called in templates: .{name}(); {_suggest_instead_of(name)}"
        )
    if describe(called) != "range" or "range" in reading.locals:
        reject(node, "only range(…) can be called in templates; use filters, as in {{ x | upper }}")
    if node.kwargs or node.dyn_args or node.dyn_kwargs or len(node.args) not in (1, 2, 3):
        reject(
            node, "range takes one to three numbers; write range(stop) or range(start, stop, step)"
        )
    arguments = [compile_expression(argument, reading, depth) for argument in node.args]

    def evaluate(frame: Frame) -> object:
        return _make_range(frame.fuel, [argument(frame) for argument in arguments])

    return evaluate


def _suggest_instead_of(method: str) -> str:
    if method in INSTEAD_OF_METHODS:
        return INSTEAD_OF_METHODS[method]
    if method in FILTERS:
        return f"write | {method}"
    return "use a filter"


def _make_range(fuel: Fuel, values: Sequence[object]) -> list[int]:
    limits = [value for value in values if is_integer(value)]
    if len(limits) < len(values):
        kinds = ", ".join(map(kind_of, values))
        raise TemplateFailed(f"range needs integers: {kinds}; convert with | int")
    if limits[2:] == [0]:
        raise TemplateFailed("the step of range cannot be 0; leave it out")
    # len() of a huge range fails, so the limits are checked first.
    if max(map(abs, limits)) > INTEGER_MAX // 4 or len(range(*limits)) > RANGE_MAX:
        raise TemplateFailed(
            f"range too large: range({', '.join(map(shown, limits))}); the limit is {RANGE_MAX} numbers"
        )
    numbers = range(*limits)
    fuel.spend(len(numbers))
    return list(numbers)


EXPRESSIONS: Mapping[type[nodes.Node], Callable[[Any, Reading, int], Evaluate]] = {
    nodes.Const: _build_constant,
    nodes.Name: _build_name,
    nodes.Getattr: _build_access,
    nodes.Getitem: _build_access,
    nodes.List: _build_list,
    nodes.Tuple: _build_list,
    nodes.Dict: _build_dict,
    nodes.Add: _build_operation(add),
    nodes.Sub: _build_operation(subtract),
    nodes.Mul: _build_operation(multiply),
    nodes.Div: _build_operation(divide),
    nodes.FloorDiv: _build_operation(floor_divide),
    nodes.Mod: _build_operation(modulo),
    nodes.Pow: _build_operation(power),
    nodes.And: _build_and,
    nodes.Or: _build_or,
    nodes.Not: _build_not,
    nodes.Neg: _build_negative,
    nodes.Pos: _build_positive,
    nodes.Concat: _build_concatenation,
    nodes.CondExpr: _build_condition,
    nodes.Compare: _build_comparison,
    nodes.Filter: _build_filter,
    nodes.Test: _build_test,
    nodes.Call: _build_call,
}
