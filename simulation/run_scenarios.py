"""Simulations of runs with random rules under random faults: vetoes, made-up slots, tasks that nobody takes."""

import asyncio
from random import Random

from simulation.faults import Fault
from simulation.schedules import MINUTE, NOBODY, RunSimulation
from windlass.core.runs.cron import Schedule
from windlass.core.runs.rules import (
    Action,
    ActionKind,
    CatchUp,
    Constraints,
    Hook,
    RunRetry,
    RunRules,
)
from windlass.core.runs.states import RunState

NAMES = ("a", "b", "c")
HOOK = Hook(url="https://example.test/hook", attempts_max=2)
# Runs that lack room call a webhook, during which others may end; then their hook still has to allow them.
CROWDED = RunRules(
    schedule=Schedule(interval_seconds=3, input_data={"name": "x", "seconds": 1.5}),
    constraints=Constraints(max_concurrent_runs=1, catch_up=CatchUp.NONE, pre_run_hook=HOOK),
    on_constraint_violation=Action(kind=ActionKind.WEBHOOK, hook=HOOK),
)
# A failed run keeps the next one waiting until an operator's retry succeeds.
STRICT = RunRules(
    constraints=Constraints(max_concurrent_runs=1, require_previous_success=True),
    on_constraint_violation=Action(kind=ActionKind.WAIT, timeout_seconds=20.0),
)
ROUNDS = 30
# Longer than a slot may be late.
OUTAGE_SECONDS = 75.0


def any_rules(random: Random) -> RunRules:
    """Return random rules, some of which contradict each other."""
    kind = random.choice(
        [None, "wait", "skip", "kill_old", "retry_later", "trigger_job", "webhook"]
    )
    action = None
    if kind is not None:
        action = Action(
            kind=ActionKind(kind),
            delay_seconds=3.0,
            times_max=5,
            timeout_seconds=20.0,
            workflow_id="other",
            hook=HOOK,
        )
    return RunRules(
        schedule=Schedule(
            interval_seconds=random.choice([5, 20]), input_data={"name": "x", "seconds": 2.0}
        ),
        constraints=Constraints(
            max_concurrent_runs=random.choice([None, 1, 2]),
            require_previous_success=random.random() < 0.2,
            catch_up=random.choice(list(CatchUp)),
            max_expected_run_seconds=random.choice([None, 1.0]),
            max_allowed_run_seconds=random.choice([None, 3.0]),
            start_timeout_seconds=random.choice([None, 5.0]),
            pre_run_hook=random.choice([None, HOOK]),
            post_run_hook=random.choice([None, None, HOOK]),
        ),
        on_constraint_violation=action,
        on_success=_any_action(random),
        on_failure=_any_action(random),
        on_slow=_any_action(random),
        retry=random.choice(
            [
                RunRetry(),
                RunRetry(max_retries=2, initial_delay_seconds=1.0, full=random.random() < 0.5),
            ]
        ),
    )


def _any_action(random: Random) -> Action | None:
    """Return an action that calls a webhook or starts a job, which may fail; or none."""
    kind = random.choice([None, None, ActionKind.TRIGGER_JOB, ActionKind.WEBHOOK])
    if kind is None:
        return None
    workflow_id = random.choice(["other", "gone"])
    return Action(kind=kind, workflow_id=workflow_id, hook=HOOK, critical=random.random() < 0.5)


async def _fail_and_retry(simulation: RunSimulation, random: Random) -> None:
    """Submit a job that fails at first, and retry failed jobs while the next one waits for a success."""
    given = {"name": "x", "seconds": 1.0, "failures": random.choice([1, 2, 3])}
    await simulation.submit("strict", given)
    await asyncio.sleep(2.0)
    await simulation.submit("strict", {"name": "x", "seconds": 0.1})
    rows = [row for row in simulation.store.runs.all_runs() if row.workflow_id == "strict"]
    failed = {row.job_id for row in rows if row.state is RunState.FAILED and row.job_id}
    for job_id in random.sample(sorted(failed), min(2, len(failed))):
        await simulation.call_engine(lambda engine, job_id=job_id: engine.jobs.retry(job_id))


async def _outage(simulation: RunSimulation) -> None:
    """Pause all engines for so long that slots are missed."""
    slots = simulation.supervisor.engine_slots
    paused = [slot.process for slot in slots if slot.process is not None]
    for process in paused:
        process.pause()
    await asyncio.sleep(OUTAGE_SECONDS)
    for process in paused:
        process.resume()


async def _disturb(simulation: RunSimulation, random: Random) -> None:
    """Do something that a user, an operator or a failing machine may do."""
    rows = [row for row in simulation.store.runs.all_runs() if row.completed_at is None]
    jobs = [row.job_id for row in simulation.store.runs.all_runs() if row.job_id is not None]
    action = random.randrange(11)
    if action == 0 and rows:
        victim = random.choice(rows).run_id
        await simulation.call_engine(lambda engine: engine.runs.cancel(victim))
    elif action == 1:
        await simulation.call_engine(lambda engine: engine.runs.pause("a"))
    elif action == 2:
        await simulation.call_engine(lambda engine: engine.runs.resume("a"))
    elif action == 3 and jobs:
        job = random.choice(jobs)
        is_cancel = random.random() < 0.5
        await simulation.call_engine(
            lambda engine: engine.jobs.cancel(job) if is_cancel else engine.jobs.retry(job)
        )
    elif action == 4 and random.random() < 0.3:
        simulation.supervisor.flush_broker()
    elif action in (5, 6):
        now = simulation.clock.now()
        name = random.choice(NAMES)
        await simulation.call_engine(
            lambda engine: engine.runs.backfill(name, now - 2 * MINUTE, now - MINUTE)
        )
    elif action == 7:
        await simulation.submit("lonely", {"name": "x"})
    elif action == 8:
        await _fail_and_retry(simulation, random)
    elif action == 9 and random.random() < 0.3:
        await _outage(simulation)
    else:
        given = {"name": "x", "seconds": random.choice([0.1, 4.0]), "fails": random.random() < 0.4}
        await simulation.submit(random.choice(NAMES), given)


def run_runs_seed(seed: int) -> list[str]:
    """Run one simulation and return what was violated."""
    random = Random(seed)
    rates = {fault: random.random() * 0.004 for fault in Fault if fault is not Fault.SHUFFLE}
    simulation = RunSimulation(seed, shards=3, rates=rates)

    async def main() -> None:
        await simulation.deploy("other", RunRules(constraints=Constraints(max_concurrent_runs=2)))
        trigger = Action(kind=ActionKind.TRIGGER_JOB, workflow_id="other")
        # Its tasks are never taken: only its timeouts end its runs.
        await simulation.deploy(
            "lonely",
            RunRules(
                constraints=Constraints(max_concurrent_runs=1, start_timeout_seconds=5.0),
                on_constraint_violation=Action(kind=ActionKind.WAIT, timeout_seconds=20.0),
                on_failure=trigger,
            ),
            queue=NOBODY,
            start_timeout_seconds=random.choice([None, 2.0]),
        )
        await simulation.deploy("crowded", CROWDED)
        await simulation.deploy("strict", STRICT)
        for name in NAMES:
            await simulation.deploy(name, any_rules(random))
        for _ in range(ROUNDS):
            await _disturb(simulation, random)
            await asyncio.sleep(random.random() * 4.0)
        for name in (*NAMES, "crowded"):
            await simulation.store.workflows.delete(name, simulation.clock.now(), force=True)
        await simulation.settled()

    violations = list(simulation.run(main).violations)
    if not simulation.observed.answers:
        violations.append("no hook was asked")
    for name in NAMES:
        rules = simulation.plans[name, 1].runs
        limit = None if rules is None else rules.constraints.max_concurrent_runs
        if limit is not None and simulation.busy_max(name) > limit:
            violations.append(f"{name}: more than {limit} runs were active at the same time")
    return violations
