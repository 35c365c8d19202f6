"""Views of loops."""

from windlass.core.states import NodeStatus
from windlass.views.loops import ITERATION_STATES


def test_iterations_can_be_listed_by_every_stored_status() -> None:
    assert set(ITERATION_STATES) == {
        status.label for status in NodeStatus if status is not NodeStatus.READY
    }
