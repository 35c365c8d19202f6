"""Errors in the rules about runs: vetoes, room, made-up slots, start timeouts, last calls."""

from msgspec import structs

from simulation.mutants.mutant import Mutant, in_core, in_engine


def _of_runs(mutant: Mutant) -> Mutant:
    return structs.replace(mutant, is_of_runs=True)


RUN_MUTANTS = tuple(
    map(
        _of_runs,
        (
            in_core(
                "an action overrides a veto",
                "runs.admission",
                "        skip(turn, run, run.detail.refusal)\n        return\n    broken",
                "        launch(turn, run)\n        return\n    broken",
            ),
            in_core(
                "a run starts in the room of another without asking its hook",
                "runs.admission",
                "        skip(turn, run, reason_in(broken))\n        return\n"
                "    hook = None if is_allowed else _hook(turn, run)\n",
                "        skip(turn, run, reason_in(broken))\n        return\n    hook = None\n",
            ),
            in_core(
                "made-up slots do not queue for room",
                "runs.constraints",
                "    if run.detail.origin not in OF_SLOTS:\n",
                "    if True:\n",
            ),
            in_core(
                "a run whose hook is asked does not keep its room",
                "runs.registry",
                "        return self.is_busy or self.is_asking\n",
                "        return self.is_busy\n",
            ),
            in_core(
                "made-up slots wait in the order of their creation",
                "runs.registry",
                "        return (self.scheduled_at, self.created_at, self.id)\n",
                "        return (self.created_at, -self.scheduled_at, self.id)\n",
            ),
            in_core(
                "a retry waits behind runs that wait for its success",
                "runs.constraints",
                "        and (not is_retry or waits_only_for_room(turn, one))\n",
                "",
            ),
            in_core(
                "runs that lack more than room keep the others waiting",
                "runs.admission",
                "        if run.is_waiting and not run.is_asking and waits_only_for_room(turn, run):\n",
                "        if run.is_waiting and not run.is_asking:\n",
            ),
            in_core(
                "a slot that was run is run again",
                "runs.scheduling",
                "        if known is not None and left_out(known, slot_at, row) is not None:\n",
                "        if False:\n",
            ),
            in_core(
                "late slots are missed when a later one is due",
                "runs.scheduling",
                "    if late <= LATE_SECONDS or _is_caught_up(",
                "    if (late <= LATE_SECONDS and is_newest) or _is_caught_up(",
            ),
            in_core(
                "the planned slot is not among the missed ones",
                "runs.scheduling",
                "missed[:LISTED_MAX]",
                "missed[1:LISTED_MAX]",
            ),
            in_core(
                "a run that fails before its job calls nobody",
                "runs.closing",
                "    turn.wake_others(run.workflow_id)\n    _make_last_calls(turn, run, ActionEvent.FAILURE)\n",
                "    detail.is_closing = True\n    settle(turn, run)\n",
            ),
            in_core(
                "the last calls do not wait for the critical action on success",
                "runs.closing",
                "    if action is None or not action.critical or _has_performed(run):\n",
                "    if True:\n",
            ),
            in_core(
                "the last calls do not wait for a critical action under way",
                "runs.closing",
                "    if not detail.has_failed_permanently and actions.has_critical_call(turn, run):\n",
                "    if False:\n",
            ),
            in_core(
                "a critical action that fails does not change the outcome",
                "runs.closing",
                "            detail.outcome = R.FAILED.value\n",
                "",
            ),
            in_core(
                "a later reason replaces the first",
                "runs.registry",
                'reason if known is None else f"{known}; {reason}"',
                "reason",
            ),
            in_core(
                "a wait that times out is not a failed action",
                "runs.admission",
                "    actions.finish(turn, run, ActionEvent.CONSTRAINT_VIOLATION, reason)\n    fail(",
                "    fail(",
            ),
            in_core(
                "the start timeout of a run never fires",
                "runs.registry",
                "seconds = constraints.start_timeout_seconds\n",
                "seconds = None\n",
            ),
            in_engine(
                "a job that waits for its retry leaves the memory",
                "shard",
                "        found.update(one.job_id for changes in self._uncommitted for one in changes.arrivals)\n",
                "",
            ),
            in_engine(
                "a lost notification of a schedule is not repeated",
                "duties.scheduler",
                "    if row.is_gone:\n        return workflow.schedule.is_gone\n",
                "    if row.is_gone:\n        return True\n",
            ),
        ),
    )
)
