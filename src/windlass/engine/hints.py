"""Hints: messages that notify a shard of rows which are stored already."""

import logging
from collections.abc import Sequence

from windlass.core.errors import BrokerUnavailable
from windlass.core.messages import Message
from windlass.ports.broker import Broker
from windlass.ports.prompt_calls import promptly

# How long a client waits for a notification that its rows do not depend on.
HINT_SECONDS_MAX = 0.5

log = logging.getLogger("windlass.engine")


async def send_hints(broker: Broker, shard: int, messages: Sequence[Message]) -> bool:
    """Notify a shard of stored rows; return whether the broker has the messages.

    If it is unavailable, the owner of the shard finds the rows later.
    """
    try:
        await promptly(broker.send(shard, messages), HINT_SECONDS_MAX)
    except BrokerUnavailable as error:
        log.warning("shard %d was not notified of %d messages: %s", shard, len(messages), error)
        return False
    return True
