"""Workers and queues of a server: `client.workers`."""

from windlass import wire
from windlass.client.connection import ApiConnection


class Workers:
    """Reads workers and queues."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    async def queues(self) -> list[wire.QueueView]:
        """Return the queues that have waiting or running tasks."""
        return (await self._connection.call("GET", "/queues", wire.QueuesView)).items

    async def list(self) -> list[wire.WorkerView]:
        """Return the workers that the server knows."""
        return (await self._connection.call("GET", "/workers", wire.Page[wire.WorkerView])).items
