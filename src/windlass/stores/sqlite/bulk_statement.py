"""Many rows in few statements (ADR 4).

apsw releases and takes Python's interpreter lock once per statement, and waits for the engine's thread each time.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

# Rows per statement, largest first. apsw caches prepared statements of up to 16 kB of text.
SIZES = (384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)


_ROW = re.compile(r"(?<=values )\((?:\?, )*\?(?:, [^()?]+)*\)")


class BulkStatement:
    """A statement with one `values (?, …)` in it, executed with as many such rows as there are."""

    def __init__(self, sql: str) -> None:
        found = _ROW.search(sql)
        if found is None:
            raise ValueError(f"statement has no row of placeholders: {sql}")
        row, width = found[0].replace(" ", ""), found[0].count("?")
        head, tail = sql[: found.start()], sql[found.end() :]
        self._statements = [
            (size * width, f"{head}{','.join([row] * size)}{tail}") for size in SIZES
        ]

    def __call__(
        self, execute: Callable[[str, Sequence[Any]], object], values: Sequence[Any]
    ) -> None:
        """Execute with rows given as one flat sequence of values."""
        if not values:
            return
        start = 0
        for width, sql in self._statements:
            while len(values) - start >= width:
                execute(sql, values[start : start + width])
                start += width
