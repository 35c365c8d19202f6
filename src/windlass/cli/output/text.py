"""Values as short text for people."""

from collections.abc import Sequence

LINE_CHARS_MAX = 200


def one_line(text: str, chars_max: int = LINE_CHARS_MAX) -> str:
    """Return untrusted text as one bounded line that is safe for a terminal: no line breaks, no escape sequences."""
    line = " ".join(text[: chars_max + 1].split())
    printable = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line
    )
    if len(text) > chars_max:
        return f"{printable[:chars_max]}…"
    return printable


def list_names(names: Sequence[str], limit: int) -> str:
    """Return the first names and the number of the others."""
    listed = ", ".join(names[:limit])
    if len(names) > limit:
        return f"{listed} and {len(names) - limit:,} more"
    return listed


def plural(count: int, noun: str) -> str:
    """Return a count with its noun."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}s"
