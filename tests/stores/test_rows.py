"""Conversions between structs and rows."""

import msgspec
from msgspec import Raw

from windlass.core.events import Event
from windlass.stores.rows import PageEvent, decode_page, event_of


def test_a_decoded_event_has_the_fields_of_an_event() -> None:
    assert PageEvent.__struct_fields__ == Event.__struct_fields__


def test_an_event_is_the_same_after_it_was_stored_in_a_page() -> None:
    event = Event(
        3, "node_completed", "load", None, 7, data=Raw(b'{"attempt_number":1}'), parent_seq=2
    )

    [decoded] = decode_page(msgspec.json.encode([event]))

    assert event_of(decoded) == event
