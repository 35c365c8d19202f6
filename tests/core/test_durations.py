"""Durations: what is one, and how it is written."""

import math

import pytest

from windlass.core.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (5, 5.0),
        (0.25, 0.25),
        (0, 0.0),
        (-1, -1.0),
        ("5", 5.0),
        ("500ms", 0.5),
        ("10s", 10.0),
        ("1.5m", 90.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
    ],
)
def test_a_duration_is_a_number_of_seconds_or_a_text(written: object, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written",
    [
        "", "soon", "5 s", " 5s", "5s\n", "-1s", "+1s", "1e3s", ".5s", "1w", "1m30s", "٥s", "9" * 13,
        None, True, [], math.nan, math.inf, 10**400,
    ],
)  # fmt: skip
def test_other_values_are_not_durations(written: object) -> None:
    assert parse_duration(written) is None


@pytest.mark.parametrize("text", ["0s", "1ms", "90s", "2m", "36h", "7d"])
def test_a_formatted_duration_is_parsed_to_the_same_seconds(text: str) -> None:
    seconds = parse_duration(text)
    assert seconds is not None
    assert parse_duration(format_duration(seconds)) == seconds
