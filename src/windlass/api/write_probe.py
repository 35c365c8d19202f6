"""Whether the database and the broker accept writes: a full disk, a lost primary and a standby still answer reads."""

import asyncio

from windlass.core.errors import BrokerUnavailable, CommitUnknown, StoreUnavailable
from windlass.core.instants import MICROSECONDS
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.prompt_calls import promptly
from windlass.ports.store import Store

# Requests within this time share one probe.
FRESH_SECONDS = 1.0
# Longer than a commit takes that is not lost.
ANSWER_SECONDS_MAX = 2.0
# A worker that never exists: removing it changes nothing, but a broker that refuses writes refuses it.
NO_WORKER = "windlass-write-probe"


class WriteProbe:
    """Writes to the database and the broker, at most once per second."""

    def __init__(self, store: Store, broker: Broker, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._problems: list[str] = []
        self._probed_at = 0
        self._probing = asyncio.Lock()

    async def problems(self) -> list[str]:
        """Return what refuses writes, and why."""
        async with self._probing:
            if self._clock.now() - self._probed_at >= FRESH_SECONDS * MICROSECONDS:
                self._problems = await self._probe()
                self._probed_at = self._clock.now()
            return self._problems

    async def _probe(self) -> list[str]:
        found = await asyncio.gather(self._probe_store(), self._probe_broker())
        return [problem for problem in found if problem is not None]

    async def _probe_store(self) -> str | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                await self._store.leases.probe(self._clock.now())
        except TimeoutError:
            return _late("database")
        except (CommitUnknown, StoreUnavailable) as error:
            return unavailable("database", error)
        return None

    async def _probe_broker(self) -> str | None:
        try:
            await promptly(self._broker.deregister(NO_WORKER))
        except BrokerUnavailable as error:
            return unavailable("broker", error)
        return None


def unavailable(what: str, error: Exception) -> str:
    """Return the description of a part that does not work."""
    return f"the {what} is unavailable: {error}"


def _late(what: str) -> str:
    return f"the {what} is unavailable: no response within {ANSWER_SECONDS_MAX:g} s"
