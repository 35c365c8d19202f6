"""Templates in JSON values: Jinja's syntax and parser, an allow-list of constructs, and an interpreter.

A string that is one `{{ expression }}` and nothing else has the type of its value; any other string with templates is
rendered as text, white space included.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from jinja2 import Environment, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.parser import Parser
from msgspec import Raw, Struct, structs

from windlass.core.artifacts import TaskArtifact
from windlass.core.errors import TemplateFailed, TemplateInvalid
from windlass.core.node_references import AGGREGATES, is_whole_output
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
from windlass.core.templates.render_frame import (
    Evaluate,
    Frame,
    ObjectWithReferences,
    Passing,
    Reading,
    Reference,
    Scope,
    follow,
)
from windlass.core.templates.statements import build_statements, build_text
from windlass.core.text import shortened

__all__ = [
    "Passing",
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

# Bound once: Python 3.11 resolves a member of an enum in 100 ns, a global in 10.
_NOTHING = Passing.NOTHING

# A name that is not a keyword of the template language.
_NAME = r"(?!(?:true|false|none|True|False|None|not|and|or|is|in|if|else)\b)[A-Za-z_][A-Za-z0-9_]*+"
_PLAIN = re.compile(
    rf"\{{\{{\s*({_NAME})"
    r"((?:\.[A-Za-z_][A-Za-z0-9_]*|\[(?:0|[1-9][0-9]{0,8}|'[^'\\\n{}]*'|\"[^\"\\\n{}]*\")\])*)\s*\}\}"
)
_DOTTED = re.compile(rf"\{{\{{ *+({_NAME}(?:\.[A-Za-z_][A-Za-z0-9_]*+)*+) *+\}}\}}")
# White space for Jinja's lexer that does not end a line.
_STAND_INS = "\x1c\x1d\x1e\x1f\x0b\x0c"
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

    def references_read(self, passing: Passing) -> Iterator[Reference]:
        """Yield the references whose values a rendering reads; others are passed on."""
        waiting: list[object] = [self.evaluate]
        while waiting:
            part = waiting.pop()
            match part:
                case _Collection():
                    waiting.extend(inner for _, inner in part.moving)
                case _Plain():
                    if not part.is_passed(passing):
                        yield Reference(part.name, part.path)
                case _Computed():
                    yield from part.references
                case _:
                    pass

    @property
    def plain_reference(self) -> Reference | None:
        """The reference that the template consists of, if it is `{{ name.key }}`."""
        if isinstance(self.evaluate, _Plain):
            return self.references[0]
        return None

    def value(self, scope: Scope) -> object:
        """Return the rendered value, which must not be changed. Raise TemplateFailed."""
        if self.evaluate is None:
            return self.source
        return self.evaluate(Frame(scope, Fuel()))

    def render(self, scope: Scope) -> Raw:
        """Return the rendered value as JSON. Raise TemplateFailed, also if it is too large."""
        if self.static is not None:
            return self.static
        return self._encode(self.value(scope))

    def render_params(self, scope: Scope) -> tuple[Raw, tuple[TaskArtifact, ...]]:
        """Return the rendered value as JSON, and the large values that it refers to. Raise TemplateFailed."""
        if self.static is not None:
            return self.static, ()
        value = self.value(scope)
        found: list[TaskArtifact] = []
        if scope.passing is not Passing.NOTHING:
            value = _take_artifacts(self.evaluate, value, (), found)
        return self._encode(value), tuple(found)

    def _encode(self, value: object) -> Raw:
        # A stored value is within its own limit; a computed value may repeat parts.
        if isinstance(self.evaluate, _Plain) and self.evaluate.is_stored:
            return Raw(encode_trusted(value, RENDERED_BYTES_MAX))
        # The fuel is separate from that of rendering: the size has its own limit.
        return Raw(encode(Fuel(STEPS_MAX), value, RENDERED_BYTES_MAX))


class _Plain(Struct, frozen=True, eq=False, gc=False):
    """Evaluates `{{ name.key }}`. `render` distinguishes it from computed values by its type."""

    name: str
    path: tuple[str | int, ...]
    source: str

    @property
    def is_stored(self) -> bool:
        """Whether its value is a stored one, or a part of one."""
        return bool(self.path) or self.name not in AGGREGATES

    def is_passed(self, passing: Passing) -> bool:
        """Whether a large value is passed on by reference."""
        if passing is Passing.OUTPUTS:
            return is_whole_output(self.name, self.path)
        return passing is Passing.PARTS

    def __call__(self, frame: Frame) -> object:
        scope = frame.scope
        try:
            if scope.passing is not _NOTHING:
                reference = scope.reference(self.name, self.path)
                if reference is not None:
                    return reference
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


def _take_artifacts(
    part: object, value: Any, place: tuple[str | int, ...], found: list[TaskArtifact]
) -> object:
    """Return a rendered value with null in place of references, which are added to `found`."""
    if isinstance(value, TaskArtifact):
        found.append(structs.replace(value, place=place))
        return None
    if isinstance(value, ObjectWithReferences):
        return {
            key: _take_artifacts(None, inner, (*place, key), found)
            for key, inner in value.values.items()
        }
    if isinstance(part, _Collection):
        for key, inner in part.moving:
            value[key] = _take_artifacts(inner, value[key], (*place, key), found)
    return value


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
    body = _parse(source)
    reading = Reading()
    only = _find_only_expression(body)
    if only is not None:
        evaluate = compile_expression(only, reading)
    else:
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
        if "\r" in source:
            return _parse_with_carriage_returns(source)
        return Parser(_syntax(), source).parse().body
    except TemplateSyntaxError as error:
        message = _plain_syntax_error(error)
        if error.lineno > 1:
            message = f"line {error.lineno}: {message}"
        raise TemplateInvalid(message) from None
    except RecursionError:
        raise TemplateInvalid("template nested too deeply; split it over nodes") from None
    except (ValueError, OverflowError, MemoryError) as error:
        raise TemplateInvalid(f"invalid literal: {error}") from None


def _parse_with_carriage_returns(source: str) -> list[nodes.Node]:
    """Parse a template with carriage returns, which Jinja's lexer would turn into line feeds.

    Another white-space character that the template does not contain, not even escaped, stands for them meanwhile.
    """
    literals = "".join(text for _, _, text in _literals(Parser(_syntax(), source).parse()))
    stand_in = next((each for each in _STAND_INS if each not in source + literals), None)
    if stand_in is None:
        raise TemplateInvalid(
            "too many kinds of control characters beside a carriage return; remove some"
        )
    tree = Parser(_syntax(), source.replace("\r", stand_in)).parse()
    for node, field, text in list(_literals(tree)):
        setattr(node, field, text.replace(stand_in, "\r"))
    return tree.body


def _literals(tree: nodes.Template) -> Iterator[tuple[nodes.Node, str, str]]:
    """Yield the texts of a template and the strings in its expressions: the node, the field, and the text in it."""
    for node in tree.find_all((nodes.TemplateData, nodes.Const)):
        field = "data" if isinstance(node, nodes.TemplateData) else "value"
        text: object = getattr(node, field)
        if isinstance(text, str):
            yield node, field, text


def _find_only_expression(body: Sequence[nodes.Node]) -> nodes.Expr | None:
    if len(body) != 1 or not isinstance(body[0], nodes.Output) or len(body[0].nodes) != 1:
        return None
    only = body[0].nodes[0]
    if isinstance(only, nodes.TemplateData):
        return None
    return only
