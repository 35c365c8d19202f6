"""Inserts of many rows in few statements.

A statement a row would take and give back Python's lock once a row, while the engine's thread wants it too; measured
under load, that is a hundred times slower. One statement for hundreds of rows asks for the lock once.
"""

from collections.abc import Callable, Sequence
from typing import Any

# Rows of one statement, largest first. apsw keeps prepared statements of up to 16 kB of text.
SIZES = (256, 128, 64, 32, 16, 8, 4, 2, 1)


class Spread:
    """An insert whose text ends in one `(?, …)`, executed with as many of them as there are rows."""

    def __init__(self, sql: str) -> None:
        head, _, row = sql.rstrip().rstrip(";").rpartition("values")
        row = row.strip()
        width = row.count("?")
        if not head or not width:
            raise ValueError(f"not an insert of one row of placeholders: {sql}")
        self._statements = [(size * width, f"{head}values {', '.join([row] * size)}") for size in SIZES]

    def __call__(self, execute: Callable[[str, Sequence[Any]], object], values: Sequence[Any]) -> None:
        """Insert rows given as one flat sequence of values."""
        start = 0
        for width, sql in self._statements:
            while len(values) - start >= width:
                execute(sql, values[start : start + width])
                start += width
