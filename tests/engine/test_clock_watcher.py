"""The report of a wall clock that was set."""

import logging

import pytest

from windlass.engine.duties.clock_watcher import ClockWatcher
from windlass.testing import virtual_time
from windlass.testing.virtual_time import VirtualClock


def test_step_of_the_wall_clock_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "windlass.engine")

    async def main() -> None:
        clock = VirtualClock()
        watcher = ClockWatcher(clock)
        for step in (0.0, 3_600.0, 0.0, 1.0, -3_601.0):
            clock.jump(step)
            await watcher.check()

    virtual_time.run(main())

    assert [record.getMessage().split(";")[0] for record in caplog.records] == [
        "the wall clock was set by +3600 s",
        "the wall clock was set by -3600 s",
    ]
