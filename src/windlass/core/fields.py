"""Types of request fields with their bounds. The OpenAPI document states the bounds too.

The `form` of a type says in plain words what its values are like; errors show it (`core/type_errors.py`).
"""

from typing import Annotated

from msgspec import Meta


def whole(pattern: str) -> str:
    """Return the pattern of texts that match as a whole. `$` would also match before a trailing line feed."""
    return rf"^{pattern}\Z"


ID_PATTERN = whole("[A-Za-z0-9_-]{1,128}")
_ID_FORM = "1 to 128 letters, digits, _ and -"
ID_RULE = f"use {_ID_FORM}"
PRIORITY_MIN, PRIORITY_MAX = -1000, 1000
# RFC 3339 with a mandatory offset.
_INSTANT = whole(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)

Id = Annotated[str, Meta(pattern=ID_PATTERN, max_length=128, extra={"form": _ID_FORM})]
Version = Annotated[int, Meta(ge=1, le=999_999_999)]
Alias = Annotated[str, Meta(pattern=ID_PATTERN, max_length=128, extra={"form": _ID_FORM})]
Key = Annotated[
    str,
    Meta(
        pattern=whole("[!-~]{1,255}"),
        max_length=255,
        extra={"form": "1 to 255 printable ASCII characters without blanks"},
    ),
]
Priority = Annotated[int, Meta(ge=PRIORITY_MIN, le=PRIORITY_MAX)]
Instant = Annotated[
    str,
    Meta(
        pattern=_INSTANT,
        max_length=40,
        extra={"form": "an instant with an offset, such as 2026-05-01T00:00:00Z"},
    ),
]
