"""Jobs of a shard that nothing has happened to since they were stored: they begin without a look at their rows."""

import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from windlass.core.jobs import JobSpec
from windlass.core.messages import JobMessage, Submitted

# A hint says how its job was stored if the input is no longer than this: it is copied several times on its way.
HINT_INPUT_BYTES_MAX = 1_000
# Jobs that are remembered to have ended here, at least; at most twice as many.
ENDED_MAX = 1_000


def hint(spec: JobSpec) -> Submitted:
    """Notify another process of a job that was just stored, with its spec unless it is large."""
    # Whether a run starts does not depend on its own row alone.
    if spec.shard_key is not None or len(spec.input) > HINT_INPUT_BYTES_MAX:
        return Submitted(spec.job_id)
    return Submitted(spec.job_id, spec)


class NewJobCache:
    """The rows of such jobs, until the shard begins with them."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobSpec] = {}
        self._expected: set[str] = set()
        # Hints about jobs that were made after this are believed: nobody but this owner can have begun with them. Where
        # that is wrong, because one came again much later or from a clock that is ahead, the commit is refused.
        self._believed_after = math.inf
        # Two halves, of which the older is dropped when the newer is full.
        self._ended: set[str] = set()
        self._ended_before: set[str] = set()

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._jobs

    def add(self, job: JobSpec) -> None:
        """Know the row of a job that nobody else can have touched."""
        self._jobs[job.job_id] = job

    def pop(self, job_id: str) -> JobSpec | None:
        """The row of a job, for whoever begins with it."""
        return self._jobs.pop(job_id, None)

    def clear(self) -> None:
        """An owner begins, or begins again: nothing is believed until it has read what was there before it."""
        self._jobs.clear()
        self._expected.clear()
        self._believed_after = math.inf

    def believe_after(self, began_at: int) -> None:
        """The owner has read what was there before it. A hint that a clock ahead of time lets pass comes only later."""
        self._believed_after = began_at

    @contextmanager
    def expecting(self, jobs: Sequence[JobSpec]) -> Generator[None]:
        """Inside the block this process stores jobs, which it may then admit."""
        job_ids = [job.job_id for job in jobs]
        self._expected.update(job_ids)
        try:
            yield
        finally:
            self._expected.difference_update(job_ids)

    def admit(self, job: JobSpec) -> None:
        """Know the row of a job that this process stored itself."""
        # One that was already found in the rows, because the store answered late, may have moved on since.
        if job.job_id in self._expected:
            self._jobs[job.job_id] = job

    def looked_up(self, job_ids: Iterable[str]) -> None:
        """Their rows are being read. From here on they change by this shard: nobody may admit them as they were."""
        self._expected.difference_update(job_ids)

    def ended(self, job_id: str) -> None:
        """The job is dropped from memory: a hint that comes late must not begin it again."""
        self._jobs.pop(job_id, None)
        self._ended.add(job_id)
        if len(self._ended) >= ENDED_MAX:
            self._ended, self._ended_before = set(), self._ended

    def hear(self, message: JobMessage, shard: int) -> bool:
        """Whether the message says how its job was stored, and is believed."""
        if type(message) is not Submitted or message.spec is None:
            return False
        if message.spec.created_at <= self._believed_after:
            return False
        if message.job_id in self._ended or message.job_id in self._ended_before:
            return False
        self._jobs[message.job_id] = message.spec
        return True
