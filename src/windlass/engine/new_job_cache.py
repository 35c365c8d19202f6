"""Jobs that were just stored: their shard starts them without reading their rows."""

import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from windlass.core.jobs import JobSpec
from windlass.core.messages import JobMessage, Submitted

# A submit message carries its job if the input is no longer than this: it is copied several times on its way.
HINT_INPUT_BYTES_MAX = 1_000
# Finished jobs that are remembered: at least this many, at most twice as many.
FINISHED_MAX = 1_000


def hint(spec: JobSpec) -> Submitted:
    """Notify another process of a job that was just stored, with its spec unless it is large."""
    # Whether a run starts does not depend on its own row alone.
    if spec.shard_key is not None or len(spec.input) > HINT_INPUT_BYTES_MAX:
        return Submitted(spec.job_id)
    return Submitted(spec.job_id, spec)


class NewJobCache:
    """The specs of jobs that nothing has happened to since they were stored.

    A job enters it in one of three ways: this process stored it (`storing`, `add_stored`), the shard creates it with
    its current batch (`add`), or a trusted submit message carries it (`add_trusted`).
    """

    def __init__(self) -> None:
        self._specs: dict[str, JobSpec] = {}
        # Jobs that this process is storing, unless their rows were read in the meantime.
        self._storing: set[str] = set()
        # Submit messages of jobs created after this instant are trusted: only this owner can have started those jobs.
        # If that is wrong (a message repeated much later, or a clock that is ahead), the first commit is rejected.
        self._trusted_after = math.inf
        # Finished jobs in two halves; the older half is dropped when the newer one is full.
        self._finished: set[str] = set()
        self._finished_before: set[str] = set()

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._specs

    def add(self, spec: JobSpec) -> None:
        """Add a job that no other process can have touched."""
        self._specs[spec.job_id] = spec

    def pop(self, job_id: str) -> JobSpec | None:
        """Remove and return the spec of a job that starts now."""
        return self._specs.pop(job_id, None)

    def clear(self) -> None:
        """Forget all jobs, and trust no message until `trust_after`: the shard reloads."""
        self._specs.clear()
        self._storing.clear()
        self._trusted_after = math.inf

    def trust_after(self, instant: int) -> None:
        """Trust messages of jobs created after an instant, now that everything sent before has been received."""
        self._trusted_after = instant

    @contextmanager
    def storing(self, specs: Sequence[JobSpec]) -> Generator[None]:
        """Expect `add_stored` for jobs that this process stores inside the block."""
        job_ids = [spec.job_id for spec in specs]
        self._storing.update(job_ids)
        try:
            yield
        finally:
            self._storing.difference_update(job_ids)

    def add_stored(self, spec: JobSpec) -> None:
        """Add a job that this process has stored, unless its row was read first: it may have changed since."""
        if spec.job_id in self._storing:
            self._specs[spec.job_id] = spec

    def invalidate(self, job_ids: Iterable[str]) -> None:
        """Ignore `add_stored` for jobs whose rows are being read: from here on the shard changes them."""
        self._storing.difference_update(job_ids)

    def remember_finished(self, job_id: str) -> None:
        """Remember that a job finished here: a repeated submit message must not start it again."""
        self._specs.pop(job_id, None)
        self._finished.add(job_id)
        if len(self._finished) >= FINISHED_MAX:
            self._finished, self._finished_before = set(), self._finished

    def add_trusted(self, message: JobMessage) -> bool:
        """Add the job that a submit message carries; False if it carries none or is not trusted."""
        if type(message) is not Submitted or message.spec is None:
            return False
        if message.spec.created_at <= self._trusted_after:
            return False
        if message.job_id in self._finished or message.job_id in self._finished_before:
            return False
        self._specs[message.job_id] = message.spec
        return True
