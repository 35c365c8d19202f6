"""The requests of one container to a cluster, counted: its Job, its pods, their changes, their log."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct, field

from windlass.handlers.container.connection import (
    ApiResponse,
    ClusterConnection,
    error_message,
    refusal,
)
from windlass.handlers.container.errors import KubernetesUnavailable
from windlass.handlers.container.identity import (
    NAME_LABEL,
    followed_now,
)
from windlass.handlers.container.pods import (
    ClusterEvent,
    KubernetesJob,
    ObjectMetadata,
    Pod,
)

# A Job has one pod; more are listed only to report the error.
PODS_MAX = 10
JOBS_PER_PAGE = 500
# A watch that did not end this long after its own timeout has lost its connection.
WATCH_GRACE_SECONDS = 15.0
# The events of one object within the hour for which a cluster keeps them; equal ones are counted in one.
EVENTS_MAX = 100
LINE_BYTES_MAX = 4 * 1024 * 1024


class PodList(Struct, frozen=True):
    """The pods of a Job at one resource version."""

    metadata: ObjectMetadata
    items: list[Pod]


class ListMetadata(Struct, frozen=True):
    """The token of the next page; empty on the last."""

    page_token: str = field(name="continue", default="")


class KubernetesJobList(Struct, frozen=True):
    """A page of Jobs."""

    metadata: ListMetadata
    items: list[KubernetesJob]


class ClusterEventList(Struct, frozen=True):
    """Events of the cluster."""

    items: list[ClusterEvent]


class WatchEvent(Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: Raw


class KubernetesApi:
    """The requests that one attempt makes to the cluster."""

    def __init__(self, connection: ClusterConnection) -> None:
        self.calls = 0
        # Called with the seconds for which a request of this attempt waits for others of the worker.
        self.on_queued: Callable[[float], None] | None = None
        self.connection = connection
        namespace = quote(connection.namespace)
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._events = f"/api/v1/namespaces/{namespace}/events"

    async def create(self, manifest: Mapping[str, Any]) -> KubernetesJob | None:
        """Create a Job; return None if one with this name exists."""
        response = await self.connection.request(
            "POST", self._jobs, count=self._count, body=manifest
        )
        if response.status == 409:
            return None
        return self._decode_response("the Job", response, KubernetesJob)

    async def job(self, name: str) -> KubernetesJob | None:
        """Return the Job with this name."""
        response = await self.connection.request("GET", f"{self._jobs}/{name}", count=self._count)
        if response.status == 404:
            return None
        return self._decode_response(f"Job {name}", response, KubernetesJob)

    async def mark_followed(self, name: str) -> KubernetesJob | None:
        """Record that a worker follows the Job; return it, or None if it does not exist."""
        response = await self.connection.request(
            "PATCH",
            f"{self._jobs}/{name}",
            count=self._count,
            body={"metadata": {"annotations": followed_now()}},
            content_type="application/merge-patch+json",
        )
        if response.status == 404:
            return None
        return self._decode_response(f"Job {name}", response, KubernetesJob)

    async def jobs(self, labels: Mapping[str, str], page_token: str = "") -> KubernetesJobList:
        """Return a page of the Jobs with these labels."""
        query: dict[str, str | int] = {
            "labelSelector": ",".join(f"{name}={value}" for name, value in labels.items()),
            "limit": JOBS_PER_PAGE,
        }
        if page_token:
            query["continue"] = page_token
        response = await self.connection.request("GET", self._jobs, count=self._count, query=query)
        return self._decode_response("the list of Jobs", response, KubernetesJobList)

    async def delete(self, name: str, uid: str, version: str | None = None) -> bool:
        """Delete a Job after its pods; return false if it does not exist or has changed since `version`."""
        preconditions = {"uid": uid}
        if version:
            preconditions["resourceVersion"] = version
        options = {"propagationPolicy": "Foreground", "preconditions": preconditions}
        response = await self.connection.request(
            "DELETE", f"{self._jobs}/{name}", count=self._count, body=options
        )
        if response.status in (404, 409):
            return False
        if not response.is_success:
            raise refusal(f"the deletion of Job {name}", response)
        return True

    async def pods(self, name: str) -> PodList:
        """Return the pods of a Job."""
        query = {"labelSelector": f"{NAME_LABEL}={name}", "limit": PODS_MAX}
        response = await self.connection.request("GET", self._pods, count=self._count, query=query)
        return self._decode_response(f"the pods of Job {name}", response, PodList)

    async def last_warning(self, uid: str) -> ClusterEvent | None:
        """Return the last warning about an object."""
        query: dict[str, str | int] = {
            "fieldSelector": f"involvedObject.uid={uid},type=Warning",
            "limit": EVENTS_MAX,
        }
        response = await self.connection.request(
            "GET", self._events, count=self._count, query=query
        )
        events = self._decode_response("the list of events", response, ClusterEventList).items
        return max(events, key=lambda event: event.last_at, default=None)

    async def watch(self, name: str, version: str, seconds: int) -> AsyncGenerator[tuple[str, Pod]]:
        """Yield changes of the pods of a Job since a version, until the server closes the watch."""
        query = {
            "labelSelector": f"{NAME_LABEL}={name}",
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": seconds,
        }
        read_seconds = seconds + WATCH_GRACE_SECONDS
        opened = self.connection.stream(
            self._pods, count=self._count, query=query, read_seconds=read_seconds
        )
        async with opened as response:
            async for line in _lines(response.aiter_bytes()):
                event = _decode(line, WatchEvent)
                if event.type == "ERROR":
                    # Usually 410: the version is too old. The next list gets the current state.
                    reason = error_message(ApiResponse(410, bytes(event.object)))
                    raise KubernetesUnavailable(f"the watch ended: {reason}")
                if event.type != "BOOKMARK":
                    yield event.type, _decode(event.object, Pod)

    @asynccontextmanager
    async def log(
        self, pod: str, query: Mapping[str, str | int]
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Stream the log of a pod."""
        path = f"{self._pods}/{quote(pod)}/log"
        async with self.connection.stream(
            path, count=self._count, query=query, read_seconds=None
        ) as response:
            yield response.aiter_bytes()

    def _count(self, queued_seconds: float) -> None:
        self.calls += 1
        if self.on_queued is not None and queued_seconds > 0:
            self.on_queued(queued_seconds)

    def _decode_response(self, what: str, response: ApiResponse, kind: type[Any]) -> Any:
        if not response.is_success:
            raise refusal(what, response)
        return _decode(response.body, kind)


async def _lines(parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    pending = b""
    async for part in parts:
        *lines, pending = (pending + part).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
        if len(pending) > LINE_BYTES_MAX:
            raise KubernetesUnavailable(
                f"line of the watch too long: more than {LINE_BYTES_MAX} bytes"
            )


def _decode(body: bytes | Raw, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise KubernetesUnavailable(f"invalid response of the cluster: {error}") from None
