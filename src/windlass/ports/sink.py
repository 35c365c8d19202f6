"""Sinks: where a worker writes the output of an attempt before it reports it."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Raw, Struct

from windlass.core.changes import SinkSpec


class SinkReceipt(Struct, frozen=True):
    """What a sink did: how many rows it wrote, or that an earlier attempt had written them."""

    rows: int
    skipped: bool = False


class Sink(Protocol):
    """A place for outputs. RetryableError when another attempt may succeed, FatalError when none can."""

    async def write(self, order: SinkSpec, output: Raw, identity: str) -> SinkReceipt:
        """Write the rows of `output`; durable when it returns. `identity` is that of the work, not of the attempt."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


Sinks = Mapping[str, Sink]
