"""The last step of a successful attempt: its output goes to the sink and, if large, to the artifact store."""

import asyncio

from windlass.core.changes import Task
from windlass.core.messages import Failed, Succeeded
from windlass.ports.sink import Sinks
from windlass.worker.large_values import LargeValues
from windlass.worker.outcomes import failed
from windlass.worker.patient_artifacts import HOLD_SECONDS_MAX
from windlass.worker.running_attempt import Outcome, RunningAttempt
from windlass.worker.sink_step import sink_failed, write_to_sink

# An output is held until this long before its attempt times out.
HOLD_MARGIN_SECONDS = 1.0


class OutputStep:
    """Runs within the timeout of the attempt; the attempt is reported afterwards."""

    def __init__(self, sinks: Sinks, large_values: LargeValues) -> None:
        self._sinks = sinks
        self._large_values = large_values
        self._inline_bytes_max = large_values.inline_bytes_max

    def is_needed(self, task: Task, outcome: Outcome) -> bool:
        """Whether the outcome cannot be reported before this step."""
        if not isinstance(outcome, Succeeded):
            return False
        return task.sink is not None or len(memoryview(outcome.output)) > self._inline_bytes_max

    async def run(self, attempt: RunningAttempt, outcome: Outcome) -> Outcome:
        """Return the outcome to report; an output that cannot be stored fails the attempt."""
        if attempt.is_stopped or not isinstance(outcome, Succeeded):
            return outcome
        if attempt.task.sink is not None:
            outcome = await self._write_to_sink(attempt, outcome)
        if isinstance(outcome, Succeeded) and self._is_large(outcome):
            try:
                outcome = await self._large_values.store(
                    attempt.task.job_id, outcome, _hold_seconds(attempt)
                )
            except asyncio.CancelledError as error:
                outcome = failed(error)
        return outcome

    async def _write_to_sink(self, attempt: RunningAttempt, outcome: Succeeded) -> Outcome:
        if attempt.stop_error is not None:
            # The handler finished although the task was handed back: the next worker writes.
            return Failed(attempt.stop_error, outcome.meta)
        try:
            return await write_to_sink(self._sinks, attempt.task, outcome)
        except GeneratorExit:
            raise
        except (
            BaseException
        ) as error:  # user code: an unexpected error of a sink fails the attempt, not the worker
            return sink_failed(error, outcome.meta)

    def _is_large(self, outcome: Succeeded) -> bool:
        return len(memoryview(outcome.output)) > self._inline_bytes_max


def _hold_seconds(attempt: RunningAttempt) -> float:
    """Return how long an output may be held: not until the attempt times out, which would count as its failure."""
    left = attempt.deadline_time - asyncio.get_running_loop().time() - HOLD_MARGIN_SECONDS
    return max(0.0, min(HOLD_SECONDS_MAX, left))
