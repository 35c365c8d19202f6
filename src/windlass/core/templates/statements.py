"""Compile the statements of templates: output, `if`, `for` and `set`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from jinja2 import nodes

from windlass.core.errors import TemplateFailed, TemplateInvalid
from windlass.core.templates.expressions import build_always, compile_expression, joined
from windlass.core.templates.json_values import is_list, is_mapping, kind_of
from windlass.core.templates.render_frame import Evaluate, Frame, Reading, reject

STATEMENT_DEPTH_MAX = 20

INSTEAD_OF_STATEMENTS: Mapping[type[nodes.Node], str] = {
    nodes.Macro: "macros are not available; write the text where it is used",
    nodes.CallBlock: "call blocks are not available; write the text where it is used",
    nodes.FilterBlock: "filter blocks are not available; use {{ x | filter }}",
    nodes.With: "`with` is not available; use {% set x = … %}",
    nodes.Block: "blocks are not available; a template is one text",
    nodes.Extends: "`extends` is not available; a template is one text",
    nodes.Include: "`include` is not available; write the text here",
    nodes.Import: "`import` is not available; write the text here",
    nodes.FromImport: "`import` is not available; write the text here",
    nodes.AssignBlock: "`set` blocks are not available; use {% set x = … %}",
    nodes.Scope: "`autoescape` is not available; nothing is escaped",
}

Write = Callable[[Frame, list[str]], None]


def build_text(write: Write) -> Evaluate:
    """Return the function that evaluates statements to a text."""

    def evaluate(frame: Frame) -> object:
        parts: list[str] = []
        write(frame, parts)
        size = sum(map(len, parts))
        frame.fuel.spend_text(size)
        return "".join(parts)

    return evaluate


def build_statements(body: Sequence[nodes.Node], reading: Reading, depth: int) -> Write:
    """Return the function that writes a sequence of statements."""
    if depth > STATEMENT_DEPTH_MAX:
        raise TemplateInvalid(
            f"statements nested deeper than {STATEMENT_DEPTH_MAX} levels; split it over nodes"
        )
    writes: list[Write] = []
    for node in body:
        build = STATEMENTS.get(type(node))
        if build is None:
            reject(
                node,
                INSTEAD_OF_STATEMENTS.get(
                    type(node), f"{type(node).__name__} is not available in templates"
                ),
            )
        writes.append(build(node, reading, depth + 1))
    if len(writes) == 1:
        return writes[0]

    def write(frame: Frame, parts: list[str]) -> None:
        for each in writes:
            each(frame, parts)

    return write


def _build_output(node: nodes.Output, reading: Reading, depth: int) -> Write:
    text = joined([_build_piece(piece, reading) for piece in node.nodes])

    def write(frame: Frame, parts: list[str]) -> None:
        parts.append(cast("str", text(frame)))

    return write


def _build_piece(piece: nodes.Expr, reading: Reading) -> Evaluate:
    if isinstance(piece, nodes.TemplateData):
        return build_always(piece.data)
    return compile_expression(piece, reading)


def _build_if(node: nodes.If, reading: Reading, depth: int) -> Write:
    branches = [
        (compile_expression(branch.test, reading), build_statements(branch.body, reading, depth))
        for branch in [node, *node.elif_]
    ]
    otherwise = build_statements(node.else_, reading, depth)

    def write(frame: Frame, parts: list[str]) -> None:
        frame.fuel.spend(1)
        for test, body in branches:
            if test(frame):
                body(frame, parts)
                return
        otherwise(frame, parts)

    return write


def _read_target(node: nodes.Node) -> list[str]:
    """Return the names that a `for` or `set` assigns."""
    targets: Sequence[nodes.Node] = [node]
    if isinstance(node, nodes.Tuple):
        targets = node.items
    names = [target.name for target in targets if isinstance(target, nodes.Name)]
    if len(names) != len(targets):
        reject(node, "only plain names can be set; namespaces are not available")
    return names


def _assign(names: Sequence[str], single: bool, value: object) -> dict[str, object]:
    if single:
        return {names[0]: value}
    if not is_list(value) or len(value) != len(names):
        raise TemplateFailed(
            f"cannot unpack: {kind_of(value)} into {', '.join(names)}; use a list of {len(names)} elements"
        )
    return dict(zip(names, value, strict=True))


def _build_set(node: nodes.Assign, reading: Reading, depth: int) -> Write:
    names = _read_target(node.target)
    single = isinstance(node.target, nodes.Name)
    evaluate = compile_expression(node.node, reading)
    reading.locals.update(names)

    def write(frame: Frame, parts: list[str]) -> None:
        frame.fuel.spend(1)
        frame.locals.update(_assign(names, single, evaluate(frame)))

    return write


def _build_for(node: nodes.For, reading: Reading, depth: int) -> Write:
    if node.recursive:
        reject(node, "recursive loops are not available; use nested loops")
    names = _read_target(node.target)
    single = isinstance(node.target, nodes.Name)
    iterated = compile_expression(node.iter, reading)
    outside = set(reading.locals)
    before = reading.constructs
    reading.locals.update(names)
    test = None
    if node.test is not None:
        test = compile_expression(node.test, reading)
    reading.locals.add("loop")
    body = build_statements(node.body, reading, depth)
    # Every part of the body runs at most once per turn, so this covers all of it.
    cost = 1 + reading.constructs - before
    reading.locals = outside
    otherwise = build_statements(node.else_, reading, depth)

    def chosen(frame: Frame) -> list[dict[str, object]]:
        elements = _require_list(iterated(frame))
        frame.fuel.spend(len(elements))
        turns = [_assign(names, single, element) for element in elements]
        if test is None:
            return turns
        kept: list[dict[str, object]] = []
        around = frame.locals
        for turn in turns:
            frame.fuel.spend(cost + len(around))
            frame.locals = {**around, **turn}
            if test(frame):
                kept.append(turn)
        return kept

    def write(frame: Frame, parts: list[str]) -> None:
        around = frame.locals
        turns = chosen(frame)
        for place, turn in enumerate(turns):
            frame.fuel.spend(cost + len(around))
            frame.locals = {**around, **turn, "loop": _loop_value(place, len(turns))}
            body(frame, parts)
        frame.locals = around
        if not turns:
            otherwise(frame, parts)

    return write


def _require_list(value: object) -> Sequence[object]:
    """Return what a `for` iterates over: the elements of a list or the keys of an object."""
    if is_mapping(value):
        return list(value)
    if is_list(value):
        return value
    raise TemplateFailed(f"`for` needs a list: {kind_of(value)}; convert it with | list")


def _loop_value(place: int, length: int) -> dict[str, object]:
    """Return the value of `loop` inside a `for`."""
    return {
        "index": place + 1,
        "index0": place,
        "revindex": length - place,
        "first": place == 0,
        "last": place == length - 1,
        "length": length,
    }


STATEMENTS: Mapping[type[nodes.Node], Callable[[Any, Reading, int], Write]] = {
    nodes.Output: _build_output,
    nodes.If: _build_if,
    nodes.For: _build_for,
    nodes.Assign: _build_set,
}
