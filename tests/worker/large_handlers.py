"""Handlers of every mode that take and return large values; child processes import this module."""

import asyncio
import threading
from typing import Any

from windlass import Context, handler


@handler("give")
async def give(size: int, fill: str = "x") -> str:
    """Return without suspending."""
    return fill * size


@handler("give_later")
async def give_later(ctx: Context, size: int, fill: str = "x") -> str:
    ctx.meta["size"] = size
    await asyncio.sleep(0)
    return fill * size


@handler("give_threaded")
def give_threaded(ctx: Context, size: int, fill: str = "x") -> str:
    ctx.meta["size"] = size
    return fill * size


@handler("give_isolated", mode="process")
def give_isolated(ctx: Context, size: int, fill: str = "x") -> str:
    ctx.meta["size"] = size
    return fill * size


@handler("take")
async def take(**params: Any) -> Any:
    return shape(params)


@handler("take_later")
async def take_later(**params: Any) -> Any:
    await asyncio.sleep(0)
    return shape(params)


@handler("take_threaded")
def take_threaded(**params: Any) -> Any:
    return shape(params)


@handler("stuck")
def stuck(**params: Any) -> None:
    """Ignore cancellation until the process ends."""
    threading.Event().wait()


@handler("take_isolated", mode="process")
def take_isolated(**params: Any) -> Any:
    return shape(params)


def shape(value: Any) -> Any:
    """Return the value with long texts replaced by their first character and length."""
    match value:
        case dict():
            return {key: shape(part) for key, part in value.items()}
        case list():
            return [shape(part) for part in value]
        case str() if len(value) > 100:
            return f"{value[0]}*{len(value)}"
        case _:
            return value


GIVERS = (give, give_later, give_threaded, give_isolated)
TAKERS = (take, take_later, take_threaded, take_isolated, stuck)
