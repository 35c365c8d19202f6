"""A server's HTTP API for Python programs: answers are the shapes of `windlass.wire`, refusals our own errors."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote

import httpx2
import msgspec
from msgspec import Struct

from windlass import wire
from windlass.client.refusals import Refusals, refusal_of
from windlass.client.schedules import Deliveries, Runs, Schedules
from windlass.client.streams import Patience, messages
from windlass.core.errors import (
    AnswerLost,
    ApiError,
    DefinitionInvalid,
    InputInvalid,
    JobNotFound,
    ServerUnreachable,
    StoreUnavailable,
    WorkflowNotFound,
)

DEFAULT_URL = "http://127.0.0.1:8470"
API = "/api/v1"
JSON, YAML = "application/json", "application/yaml"
CONNECT_SECONDS_MAX = 5.0
ANSWER_SECONDS_MAX = 30.0
# Large outputs come from afar and have many megabytes.
OUTPUT_SECONDS_MAX = 300.0
# A server holds a question about a job's end open for so long at most; `wait` asks again.
POLL_SECONDS_MAX = 30.0
# A living stream says something every 15 seconds.
STREAM_SILENT_SECONDS_MAX = 45.0
# How long a stream or a wait that has begun looks for a server that went away.
AWAY_SECONDS_MAX = 60.0
CONNECTIONS_MAX = 100

ENDED = frozenset({"completed", "failed", "cancelled"})
ENDS = frozenset({"job_completed", "job_failed", "job_cancelled"})

T = TypeVar("T")
Streamed = TypeVar("Streamed", wire.EventView, wire.LogView)


class Deployed(Struct, frozen=True):
    """A workflow as it is now stored, and whether this call made the version."""

    workflow: wire.WorkflowView
    is_new: bool


_WORKFLOW = Refusals(missing=WorkflowNotFound)
_DOCUMENT = Refusals(unfit=DefinitionInvalid)
_SUBMIT = Refusals(missing=WorkflowNotFound, unfit=InputInvalid)
_JOB = Refusals(missing=JobNotFound)
_ANY = Refusals()


class Client:
    """Talks to one server. Use it as `async with Client(url) as client`; many calls may be under way at once."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        answer_seconds_max: float = ANSWER_SECONDS_MAX,
        away_seconds_max: float = AWAY_SECONDS_MAX,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ServerUnreachable(f"{url!r} is not the URL of a server: write it like {DEFAULT_URL}")
        self.url = url.rstrip("/")
        self._answer_seconds_max = answer_seconds_max
        self._away_seconds_max = away_seconds_max
        self.schedules = Schedules(self._ask)
        self.runs = Runs(self._ask)
        self.deliveries = Deliveries(self._ask)
        self._http = httpx2.AsyncClient(
            base_url=self.url,
            timeout=_timeout(answer_seconds_max),
            limits=httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX),
            # Certificates take 80 ms to load; only https needs them. A proxy for the world is none for a server here.
            verify=self.url.startswith("https://"),
            trust_env=False,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    # Workflows

    async def deploy(self, document: str | bytes, *, format: Literal["yaml", "json"] | None = None) -> Deployed:
        """Store a workflow document, as a new version if it differs from the newest; DefinitionInvalid."""
        answer = await self._send("POST", "/workflows", _DOCUMENT, content=document, media_type=_media_type(format))
        return Deployed(_read(answer, wire.WorkflowView), answer.status_code == 201)

    async def validate(
        self, document: str | bytes, *, format: Literal["yaml", "json"] | None = None
    ) -> wire.ValidationView:
        """Check a document without storing it."""
        path, media_type = "/workflows/validate", _media_type(format)
        return _read(
            await self._send("POST", path, _DOCUMENT, content=document, media_type=media_type), wire.ValidationView
        )

    def workflows(self, *, recent: int | None = None) -> AsyncIterator[wire.WorkflowView]:
        """Every workflow by id, each in its newest version, with so many of its recent jobs."""
        return self._pages(wire.Page[wire.WorkflowView], "/workflows", _given(recent=recent), _ANY)

    async def workflow(self, workflow_id: str, version: int | None = None) -> wire.WorkflowView:
        """A version of a workflow, the newest by default; WorkflowNotFound."""
        path = f"/workflows/{_part(workflow_id)}" + ("" if version is None else f"/versions/{version}")
        return _read(await self._send("GET", path, _WORKFLOW), wire.WorkflowView)

    async def document(self, workflow_id: str, version: int) -> str:
        """A version as a YAML document; WorkflowNotFound."""
        path = f"/workflows/{_part(workflow_id)}/versions/{version}/document"
        return (await self._send("GET", path, _WORKFLOW)).text

    async def statistics(
        self, workflow_id: str, *, jobs: int | None = None, version: int | None = None
    ) -> wire.WorkflowStatisticsView:
        """What the last jobs of a workflow tell about it; WorkflowNotFound."""
        path, params = f"/workflows/{_part(workflow_id)}/statistics", _given(jobs=jobs, version=version)
        return await self._ask("GET", path, wire.WorkflowStatisticsView, _WORKFLOW, params=params)

    def versions(self, workflow_id: str) -> AsyncIterator[wire.WorkflowView]:
        """Every version, newest first; WorkflowNotFound."""
        return self._pages(wire.Page[wire.WorkflowView], f"/workflows/{_part(workflow_id)}/versions", {}, _WORKFLOW)

    async def set_alias(self, workflow_id: str, alias: str, targets: int | Sequence[wire.WeightedVersion]) -> None:
        """Point an alias at a version, or at several by weight; WorkflowNotFound."""
        one = isinstance(targets, int)
        body = wire.AliasRequest(version=targets) if one else wire.AliasRequest(targets=list(targets))
        await self._send("PUT", f"/workflows/{_part(workflow_id)}/aliases/{_part(alias)}", _WORKFLOW, body=body)

    async def delete_alias(self, workflow_id: str, alias: str) -> None:
        """Remove an alias; WorkflowNotFound."""
        await self._send("DELETE", f"/workflows/{_part(workflow_id)}/aliases/{_part(alias)}", _WORKFLOW)

    async def delete_workflow(self, workflow_id: str, *, force: bool = False) -> None:
        """Take a workflow off the lists; RequestRefused while jobs of it are unfinished, unless forced."""
        params = {"force": "true"} if force else {}
        await self._send("DELETE", f"/workflows/{_part(workflow_id)}", _WORKFLOW, params=params)

    # Jobs

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
        """Start a job; durable when it returns. WorkflowNotFound, InputInvalid, IdempotencyConflict.

        After AnswerLost the job may or may not exist; asked again with the same `idempotency_key`, it exists once.
        """
        body = wire.SubmitRequest(workflow_id, dict(input_data or {}), version, idempotency_key, scheduled_at, priority)
        return _read(await self._send("POST", "/jobs", _SUBMIT, body=body), wire.SubmittedView)

    async def submit_batch(self, jobs: Sequence[wire.SubmitRequest]) -> wire.BatchView:
        """Start many jobs at once; each has its own answer, in their order."""
        return _read(
            await self._send("POST", "/jobs/batch", _SUBMIT, body=wire.BatchRequest(list(jobs))), wire.BatchView
        )

    async def jobs_page(
        self,
        *,
        workflow_id: str | None = None,
        status: str | None = None,
        search: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> wire.Page[wire.JobView]:
        """One page of jobs, newest first. A search is for the start of an id, or for an idempotency key."""
        params = _given(workflow_id=workflow_id, status=status, search=search, limit=limit, cursor=cursor)
        return _read(await self._send("GET", "/jobs", _ANY, params=params), wire.Page[wire.JobView])

    def jobs(self, *, workflow_id: str | None = None, status: str | None = None) -> AsyncIterator[wire.JobView]:
        """Every job, newest first."""
        return self._pages(wire.Page[wire.JobView], "/jobs", _given(workflow_id=workflow_id, status=status), _ANY)

    async def job(self, job_id: str, *, nodes: bool = False, wait_seconds: float | None = None) -> wire.JobView:
        """A job; with `wait_seconds` the answer comes once it has ended, or after that long. JobNotFound.

        A job of very many nodes is not shown with them: `nodes` reads them page by page.
        """
        wait = None if wait_seconds is None else f"{wait_seconds:g}s"
        params = _given(wait=wait, nodes="true" if nodes else None)
        seconds_max = self._answer_seconds_max + (wait_seconds or 0.0)
        return _read(await self._send("GET", _job(job_id), _JOB, params=params, seconds_max=seconds_max), wire.JobView)

    async def wait(self, job_id: str) -> wire.JobView:
        """The job with its nodes, once it has ended; a server that goes away for a while is waited for. JobNotFound."""
        patience = Patience(self._away_seconds_max)
        while True:
            try:
                job = await self.job(job_id, wait_seconds=POLL_SECONDS_MAX)
                if job.status in ENDED:
                    return msgspec.structs.replace(job, nodes=await self.nodes(job_id))
                patience.renew()
            except (ServerUnreachable, StoreUnavailable) as error:
                await patience.pause(error)

    async def nodes(self, job_id: str) -> list[wire.NodeView]:
        """Every node of a job; JobNotFound."""
        return [node async for node in self._pages(wire.Page[wire.NodeView], f"{_job(job_id)}/nodes", {}, _JOB)]

    async def node(self, job_id: str, node_id: str) -> wire.NodeView:
        """One node of a job; NotFound."""
        return _read(await self._send("GET", _node(job_id, node_id), _ANY), wire.NodeView)

    def iterations(self, job_id: str, node_id: str, *, status: str | None = None) -> AsyncIterator[wire.IterationView]:
        """The iterations of a node's loop by index, those not begun too; or those in one state. NotFound."""
        return self._pages(
            wire.Page[wire.IterationView], f"{_node(job_id, node_id)}/iterations", _given(status=status), _ANY
        )

    async def output(self, job_id: str, node_id: str, *, index: int | None = None) -> bytes:
        """The whole output of a node, or of one iteration of it, as JSON; NotFound when there is none."""
        seconds_max = OUTPUT_SECONDS_MAX
        path, params = f"{_node(job_id, node_id)}/output", _given(index=index)
        return (await self._send("GET", path, _ANY, params=params, seconds_max=seconds_max)).content

    async def params(self, job_id: str, node_id: str, *, index: int | None = None) -> wire.ParamsView:
        """What a node, or one iteration of it, gets; NotFound."""
        path = f"{_node(job_id, node_id)}/params"
        return await self._ask("GET", path, wire.ParamsView, _ANY, params=_given(index=index))

    async def cancel(self, job_id: str, reason: str | None = None) -> wire.JobView:
        """Stop a job; one that has ended stays as it is. JobNotFound."""
        return _read(
            await self._send("POST", f"{_job(job_id)}/cancel", _JOB, body=wire.CancelRequest(reason)), wire.JobView
        )

    async def retry(self, job_id: str, *, from_node: str | None = None) -> wire.JobView:
        """Run again what failed or was cancelled, or a node and all after it; RequestRefused, NotFound."""
        refusals = _JOB if from_node is None else _ANY
        return _read(
            await self._send("POST", f"{_job(job_id)}/retry", refusals, params=_given(**{"from": from_node})),
            wire.JobView,
        )

    async def rerun(self, job_id: str) -> wire.SubmittedView:
        """Start a new job of the same version with the same input; JobNotFound."""
        return _read(await self._send("POST", f"{_job(job_id)}/rerun", _JOB), wire.SubmittedView)

    # What happened

    def events(self, job_id: str, *, after: int = 0, context: bool = True) -> AsyncIterator[wire.EventView]:
        """The events of a job that are stored now, in order, after a sequence number; JobNotFound.

        Their context may be left out: it is the larger part of them.
        """
        params = _given(after=after or None, context=None if context else "false")
        return self._pages(wire.Page[wire.EventView], f"{_job(job_id)}/events", params, _JOB, cursor="after")

    def watch(self, job_id: str, *, after: int = 0, context: bool = True) -> AsyncIterator[wire.EventView]:
        """Every event of a job, stored ones and then live, each once; ends with the job.

        When the server goes away, the stream goes on where it was once it is back. JobNotFound, ServerUnreachable.
        """
        params = _given(context=None if context else "false")
        return self._follow(wire.EventView, job_id, f"{_job(job_id)}/events/stream", params, after)

    def logs(
        self,
        job_id: str,
        *,
        node: str | None = None,
        attempt: int | None = None,
        index: int | None = None,
        after: int = 0,
    ) -> AsyncIterator[wire.LogView]:
        """The lines of a job's log that are stored now, in order; JobNotFound."""
        params = _given(node=node, attempt=attempt, index=index, after=after or None)
        return self._pages(wire.Page[wire.LogView], f"{_job(job_id)}/logs", params, _JOB, cursor="after")

    def follow_logs(
        self,
        job_id: str,
        *,
        node: str | None = None,
        attempt: int | None = None,
        index: int | None = None,
        after: int = 0,
    ) -> AsyncIterator[wire.LogView]:
        """Every line of a job's log, stored ones and then live, each once; ends with the job. As `watch`."""
        params = _given(node=node, attempt=attempt, index=index)
        return self._follow(wire.LogView, job_id, f"{_job(job_id)}/logs/stream", params, after)

    # The server

    async def workers(self) -> list[wire.WorkerView]:
        """The workers that the server sees."""
        return [worker async for worker in self._pages(wire.Page[wire.WorkerView], "/workers", {}, _ANY)]

    async def queues(self) -> list[wire.QueueView]:
        """The queues that have tasks waiting or running."""
        return (await self._ask("GET", "/queues", wire.QueuesView, _ANY)).items

    async def activity(self, *, minutes: int | None = None) -> wire.ActivityView:
        """What came and what ended in the last minutes, step by step."""
        return await self._ask("GET", "/activity", wire.ActivityView, _ANY, params=_given(minutes=minutes))

    async def health(self) -> wire.HealthView:
        """Whether the server lives and can work, also when it says that it cannot."""
        answer = await self._exchange("GET", "/health")
        if answer.is_success or answer.headers.get("content-type", "").startswith(JSON):
            return _read(answer, wire.HealthView)
        raise refusal_of(answer, _ANY)

    # How it is asked

    async def _ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        refusals: Refusals,
        *,
        params: Mapping[str, str] | None = None,
        body: Struct | None = None,
    ) -> T:
        return _read(await self._send(method, path, refusals, params=params, body=body), kind)

    async def _send(
        self,
        method: str,
        path: str,
        refusals: Refusals,
        *,
        params: Mapping[str, str] | None = None,
        body: Struct | None = None,
        content: str | bytes | None = None,
        media_type: str = JSON,
        seconds_max: float | None = None,
    ) -> httpx2.Response:
        """Ask and take a success back; a refusal raises."""
        if body is not None:
            content = msgspec.json.encode(body)
        answer = await self._exchange(method, API + path, params, content, media_type, seconds_max)
        if not answer.is_success:
            raise refusal_of(answer, refusals)
        return answer

    async def _exchange(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        content: str | bytes | None = None,
        media_type: str = JSON,
        seconds_max: float | None = None,
    ) -> httpx2.Response:
        headers = {} if content is None else {"content-type": media_type}
        timeout = _timeout(seconds_max or self._answer_seconds_max)
        try:
            return await self._http.request(
                method, path, params=dict(params or {}), content=content, headers=headers, timeout=timeout
            )
        except httpx2.TransportError as error:
            raise self._lost(error) from error

    def _lost(self, error: httpx2.TransportError) -> ServerUnreachable:
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
            return ServerUnreachable(
                f"no server answers at {self.url}: start one with `windlass dev`, or name another with --server or "
                "WINDLASS_SERVER"
            )
        reason = str(error) or type(error).__name__
        return AnswerLost(
            f"the connection to {self.url} ended before the answer came ({reason}): what was asked may have taken "
            "effect; look, or ask again with the same idempotency key"
        )

    async def _pages(
        self, kind: type[wire.Page[T]], path: str, params: Mapping[str, str], refusals: Refusals, cursor: str = "cursor"
    ) -> AsyncIterator[T]:
        asked = dict(params)
        while True:
            page = _read(await self._send("GET", path, refusals, params=asked), kind)
            for item in page.items:
                yield item
            if page.next_cursor is None or not page.items:
                return
            asked[cursor] = page.next_cursor

    async def _follow(
        self, kind: type[Streamed], job_id: str, path: str, params: Mapping[str, str], after: int
    ) -> AsyncIterator[Streamed]:
        """Read a stream to its end, over as many connections as it takes."""
        patience = Patience(self._away_seconds_max)
        begun = False
        last: Streamed | None = None
        while True:
            try:
                async with self._streaming(path, params, after) as messages:
                    begun = True
                    async for number, data in messages:
                        patience.renew()
                        if number > after:
                            after, last = number, msgspec.json.decode(data, type=kind)
                            yield last
                if isinstance(last, wire.EventView) and last.event_type in ENDS:
                    return
                # A server that stops also ends its streams. What is left of a job that has ended is read without one.
                if (await self.job(job_id)).status in ENDED:
                    begin = {**params, "after": str(after)} if after else params
                    rest = self._pages(wire.Page[kind], path.removesuffix("/stream"), begin, _JOB, cursor="after")
                    async for item in rest:
                        after = item.seq if isinstance(item, wire.EventView) else item.log_id
                        yield item
                    return
                await patience.pause(AnswerLost(f"the stream from {self.url} ended before the job did"))
            except (ServerUnreachable, StoreUnavailable) as error:
                if not begun:
                    raise
                await patience.pause(error)

    @asynccontextmanager
    async def _streaming(
        self, path: str, params: Mapping[str, str], after: int
    ) -> AsyncGenerator[AsyncIterator[tuple[int, bytes]]]:
        headers = {"accept": "text/event-stream"} | ({"last-event-id": str(after)} if after else {})
        timeout = _timeout(STREAM_SILENT_SECONDS_MAX)
        try:
            async with self._http.stream(
                "GET", API + path, params=dict(params), headers=headers, timeout=timeout
            ) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise refusal_of(answer, _JOB)
                yield messages(answer.aiter_bytes())
        except httpx2.TransportError as error:
            raise self._lost(error) from error


def _read(answer: httpx2.Response, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except msgspec.MsgspecError as error:
        raise ApiError(
            f"{answer.url} gave an answer that cannot be read ({error}): is it a Windlass server of this version?",
            status=answer.status_code,
        ) from error


def _timeout(seconds: float) -> httpx2.Timeout:
    return httpx2.Timeout(seconds, connect=CONNECT_SECONDS_MAX)


def _media_type(format: Literal["yaml", "json"] | None) -> str:
    return JSON if format == "json" else YAML


def _given(**params: object) -> dict[str, str]:
    return {name: str(value) for name, value in params.items() if value is not None}


def _part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def _job(job_id: str) -> str:
    return f"/jobs/{_part(job_id)}"


def _node(job_id: str, node_id: str) -> str:
    return f"{_job(job_id)}/nodes/{_part(node_id)}"
