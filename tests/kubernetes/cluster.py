"""The Job controller, kubelet and garbage collector of a cluster, driven by tests through a simulated or real API."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2

from tests.kubernetes.objects import FOREGROUND, Object, now

PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.01
NODE = "node-1"
MERGE = {"content-type": "application/merge-patch+json"}


class Cluster:
    """The controllers of one namespace."""

    def __init__(self, http: httpx2.AsyncClient, namespace: str) -> None:
        self.namespace = namespace
        # All pods that were ever created, by the name of their Job.
        self.created: dict[str, list[str]] = {}
        self._http = http
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._events = f"/api/v1/namespaces/{namespace}/events"

    async def jobs(self) -> list[Object]:
        return (await self._request("GET", self._jobs))["items"]

    async def pods(self) -> list[Object]:
        return (await self._request("GET", self._pods))["items"]

    async def job(self) -> Object:
        """Wait until there is exactly one Job and return it."""
        return (await self._until(self.jobs, lambda jobs: len(jobs) == 1))[0]

    async def job_with(self, condition: Callable[[Object], bool]) -> Object:
        """Wait until the only Job satisfies a condition and return it."""
        return (await self._until(self.jobs, lambda jobs: len(jobs) == 1 and condition(jobs[0])))[0]

    async def deleting(self, name: str) -> None:
        """Wait until the deletion of a Job was requested."""
        await self._until(
            self.jobs,
            lambda jobs: any(
                job["metadata"]["name"] == name and job["metadata"].get("deletionTimestamp")
                for job in jobs
            ),
        )

    async def annotate(self, name: str, annotations: dict[str, str]) -> None:
        await self._request(
            "PATCH", f"{self._jobs}/{name}", {"metadata": {"annotations": annotations}}
        )

    async def jobs_of(self, count: int) -> list[Object]:
        """Wait for a number of Jobs and return them."""
        return await self._until(self.jobs, lambda jobs: len(jobs) == count)

    async def make_pod(self, job: Object | None = None) -> Object:
        """Create the pod of a Job on a node, as the Job controller and the scheduler do."""
        job = job or await self.job()
        meta, template = job["metadata"], job["spec"]["template"]
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": f"{meta['name']}-",
                "labels": template["metadata"]["labels"],
                "annotations": template["metadata"].get("annotations"),
                "ownerReferences": [owner],
            },
            "spec": {**template["spec"], "nodeName": NODE},
        }
        pod = await self._request("POST", self._pods, body)
        self.created.setdefault(meta["name"], []).append(pod["metadata"]["name"])
        return pod

    async def start(self, pod: Object) -> None:
        """Report that the container runs."""
        await self._report(pod, "Running", {"running": {"startedAt": now()}}, ready=True)

    async def started(self) -> Object:
        """Create a pod whose container runs."""
        pod = await self.make_pod()
        await self.start(pod)
        return pod

    async def warn(self, about: Object, reason: str, message: str) -> None:
        """Record a warning about an object, as the controllers of a cluster do."""
        meta = about["metadata"]
        involved = {"kind": about["kind"], "uid": meta["uid"], "name": meta["name"]}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{meta['name']}."},
            "involvedObject": {**involved, "namespace": self.namespace},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "firstTimestamp": now(),
            "lastTimestamp": now(),
        }
        await self._request("POST", self._events, body)

    async def hold(self, pod: Object, reason: str, message: str = "") -> None:
        """Report that the container waits, with a reason."""
        await self._report(pod, "Pending", {"waiting": {"reason": reason, "message": message}})

    async def end(
        self,
        pod: Object,
        code: int = 0,
        reason: str | None = None,
        message: str = "",
        job: Object | None = None,
    ) -> None:
        """Report that the container has ended, and update the Job."""
        reason = reason or ("Completed" if code == 0 else "Error")
        container_end = {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "startedAt": now(),
            "finishedAt": now(),
        }
        await self._report(
            pod, "Succeeded" if code == 0 else "Failed", {"terminated": container_end}
        )
        await self._end_job(
            "Complete" if code == 0 else "Failed",
            None if code == 0 else "BackoffLimitExceeded",
            job,
        )

    async def end_first(self, pod: Object, code: int) -> None:
        """Report that the first container has ended while the others run."""
        container_end = {
            "exitCode": code,
            "reason": "Completed",
            "startedAt": now(),
            "finishedAt": now(),
        }
        await self._report(pod, "Running", {"terminated": container_end})

    async def evict(self, pod: Object) -> None:
        """Evict the pod, as a kubelet under memory pressure does."""
        status = {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "The node was low on resource: memory.",
        }
        await self._patch(pod, {"status": status})
        await self._end_job("Failed", "BackoffLimitExceeded")

    async def lose(self, pod: Object) -> None:
        """Delete the pod without a grace period."""
        await self._request(
            "DELETE", f"{self._pods}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0}
        )

    async def fail_job(self, reason: str) -> None:
        """Mark the Job as failed, as its controller does."""
        await self._end_job("Failed", reason)

    async def collected(self) -> None:
        """Wait until all Jobs are being deleted, then delete their pods and remove their finalizers."""
        jobs = await self._until(
            self.jobs,
            lambda jobs: jobs and all(job["metadata"].get("deletionTimestamp") for job in jobs),
        )
        for pod in await self.pods():
            await self.lose(pod)
        for job in jobs:
            rest = [
                finalizer
                for finalizer in job["metadata"].get("finalizers") or []
                if finalizer != FOREGROUND
            ]
            await self._request(
                "PATCH",
                f"{self._jobs}/{job['metadata']['name']}",
                {"metadata": {"finalizers": rest}},
            )
        assert await self.jobs() == []

    async def expire(self) -> None:
        """Delete finished Jobs with a time to live, as if it had passed."""
        for job in await self.jobs():
            conditions = job["status"].get("conditions") or []
            if conditions and job["spec"].get("ttlSecondsAfterFinished") is not None:
                name = job["metadata"]["name"]
                await self._request(
                    "DELETE", f"{self._jobs}/{name}", {"propagationPolicy": "Background"}
                )
                for pod in await self.pods():
                    await self.lose(pod)

    async def put_job(self, body: Object) -> Object:
        return await self._request("POST", self._jobs, body)

    async def delete_job(self, name: str) -> None:
        await self._request("DELETE", f"{self._jobs}/{name}", {"propagationPolicy": "Background"})

    async def _end_job(self, kind: str, reason: str | None, job: Object | None = None) -> None:
        job = job or (await self.jobs())[0]
        condition = {
            "type": kind,
            "status": "True",
            "lastTransitionTime": now(),
            "lastProbeTime": now(),
        }
        if reason is not None:
            condition |= {"reason": reason, "message": f"{reason} (Job controller)"}
        status: Object = {"conditions": [condition], "startTime": now()}
        if kind == "Complete":
            status |= {"succeeded": 1, "completionTime": now()}
        await self._request(
            "PATCH", f"{self._jobs}/{job['metadata']['name']}/status", {"status": status}
        )

    async def _report(self, pod: Object, phase: str, state: Object, *, ready: bool = False) -> None:
        first = pod["spec"]["containers"][0]
        status = {
            "name": first["name"],
            "image": first["image"],
            "imageID": "",
            "restartCount": 0,
            "ready": ready,
        }
        others = [
            {**status, "name": one["name"], "state": {"running": {"startedAt": now()}}}
            for one in pod["spec"]["containers"][1:]
        ]
        statuses = [{**status, "state": state}, *others]
        await self._patch(
            pod, {"status": {"phase": phase, "containerStatuses": statuses, "startTime": now()}}
        )

    async def _patch(self, pod: Object, change: Object) -> None:
        await self._request("PATCH", f"{self._pods}/{pod['metadata']['name']}/status", change)

    async def _request(self, method: str, path: str, body: Object | None = None) -> Any:
        headers = MERGE if method == "PATCH" else {}
        response = await self._http.request(method, path, json=body, headers=headers)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()

    async def _until(self, read: Callable[[], Any], condition: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition(found := await read()):  # noqa: ASYNC110  the API server is another process
                await asyncio.sleep(POLL_SECONDS)
        return found
