"""Errors in loops, pagination, large values and their recovery."""

from simulation.mutants.mutant import in_core, in_engine

LOOP_MUTANTS = (
    # Window and order
    in_core(
        "a loop has one iteration too many in flight",
        "loop_state",
        "self.in_flight_count >= ",
        "self.in_flight_count > ",
    ),
    in_core(
        "a sequential loop does not wait for a retry",
        "loop_state",
        "if is_sequential and self._is_one_waiting():",
        "if False:",
    ),
    in_core(
        "an iteration that waited is queued last",
        "loop_state",
        "candidates = self.attempts",
        "pass",
    ),
    in_core(
        "a slot is not freed between two attempts",
        "turn",
        "loop.in_flight_count += IS_IN_FLIGHT[after] - IS_IN_FLIGHT[before]",
        "loop.in_flight_count += IS_IN_FLIGHT[after] > IS_IN_FLIGHT[before]",
    ),
    in_core(
        "a loop does not fill its window when an iteration waits",
        "turn",
        "            if IS_IN_FLIGHT[before]:\n",
        "            if False:\n",
    ),
    in_core(
        "the end of a merged iteration is not noticed",
        "loop_transitions",
        "    turn.job.filling[attempt.node] = None\n",
        "",
    ),
    in_core(
        "an iteration whose wait is over is not queued",
        "advance",
        "        job.loops[attempt.node].queued[attempt.index] = None\n",
        "",
    ),
    in_core(
        "iterations beyond the last are started",
        "loop_state",
        "if self.begun < self.total and",
        "if True and",
    ),
    # Stored state
    in_core(
        "the number of started iterations is not stored",
        "loops",
        "    if loop.begun != begun:\n        turn.save_node(node, loop.node_attempt)\n",
        "",
    ),
    in_core(
        "a collection is not recorded",
        "loops",
        "            turn.changes.chunks.append(row)\n",
        "            pass\n",
    ),
    in_core(
        "a retry records the collection again",
        "loops",
        "    loop = job.parked.pop(node, None)\n",
        "    loop = job.parked.pop(node, None) and None\n",
    ),
    in_core(
        "a further attempt of an iteration is not stored",
        "turn",
        "            attempt.dispatched_at = self.now\n            self.save(attempt)\n",
        "            attempt.dispatched_at = self.now\n",
    ),
    in_core(
        "the outputs of iterations are not stored",
        "loops",
        "turn.save(attempt, turn.now, None, output, meta)",
        "turn.save(attempt, turn.now, None, None, meta)",
    ),
    in_core(
        "chunks overlap",
        "loop_state",
        "elements(index * size, (index + 1) * size)",
        "elements(index, index + size)",
    ),
    in_core(
        "elements are read from the next block",
        "loop_state",
        "self._chunk(place // CHUNK_ELEMENTS)",
        "self._chunk((place + 1) // CHUNK_ELEMENTS if place + 1 < self.count else place // CHUNK_ELEMENTS)",
    ),
    # Ends of iterations and loops
    in_core(
        "a failed iteration does not fail its loop",
        "loops",
        "    if loop.plan.tolerant:\n",
        "    if True:\n",
    ),
    in_core(
        "iterations continue after their loop failed",
        "loops",
        '    cancel_iterations(turn, attempt.node, f"iteration {attempt.index} failed")\n',
        "",
    ),
    in_core(
        "workers are not notified of a cancelled iteration",
        "loop_transitions",
        "turn.withdraw(attempt)",
        "job.late.add((node, index, attempt.number))",
    ),
    in_core(
        "a skipped iteration is not counted",
        "loops",
        "    turn.job.loops[attempt.node].skipped += 1\n",
        "",
    ),
    in_core(
        "conditions of iterations are inverted",
        "loops",
        "        if is_true(condition.value(",
        "        if not is_true(condition.value(",
    ),
    in_core(
        "the timeout of a loop never fires",
        "loops",
        "        turn.set_timer(loop.deadline_at, TimerKind.LOOP_TIMEOUT, plan.id, loop.node_attempt.number)\n",
        "",
    ),
    in_core(
        "the timeout of an earlier run ends a loop",
        "advance",
        "    if loop is None or loop.node_attempt.number != message.attempt:\n        return\n"
        "    kind, due_at = TimerKind.LOOP_TIMEOUT, loop.deadline_at\n"
        "    if not turn.postpone(due_at, kind, message.node_id, message.attempt):\n",
        "    if loop is not None:\n",
    ),
    in_core(
        "a loop completes before all iterations have ended",
        "loop_state",
        "return self.completed + self.failed + self.skipped == self.total",
        "return self.completed + self.failed + self.skipped >= self.total - 1",
    ),
    in_core(
        "the failures of a loop are not bounded",
        "loops",
        "    bound = loop.exceeded_bound()\n",
        "    bound = None\n",
    ),
    in_core(
        "a loop may have one failure more than allowed",
        "loop_state",
        "self.failed > plan.failed_max",
        "self.failed > plan.failed_max + 1",
    ),
    in_core(
        "skipped iterations count as completed ones",
        "loop_state",
        "        counted = self.total - self.skipped\n        if plan",
        "        counted = self.total\n        if plan",
    ),
    # Rate limits
    in_core(
        "rate-limited answers use up attempts",
        "attempts",
        "    attempt.rate_limits += 1\n    attempt.attempts_before += 1\n",
        "    attempt.rate_limits += 1\n",
    ),
    in_core(
        "rate-limited attempts are repeated without a bound",
        "attempts",
        "    if waited > round(rule.rate_limited_max_seconds * MICROSECONDS):\n",
        "    if waited < 0:\n",
    ),
    in_core(
        "a loop does not slow down",
        "attempts",
        "        loop.slow_down(turn.now, attempt.due_at)\n",
        "",
    ),
    in_core(
        "a rebuilt loop forgets that it was slowed down",
        "restoration",
        "    loop.paused_until = progress.paused_until\n",
        "",
    ),
    # Retries of jobs
    in_core(
        "a retry of a completed job leaves out failed iterations",
        "completion",
        "        return job.parked[node].failed\n",
        "        return 0\n",
    ),
    in_core(
        "a retry of failed iterations runs the whole loop again",
        "completion",
        "    if is_new_work and has_run:\n",
        "    if (is_new_work or job.states[node] == NodeStatus.COMPLETED) and has_run:\n",
    ),
    in_core(
        "a retry runs completed iterations again",
        "loop_transitions",
        "not in (NodeStatus.FAILED, NodeStatus.CANCELLED)",
        "not in (NodeStatus.FAILED, NodeStatus.CANCELLED, NodeStatus.COMPLETED)",
    ),
    in_core(
        "a retry leaves out cancelled iterations",
        "loop_transitions",
        "(NodeStatus.FAILED, NodeStatus.CANCELLED)",
        "(NodeStatus.FAILED,)",
    ),
    in_core(
        "a retry does not reset the count of failed iterations",
        "loop_transitions",
        "        loop.failed -= loop.states[index] == NodeStatus.FAILED\n",
        "",
    ),
    in_core(
        "iterations of a restarted loop reuse attempt numbers",
        "completion",
        "            job.attempts_start[node] = loop.attempts_made\n",
        "            pass\n",
    ),
    in_core(
        "a completed loop that runs again reuses attempt numbers",
        "turn",
        "            job.attempts_start[node] = loop.attempts_made\n",
        "            pass\n",
    ),
    in_core(
        "iterations left from an earlier retry come before lower indexes",
        "loop_transitions",
        "    loop.queued = dict.fromkeys(sorted(loop.queued))\n",
        "",
    ),
    in_core(
        "repeated work keeps its idempotency key",
        "completion",
        "job.states[node] == NodeStatus.COMPLETED or attempt or node in job.parked",
        "node in job.parked",
    ),
    # Pagination
    in_core(
        "one call more than allowed",
        "pagination",
        "page < rule.calls_max",
        "page <= rule.calls_max",
    ),
    in_core(
        "pages that are left do not fail a node",
        "pagination",
        "is_failed = attempt.is_exhausted and rule.on_exhausted == FAIL_EXHAUSTED",
        "is_failed = False",
    ),
    in_core(
        "iterations whose pages were cut are not counted",
        "loops",
        "loop.exhausted += attempt.is_exhausted",
        "loop.exhausted += 0",
    ),
    in_core(
        "the end of a page is about the next attempt",
        "attempt_meta",
        '"attempt_number": attempt.number,\n        "max_attempts": rule.calls_max,',
        '"attempt_number": attempt.number + 1,\n        "max_attempts": rule.calls_max,',
    ),
    in_core(
        "a merge forgets the end of the last page",
        "pagination",
        "attempt.page_meta, attempt.end_meta = worker_meta, end_meta",
        "attempt.page_meta = attempt.end_meta = None",
    ),
    in_core(
        "a retried iteration does not link to its first attempt",
        "loops",
        "attempt.first_seq = loop.first_seqs.pop(index, None)",
        "loop.first_seqs.pop(index, None)",
    ),
    in_core(
        "the last page is missing",
        "pagination",
        "        _store_part(turn, attempt, rule, part)\n",
        "",
    ),
    in_core(
        "pages overwrite each other",
        "pagination",
        "attempt.index, attempt.calls, part)\n",
        "attempt.index, 1, part)\n",
    ),
    in_core(
        "a further call loses the updates of its params",
        "pagination",
        "    if not attempt.calls:\n        return rendered\n",
        "    return rendered\n",
    ),
    in_core(
        "a further call has the params of the first",
        "tasks",
        "        params, artifacts = _patched(params, artifacts, attempt.patch)\n",
        "        pass\n",
    ),
    in_core(
        "a further call has the idempotency key of the first",
        "tasks",
        "    if attempt.calls:\n        key",
        "    if False:\n        key",
    ),
    in_core(
        "all calls share the allowed attempts",
        "pagination",
        "    attempt.attempts_before = attempt.number\n",
        "",
    ),
    in_core(
        "the delay between calls is left out",
        "pagination",
        "    if rule.delay_seconds:\n",
        "    if False:\n",
    ),
    in_core(
        "pages are merged into a list of lists",
        "pagination",
        "spliced = plan.on_success.collect is Collect.APPEND",
        "spliced = False",
    ),
    # Rebuilding from rows
    in_core(
        "iterations without a row are forgotten after a restart",
        "loop_state",
        "            if not self.states[index] and index not in self.queued:\n",
        "            if False:\n",
    ),
    in_core(
        "a rebuilt loop treats all slots as free",
        "loop_state",
        "        self.in_flight_count = sum(",
        "        self.in_flight_count = 0 * sum(",
    ),
    in_core(
        "a rebuilt loop forgets queued iterations",
        "loop_state",
        "        if state is NodeStatus.PENDING:\n            self.queued[index] = None\n",
        "",
    ),
    in_core(
        "a rebuilt pagination starts over", "loop_state", "        calls=progress.calls,\n", ""
    ),
    in_engine(
        "timers of iterations are not set again",
        "recovery",
        "for attempt in job.current_attempts()]",
        "for attempt in job.attempts.values()]",
    ),
    in_engine(
        "the timeout of a loop is not set again",
        "recovery",
        "                if loop.deadline_at is not None:\n",
        "                if False:\n",
    ),
    in_engine(
        "outputs are not merged again after a restart",
        "shard",
        "        for job in self.jobs.values():\n            self._merger.start(pending_merges(job))\n",
        "",
    ),
    in_engine(
        "loops are not continued after a restart",
        "recovery",
        "elif job.ready or job.filling or not job.unfinished:",
        "elif job.ready or not job.unfinished:",
    ),
    # Large values and merged outputs
    in_engine(
        "the last output is not merged",
        "output_store",
        "stop = min(start + MERGE_ROWS, request.count)",
        "stop = min(start + MERGE_ROWS, request.count - 1)",
    ),
    in_engine(
        "a merged output is added to a batch already taken",
        "shard",
        "OutputMerger(outputs, self.defer, ",
        "OutputMerger(outputs, self._carried.append, ",
    ),
    in_engine(
        "a failed read of outputs is forgotten",
        "output_merger",
        "            self.failure = failure\n",
        "            del failure\n",
    ),
    in_engine(
        "large outputs are merged as references",
        "output_store",
        "        if is_reference(output):\n            return await self._artifacts.get(read_reference(output).key)\n",
        "",
    ),
    in_core(
        "a single large output is merged as a reference", "pagination", " and _is_small(part)", ""
    ),
    in_engine(
        "large values of tasks are not loaded after a restart",
        "recovery",
        "    return list(missing_values)\n",
        "    return []\n",
    ),
    in_core(
        "large values of params are lost",
        "templates.template",
        "        found.append(structs.replace(value, place=place))\n",
        "",
    ),
    in_core(
        "large values are not loaded",
        "prefetch",
        "            job.wanted[key] = None\n",
        "            pass\n",
    ),
    in_core(
        "an outdated task that kills workers is not cancelled",
        "attempts",
        "    turn.changes.cancels.append(turn.job.task_id(outdated))\n",
        "    del outdated\n",
    ),
)
