"""One rendering under way: where names come from, what was paid, and which references a template makes."""

from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol, cast

from jinja2 import nodes
from msgspec import Struct

from windlass.core.errors import TemplateInvalid
from windlass.core.templates.json_values import Fuel, Undefined, available, member


class Scope(Protocol):
    """Where names in templates come from."""

    def lookup(self, name: str) -> object:
        """The JSON value of a name; KeyError when there is none."""
        ...

    def whole(self, name: str) -> object | None:
        """What stands for a node's whole output where that is too large to be rendered; mostly None."""
        ...

    def names(self) -> Sequence[str]:
        """What could have been meant, for error messages."""
        ...


class Reference(Struct, frozen=True, gc=False):
    """A name that a template reads, and the fixed keys and indices after it."""

    name: str
    path: tuple[str | int, ...]


class Frame:
    """One rendering under way."""

    __slots__ = ("fuel", "locals", "scope")

    def __init__(self, scope: Scope, fuel: Fuel) -> None:
        self.scope = scope
        self.fuel = fuel
        self.locals: dict[str, object] = {}

    def name(self, name: str) -> object:
        """A local variable, or what the scope knows by this name."""
        if name in self.locals:
            return self.locals[name]
        try:
            return self.scope.lookup(name)
        except KeyError:
            raise Undefined(f"'{name}' is not defined; {available(name, self.scope.names())}") from None


Evaluate = Callable[[Frame], object]


class Reading:
    """What is known while one template is compiled: its references, its local names, and how large it is."""

    def __init__(self) -> None:
        self.references: list[Reference] = []
        self.locals: set[str] = set()
        self.constructs = 0

    def note(self, name: str, path: tuple[str | int, ...]) -> None:
        """Remember a reference to something outside the template."""
        if name not in self.locals:
            self.references.append(Reference(name, path))


def refuse(node: nodes.Node, reason: str) -> NoReturn:
    """Stop compiling, with the line inside the template."""
    # Some nodes that the parser makes up have no line.
    line: int = getattr(node, "lineno", None) or 1
    raise TemplateInvalid(reason if line == 1 else f"line {line}: {reason}")


def follow(frame: Frame, name: str, path: tuple[str | int, ...]) -> object:
    """The value of `name.key[0].key`."""
    value = frame.name(name)
    fuel = frame.fuel
    fuel.spend(1)
    for count, key in enumerate(path):
        # The common case, without the cost of a call; `member` explains what is wrong.
        if type(value) is dict and key in value:
            value = cast("dict[object, object]", value)[key]
        else:
            value = member(fuel, cast("object", value), key, written(name, path[:count]))
    return value


def written(name: str, path: Sequence[str | int]) -> str:
    """A path as an author writes it."""
    parts = [f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]" for key in path]
    return name + "".join(parts)
