"""Declare handlers: read the signature of a function once and build the check of its params from it."""

import dis
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from types import ModuleType
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET, Meta, Struct, UnsetType
from msgspec.inspect import CustomType, Field, Type, multi_type_info
from msgspec.structs import replace

from windlass.core.errors import HandlerInvalid, ParamsInvalid
from windlass.ports.handler import Context, Handler, HandlerParam, Injected, Mode

NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
PARAMS_MAX = 100
DESCRIPTION_CHARS_MAX = 500
_ATTRIBUTE = "__windlass_handler__"
_UNKNOWN_FIELD = re.compile(r"unknown field `(.*)`")
_MISSING_FIELD = re.compile(r"missing required field `(.*)`")
_AT_PATH = re.compile(r"^(.*) - at `\$\.?(.*)`$", re.DOTALL)

# Whether a function is async, and the modes in which it then cannot run.
_MODE_CONFLICTS: Mapping[tuple[Mode, bool], str] = {
    (Mode.ASYNC, False): "mode 'async' requires an async def",
    (Mode.THREAD, True): "an async def cannot run in mode 'thread'; make it a def",
}
# Kinds of parameters that no param can supply.
_UNUSABLE_KINDS: Mapping[object, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "'{0}' is positional-only, but params are passed by name; remove the '/'",
    inspect.Parameter.VAR_POSITIONAL: "'*{0}' cannot be passed by name; take a list param, or **{0}",
}

Function = TypeVar("Function", bound=Callable[..., Any])
Check = Callable[[bytes], dict[str, Any]]


class Signature(Struct, frozen=True):
    """What a function takes from a task's params, and what a worker passes to it besides."""

    params: tuple[HandlerParam, ...]
    takes_context: bool
    # The type of `**params`, if the function accepts params that it does not name.
    rest: Any = None
    takes_rest: bool = False
    injected: tuple[tuple[str, type[Injected]], ...] = ()


def handler(
    name: str,
    *,
    mode: str | None = None,
    aliases: Sequence[str] = (),
    params: type[Struct] | None = None,
    reports_start: bool = False,
) -> Callable[[Function], Function]:
    """Declare a function as the handler `name`; the function itself is not changed.

    With `params`, the fields of that struct are the params and the function takes them as `**params`. With
    `reports_start`, attempts count as started when the function calls `ctx.started()`, not when it is called.
    """
    for each in (name, *aliases):
        if not NAME_PATTERN.fullmatch(each):
            rule = (
                "use a letter followed by letters, digits, '_', '-' or '.', at most 100 characters"
            )
            raise HandlerInvalid(f"invalid handler name: {each!r}; {rule}")

    def declare(function: Function) -> Function:
        signature = read_signature(name, function)
        if params is not None:
            signature = replace(
                signature, params=_struct_params(params), rest=None, takes_rest=False
            )
        declaration = Handler(
            name=name,
            call=function,
            mode=_mode_of(name, function, mode),
            check=check_for(signature),
            takes_context=signature.takes_context,
            description=(inspect.getdoc(function) or "")[:DESCRIPTION_CHARS_MAX],
            aliases=tuple(aliases),
            params=signature.params,
            suspends=any(step.opname == "SEND" for step in dis.get_instructions(function)),
            reports_start=reports_start,
            injected=signature.injected,
        )
        setattr(function, _ATTRIBUTE, declaration)
        return function

    return declare


def declared(function: Callable[..., Any]) -> Handler:
    """Return the declaration of a decorated function; raise HandlerInvalid for any other."""
    found = getattr(function, _ATTRIBUTE, None)
    if not isinstance(found, Handler):
        raise HandlerInvalid(f"not a handler: {function!r}; decorate it with @handler('its name')")
    return found


def inject(declaration: Handler, values: Mapping[type[Injected], Injected]) -> Handler:
    """Fill in the parameters that a worker passes besides the context."""
    if not declaration.injected:
        return declaration
    arguments = {name: values[kind] for name, kind in declaration.injected}
    return replace(declaration, call=partial(declaration.call, **arguments))


def collect(module: ModuleType) -> dict[str, Handler]:
    """Return the handlers declared in a module by name and alias; raise HandlerInvalid when two share a name."""
    found: dict[str, Handler] = {}
    for attribute, value in vars(module).items():
        candidate = getattr(value, _ATTRIBUTE, None) if inspect.isfunction(value) else None
        if not isinstance(candidate, Handler):
            continue
        for name in (candidate.name, *candidate.aliases):
            known = found.setdefault(name, candidate)
            if known is not candidate:
                owner = getattr(known.call, "__qualname__", known.call)
                raise HandlerInvalid(
                    f"duplicate handler name in {module.__name__}: {name!r} is used by {owner} and {attribute}; "
                    "rename one of them"
                )
    return found


def read_signature(name: str, function: Callable[..., Any]) -> Signature:
    """Read what the function takes; raise HandlerInvalid where a JSON object cannot supply it."""
    if not inspect.isfunction(function):
        raise HandlerInvalid(
            f"handler {name!r} is not a function: {function!r}; declare a plain def or async def"
        )
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise HandlerInvalid(
            f"handler {name!r} is a generator; return one JSON value, for example a list"
        )
    hints = _hints(name, function)
    parameters = list(inspect.signature(function).parameters.values())
    takes_context = bool(parameters) and _is_context(parameters[0], hints)
    if takes_context:
        parameters = parameters[1:]
    params: list[HandlerParam] = []
    injected: list[tuple[str, type[Injected]]] = []
    rest: Any = None
    takes_rest = False
    for parameter in parameters:
        _reject_unusable(name, parameter, hints)
        hint = hints.get(parameter.name, Any)
        if inspect.isclass(hint) and issubclass(hint, Injected):
            injected.append((parameter.name, hint))
            continue
        _reject_unreadable_type(name, parameter.name, hint)
        if parameter.kind is parameter.VAR_KEYWORD:
            rest, takes_rest = hint, True
            continue
        default = UNSET if parameter.default is parameter.empty else parameter.default
        params.append(HandlerParam(parameter.name, hint, default, _description(hint)))
    if len(params) > PARAMS_MAX:
        raise HandlerInvalid(
            f"handler {name!r} has {len(params)} params; at most {PARAMS_MAX}, take a dict instead"
        )
    return Signature(tuple(params), takes_context, rest, takes_rest, tuple(injected))


def _struct_params(struct: type[Struct]) -> tuple[HandlerParam, ...]:
    hints = get_type_hints(struct, include_extras=True)
    params: list[HandlerParam] = []
    for field in msgspec.structs.fields(struct):
        default = UNSET if field.default is NODEFAULT else field.default
        if field.default_factory is not NODEFAULT:
            default = field.default_factory()
        hint = hints[field.name]
        params.append(HandlerParam(field.name, hint, default, _description(hint)))
    return tuple(params)


def _description(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        for note in get_args(hint)[1:]:
            if isinstance(note, Meta) and note.description:
                return note.description
    return ""


def check_for(signature: Signature) -> Check:
    """Build the function that converts a JSON object to keyword arguments or raises ParamsInvalid."""
    if signature.takes_rest and not signature.params:
        return _check_of_rest(signature)
    names = [param.name for param in signature.params]
    shape = msgspec.defstruct(
        "Params",
        [_field(f"p{at}", param) for at, param in enumerate(signature.params)],
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
        arguments = {
            param: value for param, field in pairs if (value := getattr(found, field)) is not UNSET
        }
        if signature.takes_rest:
            return {**decode_all(params, names), **arguments}
        return arguments

    return check


def _check_of_rest(signature: Signature) -> Callable[..., dict[str, Any]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    is_typed = signature.rest is not Any and signature.takes_rest

    def check(params: bytes, named: Sequence[str] = ()) -> dict[str, Any]:
        try:
            rest = decode(params)
            for name in named:
                rest.pop(name, None)
            if is_typed:
                return msgspec.convert(rest, dict[str, signature.rest])
            return rest
        except (msgspec.DecodeError, RecursionError) as error:
            raise ParamsInvalid(_explain(error, [])) from None

    return check


def _field(field: str, param: HandlerParam) -> tuple[str, Any] | tuple[str, Any, Any]:
    if param.default is UNSET:
        return (field, param.type)
    # An absent param is not passed, so that the function's own default applies, whatever its type.
    return (field, param.type | UnsetType, UNSET)


def _mode_of(name: str, function: Callable[..., Any], requested: str | None) -> Mode:
    is_async = inspect.iscoroutinefunction(function)
    if requested is None:
        return Mode.ASYNC if is_async else Mode.THREAD
    try:
        mode = Mode(requested)
    except ValueError:
        raise HandlerInvalid(
            f"handler {name!r}: unknown mode {requested!r}; use 'async', 'thread' or 'process'"
        ) from None
    conflict = _MODE_CONFLICTS.get((mode, is_async))
    if conflict is not None:
        raise HandlerInvalid(f"handler {name!r}: {conflict}")
    if mode is Mode.PROCESS and ("<" in function.__qualname__ or function.__module__ == "__main__"):
        raise HandlerInvalid(
            f"handler {name!r}: a child process cannot import {function.__module__}.{function.__qualname__}; "
            "move it to the top level of a module that can be imported"
        )
    return mode


def _hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise HandlerInvalid(
            f"handler {name!r}: an annotation cannot be resolved ({error}); import the type at the module's top level"
        ) from None


def _is_context(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    hint = hints.get(parameter.name)
    return hint is Context or (hint is None and parameter.name == "ctx")


def _reject_unusable(name: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
    if hints.get(parameter.name) is Context:
        raise HandlerInvalid(
            f"handler {name!r}: the Context must be the first parameter, not {parameter.name!r}"
        )
    reason = _UNUSABLE_KINDS.get(parameter.kind)
    if reason is not None:
        raise HandlerInvalid(f"handler {name!r}: {reason.format(parameter.name)}")


def _reject_unreadable_type(name: str, param: str, hint: Any) -> None:
    advice = "use JSON types, dataclasses or msgspec structs"
    try:
        # The check is built from the same union with UnsetType.
        shape = msgspec.defstruct("Probe", [("probe", hint | UnsetType, UNSET)])
        infos: list[object] = list(multi_type_info([shape]))
    except (TypeError, NameError) as error:
        raise HandlerInvalid(
            f"handler {name!r}: the type of {param!r} cannot be read ({error}); {advice}"
        ) from None
    seen: set[int] = set()
    while infos:
        info = infos.pop()
        if id(info) in seen:
            continue
        seen.add(id(info))
        if isinstance(info, CustomType):
            raise HandlerInvalid(
                f"handler {name!r}: the type of {param!r}, {info.cls!r}, is not a JSON type; {advice}"
            )
        for attribute in getattr(info, "__struct_fields__", ()):
            value: object = getattr(info, attribute)
            parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
            infos.extend(part for part in parts if isinstance(part, (Type, Field)))


def _explain(error: Exception, names: list[str]) -> str:
    message = str(error)
    if unknown := _UNKNOWN_FIELD.search(message):
        nearest = get_close_matches(unknown[1], names, n=1)
        if nearest:
            return f"unknown param {unknown[1]!r}; did you mean {nearest[0]!r}?"
        return f"unknown param {unknown[1]!r}; known params: {', '.join(names) or 'none'}"
    if missing := _MISSING_FIELD.search(message):
        return f"param {missing[1]!r} is required"
    if at := _AT_PATH.match(message):
        return f"param {at[2]!r}: {_without_markup(at[1])}"
    return f"params are not a valid JSON object: {_without_markup(message)}"


def _without_markup(message: str) -> str:
    return message.replace("`", "").replace("Expected", "expected", 1)
