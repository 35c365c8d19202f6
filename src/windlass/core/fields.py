"""Types of request fields with their bounds. The OpenAPI document states the bounds too."""

from typing import Annotated

from msgspec import Meta


def whole(pattern: str) -> str:
    """Return the pattern of texts that match as a whole. `$` would also match before a trailing line feed."""
    return rf"^{pattern}\Z"


ID_PATTERN = whole("[A-Za-z0-9_-]{1,128}")
ID_RULE = "use 1 to 128 letters, digits, _ and -"
PRIORITY_MIN, PRIORITY_MAX = -1000, 1000
# RFC 3339 with a mandatory offset.
_INSTANT = whole(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})")

Id = Annotated[str, Meta(pattern=ID_PATTERN, max_length=128)]
Version = Annotated[int, Meta(ge=1, le=999_999_999)]
Alias = Annotated[str, Meta(pattern=ID_PATTERN, max_length=128)]
Key = Annotated[str, Meta(pattern=whole("[!-~]{1,255}"), max_length=255)]
Priority = Annotated[int, Meta(ge=PRIORITY_MIN, le=PRIORITY_MAX)]
Instant = Annotated[str, Meta(pattern=_INSTANT, max_length=40)]
