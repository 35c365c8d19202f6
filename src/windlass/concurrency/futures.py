"""Setting futures whose waiters may be gone."""

import asyncio
from typing import TypeVar

Value = TypeVar("Value")


def resolve(future: "asyncio.Future[Value]", value: Value) -> None:
    """Set the result of a future, unless it is done: its waiter may have been cancelled."""
    if not future.done():
        future.set_result(value)


def reject(future: "asyncio.Future[Value]", error: Exception) -> None:
    """Set the error of a future, unless it is done."""
    if not future.done():
        future.set_exception(error)
