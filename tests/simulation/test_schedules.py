"""Schedules and runs with engines that crash: every slot fires once, limits hold, waiting runs keep their order."""

import asyncio

import pytest

from simulation.run_scenarios import run_runs_seed
from simulation.schedules import MINUTE, RunSimulation, check_slots
from windlass.core.runs.cron import Schedule
from windlass.core.runs.rules import Action, ActionKind, CatchUp, Constraints, RunRules
from windlass.core.runs.states import RunState

EVERY_MINUTE = Schedule(cron="* * * * *", input_data={"name": "x", "seconds": 0.5})


@pytest.mark.parametrize(
    ("schedules", "crash_rate"), [pytest.param(1_000, 0.02, marks=pytest.mark.prove), (100, 0.1)]
)
def test_schedules_fire_once_per_slot_although_engines_crash(
    schedules: int, crash_rate: float
) -> None:
    simulation = RunSimulation(0, crash_rate=crash_rate)
    began = simulation.clock.now()
    wrong: list[str] = []

    async def main() -> None:
        for number in range(schedules):
            await simulation.deploy(f"flow{number}", RunRules(schedule=EVERY_MINUTE))
        await asyncio.sleep(4 * 60 + 30)
        await simulation.settled()
        for number in range(schedules):
            wrong.extend(
                check_slots(simulation, f"flow{number}", EVERY_MINUTE, began, began + 4 * MINUTE)
            )

    outcome = simulation.run(main)

    assert (wrong, outcome.violations) == ([], [])
    assert outcome.slots >= 4 * schedules
    assert outcome.crashes >= 3


def by_violation(kind: str, limit: int = 3) -> RunRules:
    action = Action(
        kind=ActionKind(kind), delay_seconds=5.0, times_max=1_000, timeout_seconds=100_000.0
    )
    return RunRules(
        constraints=Constraints(max_concurrent_runs=limit), on_constraint_violation=action
    )


@pytest.mark.parametrize(
    "kind", ["wait", "skip", "kill_old", pytest.param("retry_later", marks=pytest.mark.prove)]
)
def test_concurrency_limit_holds_with_three_engines_and_200_triggers(kind: str) -> None:
    simulation = RunSimulation(7, crash_rate=0.05, crash_seconds=60.0)

    async def main() -> None:
        await simulation.deploy("flow", by_violation(kind))
        given = {"name": "flow", "seconds": 2.0}
        await asyncio.gather(*(simulation.submit("flow", given) for _ in range(200)))
        await asyncio.sleep(60)
        await simulation.settled()

    outcome = simulation.run(main)

    states = [row.state for row in outcome.rows]
    assert outcome.violations == []
    assert simulation.busy_max("flow") == 3
    assert len(states) == 200
    ran = [
        row for row in outcome.rows if row.state is RunState.COMPLETED and not row.detail.is_skipped
    ]
    if kind in ("wait", "retry_later"):
        assert len(ran) == 200
        # The task of a killed job may run for a moment longer, but no job is killed here.
        assert outcome.peaks["flow"] <= 3
        assert outcome.crashes >= 2
    else:
        assert 3 <= len(ran) < 200


def test_waiting_runs_start_in_order_of_arrival() -> None:
    simulation = RunSimulation(3, crash_rate=0.05, crash_seconds=60.0)

    async def main() -> None:
        await simulation.deploy("flow", by_violation("wait", 1))
        for _ in range(20):
            await simulation.submit("flow", {"name": "flow", "seconds": 1.0})
        await simulation.settled()

    outcome = simulation.run(main)

    rows = sorted(outcome.rows, key=lambda row: row.created_at)
    started = [row.detail.started_at for row in rows]
    assert outcome.violations == []
    assert outcome.crashes >= 1
    assert None not in started
    assert started == sorted(started, key=lambda at: at or 0)


def test_kill_old_keeps_only_the_newest_runs() -> None:
    simulation = RunSimulation(5)

    async def main() -> None:
        await simulation.deploy("flow", by_violation("kill_old", 1))
        for _ in range(20):
            await simulation.submit("flow", {"name": "flow", "seconds": 200.0})
            await asyncio.sleep(1.0)
        await simulation.settled()

    outcome = simulation.run(main)

    rows = sorted(outcome.rows, key=lambda row: row.created_at)
    assert outcome.violations == []
    assert [row.state for row in rows] == [*[RunState.CANCELLED] * 19, RunState.COMPLETED]


@pytest.mark.parametrize(
    ("policy", "window", "expected"),
    [
        (CatchUp.ALL, 86_400.0, range(1, 11)),
        (CatchUp.ALL, 250.0, range(7, 11)),
        (CatchUp.LATEST, 86_400.0, [10]),
        (CatchUp.NONE, 86_400.0, []),
    ],
)
def test_engines_catch_up_after_an_outage_as_declared(
    policy: CatchUp, window: float, expected: "range | list[int]"
) -> None:
    simulation = RunSimulation(11)
    schedule = Schedule(cron="* * * * *", input_data={"name": "flow"})
    constraints = Constraints(catch_up=policy, catch_up_window_seconds=window)
    began = simulation.clock.now()
    wrong: list[str] = []

    async def main() -> None:
        await simulation.deploy("flow", RunRules(schedule=schedule, constraints=constraints))
        await asyncio.sleep(10)
        processes = [engine_slot.process for engine_slot in simulation.supervisor.engine_slots]
        for process in processes:
            assert process is not None
            process.pause()
        # Ten slots. Without catch-up, long enough after the last slot that it does not count as late.
        await asyncio.sleep(10 * 60 + (65 if policy is CatchUp.NONE else 40) - 10)
        for process in processes:
            assert process is not None
            process.resume()
        await asyncio.sleep(15)
        await simulation.settled()
        wrong.extend(check_slots(simulation, "flow", schedule, began, began + 10 * MINUTE))

    outcome = simulation.run(main)

    ran = [row for row in outcome.rows if row.state is RunState.COMPLETED]
    slots = [
        (row.scheduled_at - began) // MINUTE
        for row in sorted(ran, key=lambda row: row.detail.started_at or 0)
    ]
    assert (wrong, outcome.violations) == ([], [])
    assert [slot for slot in slots if slot <= 10] == list(expected)


@pytest.mark.parametrize(
    # 5077: a finished job is retried while an earlier batch is stored.
    "seed",
    [0, 1, 2, 5077, *(pytest.param(seed, marks=pytest.mark.prove) for seed in range(3, 24))],
)
def test_runs_end_by_their_rules_under_random_faults(seed: int) -> None:
    assert run_runs_seed(seed) == []
