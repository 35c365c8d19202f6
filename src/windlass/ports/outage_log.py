"""One log line for an outage, however often it makes something fail."""

import asyncio
import logging

from windlass.core.errors import BrokerUnavailable, CommitUnknown, StoreUnavailable

# What fails while a server is away, a disk is full or a network is broken. Their messages say all there is to know.
OUTAGES = (BrokerUnavailable, CommitUnknown, StoreUnavailable)
# An outage that lasts is reported again this often.
REPEAT_SECONDS = 60.0


class OutageLog:
    """Logs the failures of one activity: defects with their traceback, outages on one line and not each time."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._last_text = ""
        self._logged_time = 0.0

    def failed(self, what: str, error: Exception) -> None:
        """Log that an activity failed and will be repeated."""
        if not isinstance(error, OUTAGES):
            self._log.error("%s", what, exc_info=error)
            return
        now = asyncio.get_running_loop().time()
        text = f"{what}: {error}"
        if text == self._last_text and now - self._logged_time < REPEAT_SECONDS:
            return
        self._last_text, self._logged_time = text, now
        self._log.warning("%s", text, extra={"outage": error})

    def succeeded(self) -> None:
        """Log the next outage at once."""
        self._last_text = ""
