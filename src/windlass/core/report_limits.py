"""Limits of what an attempt may report, whether its worker is part of Windlass or uses the API."""

META_BYTES_MAX = 64 * 1024
ERROR_MESSAGE_CHARS_MAX = 4096
TRACEBACK_CHARS_MAX = 8192
# The integers that outputs may contain: those that fit into 64 bits, with or without a sign.
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**64 - 1


def shortened_traceback(text: str) -> str:
    """Return the end of a traceback, which names the error; an ellipsis stands for the rest."""
    if len(text) <= TRACEBACK_CHARS_MAX:
        return text
    return "…" + text[1 - TRACEBACK_CHARS_MAX :]
