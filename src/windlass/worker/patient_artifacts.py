"""Storing outputs while the artifact store is unavailable, for example because its disk is full.

The handler's work is done, and a new attempt would do it again: the output is held and stored when that is possible.
"""

import asyncio
import logging

from windlass.core.errors import StoreUnavailable
from windlass.ports.artifacts import Artifacts

# The time limit of the artifact store for one request; heartbeats continue meanwhile.
REQUEST_SECONDS_MAX = 120.0
# How long an output is held, unless its attempt times out before.
HOLD_SECONDS_MAX = 600.0
# Pauses between two tries.
PAUSE_SECONDS_MIN = 0.5
PAUSE_SECONDS_MAX = 10.0

log = logging.getLogger(__name__)


class PatientArtifacts:
    """Stores outputs, and waits during an outage, in which one output is tried again for all."""

    def __init__(self, store: Artifacts) -> None:
        self._store = store
        # Why outputs cannot be stored at the moment.
        self.problem: str | None = None
        self._available = asyncio.Event()
        self._available.set()
        self._probing: asyncio.Task[None] | None = None

    async def put(self, job_id: str, body: bytes, hold_seconds: float) -> str:
        """Store a value of a job, within `hold_seconds` during an outage, and return its key. StoreUnavailable."""
        deadline = asyncio.get_running_loop().time() + hold_seconds
        while True:
            try:
                return await self._put(job_id, body)
            except StoreUnavailable as error:
                self._begin_outage(job_id, body, str(error))
                try:
                    async with asyncio.timeout_at(deadline):
                        await self._available.wait()
                except TimeoutError:
                    raise error from None

    async def wait_available(self) -> None:
        """Wait until outputs can be stored."""
        await self._available.wait()

    def close(self) -> None:
        """End the tries: nothing waits for them any more."""
        if self._probing is not None:
            self._probing.cancel()

    async def _put(self, job_id: str, body: bytes) -> str:
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                return await self._store.put(job_id, body)
        except TimeoutError:
            raise StoreUnavailable(f"no response within {REQUEST_SECONDS_MAX:g} s") from None

    def _begin_outage(self, job_id: str, body: bytes, reason: str) -> None:
        if self._probing is not None and not self._probing.done():
            return
        log.warning(
            "outputs cannot be stored: %s; results are held and no tasks are taken until they can",
            reason,
        )
        self.problem = reason
        self._available.clear()
        self._probing = asyncio.ensure_future(self._probe(job_id, body))

    async def _probe(self, job_id: str, body: bytes) -> None:
        """Try one output again until it is stored; after a bound let others try."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + HOLD_SECONDS_MAX, PAUSE_SECONDS_MIN
        try:
            while loop.time() < deadline:
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_SECONDS_MAX)
                try:
                    await self._put(job_id, body)
                except StoreUnavailable as error:
                    self.problem = str(error)
                else:
                    log.warning("outputs can be stored again")
                    return
        finally:
            self.problem = None
            self._available.set()
