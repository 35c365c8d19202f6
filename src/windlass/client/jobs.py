"""Jobs of a server: `client.jobs`."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from windlass import wire
from windlass.client.connection import ApiConnection, query, segment
from windlass.client.errors import ErrorTypes
from windlass.core.errors import (
    InputInvalid,
    JobNotFound,
    ResponseLost,
    ServerUnreachable,
    StoreUnavailable,
    WorkflowNotFound,
)
from windlass.core.jobs import JobSelection
from windlass.core.states import JOB_FINAL

# Outputs may have many megabytes and come from an object store.
OUTPUT_SECONDS_MAX = 300.0
# The server holds a long poll for at most this long; `wait` sends the next one.
JOB_WAIT_SECONDS_MAX = 30.0

ALL_JOBS = JobSelection()
FINAL_EVENTS = frozenset({"job_completed", "job_failed", "job_cancelled"})

_SUBMIT = ErrorTypes(not_found=WorkflowNotFound, invalid=InputInvalid)
_JOB = ErrorTypes(not_found=JobNotFound)

Streamed = TypeVar("Streamed", wire.EventView, wire.LogView)


class Jobs:
    """Submits, reads, follows and controls jobs."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection

    async def submit(
        self,
        workflow_id: str,
        input_data: Mapping[str, Any] | None = None,
        *,
        version: int | str | None = None,
        idempotency_key: str | None = None,
        scheduled_at: str | None = None,
        priority: int = 0,
    ) -> wire.SubmittedView:
        """Start a job; it is durable on return. WorkflowNotFound, InputInvalid, IdempotencyConflict.

        After ResponseLost the job may or may not exist; sent again with the same `idempotency_key`, it exists once.
        """
        body = wire.SubmitRequest(
            workflow_id=workflow_id,
            input_data=dict(input_data or {}),
            version=version,
            idempotency_key=idempotency_key,
            scheduled_at=scheduled_at,
            priority=priority,
        )
        return await self._connection.call("POST", "/jobs", wire.SubmittedView, _SUBMIT, body=body)

    async def submit_batch(self, jobs: Sequence[wire.SubmitRequest]) -> wire.BatchView:
        """Start jobs in one transaction; each has its own result, in the same order."""
        body = wire.BatchRequest([*jobs])
        return await self._connection.call(
            "POST", "/jobs/batch", wire.BatchView, _SUBMIT, body=body
        )

    async def page(
        self,
        selection: JobSelection = ALL_JOBS,
        *,
        search: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> wire.Page[wire.JobView]:
        """Return one page of jobs, newest first. `search` is the start of an id, or an idempotency key."""
        params = query(search=search, limit=limit, cursor=cursor, **selection.selected())
        return await self._connection.call("GET", "/jobs", wire.Page[wire.JobView], params=params)

    async def get(
        self, job_id: str, *, nodes: bool = False, wait_seconds: float | None = None
    ) -> wire.JobView:
        """Return a job, once it has finished or `wait_seconds` have passed; JobNotFound.

        The server refuses `nodes` for a job with very many; the method `nodes` reads them page by page.
        """
        params: dict[str, str] = {}
        if nodes:
            params["nodes"] = "true"
        seconds_max = self._connection.answer_seconds_max
        if wait_seconds is not None:
            params["wait"] = f"{wait_seconds:g}s"
            seconds_max += wait_seconds
        return await self._connection.call(
            "GET", _path(job_id), wire.JobView, _JOB, params=params, seconds_max=seconds_max
        )

    async def wait(self, job_id: str) -> wire.JobView:
        """Return the job with its nodes once it has finished, across restarts of the server; JobNotFound."""
        backoff = self._connection.backoff()
        while True:
            try:
                job = await self.get(job_id, wait_seconds=JOB_WAIT_SECONDS_MAX)
                if job.status in JOB_FINAL:
                    return msgspec.structs.replace(job, nodes=await self.nodes(job_id))
                backoff.reset()
            except (ServerUnreachable, StoreUnavailable) as error:
                await backoff.pause(error)

    async def cancel(self, job_id: str, reason: str | None = None) -> wire.JobView:
        """Cancel a job; a finished job stays as it is. JobNotFound."""
        body = wire.CancelRequest(reason)
        return await self._connection.call(
            "POST", f"{_path(job_id)}/cancel", wire.JobView, _JOB, body=body
        )

    async def retry(self, job_id: str, *, from_node: str | None = None) -> wire.JobView:
        """Run failed and cancelled nodes again, or a node and all downstream nodes; RequestRefused, NotFound."""
        path = f"{_path(job_id)}/retry"
        if from_node is None:
            return await self._connection.call("POST", path, wire.JobView, _JOB)
        return await self._connection.call("POST", path, wire.JobView, params={"from": from_node})

    async def rerun(self, job_id: str, *, version: int | str | None = None) -> wire.SubmittedView:
        """Start a new job with the same input, of the same version or another number or alias; NotFound."""
        path = f"{_path(job_id)}/rerun"
        if version is None:
            return await self._connection.call("POST", path, wire.SubmittedView, _JOB)
        body = wire.RerunRequest(version)
        return await self._connection.call("POST", path, wire.SubmittedView, body=body)

    async def nodes(self, job_id: str) -> list[wire.NodeView]:
        """Return all nodes of a job; JobNotFound."""
        pages = self._connection.pages(
            wire.Page[wire.NodeView], f"{_path(job_id)}/nodes", errors=_JOB
        )
        return [node async for node in pages]

    async def node(self, job_id: str, node_id: str) -> wire.NodeView:
        """Return a node of a job; NotFound."""
        return await self._connection.call("GET", _node_path(job_id, node_id), wire.NodeView)

    def iterations(
        self, job_id: str, node_id: str, *, status: str | None = None
    ) -> AsyncIterator[wire.IterationView]:
        """Iterate over the iterations of a loop by index, including those not started; NotFound."""
        path = f"{_node_path(job_id, node_id)}/iterations"
        return self._connection.pages(wire.Page[wire.IterationView], path, query(status=status))

    async def output(self, job_id: str, node_id: str, *, index: int | None = None) -> bytes:
        """Return the whole output of a node, or of one iteration, as JSON; NotFound if there is none."""
        path = f"{_node_path(job_id, node_id)}/output"
        response = await self._connection.send(
            "GET", path, params=query(index=index), seconds_max=OUTPUT_SECONDS_MAX
        )
        return response.content

    async def params(
        self, job_id: str, node_id: str, *, index: int | None = None
    ) -> wire.ParamsView:
        """Return the params of a node, or of one iteration; NotFound."""
        path = f"{_node_path(job_id, node_id)}/params"
        return await self._connection.call("GET", path, wire.ParamsView, params=query(index=index))

    def events(
        self, job_id: str, *, after: int = 0, context: bool = True
    ) -> AsyncIterator[wire.EventView]:
        """Iterate over the stored events of a job after a sequence number, in order; JobNotFound.

        Without the context, which is the larger part of an event, responses are much smaller.
        """
        params = query(after=after or None, context=None if context else "false")
        return self._connection.pages(
            wire.Page[wire.EventView], f"{_path(job_id)}/events", params, _JOB, cursor="after"
        )

    def watch(
        self, job_id: str, *, after: int = 0, context: bool = True
    ) -> AsyncGenerator[wire.EventView, None]:
        """Iterate over stored and then live events, each once, until the job has finished.

        The stream resumes after the last event when the server is available again. JobNotFound, ServerUnreachable.
        """
        params = query(context=None if context else "false")
        return self._follow(wire.EventView, job_id, f"{_path(job_id)}/events", params, after)

    def logs(
        self,
        job_id: str,
        *,
        node: str | None = None,
        attempt: int | None = None,
        index: int | None = None,
        after: int = 0,
    ) -> AsyncIterator[wire.LogView]:
        """Iterate over the stored log lines of a job, in order; JobNotFound."""
        params = query(node=node, attempt=attempt, index=index, after=after or None)
        return self._connection.pages(
            wire.Page[wire.LogView], f"{_path(job_id)}/logs", params, _JOB, cursor="after"
        )

    def follow_logs(
        self,
        job_id: str,
        *,
        node: str | None = None,
        attempt: int | None = None,
        index: int | None = None,
        after: int = 0,
    ) -> AsyncGenerator[wire.LogView, None]:
        """Iterate over stored and then live log lines, each once, until the job has finished; as `watch`."""
        params = query(node=node, attempt=attempt, index=index)
        return self._follow(wire.LogView, job_id, f"{_path(job_id)}/logs", params, after)

    async def activity(self, *, minutes: int | None = None) -> wire.ActivityView:
        """Return how many jobs were submitted and finished in each interval of the last minutes."""
        return await self._connection.call(
            "GET", "/activity", wire.ActivityView, params=query(minutes=minutes)
        )

    # Last, because `list` is the type in the annotations above.
    def list(self, selection: JobSelection = ALL_JOBS) -> AsyncIterator[wire.JobView]:
        """Iterate over jobs, newest first."""
        params = query(**selection.selected())
        return self._connection.pages(wire.Page[wire.JobView], "/jobs", params)

    async def _follow(
        self, view: type[Streamed], job_id: str, path: str, params: Mapping[str, str], after: int
    ) -> AsyncGenerator[Streamed, None]:
        """Read a stream to its end over as many connections as needed."""
        backoff = self._connection.backoff()
        is_connected = False
        last: Streamed | None = None
        while True:
            try:
                async with self._connection.stream(f"{path}/stream", params, after, _JOB) as events:
                    is_connected = True
                    async for number, data in events:
                        backoff.reset()
                        if number <= after:
                            continue
                        last = msgspec.json.decode(data, type=view)
                        after = number
                        yield last
                # A retried job has final events in the middle, so only the last one of a stream counts.
                if last is not None and _is_final(last):
                    return
                # A server that shuts down also ends its streams. The rest of a finished job is read from the list.
                if (await self.get(job_id)).status in JOB_FINAL:
                    async for item in self._rest(view, path, params, after):
                        after = _number(item)
                        yield item
                    return
                await backoff.pause(
                    ResponseLost(f"stream from {self._connection.url} ended before the job")
                )
            except (ServerUnreachable, StoreUnavailable) as error:
                if not is_connected:
                    raise
                await backoff.pause(error)

    def _rest(
        self, view: type[Streamed], path: str, params: Mapping[str, str], after: int
    ) -> AsyncIterator[Streamed]:
        remaining = {**params, **query(after=after or None)}
        return self._connection.pages(wire.Page[view], path, remaining, _JOB, cursor="after")


def _is_final(item: wire.EventView | wire.LogView) -> bool:
    return isinstance(item, wire.EventView) and item.event_type in FINAL_EVENTS


def _number(item: wire.EventView | wire.LogView) -> int:
    return item.seq if isinstance(item, wire.EventView) else item.log_id


def _path(job_id: str) -> str:
    return f"/jobs/{segment(job_id)}"


def _node_path(job_id: str, node_id: str) -> str:
    return f"{_path(job_id)}/nodes/{segment(node_id)}"
