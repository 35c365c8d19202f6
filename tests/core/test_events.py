"""The closed list of event types."""

import json

from simulation.plans import plan_of
from simulation.replay.job import REPLAYED
from simulation.scenarios import prepare_seed
from tests.core.job_harness import SECOND, JobHarness
from tests.core.runs.run_harness import EVERY_MINUTE, HOOK, MINUTE, RunHarness, action, rules
from windlass.core.events import EventType, Subject
from windlass.core.runs.cron import Schedule
from windlass.core.runs.rules import OnCheckError
from windlass.core.runs.states import RunState
from windlass.core.states import JobStatus, NodeStatus

SEEDS = range(40)
OF_RUNS = (Subject.RUN, Subject.SCHEDULE)


def test_a_status_after_an_event_is_a_status_of_its_subject() -> None:
    nodes = {status.label for status in NodeStatus}
    statuses = dict.fromkeys(Subject, nodes)
    statuses[Subject.JOB] = {status.value for status in JobStatus}
    statuses[Subject.RUN] = {state.value for state in RunState}
    for event in EventType:
        assert event.status is None or event.status in statuses[event.subject]


def test_the_replay_has_a_rule_for_every_event_type_of_a_job() -> None:
    missing = {event.value for event in EventType if event.subject not in OF_RUNS} - REPLAYED

    assert not missing, (
        f"the replay has no rule for {sorted(missing)}; add one to simulation/replay/job.py"
    )


def test_events_of_jobs_carry_only_the_declared_types_and_data() -> None:
    seen: set[str] = set()
    for seed in SEEDS:
        simulation, scenario = prepare_seed(seed)
        simulation.run(scenario.run)
        events = [
            event for job_id in simulation.store.job_ids() for event in simulation.store.log(job_id)
        ]
        for event in events:
            declared = EventType(event.type)
            seen.add(declared)
            data = {} if event.data is None else json.loads(bytes(event.data))
            assert set(data) <= set(declared.data), f"{event.type}: {sorted(data)}"
    # Simulated workers are killed and never hand a task back.
    handed_back = JobHarness(plan_of({"a": []}))
    handed_back.begin()
    handed_back.start("a", "w0")
    handed_back.now += SECOND
    for event in handed_back.start("a", "w1").events["job"]:
        seen.add(EventType(event.type))
    expected = {event for event in EventType if event.subject not in OF_RUNS}
    assert seen == expected, f"not seen in {len(SEEDS)} seeds: {sorted(expected - seen)}"


def test_events_of_runs_and_schedules_carry_only_the_declared_types_and_data() -> None:
    webhook = action("webhook", hook=HOOK)
    limited = RunHarness(rules(max_concurrent_runs=1, violation=action("kill_old")))
    limited.submit()
    limited.submit()
    hooked = RunHarness(
        rules(pre_run_hook=HOOK, on_check_error=OnCheckError.ALLOW, failure=webhook)
    )
    run = hooked.submit()
    hooked.answer("failed")
    hooked.end(run, "failed")
    hooked.answer("failed")
    ignored = RunHarness(rules(failure=action("skip")))
    ignored.end(ignored.submit(), "failed")
    scheduled = RunHarness(rules(schedule=EVERY_MINUTE))
    scheduled.registry.rules["flow", 2] = rules(schedule=Schedule(cron="0 * * * *"))
    scheduled.deploy()
    scheduled.now += 10 * MINUTE
    scheduled.pass_time(0)
    scheduled.deploy(2)
    scheduled.deploy(2, paused=True)

    # The harness checks the data of each event.
    seen = {type for harness in (limited, hooked, ignored, scheduled) for _, type in harness.events}
    assert seen == {event for event in EventType if event.subject in OF_RUNS}
