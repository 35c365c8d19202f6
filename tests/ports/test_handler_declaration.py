"""Declaration of handlers: signatures, params and modes."""

import asyncio
import types
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from windlass import Context, handler
from windlass.core.errors import HandlerInvalid, ParamsInvalid
from windlass.ports.handler import Mode
from windlass.ports.handler_declaration import collect, declared


@dataclass
class Box:
    width: int
    height: int = 1


class Opaque:
    pass


@handler("resize")
async def resize(
    ctx: Context, image: str, width: int = 800, tags: list[str] | None = None
) -> dict[str, Any]:
    """Resize an image."""
    return {"image": image, "width": width, "tags": tags}


@handler("blocking")
def blocking(box: Box, ratio: float = 1.0, unit: Literal["px", "pt"] = "px") -> None: ...


@handler("anything")
async def anything(**params: Any) -> dict[str, Any]:
    return params


@handler("mixed")
async def mixed(first: int, **others: str) -> dict[str, Any]:
    return {"first": first, **others}


def test_async_functions_run_on_the_loop_and_others_in_threads() -> None:
    assert declared(resize).mode is Mode.ASYNC
    assert declared(blocking).mode is Mode.THREAD


def test_a_declared_function_can_be_called_directly() -> None:
    assert asyncio.run(anything(a=1)) == {"a": 1}


def test_only_an_await_makes_a_handler_suspend() -> None:
    @handler("waits")
    async def waits(seconds: float) -> None:
        await asyncio.sleep(seconds)

    assert declared(waits).suspends
    assert not declared(anything).suspends


def test_missing_params_have_the_defaults_of_the_function() -> None:
    assert declared(resize).check(b'{"image": "a.png"}') == {"image": "a.png"}


def test_structured_params_arrive_as_their_types() -> None:
    assert declared(blocking).check(b'{"box": {"width": 3}, "ratio": 2}') == {
        "box": Box(3),
        "ratio": 2.0,
    }


def test_a_catch_all_receives_the_params_without_a_name() -> None:
    assert declared(mixed).check(b'{"first": 1, "b": "x"}') == {"first": 1, "b": "x"}


@pytest.mark.parametrize(
    ("function", "params", "words"),
    [
        (resize, b'{"image": 3}', ["'image'", "expected str", "got int"]),
        (resize, b'{"image": "a", "width": "800"}', ["'width'", "expected int", "got str"]),
        (resize, b'{"image": "a", "width": 1.5}', ["'width'", "expected int"]),
        (resize, b'{"image": "a", "tags": ["x", 1]}', ["'tags[1]'", "expected str"]),
        (resize, b"{}", ["'image'", "required"]),
        (resize, b'{"image": "a", "widht": 1}', ["'widht'", "did you mean 'width'"]),
        (resize, b'{"image": "a", "ctx": 1}', ["unknown param 'ctx'"]),
        (resize, b"[]", ["object", "array"]),
        (resize, b"null", ["object", "null"]),
        (resize, b'{"image": ', ["truncated"]),
        (resize, b"\xff", ["params are not"]),
        (blocking, b'{"box": {}}', ["box", "width"]),
        (blocking, b'{"box": {"width": 1}, "unit": "cm"}', ["'unit'", "cm"]),
        (anything, b"3", ["object", "int"]),
        (mixed, b'{"first": 1, "b": 2}', ["expected str"]),
    ],
)
def test_params_that_do_not_match_are_rejected_by_name(
    function: Any, params: bytes, words: list[str]
) -> None:
    with pytest.raises(ParamsInvalid) as refusal:
        declared(function).check(params)

    assert [word for word in words if word not in str(refusal.value)] == []


def test_deeply_nested_params_are_rejected() -> None:
    with pytest.raises(ParamsInvalid):
        declared(anything).check(b'{"a":' + b"[" * 100_000)


def _positional_only(a: int, /) -> None: ...
def _many(*items: int) -> None: ...
def _opaque(thing: Opaque) -> None: ...
def _nested_opaque(things: list[dict[str, Opaque]]) -> None: ...
def _late_context(a: int, ctx: Context) -> None: ...
def _unresolved(a: "NoSuchType") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _yields() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (_positional_only, "positional-only"),
        (_many, "*items"),
        (_opaque, "Opaque"),
        (_nested_opaque, "Opaque"),
        (_late_context, "first parameter"),
        (_unresolved, "NoSuchType"),
        (_yields, "is a generator"),
        (Opaque, "not a function"),
    ],
)
def test_a_signature_that_json_cannot_fill_is_rejected(function: Any, word: str) -> None:
    with pytest.raises(HandlerInvalid, match=word.replace("*", r"\*")):
        handler("refused")(function)


@pytest.mark.parametrize("mode", ["async", "banana", "process"])
def test_a_mode_that_cannot_work_is_rejected(mode: str) -> None:
    def local() -> None: ...

    with pytest.raises(HandlerInvalid):
        handler("refused", mode=mode)(local)


@pytest.mark.parametrize("name", ["", "1st", "a b", "a" * 101, "é"])
def test_an_invalid_handler_name_is_rejected(name: str) -> None:
    with pytest.raises(HandlerInvalid):
        handler(name)


def test_collect_returns_the_handlers_of_a_module_by_name() -> None:
    module = types.ModuleType("handlers_module")
    vars(module).update(one=resize, two=anything, three=Opaque, again=resize)

    assert set(collect(module)) == {"resize", "anything"}


def test_two_handlers_of_one_name_are_rejected() -> None:
    @handler("resize")
    async def other() -> None: ...

    module = types.ModuleType("handlers_module")
    vars(module).update(one=resize, two=other)

    with pytest.raises(HandlerInvalid, match="resize"):
        collect(module)
