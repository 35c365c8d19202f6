"""The handler for Python: inline code with a `main`, or a function of an installed module.

It runs in a child process with the rights of the worker's user. That protects the worker, not the machine.
"""

import importlib
import inspect
import linecache
from collections.abc import Callable
from typing import Any

from windlass.core.errors import FatalError, ParamsInvalid
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler

CODE_CHARS_MAX = 1_000_000
FILENAME = "<python node>"
ENTRY = "main"


class CodeInvalid(FatalError):
    """The code cannot run, however often it is tried."""

    type = "code_invalid"


@handler("python", mode="process")
def python(ctx: Context, code: str | None = None, call: str | None = None, **params: Any) -> Any:
    """Run `main` of `code`, or the function `call` ("module:function"), with the other params as keyword arguments."""
    if (code is None) == (call is None):
        raise ParamsInvalid("give either 'code', which defines main(...), or 'call', as in \"module:function\"")
    function = _function_of_code(code) if code is not None else _function_called(call or "")
    arguments = {"ctx": ctx, **params} if _wants_context(function) else params
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        name = getattr(function, "__name__", ENTRY)
        raise ParamsInvalid(f"{name}{inspect.signature(function)} cannot be called so: {error}") from None
    return function(**arguments)


def _function_of_code(code: str) -> Callable[..., Any]:
    if len(code) > CODE_CHARS_MAX:
        raise CodeInvalid(f"the code has {len(code)} characters, {CODE_CHARS_MAX} is the most: use 'call' and a module")
    # So that tracebacks show the lines.
    linecache.cache[FILENAME] = (len(code), None, code.splitlines(keepends=True), FILENAME)
    try:
        compiled = compile(code, FILENAME, "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f"line {line}: " if line is not None else ""
        raise CodeInvalid(f"{place}{getattr(error, 'msg', error)}{_shown(error)}") from None
    namespace: dict[str, Any] = {"__name__": "windlass_node", "__file__": FILENAME}
    exec(compiled, namespace)  # noqa: S102  running the author's code is what this handler is for
    function = namespace.get(ENTRY)
    if not callable(function):
        raise CodeInvalid(f"the code defines no {ENTRY}: put what it does into def {ENTRY}(...), and return the result")
    return function


def _function_called(call: str) -> Callable[..., Any]:
    module, colon, path = call.partition(":")
    if not (module and colon and path):
        raise ParamsInvalid(f'call {call!r} names no function: write "module:function"')
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module + ".").startswith(error.name + "."):
            raise CodeInvalid(f"call {call!r}: no module named {error.name!r} on this worker") from None
        raise
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise CodeInvalid(f"call {call!r}: the module {module!r} has no function {path!r}")
    return found


def _wants_context(function: Callable[..., Any]) -> bool:
    return next(iter(inspect.signature(function).parameters), None) == "ctx"


def _shown(error: Exception) -> str:
    text = getattr(error, "text", None)
    return f": {text.strip()}" if text else ""
