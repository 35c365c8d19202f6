"""Timers: durations end by a clock that never steps, starts that a caller named by the wall clock."""

import asyncio

import pytest

from windlass.brokers.memory import MemoryBroker
from windlass.core.changes import Timer
from windlass.core.messages import TimerDue, TimerKind
from windlass.core.runs.changes import RunTimer
from windlass.core.runs.messages import RunDue, RunWait
from windlass.engine.timers import Timers
from windlass.testing import virtual_time
from windlass.testing.virtual_time import START_AT, VirtualClock

SECOND = 1_000_000
# By when a change of the wall clock is noticed.
NOTICED_SECONDS = 31.0


async def fired(timer: Timer | RunTimer, jump: float, seconds: float) -> bool:
    """Whether a timer fires within some seconds after the wall clock was set."""
    clock = VirtualClock()
    broker = MemoryBroker(clock)
    timers = Timers(0, broker, clock)
    timers.set([timer])
    running = asyncio.ensure_future(timers.run())
    await clock.sleep(1.0)
    clock.jump(jump)
    await clock.sleep(seconds - 1.0)
    running.cancel()
    messages = await broker.receive(0, 10, 0.0)
    assert all(isinstance(message, TimerDue | RunDue) for message in messages)
    return bool(messages)


def due_after(seconds: float, kind: TimerKind | RunWait) -> Timer | RunTimer:
    due_at = START_AT + round(seconds * SECOND)
    if isinstance(kind, RunWait):
        return RunTimer(due_at, "flow", "flow:1", kind)
    return Timer(due_at, "job", kind)


WALL = [TimerKind.BEGIN, RunWait.START]
DURATIONS = [
    kind for kind in (*TimerKind, *RunWait) if kind not in (TimerKind.BEGIN, RunWait.START)
]


@pytest.mark.parametrize("kind", DURATIONS)
@pytest.mark.parametrize("jump", [3_600.0, -3_600.0])
def test_duration_does_not_follow_the_wall_clock(kind: TimerKind | RunWait, jump: float) -> None:
    timer = due_after(60.0, kind)

    assert not virtual_time.run(fired(timer, jump, 59.0))
    assert virtual_time.run(fired(timer, jump, 61.0))


@pytest.mark.parametrize("kind", WALL)
def test_start_follows_the_wall_clock(kind: TimerKind | RunWait) -> None:
    timer = due_after(3_600.0, kind)

    assert virtual_time.run(fired(timer, 3_600.0, NOTICED_SECONDS))
    assert not virtual_time.run(fired(due_after(60.0, kind), -3_600.0, 90.0))
