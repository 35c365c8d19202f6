"""Declares handlers: reads a function's signature once and builds the check of its params from it."""

import dis
import inspect
import re
from collections.abc import Callable
from difflib import get_close_matches
from types import ModuleType
from typing import Any, TypeVar, cast, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.inspect import CustomType, Field, Type, multi_type_info

from windlass.core.errors import HandlerInvalid, ParamsInvalid
from windlass.ports.handler import Context, Handler, Mode

NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
PARAMS_MAX = 100
DESCRIPTION_CHARS_MAX = 500
_ATTRIBUTE = "__windlass_handler__"
_UNKNOWN_FIELD = re.compile(r"unknown field `(.*)`")
_MISSING_FIELD = re.compile(r"missing required field `(.*)`")
_AT_PATH = re.compile(r"^(.*) - at `\$\.?(.*)`$", re.DOTALL)

Function = TypeVar("Function", bound=Callable[..., Any])
Check = Callable[[bytes], dict[str, Any]]


class Signature(Struct, frozen=True):
    """What a function takes: its named params with their types, and the type of the catch-all if it has one."""

    types: dict[str, Any]
    required: frozenset[str]
    takes_context: bool
    rest: Any = None
    takes_rest: bool = False


def handler(name: str, *, mode: str | None = None, reports_start: bool = False) -> Callable[[Function], Function]:
    """Declare a function as the handler `name`; the function itself stays as it is.

    With `tells_start`, attempts count as started when the function calls `ctx.started()`, not when it is called.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise HandlerInvalid(f"handler name {name!r}: use a letter, then letters, digits, '_', '-' or '.', at most 100")

    def declare(function: Function) -> Function:
        signature = read_signature(name, function)
        declared = Handler(
            name=name,
            call=function,
            mode=_mode_of(name, function, mode),
            check=check_for(signature),
            takes_context=signature.takes_context,
            description=(inspect.getdoc(function) or "")[:DESCRIPTION_CHARS_MAX],
            suspends=any(step.opname == "SEND" for step in dis.get_instructions(function)),
            reports_start=reports_start,
        )
        setattr(function, _ATTRIBUTE, declared)
        return function

    return declare


def declared(function: Callable[..., Any]) -> Handler:
    """The declaration of a decorated function; HandlerInvalid for any other."""
    found = getattr(function, _ATTRIBUTE, None)
    if not isinstance(found, Handler):
        raise HandlerInvalid(f"{function!r} is not a handler: decorate it with @handler('its name')")
    return found


def collect(module: ModuleType) -> dict[str, Handler]:
    """The handlers that a module holds, by name; HandlerInvalid when two of them share one."""
    found: dict[str, Handler] = {}
    for attribute, value in vars(module).items():
        candidate = getattr(value, _ATTRIBUTE, None) if inspect.isfunction(value) else None
        if not isinstance(candidate, Handler):
            continue
        known = found.setdefault(candidate.name, candidate)
        if known is not candidate:
            raise HandlerInvalid(
                f"{module.__name__}.{attribute}: the handler name {candidate.name!r} is taken by "
                f"{getattr(known.call, '__qualname__', known.call)}: give one of them another name"
            )
    return found


def read_signature(name: str, function: Callable[..., Any]) -> Signature:
    """What the function takes; HandlerInvalid where a JSON object cannot supply it."""
    if not inspect.isfunction(function):
        raise HandlerInvalid(f"handler {name!r}: {function!r} is not a function: declare a plain def or async def")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise HandlerInvalid(f"handler {name!r} yields: return one JSON value, for instance a list")
    hints = _hints(name, function)
    parameters = list(inspect.signature(function).parameters.values())
    takes_context = bool(parameters) and _is_context(parameters[0], hints)
    types: dict[str, Any] = {}
    required: set[str] = set()
    rest: Any = None
    takes_rest = False
    for parameter in parameters[1:] if takes_context else parameters:
        _refuse_unusable(name, parameter, hints)
        hint = hints.get(parameter.name, Any)
        if parameter.kind is parameter.VAR_KEYWORD:
            rest, takes_rest = hint, True
            continue
        types[parameter.name] = hint
        if parameter.default is parameter.empty:
            required.add(parameter.name)
    if len(types) > PARAMS_MAX:
        raise HandlerInvalid(f"handler {name!r} has {len(types)} params: {PARAMS_MAX} is the most, take a dict instead")
    for param, hint in [*types.items(), *([("**", rest)] if takes_rest else [])]:
        _refuse_unreadable_type(name, param, hint)
    return Signature(types, frozenset(required), takes_context, rest, takes_rest)


def check_for(signature: Signature) -> Check:
    """The function that turns a JSON object into keyword arguments, or raises ParamsInvalid."""
    if signature.takes_rest and not signature.types:
        return _check_of_rest(signature)
    names = list(signature.types)
    shape = msgspec.defstruct(
        "Params",
        [_field(f"p{at}", signature, param) for at, param in enumerate(names)],
        rename={f"p{at}": param for at, param in enumerate(names)},
        forbid_unknown_fields=not signature.takes_rest,
    )
    pairs = [(param, f"p{at}") for at, param in enumerate(names)]
    decode = msgspec.json.Decoder(shape).decode
    decode_all = _check_of_rest(signature)

    def check(params: bytes) -> dict[str, Any]:
        try:
            found = decode(params)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ParamsInvalid(_explain(error, names)) from None
        arguments = {param: value for param, field in pairs if (value := getattr(found, field)) is not UNSET}
        return {**decode_all(params, names), **arguments} if signature.takes_rest else arguments

    return check


def _check_of_rest(signature: Signature) -> Callable[..., dict[str, Any]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    typed = signature.rest is not Any and signature.takes_rest

    def check(params: bytes, but: list[str] | None = None) -> dict[str, Any]:
        try:
            found = decode(params)
            rest = {key: value for key, value in found.items() if key not in but} if but else found
            return msgspec.convert(rest, dict[str, signature.rest]) if typed else rest
        except (msgspec.DecodeError, RecursionError) as error:
            raise ParamsInvalid(_explain(error, [])) from None

    return check


def _field(field: str, signature: Signature, param: str) -> tuple[str, Any] | tuple[str, Any, Any]:
    hint = signature.types[param]
    # An absent param stays out of the call, so that the function's own default applies, whatever its type.
    return (field, hint) if param in signature.required else (field, hint | UnsetType, UNSET)


def _mode_of(name: str, function: Callable[..., Any], wanted: str | None) -> Mode:
    is_async = inspect.iscoroutinefunction(function)
    if wanted is None:
        return Mode.ASYNC if is_async else Mode.THREAD
    try:
        mode = Mode(wanted)
    except ValueError:
        raise HandlerInvalid(f"handler {name!r}: mode {wanted!r} is unknown: 'async', 'thread' or 'process'") from None
    if mode is Mode.ASYNC and not is_async:
        raise HandlerInvalid(f"handler {name!r}: mode 'async' needs an async def")
    if mode is Mode.THREAD and is_async:
        raise HandlerInvalid(f"handler {name!r}: an async def cannot run in mode 'thread': make it a def")
    if mode is Mode.PROCESS and ("<" in function.__qualname__ or function.__module__ == "__main__"):
        raise HandlerInvalid(
            f"handler {name!r}: a child process cannot import {function.__module__}.{function.__qualname__}: "
            "move it to the top level of a module that can be imported"
        )
    return mode


def _hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise HandlerInvalid(
            f"handler {name!r}: an annotation cannot be resolved ({error}): import the type at the module's top level"
        ) from None


def _is_context(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    hint = hints.get(parameter.name)
    return hint is Context or (hint is None and parameter.name == "ctx")


def _refuse_unusable(name: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
    if hints.get(parameter.name) is Context:
        raise HandlerInvalid(f"handler {name!r}: the Context must be the first parameter, not {parameter.name!r}")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise HandlerInvalid(
            f"handler {name!r}: {parameter.name!r} is positional-only, but params come by name: remove the '/'"
        )
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise HandlerInvalid(
            f"handler {name!r}: '*{parameter.name}' cannot be filled by name: take a list param, or **{parameter.name}"
        )


def _refuse_unreadable_type(name: str, param: str, hint: Any) -> None:
    way_out = "use JSON types, dataclasses or msgspec structs"
    try:
        # The union with UnsetType is what the check will be built from.
        shape = msgspec.defstruct("Probe", [("probe", hint | UnsetType, UNSET)])
        infos: list[object] = list(multi_type_info([shape]))
    except (TypeError, NameError) as error:
        raise HandlerInvalid(f"handler {name!r}: the type of {param!r} cannot be read ({error}): {way_out}") from None
    seen: set[int] = set()
    while infos:
        info = infos.pop()
        if id(info) in seen:
            continue
        seen.add(id(info))
        if isinstance(info, CustomType):
            raise HandlerInvalid(f"handler {name!r}: the type of {param!r}, {info.cls!r}, is no JSON: {way_out}")
        for attribute in getattr(info, "__struct_fields__", ()):
            value: object = getattr(info, attribute)
            parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
            infos.extend(part for part in parts if isinstance(part, (Type, Field)))


def _explain(error: Exception, names: list[str]) -> str:
    message = str(error)
    if unknown := _UNKNOWN_FIELD.search(message):
        nearest = get_close_matches(unknown[1], names, n=1)
        known = f"did you mean {nearest[0]!r}?" if nearest else f"it takes {', '.join(names) or 'none'}"
        return f"unknown param {unknown[1]!r}: {known}"
    if missing := _MISSING_FIELD.search(message):
        return f"param {missing[1]!r} is required but missing"
    if at := _AT_PATH.match(message):
        return f"param {at[2]!r}: {_plain(at[1])}"
    return f"params are not a JSON object that can be read: {_plain(message)}"


def _plain(message: str) -> str:
    return message.replace("`", "").replace("Expected", "expected", 1)
