"""The parts of the running system that routes use."""

import asyncio
import random
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field

from windlass.api.problems import HttpProblem
from windlass.api.ui import FOLDER
from windlass.connections.secrets import Secrets
from windlass.ports.artifacts import Artifacts
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.control import Control
from windlass.ports.store import Store

# Host names by which local programs reach a server on the loopback interface.
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
BODY_BYTES_MAX = 1 << 20
# Workflow documents; the same limit as in the parser.
DOCUMENT_BYTES_MAX = 32 << 20
STREAMS_MAX = 1_000


class ConcurrencyLimit:
    """Limits how many operations run at once; those beyond the limit are refused, not queued."""

    def __init__(self, running_max: int, name: str) -> None:
        self._running_max = running_max
        self._name = name
        self._running = 0

    @contextmanager
    def acquire(self) -> Generator[None]:
        """Count as running until the block ends; HttpProblem (503) if the limit is reached."""
        if self._running >= self._running_max:
            raise HttpProblem(
                503, "busy", f"limit of {self._running_max} {self._name} reached; try again later"
            )
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1


class ApiState(Struct, frozen=True):
    """The running system behind the API."""

    store: Store
    artifacts: Artifacts
    broker: Broker
    control: Control
    clock: Clock
    # Handlers that workers are known to have; a document that names another one gets a warning.
    handlers: Collection[str]
    chance: random.Random
    version: str
    # The largest output that the artifact store takes.
    artifact_bytes_max: int
    # Keys of incoming webhooks.
    secrets: Secrets = field(default_factory=Secrets)
    # Allowed host names, on any port.
    allowed_hosts: Sequence[str] = LOOPBACK_HOSTS
    body_bytes_max: int = BODY_BYTES_MAX
    document_bytes_max: int = DOCUMENT_BYTES_MAX
    # Why workers of this process take no tasks.
    worker_problems: Callable[[], Sequence[str]] = tuple
    # The built web UI.
    ui_folder: Path = FOLDER
    # Event streams and log tails that are open at once.
    streams: ConcurrencyLimit = field(
        default_factory=lambda: ConcurrencyLimit(STREAMS_MAX, "open streams")
    )
    # Set before the process stops: streams end, and long polls return.
    closing: asyncio.Event = field(default_factory=asyncio.Event)
