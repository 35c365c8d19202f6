"""The log of long-running commands: one JSON object per line, each with its time."""

import logging

import msgspec
import pytest

from windlass.cli.process_log import ACCESS_LOGGER, JsonFormatter


@pytest.mark.parametrize(
    ("logger", "message"),
    [("windlass.engine", "it broke"), (ACCESS_LOGGER, '{"method":"GET","status":200}')],
)
def test_every_line_is_an_object_with_its_time(logger: str, message: str) -> None:
    record = logging.LogRecord(logger, logging.INFO, "", 0, message, None, None)
    record.created = 1_700_000_040.25

    line = msgspec.json.decode(JsonFormatter().format(record))

    assert line["timestamp"] == "2023-11-14T22:14:00.250000Z"
    assert len(line) > 2


def test_the_fields_of_a_record_have_names_of_their_own() -> None:
    record = logging.LogRecord("windlass.runs", logging.INFO, "", 0, "x", None, None)
    vars(record)["fields"] = {"run_id": "flow:1", "at": "then"}

    line = msgspec.json.decode(JsonFormatter().format(record))

    assert (line["run_id"], line["at"], line["message"]) == ("flow:1", "then", "x")


def test_the_fields_of_a_record_do_not_replace_its_message() -> None:
    record = logging.LogRecord("windlass.runs", logging.INFO, "", 0, "run 1: too slow", None, None)
    vars(record)["fields"] = {"message": "too slow", "level": "x", "run_id": "flow:1"}

    line = msgspec.json.decode(JsonFormatter().format(record))

    assert list(line) == ["timestamp", "level", "logger", "message", "run_id"]
    assert (line["level"], line["message"]) == ("info", "run 1: too slow")
