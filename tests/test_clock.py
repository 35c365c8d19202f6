"""The system clock: setting the wall clock does not step the time of a process."""

import time

import pytest

from windlass.clock import SystemClock

HOUR_NANOSECONDS = 3_600_000_000_000
SECOND = 1_000_000


@pytest.mark.parametrize("step", [HOUR_NANOSECONDS, -HOUR_NANOSECONDS])
def test_setting_the_wall_clock_changes_only_the_wall_time(
    monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    clock = SystemClock()
    read = time.time_ns
    before = clock.now()
    monkeypatch.setattr(time, "time_ns", lambda: read() + step)

    assert 0 <= clock.now() - before < SECOND
    assert abs(clock.wall() - before - step // 1000) < SECOND
    # A process that starts now begins with the new time.
    assert abs(SystemClock().now() - clock.wall()) < SECOND


def test_time_passes() -> None:
    clock = SystemClock()
    assert abs(clock.now() - clock.wall()) < SECOND
    before = clock.now()
    time.sleep(0.01)
    assert clock.now() - before >= 10_000
