"""Runs of a server: `client.runs`."""

from collections.abc import AsyncIterator

from windlass import wire
from windlass.client.connection import ApiConnection, query, segment
from windlass.client.errors import ErrorTypes
from windlass.core.errors import RunNotFound

_RUN = ErrorTypes(not_found=RunNotFound)


class Runs:
    """Reads and cancels runs."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    async def page(
        self,
        *,
        workflow_id: str | None = None,
        state: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> wire.Page[wire.RunView]:
        """Return one page of runs, newest slot first."""
        params = query(workflow_id=workflow_id, state=state, limit=limit, cursor=cursor)
        return await self._connection.call("GET", "/runs", wire.Page[wire.RunView], params=params)

    def list(
        self, *, workflow_id: str | None = None, state: str | None = None
    ) -> AsyncIterator[wire.RunView]:
        """Iterate over runs, newest slot first."""
        params = query(workflow_id=workflow_id, state=state)
        return self._connection.pages(wire.Page[wire.RunView], "/runs", params)

    async def get(self, run_id: str) -> wire.RunView:
        """Return a run; RunNotFound."""
        return await self._connection.call("GET", _path(run_id), wire.RunView, _RUN)

    def events(self, run_id: str, *, after: int = 0) -> AsyncIterator[wire.RunEventView]:
        """Iterate over the events of a run after a sequence number, in order; RunNotFound."""
        return self._connection.pages(
            wire.Page[wire.RunEventView],
            f"{_path(run_id)}/events",
            query(after=after or None),
            _RUN,
            cursor="after",
        )

    async def cancel(self, run_id: str, reason: str | None = None) -> wire.RunView:
        """Cancel a run and its job; a finished run stays as it is. RunNotFound."""
        body = wire.CancelRequest(reason)
        return await self._connection.call(
            "POST", f"{_path(run_id)}/cancel", wire.RunView, _RUN, body=body
        )


def _path(run_id: str) -> str:
    return f"/runs/{segment(run_id)}"
