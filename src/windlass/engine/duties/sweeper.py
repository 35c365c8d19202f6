"""Finds rows whose notification was lost, and tasks that the broker lost. In normal operation there are none."""

import asyncio
import math

from windlass.core.instants import MICROSECONDS
from windlass.core.messages import JobMessage, Message, Submitted
from windlass.engine.duties.contents_watch import ContentsWatch
from windlass.engine.recovery import Place, missing, request_message
from windlass.engine.shard import Shard
from windlass.ports.broker import Broker
from windlass.ports.clock import Clock
from windlass.ports.store import Store

SWEEP_MAX = 1_000
# A notification that is younger than this may still arrive.
HINT_SECONDS = 2.0
# How often tasks are compared with changed contents: lost are those that are unknown twice in a row.
COMPARISONS = 2
# Jobs checked before other tasks of the event loop run.
YIELD_JOBS = 100


class Sweeper:
    """Sweeps one shard."""

    def __init__(
        self,
        shard: Shard,
        store: Store,
        broker: Broker,
        clock: Clock,
        contents: ContentsWatch,
        in_flight_check_seconds: float,
    ) -> None:
        self._contents = contents
        # The contents of the broker that this shard's tasks were last compared with.
        self._incarnation = contents.incarnation
        # Comparisons left after the contents have changed.
        self._comparisons = 0
        self._in_flight_check = round(in_flight_check_seconds * MICROSECONDS)
        self._shard = shard
        self._store = store
        self._broker = broker
        self._clock = clock
        self._suspects: set[str] = set()
        self._asked_at = clock.now()

    async def sweep(self) -> None:
        """Check once for everything that may have been missed."""
        if not self._shard.ready.is_set():
            return
        await self._shard.check_lease()
        await self._find_rows()
        incarnation = self._contents.incarnation
        if self._incarnation is None:
            # The broker did not answer when the shard was taken.
            self._incarnation = incarnation
        # If it fails or the shard reloads meanwhile, the next sweep tries again.
        elif incarnation != self._incarnation and await self._remove_outdated_tasks():
            self._incarnation = incarnation
            self._comparisons = COMPARISONS
        now = self._clock.now()
        if self._comparisons:
            await self._find_lost_tasks(math.inf, overdue_after=0)
            self._comparisons -= 1
        elif now - self._asked_at >= self._in_flight_check:
            self._asked_at = now
            before = now - self._in_flight_check
            await self._find_lost_tasks(before, overdue_after=self._in_flight_check)

    async def _find_rows(self) -> None:
        shard = self._shard
        requests = await self._store.jobs.requests(shard.number, SWEEP_MAX)
        messages: list[JobMessage] = [request_message(request) for request in requests]
        messages += [
            result.message for result in await self._store.jobs.results(shard.number, SWEEP_MAX)
        ]
        if shard.table.admitted is None:
            before = self._clock.now() - round(HINT_SECONDS * MICROSECONDS)
            pending = await self._store.jobs.pending(shard.number, before, SWEEP_MAX)
            quarantined = shard.table.quarantined
            lost = [one for one in pending if one not in shard.jobs and one not in quarantined]
            messages += map(Submitted, lost)
        else:
            messages = [message for message in messages if message.job_id in shard.table.admitted]
        if messages:
            await self._broker.send(shard.number, messages)

    async def _remove_outdated_tasks(self) -> bool:
        """Remove the tasks that the broker has and the shard does not: older contents may contain ended attempts.

        Returns whether this was done: a shard that is reloading does not know its tasks.
        """
        shard = self._shard
        # The contents may also be without the epochs of owners.
        await self._broker.register_owner(shard.number, shard.lease.epoch)
        known = await self._broker.tasks_of(shard.number)
        if not shard.ready.is_set():
            return False
        in_flight = {
            job.task_id(attempt)
            for job in list(shard.jobs.values())
            for attempt in job.attempts_in_flight()
        }
        outdated = [task_id for task_id in known if task_id not in in_flight]
        if outdated:
            await shard.lease.assert_valid()
            await self._broker.cancel(outdated)
        return True

    async def _find_lost_tasks(self, dispatched_before: float, *, overdue_after: int) -> None:
        """Publish again what the broker does not know twice in a row: the first time its result may be under way.

        The message of a timer that is overdue for so long was lost, and is sent again.
        """
        clock = self._clock
        overdue_before, overdue_before_wall = (
            at - overdue_after for at in (clock.now(), clock.wall())
        )
        places: dict[str, Place] = {}
        overdue: list[Message] = []
        ahead = self._shard.ahead()
        for count, job in enumerate(list(self._shard.jobs.values()), 1):
            if count % YIELD_JOBS == 0:
                await asyncio.sleep(0)
                ahead = self._shard.ahead()
            # Changes in memory may never be stored, so neither the tasks nor the timers of such a job may be sent.
            if job.id in ahead:
                continue
            for attempt in job.attempts_in_flight():
                if (attempt.dispatched_at or 0) < dispatched_before:
                    places[job.task_id(attempt)] = (
                        job.id,
                        attempt.node,
                        attempt.index,
                        attempt.number,
                    )
            overdue += [
                timer.message()
                for timer in self._shard.recovery.timers([job])
                if timer.due_at < overdue_before
            ]
        runs_ahead = self._shard.runs_ahead()
        due = [
            timer
            for timer in self._shard.runs.timers()
            if timer.due_at < (overdue_before_wall if timer.follows_wall_clock else overdue_before)
        ]
        overdue += [timer.message() for timer in due if timer.run_id not in runs_ahead]
        if overdue:
            await self._broker.send(self._shard.number, overdue)
        unknown = await missing(self._broker, list(places))
        lost = [places[task_id] for task_id in unknown if task_id in self._suspects]
        self._suspects = set(unknown)
        for start in range(0, len(lost), SWEEP_MAX):
            tasks = await self._shard.recovery.tasks(
                self._shard.jobs, lost[start : start + SWEEP_MAX]
            )
            await self._shard.publish(tasks)
