"""Templates between nodes: Jinja's syntax and parser, an allow-list of what may be used, and our own interpreter.

A string that is one `{{ expression }}` keeps the type of its value; any other string with templates gives text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec
from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.parser import Parser
from msgspec import Raw, Struct

from windlass.core.errors import TemplateFailed, TemplateInvalid
from windlass.core.templates.expressions import compile_expression, joined
from windlass.core.templates.json_values import (
    DEPTH_MAX,
    RENDERED_BYTES_MAX,
    STEPS_MAX,
    Fuel,
    encode,
    encode_trusted,
    is_list,
    is_mapping,
    kind_of,
)
from windlass.core.templates.predicates import is_true
from windlass.core.templates.render_frame import Evaluate, Frame, Reading, Reference, Scope, follow, refuse

__all__ = ["Reference", "Scope", "Template", "compile_template", "is_template", "is_true", "templates_parsed"]

SOURCE_MAX = 32_768
EXCERPT_MAX = 160
COMPILED_CACHE_SIZE = 4_096
# Parsing one takes a tenth of a millisecond or more.
PARSED_IN_VALUE_MAX = 5_000
STATEMENT_DEPTH_MAX = 20
BRACKET_DEPTH_MAX = 60
# What follows a node's name in a reference to its whole output.
WHOLE = (("output",), ("result",))

_KEYWORDS = frozenset({"true", "false", "none", "True", "False", "None", "not", "and", "or", "is", "in", "if", "else"})
_PLAIN = re.compile(
    r"\s*\{\{\s*([A-Za-z_][A-Za-z0-9_]*)"
    r"((?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:0|[1-9][0-9]{0,8}|'[^'\\\n{}]*'|\"[^\"\\\n{}]*\")\])*)\s*\}\}\s*"
)
_DOTTED = re.compile(r"\{\{ *+([A-Za-z_][A-Za-z0-9_]*+(?:\.[A-Za-z_][A-Za-z0-9_]*+)*+) *+\}\}")
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")

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


class Template(Struct, frozen=True, eq=False, gc=False):
    """A JSON value with templates anywhere in its strings, compiled. Keys are never templates."""

    # The JSON itself when there is nothing to render.
    static: Raw | None
    references: tuple[Reference, ...]
    source: object
    evaluate: Callable[[Frame], object] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.references)

    def names_looked_into(self, *, spares: bool) -> set[str]:
        """Names whose values a rendering reads; with `spares`, not those of outputs that are only passed on whole."""
        found: set[str] = set()
        waiting: list[object] = [self.evaluate]
        while waiting:
            part = waiting.pop()
            match part:
                case _Mapping() | _Sequence():
                    waiting.extend(inner for _, inner in part.moving)
                case _Plain():
                    if not (spares and part.path in WHOLE):
                        found.add(_name_read(part.name, part.path))
                case _Computed():
                    found.update(_name_read(reference.name, reference.path) for reference in part.references)
                case _:
                    pass
        return found

    def value(self, scope: Scope) -> object:
        """The rendered JSON value, to be read and not changed; TemplateFailed."""
        if self.evaluate is None:
            return self.source
        return self.evaluate(Frame(scope, Fuel()))

    def render(self, scope: Scope) -> Raw:
        """The rendered value's JSON; TemplateFailed also when it is too large."""
        if self.static is not None:
            return self.static
        value = self.value(scope)
        # A stored value as it is cannot be larger than what stored it; anything built may repeat parts.
        if isinstance(self.evaluate, _Plain):
            return Raw(encode_trusted(value, RENDERED_BYTES_MAX))
        # Paid apart from the work of rendering: the size has its own limit.
        return Raw(encode(Fuel(STEPS_MAX), value, RENDERED_BYTES_MAX))


class _Plain(Struct, frozen=True, eq=False, gc=False):
    """Evaluates `{{ name.key }}`; a type of its own so that `render` can tell it from computed values."""

    name: str
    path: tuple[str | int, ...]
    source: str

    def __call__(self, frame: Frame) -> object:
        if self.path in WHOLE and (stand_in := frame.scope.whole(self.name)) is not None:
            return stand_in
        try:
            return follow(frame, self.name, self.path)
        except TemplateFailed as error:
            raise TemplateFailed(f"{excerpt(self.source)}: {error}") from None


class _Computed(Struct, frozen=True, eq=False, gc=False):
    """Evaluates anything else; its errors name the template they come from."""

    evaluate: Evaluate
    references: tuple[Reference, ...]
    source: str

    def __call__(self, frame: Frame) -> object:
        try:
            return self.evaluate(frame)
        except TemplateFailed as error:
            raise TemplateFailed(f"{excerpt(self.source)}: {error}") from None
        finally:
            frame.locals = {}


class _Mapping(Struct, frozen=True, eq=False, gc=False):
    """Evaluates an object some of whose values move."""

    source: Mapping[str, object]
    moving: tuple[tuple[str, Evaluate], ...]

    def __call__(self, frame: Frame) -> object:
        made = dict(self.source)
        for key, part in self.moving:
            made[key] = part(frame)
        return made


class _Sequence(Struct, frozen=True, eq=False, gc=False):
    """Evaluates a list some of whose elements move."""

    source: Sequence[object]
    moving: tuple[tuple[int, Evaluate], ...]

    def __call__(self, frame: Frame) -> object:
        made = list(self.source)
        for place, part in self.moving:
            made[place] = part(frame)
        return made


def _name_read(name: str, path: tuple[str | int, ...]) -> str:
    """The node that a reference is about, however it is written."""
    return str(path[0]) if name == "nodes" and path else name


def is_template(text: str) -> bool:
    """Whether a string has anything to render."""
    return "{{" in text or "{%" in text


def excerpt(source: str) -> str:
    """A template short enough for an error message."""
    return source if len(source) <= EXCERPT_MAX else source[:EXCERPT_MAX] + "…"


def compile_template(value: object) -> Template:
    """Compile a JSON value; TemplateInvalid when a string in it is no acceptable template."""
    if isinstance(value, str) and is_template(value):
        return _compiled_string(value)
    references: list[Reference] = []
    evaluate = _compiled_parts(value, references, 0, [])
    if evaluate is None:
        try:
            return Template(Raw(msgspec.json.encode(value)), (), value)
        except (UnicodeEncodeError, RecursionError, ValueError, TypeError, msgspec.MsgspecError) as error:
            raise TemplateInvalid(f"the value is not JSON: {error}") from None
    found = tuple(dict.fromkeys(references)) if len(references) > 1 else tuple(references)
    return Template(None, found, value, evaluate)


def templates_parsed() -> int:
    """How many templates the parser has read so far: what the size of a document does not tell about its cost."""
    return _parsed_string.cache_info().misses


def _compiled_parts(value: object, references: list[Reference], depth: int, parsed: list[str]) -> Evaluate | None:
    """The function that renders an object or a list, or None when there is nothing in it to render."""
    moving: list[Any] = []
    if is_mapping(value):
        for key, inner in value.items():
            part = _compiled_part(inner, references, depth, parsed)
            if part is not None:
                moving.append((key, part))
        return _Mapping(value, tuple(moving)) if moving else None
    if is_list(value):
        for place, inner in enumerate(value):
            part = _compiled_part(inner, references, depth, parsed)
            if part is not None:
                moving.append((place, part))
        return _Sequence(value, tuple(moving)) if moving else None
    return None


def _compiled_part(value: object, references: list[Reference], depth: int, parsed: list[str]) -> Evaluate | None:
    """The function that renders what is in an object or a list, or None when there is nothing to render."""
    if depth >= DEPTH_MAX:
        raise TemplateInvalid(f"the value is nested deeper than {DEPTH_MAX} levels; flatten it")
    if not isinstance(value, str):
        return _compiled_parts(value, references, depth + 1, parsed)
    if "{{" not in value and "{%" not in value:
        return None
    template = _compiled_string(value)
    evaluate = template.evaluate
    if type(evaluate) is not _Plain:
        parsed.append(value)
        if len(parsed) > PARSED_IN_VALUE_MAX:
            raise TemplateInvalid(f"one value has more than {PARSED_IN_VALUE_MAX} templates; split it over nodes")
    references.extend(template.references)
    return evaluate


@lru_cache(maxsize=COMPILED_CACHE_SIZE)
def _compiled_string(source: str) -> Template:
    """One string. The cache makes equal sources share one object; TemplateInvalid is not cached."""
    dotted = _DOTTED.fullmatch(source)
    if dotted is not None and len(source) <= SOURCE_MAX:
        name, *keys = dotted[1].split(".")
        if name not in _KEYWORDS:
            return _plain(name, tuple(keys), source)
    plain = _PLAIN.fullmatch(source) if len(source) <= SOURCE_MAX else None
    if plain is not None and plain[1] not in _KEYWORDS:
        path = tuple(
            key or (int(index) if index else single or double) for key, index, single, double in _STEP.findall(plain[2])
        )
        return _plain(plain[1], path, source)
    try:
        return _parsed_string(source)
    except TemplateInvalid as error:
        raise TemplateInvalid(f"{excerpt(source)}: {error}") from None


def _plain(name: str, path: tuple[str | int, ...], source: str) -> Template:
    return Template(None, (Reference(name, path),), source, _Plain(name, path, source))


@lru_cache(maxsize=COMPILED_CACHE_SIZE)
def _parsed_string(source: str) -> Template:
    if len(source) > SOURCE_MAX:
        raise TemplateInvalid(f"a template has at most {SOURCE_MAX} characters, not {len(source)}; split it over nodes")
    _check_brackets(source)
    stripped = source.strip()
    body = _parse(stripped)
    reading = Reading()
    only = _only_expression(body)
    if only is not None:
        evaluate = compile_expression(only, reading)
    else:
        if stripped != source:
            body = _parse(source)
        evaluate = _text(_statements(body, reading, 0))
    references = tuple(dict.fromkeys(reading.references))
    return Template(None, references, source, _Computed(evaluate, references, source))


def _check_brackets(source: str) -> None:
    """Refuse deep nesting before the parser, which is recursive, sees it."""
    depth = 0
    for character in source:
        if character in "([{":
            depth += 1
            if depth > BRACKET_DEPTH_MAX:
                raise TemplateInvalid(f"brackets are nested more than {BRACKET_DEPTH_MAX} deep; split it over nodes")
        elif character in ")]}" and depth:
            depth -= 1


@lru_cache(maxsize=1)
def _syntax() -> Environment:
    """Jinja's default syntax. Making one takes longer than parsing a template."""
    return Environment(keep_trailing_newline=True, autoescape=False)


def _parse(source: str) -> list[nodes.Node]:
    try:
        tree = Parser(_syntax(), source).parse()
    except TemplateSyntaxError as error:
        place = f"line {error.lineno}: " if error.lineno > 1 else ""
        raise TemplateInvalid(f"{place}{error.message}; see the template reference for what is allowed") from None
    except RecursionError:
        raise TemplateInvalid("the template is nested too deep; split it over nodes") from None
    except (ValueError, OverflowError, MemoryError) as error:
        raise TemplateInvalid(f"a literal cannot be read: {error}") from None
    return tree.body


def _only_expression(body: Sequence[nodes.Node]) -> nodes.Expr | None:
    if len(body) != 1 or not isinstance(body[0], nodes.Output) or len(body[0].nodes) != 1:
        return None
    only = body[0].nodes[0]
    return None if isinstance(only, nodes.TemplateData) else only


Write = Callable[[Frame, list[str]], None]


def _text(write: Write) -> Evaluate:
    def evaluate(frame: Frame) -> object:
        parts: list[str] = []
        write(frame, parts)
        size = sum(map(len, parts))
        frame.fuel.spend_text(size)
        return "".join(parts)

    return evaluate


def _statements(body: Sequence[nodes.Node], reading: Reading, depth: int) -> Write:
    """The function that writes a sequence of statements."""
    if depth > STATEMENT_DEPTH_MAX:
        raise TemplateInvalid(f"statements are nested more than {STATEMENT_DEPTH_MAX} deep; split it over nodes")
    writes: list[Write] = []
    for node in body:
        build = STATEMENTS.get(type(node))
        if build is None:
            refuse(node, INSTEAD_OF_STATEMENTS.get(type(node), f"{type(node).__name__} is not available in templates"))
        writes.append(build(node, reading, depth + 1))
    if len(writes) == 1:
        return writes[0]

    def write(frame: Frame, parts: list[str]) -> None:
        for each in writes:
            each(frame, parts)

    return write


def _output(node: nodes.Output, reading: Reading, depth: int) -> Write:
    pieces = [
        _constant_text(piece.data) if isinstance(piece, nodes.TemplateData) else compile_expression(piece, reading)
        for piece in node.nodes
    ]
    text = joined(pieces)

    def write(frame: Frame, parts: list[str]) -> None:
        parts.append(cast("str", text(frame)))

    return write


def _constant_text(data: str) -> Evaluate:
    return lambda frame: data


def _if(node: nodes.If, reading: Reading, depth: int) -> Write:
    branches = [
        (compile_expression(branch.test, reading), _statements(branch.body, reading, depth))
        for branch in [node, *node.elif_]
    ]
    otherwise = _statements(node.else_, reading, depth)

    def write(frame: Frame, parts: list[str]) -> None:
        frame.fuel.spend(1)
        for test, body in branches:
            if test(frame):
                body(frame, parts)
                return
        otherwise(frame, parts)

    return write


def _target(node: nodes.Node) -> list[str]:
    """The names that a `for` or `set` gives values to."""
    targets = node.items if isinstance(node, nodes.Tuple) else [node]
    names = [target.name for target in targets if isinstance(target, nodes.Name)]
    if len(names) != len(targets):
        refuse(node, "only plain names can be set; namespaces are not available")
    return names


def _assigned(names: Sequence[str], single: bool, value: object) -> dict[str, object]:
    if single:
        return {names[0]: value}
    if not is_list(value) or len(value) != len(names):
        raise TemplateFailed(f"cannot unpack {kind_of(value)} into {', '.join(names)}; it needs {len(names)} elements")
    return dict(zip(names, value, strict=True))


def _set(node: nodes.Assign, reading: Reading, depth: int) -> Write:
    names = _target(node.target)
    single = isinstance(node.target, nodes.Name)
    evaluate = compile_expression(node.node, reading)
    reading.locals.update(names)

    def write(frame: Frame, parts: list[str]) -> None:
        frame.fuel.spend(1)
        frame.locals.update(_assigned(names, single, evaluate(frame)))

    return write


def _for(node: nodes.For, reading: Reading, depth: int) -> Write:
    if node.recursive:
        refuse(node, "recursive loops are not available; use nested loops")
    names = _target(node.target)
    single = isinstance(node.target, nodes.Name)
    iterated = compile_expression(node.iter, reading)
    outside = set(reading.locals)
    before = reading.constructs
    reading.locals.update(names)
    test = None if node.test is None else compile_expression(node.test, reading)
    reading.locals.add("loop")
    body = _statements(node.body, reading, depth)
    # Every part of the body runs at most once a turn, so this pays for all of it.
    cost = 1 + reading.constructs - before
    reading.locals = outside
    otherwise = _statements(node.else_, reading, depth)

    def chosen(frame: Frame) -> list[dict[str, object]]:
        elements = iterated(frame)
        if is_mapping(elements):
            elements = list(elements)
        if not is_list(elements):
            raise TemplateFailed(f"`for` needs a list, not {kind_of(elements)}")
        kept: list[dict[str, object]] = []
        around = frame.locals
        for element in elements:
            frame.fuel.spend(1 if test is None else cost + len(around))
            turn = _assigned(names, single, element)
            if test is not None:
                frame.locals = {**around, **turn}
            if test is None or test(frame):
                kept.append(turn)
        return kept

    def write(frame: Frame, parts: list[str]) -> None:
        around = frame.locals
        turns = chosen(frame)
        for place, turn in enumerate(turns):
            frame.fuel.spend(cost + len(around))
            frame.locals = {**around, **turn, "loop": _loop(place, len(turns))}
            body(frame, parts)
        frame.locals = around
        if not turns:
            otherwise(frame, parts)

    return write


def _loop(place: int, length: int) -> dict[str, object]:
    """What `loop` knows inside a `for`."""
    return {
        "index": place + 1,
        "index0": place,
        "revindex": length - place,
        "first": place == 0,
        "last": place == length - 1,
        "length": length,
    }


STATEMENTS: Mapping[type[nodes.Node], Callable[[Any, Reading, int], Write]] = {
    nodes.Output: _output,
    nodes.If: _if,
    nodes.For: _for,
    nodes.Assign: _set,
}
