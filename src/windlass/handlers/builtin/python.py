"""The handler for Python: inline code with a `main`, or a function of an installed module.

It runs in a child process with the permissions of the worker's user: this protects the worker, not the machine.
"""

import importlib
import inspect
import linecache
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta

from windlass.core.errors import FatalError, ParamsInvalid
from windlass.ports.handler import Context
from windlass.ports.handler_declaration import handler

CODE_CHARS_MAX = 1_000_000
FILENAME = "<python node>"
ENTRY = "main"


class CodeInvalid(FatalError):
    """The code cannot run; retrying does not help."""

    type = "code_invalid"


@handler("python", mode="process")
def python(
    ctx: Context,
    code: Annotated[str | None, Meta(description="Python code that defines `main(...)`")] = None,
    call: Annotated[
        str | None,
        Meta(description='in place of `code`: a function, such as `"package.module:function"`'),
    ] = None,
    **params: Any,
) -> Any:
    """Run Python code or a function, with the other params as keyword arguments; return its result."""
    if code is not None and call is None:
        function = _function_of_code(code)
    elif call is not None and code is None:
        function = _function_called(call)
    else:
        raise ParamsInvalid(
            "use either 'code', which defines main(...), or 'call', such as \"module:function\""
        )
    signature = inspect.signature(function)
    arguments = dict(params)
    if next(iter(signature.parameters), None) == "ctx":
        arguments = {"ctx": ctx, **params}
    try:
        signature.bind(**arguments)
    except TypeError as error:
        name = getattr(function, "__name__", ENTRY)
        raise ParamsInvalid(f"{name}{signature} does not accept these params: {error}") from None
    return function(**arguments)


def _function_of_code(code: str) -> Callable[..., Any]:
    if len(code) > CODE_CHARS_MAX:
        raise CodeInvalid(
            f"code too long: {len(code)} characters, at most {CODE_CHARS_MAX}; use 'call' and a module"
        )
    # Lets tracebacks show the lines.
    linecache.cache[FILENAME] = (len(code), None, code.splitlines(keepends=True), FILENAME)
    try:
        compiled = compile(code, FILENAME, "exec")
    except (SyntaxError, ValueError) as error:
        raise CodeInvalid(_describe_syntax_error(error)) from None
    namespace: dict[str, Any] = {"__name__": "windlass_node", "__file__": FILENAME}
    exec(compiled, namespace)  # noqa: S102  running the author's code is what this handler is for
    function = namespace.get(ENTRY)
    if not callable(function):
        raise CodeInvalid(
            f"the code does not define {ENTRY}; define {ENTRY}(...) and return the result from it"
        )
    return function


def _function_called(call: str) -> Callable[..., Any]:
    module, colon, path = call.partition(":")
    if not all((module, colon, path)):
        raise ParamsInvalid(f'invalid call: {call!r}; write "module:function"')
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module + ".").startswith(error.name + "."):
            raise CodeInvalid(
                f"call {call!r}: no module named {error.name!r} on this worker"
            ) from None
        raise
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise CodeInvalid(f"call {call!r}: the module {module!r} has no function {path!r}")
    return found


def _describe_syntax_error(error: SyntaxError | ValueError) -> str:
    """Return the message of the compiler with the line, if it knows one."""
    if not isinstance(error, SyntaxError):
        return str(error)
    message = error.msg
    if error.lineno is not None:
        message = f"line {error.lineno}: {message}"
    if error.text:
        message += f": {error.text.strip()}"
    return message
