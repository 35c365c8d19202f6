"""Checks of a running engine at idle moments: no task, wait or deadline may be lost."""

from collections.abc import Iterable, Iterator

from simulation.history import Violation
from windlass.brokers.memory import MemoryBroker
from windlass.core.job import Job
from windlass.core.loop_state import Attempt

# How late the end of a wait may be handled: a failed call is made again.
LATE_MICROSECONDS = 6_000_000


def lost_tasks(jobs: Iterable[Job], broker: MemoryBroker) -> list[Violation]:
    """Return the tasks in flight that the broker does not have, after all messages were received."""
    job_ids = {job.task_id(attempt): job.id for job in jobs for attempt in job.attempts_in_flight()}
    call = broker.missing(list(job_ids))
    try:
        call.send(None)
    except StopIteration as answer:
        # The call never waits, so its first step is its last.
        missing: list[str] = answer.value
    else:
        raise AssertionError("MemoryBroker.missing must not wait")
    return [
        Violation("I15", job_ids[task_id], f"{task_id} is in flight, but the broker lost it")
        for task_id in missing
    ]


def lost_waits(jobs: Iterable[Job], now: int) -> list[Violation]:
    """Return the attempts that still wait although their time has come."""
    found: list[Violation] = []
    for job in jobs:
        late = [job.task_id(attempt) for attempt in _waiting(job) if _is_late(attempt.due_at, now)]
        found += [
            Violation("I15", job.id, f"{task_id} still waits after the end of its wait")
            for task_id in late
        ]
    return found


def _waiting(job: Job) -> Iterator[Attempt]:
    yield from job.attempts.values()
    for loop in job.loops.values():
        for index, attempt in loop.attempts.items():
            # The wait of queued iterations is over; they wait for a free slot.
            if index not in loop.queued:
                yield attempt


def lost_deadlines(jobs: Iterable[Job], now: int) -> list[Violation]:
    """Return the jobs and loops that still run although their timeout is over."""
    found: list[Violation] = []
    for job in jobs:
        if _is_late(job.state.deadline_at, now) and not job.is_final:
            found.append(Violation("I15", job.id, "still runs after its timeout"))
        for node, loop in job.loops.items():
            if _is_late(loop.deadline_at, now):
                found.append(
                    Violation(
                        "I15", job.id, f"the loop of node {node} still runs after its timeout"
                    )
                )
    return found


def _is_late(due_at: int | None, now: int) -> bool:
    return due_at is not None and due_at < now - LATE_MICROSECONDS
