"""The reference of the built-in handlers, docs/reference/handlers.md, from the handlers' declarations."""

import types
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import UNSET, Struct

from tools.generate.output import Output
from windlass.handlers import builtin_handlers
from windlass.ports.handler import Handler, HandlerParam

PATH = "docs/reference/handlers.md"
HEADING_AFTER_HANDLERS = "## Errors"
TYPE_NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "list",
}


def outputs() -> Iterable[Output]:
    """Return the overview of all handlers, and the section of each; a new handler gets its section at the end."""
    handlers = {handler.name: handler for handler in builtin_handlers().values()}
    yield Output(PATH, overview(handlers.values()), "handlers")
    for name, handler in sorted(handlers.items()):
        yield Output(
            PATH, section(handler), f"handler {name}", insert_before=HEADING_AFTER_HANDLERS
        )


def overview(handlers: Iterable[Handler]) -> str:
    """Return the table of all handlers with the names of their params."""
    rows = ["| handler | purpose | params |", "|---|---|---|"]
    for handler in sorted(handlers, key=lambda each: each.name):
        names = ", ".join(f"`{name}`" for name in (handler.name, *handler.aliases))
        params = ", ".join(_name(param) for param in documented(handler.params)) or "any"
        rows.append(f"| {names} | {handler.summary} | {params} |")
    return "\n".join(rows)


def section(handler: Handler) -> str:
    """Return the heading of a handler, its aliases, its purpose and its params."""
    purpose = handler.summary
    if handler.aliases:
        names = ", ".join(f"`{alias}`" for alias in handler.aliases)
        purpose = f"{purpose} Also named {names}."
    parts = [f"## {handler.name}", purpose]
    if documented(handler.params):
        parts.append(param_table(handler.params))
    return "\n\n".join(parts)


def param_table(params: Iterable[HandlerParam]) -> str:
    """Return the table of a handler's params."""
    rows = ["| param | type | default | meaning |", "|---|---|---|---|"]
    rows.extend(
        f"| `{param.name}` | {_type(param.type)} | {_default(param)} | {param.description} |"
        for param in documented(params)
    )
    return "\n".join(rows)


def documented(params: Iterable[HandlerParam]) -> list[HandlerParam]:
    """Return the params that authors use: those with a description."""
    return [param for param in params if param.description]


def _name(param: HandlerParam) -> str:
    return f"**`{param.name}`**" if param.default is UNSET else f"`{param.name}`"


def _default(param: HandlerParam) -> str:
    if param.default is UNSET:
        return "required"
    if param.default in (None, "") or isinstance(param.default, dict | list | Struct):
        return ""
    if isinstance(param.default, bool):
        return f"`{str(param.default).lower()}`"
    if isinstance(param.default, float):
        return f"{param.default:g}"
    if isinstance(param.default, int):
        return f"{param.default:,}"
    return f"`{param.default}`"


def _type(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Annotated:
        return _type(get_args(hint)[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in get_args(hint))
    if origin in (Union, types.UnionType):
        parts = [_type(part) for part in get_args(hint) if part is not type(None)]
        return " or ".join(dict.fromkeys(parts))
    if hint is Any:
        return "any"
    if origin is not None:
        hint = origin
    if isinstance(hint, type) and issubclass(hint, Struct):
        return "object"
    return TYPE_NAMES[hint]
