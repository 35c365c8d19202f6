"""How long the core waits for the result of an attempt."""

import pytest

from tests.core.job_harness import SECOND, JobHarness
from windlass.core.messages import TimerKind
from windlass.core.runs.containers import STOP_SECONDS_MAX
from windlass.core.timers import NODE_TIMEOUT_GRACE_SECONDS
from windlass.spec import compile_plan, read_definition


@pytest.mark.parametrize(
    ("handler", "stop_seconds"), [("echo", 0.0), ("container", STOP_SECONDS_MAX)]
)
def test_the_result_of_a_container_is_awaited_until_its_container_has_stopped(
    handler: str, stop_seconds: float
) -> None:
    node = {"handler": handler, "timeout_seconds": 60, "params": {}}
    definition, _ = read_definition({"workflow_id": "flow", "nodes": {"a": node}})
    harness = JobHarness(compile_plan(definition, 1))
    harness.begin()
    [timer] = harness.start("a").timers

    seconds = 60 + NODE_TIMEOUT_GRACE_SECONDS + stop_seconds
    assert (timer.kind, timer.due_at) == (TimerKind.NODE_TIMEOUT, harness.now + seconds * SECOND)
