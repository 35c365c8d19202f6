"""A sink in a plain list that takes effect once for each identity, as the sinks of databases do."""

from msgspec import Raw

from simulation.history import SinkRow
from windlass.core.changes import SinkSpec
from windlass.ports.sink import SinkReceipt


class MemorySink:
    """The Sink contract in the memory of one process: rows and identity in one step."""

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
        """Nothing to let go of."""
