"""What is logged about failures of background activities."""

import asyncio
import logging

import pytest

from windlass.core.errors import BrokerUnavailable, CommitUnknown, StoreUnavailable
from windlass.ports.outage_log import REPEAT_SECONDS, OutageLog
from windlass.testing import virtual_time

LOGGER = logging.getLogger("windlass.test")


@pytest.mark.parametrize("outage", [BrokerUnavailable, CommitUnknown, StoreUnavailable])
def test_outage_is_one_line_per_minute_and_per_reason(
    caplog: pytest.LogCaptureFixture, outage: type[Exception]
) -> None:
    async def main() -> None:
        outages = OutageLog(LOGGER)
        for _ in range(round(1.5 * REPEAT_SECONDS)):
            outages.failed("the reaper failed", outage("no answer"))
            await asyncio.sleep(1.0)
        outages.failed("the reaper failed", outage("no room"))

    virtual_time.run(main())

    assert [(record.getMessage(), record.exc_info) for record in caplog.records] == [
        ("the reaper failed: no answer", None),
        ("the reaper failed: no answer", None),
        ("the reaper failed: no room", None),
    ]


def test_outage_after_a_success_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        outages = OutageLog(LOGGER)
        outages.failed("the reaper failed", StoreUnavailable("no answer"))
        outages.succeeded()
        outages.failed("the reaper failed", StoreUnavailable("no answer"))

    virtual_time.run(main())

    assert len(caplog.records) == 2


def test_defect_is_logged_each_time_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        outages = OutageLog(LOGGER)
        for _ in range(2):
            outages.failed("the reaper failed", ValueError("no"))

    virtual_time.run(main())

    assert [record.exc_info is not None for record in caplog.records] == [True, True]
