"""Tables and goals of the benchmarks."""

from collections.abc import Sequence

from msgspec import Struct


class Goal(Struct, frozen=True):
    """A bound for a measured value, such as `>= 4,000`."""

    text: str

    def is_met(self, value: float) -> bool:
        """Return whether a value reaches the goal."""
        operator, bound = self.text.split()
        limit = float(bound.replace(",", ""))
        if operator == ">=":
            return value >= limit
        return value <= limit

    def shown(self, value: float) -> str:
        """Return the goal with its verdict on a value."""
        verdict = "met" if self.is_met(value) else "MISSED"
        return f"{self.text} {verdict}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile of sorted values."""
    return values[min(len(values) - 1, round(len(values) * share))]
