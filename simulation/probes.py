"""Looks into a running engine at moments when nothing is left to do: nothing may be lost, nothing held back."""

from collections.abc import Iterable, Iterator

from simulation.history import Violation
from windlass.brokers.memory import MemoryBroker
from windlass.core.job import Job
from windlass.core.loop_state import Attempt

# How long after the end of a wait its job may still be waiting: a call that failed is made again.
LATE_MICROSECONDS = 6_000_000


def lost_tasks(jobs: Iterable[Job], broker: MemoryBroker) -> list[Violation]:
    """With nothing left to gather, whatever is in flight must be queued or held."""
    places = {job.task_id(flight): job for job in jobs for flight in job.out()}
    asking = broker.missing(list(places))
    try:
        asking.send(None)
    except StopIteration as answer:  # it never waits, so its first step is its last
        return [
            Violation("I15", places[task_id].id, f"{task_id} is in flight by the rows, and the broker has lost it")
            for task_id in answer.value
        ]
    raise AssertionError("the broker waits where it never did")


def lost_waits(jobs: Iterable[Job], now: int) -> list[Violation]:
    """A wait that is over was told of."""
    late = now - LATE_MICROSECONDS
    return [
        Violation("I15", job.id, f"{job.task_id(flight)} waits on, though its wait is over")
        for job in jobs
        for flight in _waiting(job)
        if flight.due_at is not None and flight.due_at < late
    ]


def _waiting(job: Job) -> Iterator[Attempt]:
    yield from job.flights.values()
    for loop in job.loops.values():
        # Those that are queued were told, and wait for room.
        yield from (flight for index, flight in loop.flights.items() if index not in loop.queued)


def lost_bounds(jobs: Iterable[Job], now: int) -> list[Violation]:
    """The end of the time that a job or a loop has was told of."""
    late = now - LATE_MICROSECONDS
    found = [
        Violation("I15", job.id, "goes on, though its timeout is over")
        for job in jobs
        if job.state.deadline_at is not None and job.state.deadline_at < late and not job.ended
    ]
    return found + [
        Violation("I15", job.id, f"the loop of node {node} goes on, though its timeout is over")
        for job in jobs
        for node, loop in job.loops.items()
        if loop.deadline_at is not None and loop.deadline_at < late
    ]
