"""Encoding and decoding of messages about runs."""

import pytest

from windlass.core.messages import Message, RunAdmitted, RunAsked, RunDue, ScheduleChanged
from windlass.ports.message_codec import decode_message, encode_message


@pytest.mark.parametrize(
    "message",
    [
        RunDue("flow:2026-01-01T00:00:00Z", "run_start"),
        ScheduleChanged("flow:"),
        RunAsked("flow:j1", "r1", "cancel", "not needed"),
        RunAsked("flow:", "r2", "backfill", since=1, until=2),
        RunAdmitted("j1"),
    ],
)
def test_message_about_a_run_is_decoded_as_it_was_encoded(message: Message) -> None:
    assert decode_message(encode_message(message)) == message
