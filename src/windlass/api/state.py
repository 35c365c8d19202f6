"""What the routes work with. Made once, where the process is put together."""

import asyncio
import random
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field

from windlass.api.problems import Refusal
from windlass.api.ui import FOLDER
from windlass.connections.secrets import Secrets
from windlass.ports.artifacts import Artifacts
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.control import Control
from windlass.ports.store import Store

# Names by which programs on the same machine reach a server that listens on loopback.
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
BODY_BYTES_MAX = 1 << 20
# Workflow documents only: as much as their reader takes.
DOCUMENT_BYTES_MAX = 32 << 20
STREAMS_MAX = 1_000


class Slots:
    """A number of places, each held for as long as something lasts; nobody waits for one."""

    def __init__(self, places_max: int, name: str) -> None:
        self._places_max = places_max
        self._name = name
        self._held = 0

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold a place until the block ends; Refusal (503) when all are taken."""
        if self._held >= self._places_max:
            raise Refusal(503, "busy", f"all {self._places_max} {self._name} are taken; try again later")
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1


class ApiState(Struct, frozen=True):
    """The running system, as the routes see it."""

    store: Store
    artifacts: Artifacts
    broker: Broker
    control: Control
    clock: Clock
    # Names of the handlers that workers are known to have: a document that names another gets a warning.
    handlers: Collection[str]
    chance: random.Random
    version: str
    # The largest output that the artifact store takes.
    artifact_bytes_max: int
    # What incoming webhooks are signed with.
    secrets: Secrets = field(default_factory=Secrets)
    # A host with any port matches by its name.
    allowed_hosts: Sequence[str] = LOOPBACK_HOSTS
    body_bytes_max: int = BODY_BYTES_MAX
    document_bytes_max: int = DOCUMENT_BYTES_MAX
    # Where the web UI was built.
    ui_folder: Path = FOLDER
    # Event streams and log tails that may be open at once.
    streams: Slots = field(default_factory=lambda: Slots(STREAMS_MAX, "streams"))
    # Set when the process is about to stop: streams end, and long polls are answered with what is known.
    closing: asyncio.Event = field(default_factory=asyncio.Event)
