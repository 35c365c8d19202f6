"""Creates the Job of an attempt, or adopts the one that an earlier worker of the attempt created."""

import asyncio

from windlass.handlers.container.api import KubernetesApi
from windlass.handlers.container.errors import (
    JobNameTaken,
    KubernetesRefused,
    KubernetesUnavailable,
    PodLost,
)
from windlass.handlers.container.identity import TASK_ANNOTATION
from windlass.handlers.container.manifest import JobManifest
from windlass.handlers.container.patience import DENIED_SECONDS_MAX, OnOutage, patiently
from windlass.handlers.container.pods import KubernetesJob


class JobCreation:
    """The creation of one Job. Its caller bounds how long it may take."""

    def __init__(self, api: KubernetesApi, manifest: JobManifest, on_outage: OnOutage) -> None:
        # Whether this worker created the Job; otherwise it adopted it.
        self.is_new = False
        self._api = api
        self._manifest = manifest
        self._on_outage = on_outage
        self._request: asyncio.Task[KubernetesJob | None] | None = None
        # A request was lost: the Job may exist although no response said so.
        self._may_exist = False

    async def create_or_adopt(self) -> KubernetesJob:
        """Return the Job of the attempt; raise PodLost or JobNameTaken if it has none and cannot get one."""
        created = await patiently(self._create, self._on_outage, DENIED_SECONDS_MAX)
        if created is not None:
            self.is_new = True
            return created
        name = self._manifest.name
        found = await patiently(lambda: self._api.job(name), self._on_outage, DENIED_SECONDS_MAX)
        if found is None or found.metadata.deletion_timestamp is not None:
            raise PodLost(f"Job {name} of this attempt is being deleted")
        if not self.is_ours(found):
            owner = (found.metadata.annotations or {}).get(TASK_ANNOTATION, "an unknown owner")
            raise JobNameTaken(
                f"Job {name} exists already and belongs to {owner}; delete or rename it"
            )
        return found

    async def may_have_created(self) -> bool:
        """Wait for a request under way, and return whether the Job may exist."""
        if self._request is not None:
            await asyncio.wait([self._request])
            self._note_outcome(self._request)
        return self._may_exist

    def is_ours(self, job: KubernetesJob) -> bool:
        """Whether a Job belongs to this attempt."""
        return (job.metadata.annotations or {}).get(TASK_ANNOTATION) == self._manifest.task

    async def _create(self) -> KubernetesJob | None:
        # The request completes even on a cancel, so that a Job that it created can be removed.
        self._request = request = self._api.connection.run_in_background(
            self._api.create(self._manifest.body)
        )
        try:
            return await asyncio.shield(request)
        finally:
            if request.done():
                self._note_outcome(request)

    def _note_outcome(self, request: "asyncio.Task[KubernetesJob | None]") -> None:
        error = None if request.cancelled() else request.exception()
        if isinstance(error, KubernetesRefused):
            return
        if error is None or isinstance(error, KubernetesUnavailable):
            self._may_exist = True
