"""Detects that a Redis server lost its contents or got older ones: by a flush, a restart, a failover or a restore."""

import asyncio
from uuid import uuid4

from windlass.brokers.redis.connection import RedisConnection


class ContentsCheck:
    """Names the contents of a server, as one process sees them."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._lock = asyncio.Lock()
        # The server of the newest connection: each start of a server has another id.
        self._connection_number = 0
        self._run_id = ""
        # Every process counts its checks on the server. A count that falls shows that older contents replaced these.
        self._checks = 0
        self._replacements = 0

    async def incarnation(self) -> str:
        """Return the name of the contents. BrokerUnavailable."""
        async with self._lock:
            name, checks = await self._connection.run("incarnation", [uuid4().hex])
            if self._connection_number != self._connection.connections:
                self._connection_number = self._connection.connections
                info = await self._connection.call("INFO", "server")
                self._run_id = info_value(info, "run_id")
            if checks <= self._checks:
                self._replacements += 1
            self._checks = checks
            return f"{name.decode()}:{self._run_id}:{self._replacements}"


def info_value(info: bytes, name: str) -> str:
    """Return a value of an answer to INFO; empty if the server does not tell it."""
    for line in info.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value
    return ""
