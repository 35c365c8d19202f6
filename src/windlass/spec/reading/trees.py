"""What the plain trees of documents are made of."""

from typing import TypeGuard


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a value of a tree is an object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[object]]:
    """Whether a value of a tree is a list."""
    return isinstance(value, list)


def depth_over(value: object, limit: int) -> bool:
    """Whether a value is nested deeper than the limit."""
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
    """An integer somewhere in a value that is further from zero than the limit, if there is one."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if is_object(item):
            waiting.extend(item.values())
        elif is_array(item):
            waiting.extend(item)
        elif isinstance(item, int) and abs(item) > limit:
            return item
    return None
