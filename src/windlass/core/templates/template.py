"""Templates in JSON values: Jinja's syntax and parser, an allow-list of constructs, and an interpreter.

A string that is one `{{ expression }}` has the type of its value; any other string with templates is rendered as text.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.parser import Parser
from msgspec import Raw, Struct

from windlass.core.errors import TemplateFailed, TemplateInvalid
from windlass.core.templates.expressions import compile_expression
from windlass.core.templates.json_values import (
    DEPTH_MAX,
    RENDERED_BYTES_MAX,
    STEPS_MAX,
    Fuel,
    encode,
    encode_trusted,
    is_list,
    is_mapping,
)
from windlass.core.templates.predicates import is_true
from windlass.core.templates.render_frame import Evaluate, Frame, Reading, Reference, Scope, follow
from windlass.core.templates.statements import build_statements, build_text
from windlass.core.text import shortened

__all__ = [
    "Reference",
    "Scope",
    "Template",
    "compile_template",
    "is_template",
    "is_true",
    "templates_parsed",
]

SOURCE_MAX = 32_768
EXCERPT_MAX = 160
# How Jinja names the characters that it expects.
_TOKEN_NAMES = {"end of print statement": "}}", "end of statement block": "%}"}
COMPILED_CACHE_SIZE = 4_096
# Parsing one takes a tenth of a millisecond or more (timeit of "{{ a.b + 3 }}").
PARSED_IN_VALUE_MAX = 5_000
BRACKET_DEPTH_MAX = 60
# The paths after a node's name in references to its whole output.
WHOLE = (("output",), ("result",))

# A name that is not a keyword of the template language.
_NAME = r"(?!(?:true|false|none|True|False|None|not|and|or|is|in|if|else)\b)[A-Za-z_][A-Za-z0-9_]*+"
_PLAIN = re.compile(
    rf"\s*\{{\{{\s*({_NAME})"
    r"((?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:0|[1-9][0-9]{0,8}|'[^'\\\n{}]*'|\"[^\"\\\n{}]*\")\])*)\s*\}\}\s*"
)
_DOTTED = re.compile(rf"\{{\{{ *+({_NAME}(?:\.[A-Za-z_][A-Za-z0-9_]*+)*+) *+\}}\}}")
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


class Template(Struct, frozen=True, eq=False, gc=False):
    """A JSON value with templates anywhere in its strings, compiled. Keys are never templates."""

    # The encoded value if there is nothing to render.
    static: Raw | None
    references: tuple[Reference, ...]
    source: object
    evaluate: Callable[[Frame], object] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Template) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.references)

    @property
    def names(self) -> set[str]:
        """The names at the start of its references."""
        return {reference.name for reference in self.references}

    def names_read(self, *, allow_references: bool) -> set[str]:
        """Return the names that a rendering reads, without outputs that are passed on unread as references."""
        found: set[str] = set()
        waiting: list[object] = [self.evaluate]
        while waiting:
            part = waiting.pop()
            match part:
                case _Collection():
                    waiting.extend(inner for _, inner in part.moving)
                case _Plain():
                    if not (allow_references and part.path in WHOLE):
                        found.add(_node_name(part.name, part.path))
                case _Computed():
                    found.update(
                        _node_name(reference.name, reference.path) for reference in part.references
                    )
                case _:
                    pass
        return found

    def value(self, scope: Scope) -> object:
        """Return the rendered value, which must not be changed. Raise TemplateFailed."""
        if self.evaluate is None:
            return self.source
        return self.evaluate(Frame(scope, Fuel()))

    def render(self, scope: Scope) -> Raw:
        """Return the rendered value as JSON. Raise TemplateFailed, also if it is too large."""
        if self.static is not None:
            return self.static
        value = self.value(scope)
        # A stored value is within its own limit; a computed value may repeat parts.
        if isinstance(self.evaluate, _Plain):
            return Raw(encode_trusted(value, RENDERED_BYTES_MAX))
        # The fuel is separate from that of rendering: the size has its own limit.
        return Raw(encode(Fuel(STEPS_MAX), value, RENDERED_BYTES_MAX))


class _Plain(Struct, frozen=True, eq=False, gc=False):
    """Evaluates `{{ name.key }}`. `render` distinguishes it from computed values by its type."""

    name: str
    path: tuple[str | int, ...]
    source: str

    def __call__(self, frame: Frame) -> object:
        if self.path in WHOLE and (reference := frame.scope.reference(self.name)) is not None:
            return reference
        try:
            return follow(frame, self.name, self.path)
        except TemplateFailed as error:
            raise TemplateFailed(f"{excerpt(self.source)}: {error}") from None


class _Computed(Struct, frozen=True, eq=False, gc=False):
    """Evaluates any other template. Its errors start with the source."""

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


class _Collection(Struct, frozen=True, eq=False, gc=False):
    """Evaluates an object or a list that contains templates."""

    copy: Callable[[Any], Any]
    source: object
    # The keys or indices of the parts with templates.
    moving: tuple[tuple[str | int, Evaluate], ...]

    def __call__(self, frame: Frame) -> object:
        made = self.copy(self.source)
        for key, part in self.moving:
            made[key] = part(frame)
        return made


def _node_name(name: str, path: tuple[str | int, ...]) -> str:
    """Return the node of a reference, in either spelling."""
    if name == "nodes" and path:
        return str(path[0])
    return name


def is_template(text: str) -> bool:
    """Return whether a string contains a template."""
    return "{{" in text or "{%" in text


def excerpt(source: str) -> str:
    """Return a template, shortened for error messages."""
    return shortened(source, EXCERPT_MAX)


def compile_template(value: object) -> Template:
    """Compile a JSON value. Raise TemplateInvalid for invalid templates in it."""
    if isinstance(value, str) and is_template(value):
        return _compile_string(value)
    references: list[Reference] = []
    evaluate = _compile_collection(value, references, 0, [])
    if evaluate is None:
        try:
            return Template(Raw(msgspec.json.encode(value)), (), value)
        except (
            UnicodeEncodeError,
            RecursionError,
            ValueError,
            TypeError,
            msgspec.MsgspecError,
        ) as error:
            raise TemplateInvalid(f"not a JSON value: {error}") from None
    if len(references) > 1:
        references = list(dict.fromkeys(references))
    return Template(None, tuple(references), value, evaluate)


def templates_parsed() -> int:
    """Return the number of templates parsed so far, a measure of the cost of documents."""
    return _parse_string.cache_info().misses


def _compile_collection(
    value: object, references: list[Reference], depth: int, parsed: list[str]
) -> Evaluate | None:
    """Return the function that renders an object or a list; None if it contains no templates."""
    copy: Callable[[Any], Any]
    if is_mapping(value):
        copy, entries = dict, value.items()
    elif is_list(value):
        copy, entries = list, enumerate(value)
    else:
        return None
    moving: list[tuple[str | int, Evaluate]] = []
    for key, inner in entries:
        part = _compile_entry(inner, references, depth, parsed)
        if part is not None:
            moving.append((key, part))
    if not moving:
        return None
    return _Collection(copy, value, tuple(moving))


def _compile_entry(
    value: object, references: list[Reference], depth: int, parsed: list[str]
) -> Evaluate | None:
    """Return the function that renders an entry of an object or a list; None if it contains no templates."""
    if depth >= DEPTH_MAX:
        raise TemplateInvalid(f"value nested deeper than {DEPTH_MAX} levels; flatten it")
    if not isinstance(value, str):
        return _compile_collection(value, references, depth + 1, parsed)
    if not is_template(value):
        return None
    template = _compile_string(value)
    evaluate = template.evaluate
    if type(evaluate) is not _Plain:
        parsed.append(value)
        if len(parsed) > PARSED_IN_VALUE_MAX:
            raise TemplateInvalid(
                f"more than {PARSED_IN_VALUE_MAX} templates in one value; split it over nodes"
            )
    references.extend(template.references)
    return evaluate


@lru_cache(maxsize=COMPILED_CACHE_SIZE)
def _compile_string(source: str) -> Template:
    """Compile one string. Equal sources share one object; TemplateInvalid is not cached."""
    if len(source) <= SOURCE_MAX:
        # The first pattern is simpler and matches most references.
        dotted = _DOTTED.fullmatch(source)
        if dotted is not None:
            name, *keys = dotted[1].split(".")
            return _plain_template(name, tuple(keys), source)
        plain = _PLAIN.fullmatch(source)
        if plain is not None:
            return _plain_template(plain[1], _parse_path(plain[2]), source)
    try:
        return _parse_string(source)
    except TemplateInvalid as error:
        raise TemplateInvalid(f"{excerpt(source)}: {error}") from None


def _parse_path(text: str) -> tuple[str | int, ...]:
    path: list[str | int] = []
    for key, index, single, double in _STEP.findall(text):
        if index:
            path.append(int(index))
        else:
            # Only one of the three alternatives matched.
            path.append(key + single + double)
    return tuple(path)


def _plain_template(name: str, path: tuple[str | int, ...], source: str) -> Template:
    return Template(None, (Reference(name, path),), source, _Plain(name, path, source))


@lru_cache(maxsize=COMPILED_CACHE_SIZE)
def _parse_string(source: str) -> Template:
    if len(source) > SOURCE_MAX:
        raise TemplateInvalid(
            f"template too long: {len(source)} characters, limit {SOURCE_MAX}; split it over nodes"
        )
    _check_brackets(source)
    stripped = source.strip()
    body = _parse(stripped)
    reading = Reading()
    only = _find_only_expression(body)
    if only is not None:
        evaluate = compile_expression(only, reading)
    else:
        if stripped != source:
            # In a text, the white space around it matters.
            body = _parse(source)
        evaluate = build_text(build_statements(body, reading, 0))
    references = tuple(dict.fromkeys(reading.references))
    return Template(None, references, source, _Computed(evaluate, references, source))


def _check_brackets(source: str) -> None:
    """Reject deep nesting before parsing, because the parser is recursive."""
    depth = 0
    for character in source:
        if character in "([{":
            depth += 1
            if depth > BRACKET_DEPTH_MAX:
                raise TemplateInvalid(
                    f"brackets nested deeper than {BRACKET_DEPTH_MAX} levels; split it over nodes"
                )
        elif character in ")]}" and depth:
            depth -= 1


@lru_cache(maxsize=1)
def _syntax() -> Environment:
    """Return Jinja's default syntax."""
    return Environment(keep_trailing_newline=True, autoescape=False)


def _plain_syntax_error(error: TemplateSyntaxError) -> str:
    """Return Jinja's message with the characters that it has names for."""
    message = str(error.message).rstrip(".")
    for name, characters in _TOKEN_NAMES.items():
        message = message.replace(f"'{name}'", f"'{characters}'")
    return message


def _parse(source: str) -> list[nodes.Node]:
    try:
        tree = Parser(_syntax(), source).parse()
    except TemplateSyntaxError as error:
        message = _plain_syntax_error(error)
        if error.lineno > 1:
            message = f"line {error.lineno}: {message}"
        raise TemplateInvalid(message) from None
    except RecursionError:
        raise TemplateInvalid("template nested too deeply; split it over nodes") from None
    except (ValueError, OverflowError, MemoryError) as error:
        raise TemplateInvalid(f"invalid literal: {error}") from None
    return tree.body


def _find_only_expression(body: Sequence[nodes.Node]) -> nodes.Expr | None:
    if len(body) != 1 or not isinstance(body[0], nodes.Output) or len(body[0].nodes) != 1:
        return None
    only = body[0].nodes[0]
    if isinstance(only, nodes.TemplateData):
        return None
    return only
