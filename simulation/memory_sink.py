"""A sink in memory that writes once for each identity, as database sinks do."""

from msgspec import Raw

from simulation.history import SinkRow
from windlass.core.changes import SinkSpec
from windlass.ports.sink import SinkReceipt


class MemorySink:
    """The Sink contract in memory: a row and its identity are written atomically."""

    def __init__(self) -> None:
        self.table: list[SinkRow] = []
        self._effects: set[str] = set()

    async def write(self, order: SinkSpec, output: Raw, identity: str) -> SinkReceipt:
        if identity in self._effects:
            return SinkReceipt(0, skipped=True)
        self._effects.add(identity)
        self.table.append(SinkRow(identity, output))
        return SinkReceipt(1)

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""
