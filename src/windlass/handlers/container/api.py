"""The requests that one container makes of a cluster, counted: its Job, its pods, their changes, their log."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct, field

from windlass.handlers.container.connection import ApiResponse, ClusterConnection, error_message, refusal
from windlass.handlers.container.errors import KubernetesUnavailable
from windlass.handlers.container.identity import INSTANCE_LABEL, MANAGED_BY, NAME_LABEL, PREFIX, followed_now
from windlass.handlers.container.pods import KubernetesJob, ObjectMetadata, Pod

# A Job has one pod; a few more are worth seeing, to say that something is wrong.
PODS_MAX = 10
# Jobs of one page.
JOBS_MAX = 500
# A watch that should have ended by itself so long ago is a dead line.
WATCH_GRACE_SECONDS = 15.0
LINE_BYTES_MAX = 4 * 1024 * 1024


class PodList(Struct, frozen=True):
    """Some pods, at one moment."""

    metadata: ObjectMetadata
    items: list[Pod]


class ListMetadata(Struct, frozen=True):
    """Where the next page begins; empty on the last."""

    begin: str = field(name="continue", default="")


class KubernetesJobList(Struct, frozen=True):
    """Some Jobs, and where the next page of them begins."""

    metadata: ListMetadata
    items: list[KubernetesJob]


class WatchEvent(Struct, frozen=True):
    """One line of a watch."""

    type: str
    object: Raw


class KubernetesApi:
    """What one attempt asks of the cluster."""

    def __init__(self, link: ClusterConnection) -> None:
        self.calls = 0
        self.link = link
        self._jobs = f"/apis/batch/v1/namespaces/{quote(link.namespace)}/jobs"
        self._pods = f"/api/v1/namespaces/{quote(link.namespace)}/pods"

    async def create(self, manifest: Mapping[str, Any]) -> KubernetesJob | None:
        """Create a Job; None when one of this name is there already."""
        answer = await self.link.exchange("POST", self._jobs, count=self._count, body=manifest)
        return None if answer.status == 409 else self._read("the Job", answer, KubernetesJob)

    async def job(self, name: str) -> KubernetesJob | None:
        """The Job of this name."""
        answer = await self.link.exchange("GET", f"{self._jobs}/{name}", count=self._count)
        return None if answer.status == 404 else self._read(f"Job {name}", answer, KubernetesJob)

    async def follow(self, name: str) -> KubernetesJob | None:
        """The Job of this name, which is told at the same time that somebody follows it."""
        answer = await self.link.exchange(
            "PATCH",
            f"{self._jobs}/{name}",
            count=self._count,
            body={"metadata": {"annotations": followed_now()}},
            content_type="application/merge-patch+json",
        )
        return None if answer.status == 404 else self._read(f"Job {name}", answer, KubernetesJob)

    async def jobs(self, instance: str, begin: str) -> KubernetesJobList:
        """A page of all Jobs of an installation."""
        selector = f"{MANAGED_BY}={PREFIX},{INSTANCE_LABEL}={instance}"
        query = {"labelSelector": selector, "limit": JOBS_MAX, **({"continue": begin} if begin else {})}
        answer = await self.link.exchange("GET", self._jobs, count=self._count, query=query)
        return self._read("the list of Jobs", answer, KubernetesJobList)

    async def delete(self, name: str, uid: str, version: str | None = None) -> bool:
        """Delete a Job and then, before its name is free, its pods; false when it is gone, or no longer as it was."""
        preconditions = {"uid": uid, **({"resourceVersion": version} if version else {})}
        options = {"propagationPolicy": "Foreground", "preconditions": preconditions}
        answer = await self.link.exchange("DELETE", f"{self._jobs}/{name}", count=self._count, body=options)
        if answer.status in (404, 409):
            return False
        if not answer.is_good:
            raise refusal(f"the deletion of Job {name}", answer)
        return True

    async def pods(self, name: str) -> PodList:
        """The pods of a Job."""
        query = {"labelSelector": f"{NAME_LABEL}={name}", "limit": PODS_MAX}
        answer = await self.link.exchange("GET", self._pods, count=self._count, query=query)
        return self._read(f"the pods of Job {name}", answer, PodList)

    async def watch(self, name: str, version: str, seconds: int) -> AsyncGenerator[tuple[str, Pod]]:
        """Changes of the pods of a Job since a version, until the server closes or says that it is too old."""
        query = {
            "labelSelector": f"{NAME_LABEL}={name}",
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": seconds,
        }
        wait = seconds + WATCH_GRACE_SECONDS
        async with self.link.stream(self._pods, count=self._count, query=query, read_seconds=wait) as response:
            async for line in _lines(response.aiter_bytes()):
                event = _decode(line, WatchEvent)
                if event.type == "ERROR":
                    # Mostly 410: what came after this version is forgotten. A new list tells what is.
                    raise KubernetesUnavailable(
                        f"the watch ended: {error_message(ApiResponse(410, bytes(event.object)))}"
                    )
                if event.type != "BOOKMARK":
                    yield event.type, _decode(event.object, Pod)

    @asynccontextmanager
    async def log(self, pod: str, query: Mapping[str, str | int]) -> AsyncGenerator[AsyncIterator[bytes]]:
        """The log of a pod, in parts as they come."""
        path = f"{self._pods}/{quote(pod)}/log"
        async with self.link.stream(path, count=self._count, query=query, read_seconds=None) as response:
            yield response.aiter_bytes()

    def _count(self) -> None:
        self.calls += 1

    def _read(self, what: str, answer: ApiResponse, kind: type[Any]) -> Any:
        if not answer.is_good:
            raise refusal(what, answer)
        return _decode(answer.body, kind)


async def _lines(parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    pending = b""
    async for part in parts:
        *lines, pending = (pending + part).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
        if len(pending) > LINE_BYTES_MAX:
            raise KubernetesUnavailable(f"the watch sent a line of more than {LINE_BYTES_MAX} bytes")


def _decode(body: bytes | Raw, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise KubernetesUnavailable(f"the cluster sent what cannot be read: {error}") from None
