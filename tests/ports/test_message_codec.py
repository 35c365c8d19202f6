"""Encoding and decoding of messages about runs."""

import pytest

from windlass.core.messages import Message, RunAdmitted
from windlass.core.runs.messages import RunDue, RunRequested, RunWait, ScheduleChanged
from windlass.ports.message_codec import decode_message, encode_message


@pytest.mark.parametrize(
    "message",
    [
        RunDue("flow", "flow:2026-01-01T00:00:00Z", RunWait.START),
        ScheduleChanged("flow"),
        RunRequested("flow", "r1", "cancel", "flow:j1", "not needed"),
        RunRequested("flow", "r2", "backfill", since=1, until=2),
        RunAdmitted("j1"),
    ],
)
def test_message_about_a_run_is_decoded_unchanged(message: Message) -> None:
    assert decode_message(encode_message(message)) == message
