"""Named queries, read from the .sql files of a dialect."""

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def queries(dialect: str) -> dict[str, str]:
    """Every named query of a dialect, its comments with it."""
    found: dict[str, str] = {}
    folder = files("windlass.stores") / dialect / "sql"
    for path in sorted(folder.iterdir(), key=lambda item: item.name):
        parts = _NAME.split(path.read_text("utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise ValueError(f"two queries are called {name}")
            found[name] = text.strip()
    return found
