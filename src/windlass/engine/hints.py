"""Hints: messages that notify a shard of rows which are stored already."""

import logging
from collections.abc import Sequence

from windlass.core.errors import BrokerUnavailable
from windlass.core.messages import Message
from windlass.ports.broker import Broker

log = logging.getLogger("windlass.engine")


async def send_hints(broker: Broker, shard: int, messages: Sequence[Message]) -> None:
    """Notify a shard of stored rows. If the broker is unavailable, the shard's sweeper finds them later."""
    try:
        await broker.send(shard, messages)
    except BrokerUnavailable as error:
        log.warning("shard %d was not notified of %d messages: %s", shard, len(messages), error)
