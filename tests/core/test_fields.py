"""Types of request fields: what they accept."""

from typing import Any, get_args

import msgspec
import pytest
from msgspec import Meta, Struct

from windlass.api.event_stream import StreamHeaders
from windlass.api.routes.jobs import Search
from windlass.core.durations import Duration
from windlass.core.fields import Alias, Id, Instant, Key
from windlass.settings import Settings
from windlass.wire.tasks import QueueName, TaskId, WorkerId

VALID = [
    (Id, "report"),
    (Alias, "stable"),
    (Key, "order-17"),
    (Instant, "2030-01-01T00:00:00Z"),
    (Search, "report"),
    (Duration, "30s"),
    (WorkerId, "worker@host"),
    (QueueName, "default"),
    (TaskId, "job_node_1"),
]


@pytest.mark.parametrize(("field", "value"), VALID)
def test_a_trailing_line_feed_is_rejected(field: Any, value: str) -> None:
    assert msgspec.convert(value, field) == value
    with pytest.raises(msgspec.ValidationError, match="regex"):
        msgspec.convert(f"{value}\n", field)


def patterns(declared: Any) -> list[str]:
    """Return the patterns in a type and in the fields of structs within it."""
    found: list[str] = []
    if isinstance(declared, Meta) and declared.pattern is not None:
        found.append(declared.pattern)
    if isinstance(declared, type) and issubclass(declared, Struct):
        for field in msgspec.structs.fields(declared):
            found += patterns(field.type)
    for part in (*get_args(declared), *getattr(declared, "__metadata__", ())):
        found += patterns(part)
    return found


@pytest.mark.parametrize("declared", [Settings, StreamHeaders])
def test_no_pattern_of_a_setting_or_header_accepts_a_trailing_line_feed(declared: Any) -> None:
    assert patterns(declared)
    assert [pattern for pattern in patterns(declared) if pattern.endswith("$")] == []
