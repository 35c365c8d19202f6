"""The rest of a cluster, through its API alone and only when a test says so: the Job controller, a kubelet, the garbage
collector. Works on the simulated API server and on a real one."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2

from tests.kubernetes.objects import FOREGROUND, Object, now

PATIENCE_SECONDS = 30.0
LOOK_SECONDS = 0.01
NODE = "node-1"
MERGE = {"content-type": "application/merge-patch+json"}


class Cluster:
    """Everything behind one namespace of an API server."""

    def __init__(self, http: httpx2.AsyncClient, namespace: str) -> None:
        self.namespace = namespace
        # Every pod that was ever made, by the name of its Job.
        self.made: dict[str, list[str]] = {}
        self._http = http
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"

    async def jobs(self) -> list[Object]:
        return (await self._ask("GET", self._jobs))["items"]

    async def pods(self) -> list[Object]:
        return (await self._ask("GET", self._pods))["items"]

    async def job(self) -> Object:
        """Wait for the one Job that there is."""
        return (await self._until(self.jobs, lambda jobs: len(jobs) == 1))[0]

    async def job_with(self, holds: Callable[[Object], bool]) -> Object:
        """Wait until something is true of the one Job."""
        return (await self._until(self.jobs, lambda jobs: len(jobs) == 1 and holds(jobs[0])))[0]

    async def deleting(self, name: str) -> None:
        """Wait until somebody has asked for the deletion of a Job."""
        await self._until(
            self.jobs,
            lambda jobs: any(
                job["metadata"]["name"] == name and job["metadata"].get("deletionTimestamp") for job in jobs
            ),
        )

    async def annotate(self, name: str, annotations: dict[str, str]) -> None:
        await self._ask("PATCH", f"{self._jobs}/{name}", {"metadata": {"annotations": annotations}})

    async def jobs_of(self, count: int) -> list[Object]:
        """Wait for so many Jobs."""
        return await self._until(self.jobs, lambda jobs: len(jobs) == count)

    async def make_pod(self, job: Object | None = None) -> Object:
        """Do the Job controller's work: the pod of the one Job, or of this, already on a node."""
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
        pod = await self._ask("POST", self._pods, body)
        self.made.setdefault(meta["name"], []).append(pod["metadata"]["name"])
        return pod

    async def start(self, pod: Object) -> None:
        """Have its container run."""
        await self._report(pod, "Running", {"running": {"startedAt": now()}}, ready=True)

    async def started(self) -> Object:
        """A pod that runs."""
        pod = await self.make_pod()
        await self.start(pod)
        return pod

    async def hold(self, pod: Object, reason: str, message: str = "") -> None:
        """Have its container wait, for a reason."""
        await self._report(pod, "Pending", {"waiting": {"reason": reason, "message": message}})

    async def end(
        self, pod: Object, code: int = 0, reason: str | None = None, message: str = "", job: Object | None = None
    ) -> None:
        """Have its container end, and tell its Job."""
        reason = reason or ("Completed" if code == 0 else "Error")
        container_end = {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "startedAt": now(),
            "finishedAt": now(),
        }
        await self._report(pod, "Succeeded" if code == 0 else "Failed", {"terminated": container_end})
        await self._tell_job("Complete" if code == 0 else "Failed", None if code == 0 else "BackoffLimitExceeded", job)

    async def end_first(self, pod: Object, code: int) -> None:
        """Have its first container end while the others go on."""
        container_end = {"exitCode": code, "reason": "Completed", "startedAt": now(), "finishedAt": now()}
        await self._report(pod, "Running", {"terminated": container_end})

    async def evict(self, pod: Object) -> None:
        """Take its place away, as a kubelet under pressure does."""
        status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
        await self._patch(pod, {"status": status})
        await self._tell_job("Failed", "BackoffLimitExceeded")

    async def lose(self, pod: Object) -> None:
        """Have the pod gone from one moment to the next."""
        await self._ask("DELETE", f"{self._pods}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})

    async def fail_job(self, reason: str) -> None:
        """Declare the Job failed, as its controller does."""
        await self._tell_job("Failed", reason)

    async def collected(self) -> None:
        """Wait for the deletion of the one Job, and do what follows: its pods end, then its name is free."""
        jobs = await self._until(self.jobs, lambda jobs: all(job["metadata"].get("deletionTimestamp") for job in jobs))
        for pod in await self.pods():
            await self.lose(pod)
        for job in jobs:
            rest = [one for one in job["metadata"].get("finalizers") or [] if one != FOREGROUND]
            await self._ask("PATCH", f"{self._jobs}/{job['metadata']['name']}", {"metadata": {"finalizers": rest}})
        assert await self.jobs() == []

    async def expire(self) -> None:
        """Remove finished Jobs that say after how long, as if that time had passed."""
        for job in await self.jobs():
            conditions = job["status"].get("conditions") or []
            if conditions and job["spec"].get("ttlSecondsAfterFinished") is not None:
                name = job["metadata"]["name"]
                await self._ask("DELETE", f"{self._jobs}/{name}", {"propagationPolicy": "Background"})
                for pod in await self.pods():
                    await self.lose(pod)

    async def put_job(self, body: Object) -> Object:
        return await self._ask("POST", self._jobs, body)

    async def delete_job(self, name: str) -> None:
        await self._ask("DELETE", f"{self._jobs}/{name}", {"propagationPolicy": "Background"})

    async def _tell_job(self, kind: str, reason: str | None, job: Object | None = None) -> None:
        job = job or (await self.jobs())[0]
        condition = {"type": kind, "status": "True", "lastTransitionTime": now(), "lastProbeTime": now()}
        if reason is not None:
            condition |= {"reason": reason, "message": f"{reason}, says the Job controller"}
        status: Object = {"conditions": [condition], "startTime": now()}
        if kind == "Complete":
            status |= {"succeeded": 1, "completionTime": now()}
        await self._ask("PATCH", f"{self._jobs}/{job['metadata']['name']}/status", {"status": status})

    async def _report(self, pod: Object, phase: str, state: Object, *, ready: bool = False) -> None:
        first = pod["spec"]["containers"][0]
        status = {"name": first["name"], "image": first["image"], "imageID": "", "restartCount": 0, "ready": ready}
        others = [
            {**status, "name": one["name"], "state": {"running": {"startedAt": now()}}}
            for one in pod["spec"]["containers"][1:]
        ]
        statuses = [{**status, "state": state}, *others]
        await self._patch(pod, {"status": {"phase": phase, "containerStatuses": statuses, "startTime": now()}})

    async def _patch(self, pod: Object, change: Object) -> None:
        await self._ask("PATCH", f"{self._pods}/{pod['metadata']['name']}/status", change)

    async def _ask(self, method: str, path: str, body: Object | None = None) -> Any:
        headers = MERGE if method == "PATCH" else {}
        response = await self._http.request(method, path, json=body, headers=headers)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()

    async def _until(self, look: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds(found := await look()):  # noqa: ASYNC110  the other side is another process
                await asyncio.sleep(LOOK_SECONDS)
        return found
