"""What this process has done since it started, counted after each commit."""

from collections import Counter

from windlass.core.changes import Changes
from windlass.core.runs.rows import RunRow
from windlass.ports.control import CountersSnapshot, RunsCounted

# Workflows that are counted by name; all others are counted together.
NAMED_MAX = 1_000
OTHERS = "(others)"
# The phases of a run that its metrics time.
PHASES = (
    "pre_run", "constraint_check", "action", "container_creation", "execution", "termination", "retry_wait", "total",
)  # fmt: skip


class Counters:
    """Counts commits, events, tasks, jobs and runs."""

    def __init__(self) -> None:
        self.commits = self.events = self.tasks = 0
        self.jobs: Counter[str] = Counter()
        self.runs: dict[str, RunsCounted] = {}

    def add(self, changes: Changes) -> None:
        """Count a committed batch."""
        self.commits += 1
        self.events += sum(map(len, changes.events.values()))
        self.tasks += len(changes.tasks)
        self.jobs.update(
            changes.jobs[job_id].status for job_id in changes.finished if job_id in changes.jobs
        )
        if changes.runs is not None:
            self.events += sum(map(len, changes.runs.events.values()))
            for run in changes.runs.runs.values():
                if run.completed_at is not None:
                    self._add_run(run)

    def _add_run(self, run: RunRow) -> None:
        metrics = run.detail.metrics
        if metrics is None:
            return
        name = (
            run.workflow_id
            if run.workflow_id in self.runs or len(self.runs) < NAMED_MAX
            else OTHERS
        )
        known = self.runs.setdefault(name, RunsCounted())
        known.finished["skipped" if run.detail.is_skipped else run.state.value] += 1
        known.retries += metrics.retry_attempt
        known.violations += metrics.constraints_violated
        known.actions["failed"] += metrics.actions_failed
        known.actions["done"] += metrics.actions_executed - metrics.actions_failed
        for phase in PHASES:
            known.seconds[phase] += getattr(metrics, f"{phase}_seconds")

    def snapshot(self) -> CountersSnapshot:
        """Return the current numbers."""
        return CountersSnapshot(
            commits=self.commits,
            events=self.events,
            tasks=self.tasks,
            jobs=dict(self.jobs),
            runs=dict(self.runs),
        )
