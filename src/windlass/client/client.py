"""The Python client of a server's HTTP API. It returns the views of `windlass.wire` and raises Windlass errors."""

from typing import Self

import httpx2

from windlass import wire
from windlass.client.connection import JSON, ApiConnection, decode
from windlass.client.deliveries import Deliveries
from windlass.client.errors import ANY, error_from
from windlass.client.jobs import Jobs
from windlass.client.runs import Runs
from windlass.client.schedules import Schedules
from windlass.client.workers import Workers
from windlass.client.workflows import Workflows
from windlass.core.errors import ServerUnreachable

DEFAULT_URL = "http://127.0.0.1:8470"
ANSWER_SECONDS_MAX = 30.0
# How long a stream or a wait that has started tries to reconnect.
AWAY_SECONDS_MAX = 60.0


class Client:
    """A client of one server, with one attribute per resource. Use it as `async with Client(url) as client`."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        answer_seconds_max: float = ANSWER_SECONDS_MAX,
        away_seconds_max: float = AWAY_SECONDS_MAX,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ServerUnreachable(
                f"not the URL of a server: {url!r}; write it like {DEFAULT_URL}"
            )
        self._connection = ApiConnection(url, answer_seconds_max, away_seconds_max, transport)
        self.url = self._connection.url
        self.workflows = Workflows(self._connection)
        self.jobs = Jobs(self._connection)
        self.schedules = Schedules(self._connection)
        self.runs = Runs(self._connection)
        self.deliveries = Deliveries(self._connection)
        self.workers = Workers(self._connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.aclose()

    async def health(self) -> wire.HealthView:
        """Return the state of the server, also if it is degraded."""
        response = await self._connection.exchange("GET", "/health")
        if response.is_success or response.headers.get("content-type", "").startswith(JSON):
            return decode(response, wire.HealthView)
        raise error_from(response, ANY)
