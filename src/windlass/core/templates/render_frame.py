"""The state of compiling and rendering a template: names, fuel and references."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, unique
from typing import NoReturn, Protocol, cast

from jinja2 import nodes
from msgspec import Struct

from windlass.core.errors import TemplateInvalid
from windlass.core.templates.json_values import Fuel, Undefined, available, member


@unique
class Passing(Enum):
    """Which large values a rendering passes on by reference, without reading them."""

    NOTHING = "nothing"
    # The whole outputs of nodes.
    OUTPUTS = "outputs"
    # Also parts of outputs.
    PARTS = "parts"


class Scope(Protocol):
    """The source of the names in templates."""

    def lookup(self, name: str) -> object:
        """Return the JSON value of a name. Raise KeyError if there is none."""
        ...

    @property
    def passing(self) -> "Passing":
        """Which large values are passed on by reference."""
        ...

    def reference(self, name: str, path: tuple[str | int, ...]) -> object | None:
        """Return a reference to the value of `name.key`, or an object that contains some; None to read the value."""
        ...

    def names(self) -> Sequence[str]:
        """Return the known names, for error messages."""
        ...


class Reference(Struct, frozen=True, gc=False):
    """A name that a template reads, and the fixed keys and indices after it."""

    name: str
    path: tuple[str | int, ...]


class ObjectWithReferences(Struct, frozen=True, gc=False):
    """An object that a scope made: some of its values are references to large values, or objects of this kind."""

    values: Mapping[str, object]


class Frame:
    """The state of one rendering."""

    __slots__ = ("fuel", "locals", "scope")

    def __init__(self, scope: Scope, fuel: Fuel) -> None:
        self.scope = scope
        self.fuel = fuel
        self.locals: dict[str, object] = {}

    def name(self, name: str) -> object:
        """Return a local variable, or the value of a name in the scope."""
        if name in self.locals:
            return self.locals[name]
        try:
            return self.scope.lookup(name)
        except KeyError:
            raise Undefined(
                f"undefined name: '{name}'; {available(name, self.scope.names())}"
            ) from None


Evaluate = Callable[[Frame], object]


class Reading:
    """The state of compiling one template: its references, its local names and its size."""

    def __init__(self) -> None:
        self.references: list[Reference] = []
        self.locals: set[str] = set()
        self.constructs = 0

    def note(self, name: str, path: tuple[str | int, ...]) -> None:
        """Record a reference to something outside the template."""
        if name not in self.locals:
            self.references.append(Reference(name, path))


def reject(node: nodes.Node, reason: str) -> NoReturn:
    """Raise TemplateInvalid with the line inside the template."""
    # Some nodes that the parser creates have no line.
    line: int = getattr(node, "lineno", None) or 1
    if line > 1:
        reason = f"line {line}: {reason}"
    raise TemplateInvalid(reason)


def follow(frame: Frame, name: str, path: tuple[str | int, ...]) -> object:
    """Return the value of `name.key[0].key`."""
    value = frame.name(name)
    fuel = frame.fuel
    fuel.spend(1)
    for count, key in enumerate(path):
        # The common case without a call; `member` reports what is wrong.
        if type(value) is dict and key in value:
            value = cast("dict[object, object]", value)[key]
        else:
            value = member(fuel, cast("object", value), key, format_reference(name, path[:count]))
    return value


def format_reference(name: str, path: Sequence[str | int]) -> str:
    """Format a reference as an author writes it."""
    text = name
    for key in path:
        if isinstance(key, str) and key.isidentifier():
            text += f".{key}"
        else:
            text += f"[{key!r}]"
    return text
