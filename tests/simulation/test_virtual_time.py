"""Virtual time: waits take no real time, instants are exact, and endless waits raise errors."""

import asyncio
import time
from random import Random

import pytest

from windlass.testing import virtual_time
from windlass.testing.virtual_time import START_AT, Deadlock, Livelock, VirtualClock


def test_long_wait_takes_no_real_time() -> None:
    began = time.monotonic()

    virtual_time.run(asyncio.sleep(100_000.0))

    assert time.monotonic() - began < 5.0


def test_clock_follows_the_loop() -> None:
    async def main() -> int:
        clock = VirtualClock()
        await clock.sleep(1.5)
        return clock.now()

    assert virtual_time.run(main()) == START_AT + 1_500_000


def test_timers_fire_in_order_at_their_times() -> None:
    async def main() -> list[tuple[str, int]]:
        clock = VirtualClock()
        fired: list[tuple[str, int]] = []

        async def wait(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            fired.append((name, clock.now() - START_AT))

        await asyncio.gather(wait("late", 3.0), wait("early", 0.1), wait("middle", 1.0))
        return fired

    assert virtual_time.run(main()) == [
        ("early", 100_000),
        ("middle", 1_000_000),
        ("late", 3_000_000),
    ]


def test_setting_the_clock_does_not_affect_waits() -> None:
    async def main() -> tuple[int, int, float]:
        clock = VirtualClock()
        clock.jump(-3600.0)
        await clock.sleep(1.0)
        return clock.now(), clock.wall(), asyncio.get_running_loop().time()

    assert virtual_time.run(main()) == (
        START_AT + 1_000_000,
        START_AT - 3_599_000_000,
        pytest.approx(1.0),
    )


def test_process_begins_with_the_wall_time_and_follows_no_later_jump() -> None:
    async def main() -> tuple[int, int]:
        machine = VirtualClock()
        machine.jump(60.0)
        clock = machine.of_new_process()
        machine.jump(-3600.0)
        return clock.now(), clock.wall()

    assert virtual_time.run(main()) == (START_AT + 60_000_000, START_AT - 3_540_000_000)


def test_endless_wait_raises_deadlock() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match="nothing is ready"):
        virtual_time.run(main())


def test_coroutine_that_never_waits_raises_livelock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "ROUNDS_MAX", 1_000)

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def spin() -> None:
            loop.call_soon(spin)

        spin()
        await loop.create_future()

    with pytest.raises(Livelock, match="without a wait"):
        virtual_time.run(main())


def test_order_of_ready_callbacks_follows_the_seed() -> None:
    def order(seed: int | None) -> list[int]:
        async def main() -> list[int]:
            seen: list[int] = []

            async def act(number: int) -> None:
                seen.append(number)

            await asyncio.gather(*(act(number) for number in range(10)))
            return seen

        return virtual_time.run(main(), random=None if seed is None else Random(seed))

    assert order(None) == list(range(10))
    assert order(1) == order(1) != order(2)


def test_timeouts_work_in_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), 60.0)
        return asyncio.get_running_loop().time()

    assert virtual_time.run(main()) == pytest.approx(60.0)
