"""Sinks: where a worker writes the output of an attempt before it reports it."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Raw, Struct

from windlass.core.changes import SinkSpec


class SinkReceipt(Struct, frozen=True):
    """The number of rows written; `skipped` if an earlier attempt had already written them."""

    rows: int
    skipped: bool = False


class Sink(Protocol):
    """A destination for outputs. Raises RetryableError if another attempt may succeed, else FatalError."""

    async def write(self, spec: SinkSpec, output: Raw, identity: str) -> SinkReceipt:
        """Write the rows of `output`; they are durable on return. `identity` is the same for all attempts of a task."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


Sinks = Mapping[str, Sink]
