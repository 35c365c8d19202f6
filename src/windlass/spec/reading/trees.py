"""Types and limits of the plain trees that documents are read into."""

from collections.abc import Iterable, Iterator
from typing import TypeGuard


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Return whether a value of a tree is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[object]]:
    """Return whether a value of a tree is a list."""
    return isinstance(value, list)


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether a value of a tree is an integer; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def entries(value: object) -> Iterable[tuple[str | int, object]]:
    """Return the keys or indices of a collection with their values; nothing for a scalar."""
    if is_object(value):
        return value.items()
    if is_array(value):
        return enumerate(value)
    return ()


def walk(value: object) -> Iterator[tuple[tuple[str | int, ...], object]]:
    """Yield a value and every value inside it with their paths, in the order of the document."""
    remaining: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    while remaining:
        path, item = remaining.pop()
        yield path, item
        remaining.extend(reversed([((*path, key), inner) for key, inner in entries(item)]))


def levels(value: object) -> Iterator[list[object]]:
    """Yield the value, then the values inside it, then the values inside those, until there are none."""
    level = [value]
    while level:
        yield level
        inner: list[object] = []
        for item in level:
            if is_object(item):
                inner.extend(item.values())
            elif is_array(item):
                inner.extend(item)
        level = inner


def depth_over(value: object, limit: int) -> bool:
    """Return whether a value is nested deeper than the limit."""
    return any(depth > limit for depth, _ in enumerate(levels(value)))


def integer_over(value: object, limit: int) -> int | None:
    """Return an integer inside a value whose magnitude is over the limit, if there is one."""
    for level in levels(value):
        for item in level:
            if isinstance(item, int) and abs(item) > limit:
                return item
    return None


def count_values(value: object, limit: int) -> int:
    """Return the number of values in a value, itself included, counted by levels to just over the limit."""
    count = 0
    for level in levels(value):
        count += len(level)
        if count > limit:
            break
    return count
