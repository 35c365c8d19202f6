"""Notices that the broker lost its contents, or has older ones after a restore or a failover."""

import logging

from windlass.core.errors import BrokerUnavailable
from windlass.ports.broker import Broker

CHECK_SECONDS = 1.0

log = logging.getLogger("windlass.engine")


class ContentsWatch:
    """The identity of the broker's contents, as this process last saw it. The sweepers compare it with their own."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # None before the first check.
        self.incarnation: str | None = None

    async def check(self) -> None:
        """Check once. A broker that does not answer is checked again later."""
        try:
            incarnation = await self._broker.incarnation()
        except BrokerUnavailable:
            return
        if self.incarnation not in {None, incarnation}:
            log.warning(
                "the broker lost its contents or has older ones; publishing the tasks in flight again"
            )
        self.incarnation = incarnation
