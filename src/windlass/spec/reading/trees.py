"""Types and limits of the plain trees that documents are read into."""

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


def depth_over(value: object, limit: int) -> bool:
    """Return whether a value is nested deeper than the limit."""
    level = [value]
    for _ in range(limit + 1):
        following: list[object] = []
        for item in level:
            if is_object(item):
                following.extend(item.values())
            elif is_array(item):
                following.extend(item)
        if not following:
            return False
        level = following
    return True


def integer_over(value: object, limit: int) -> int | None:
    """Return an integer inside a value whose magnitude is over the limit, if there is one."""
    remaining = [value]
    while remaining:
        item = remaining.pop()
        if is_object(item):
            remaining.extend(item.values())
        elif is_array(item):
            remaining.extend(item)
        elif isinstance(item, int) and abs(item) > limit:
            return item
    return None
