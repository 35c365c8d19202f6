"""The closed list of event types."""

import json

from simulation.scenarios import prepare_seed
from windlass.core.events import EventType, Subject
from windlass.core.states import JobStatus, NodeStatus

SEEDS = range(40)


def test_a_status_after_an_event_is_a_status_of_its_subject() -> None:
    jobs = {status.value for status in JobStatus}
    nodes = {status.label for status in NodeStatus}
    for event in EventType:
        known = jobs if event.subject is Subject.JOB else nodes
        assert event.status is None or event.status in known


def test_events_carry_only_the_declared_types_and_data() -> None:
    seen: set[str] = set()
    for seed in SEEDS:
        simulation, scenario = prepare_seed(seed)
        simulation.run(scenario.run)
        events = [event for job_id in simulation.store.job_ids() for event in simulation.store.log(job_id)]
        for event in events:
            declared = EventType(event.type)
            seen.add(declared)
            data = {} if event.data is None else json.loads(bytes(event.data))
            assert set(data) <= set(declared.data), f"{event.type}: {sorted(data)}"
    assert seen == set(EventType), f"not seen in {len(SEEDS)} seeds: {sorted(set(EventType) - seen)}"
