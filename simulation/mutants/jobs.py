"""Errors in the states of jobs, retries, recovery, commits, sweeps and timers."""

from simulation.mutants.mutant import in_core, in_engine

JOB_MUTANTS = (
    # State tables
    in_core(
        "a skipped node counts as completed",
        "states",
        "SKIP      = (frozenset({N.PENDING}),                                     N.SKIPPED)",
        "SKIP      = (frozenset({N.PENDING}),                                     N.COMPLETED)",
    ),
    in_core(
        "a cancelled job cannot be retried",
        "states",
        "RETRY     = (frozenset({J.COMPLETED, J.FAILED, J.CANCELLED}),  J.RUNNING)",
        "RETRY     = (frozenset({J.COMPLETED, J.FAILED}),               J.RUNNING)",
    ),
    # Counters and order
    in_core(
        "a fan-in runs after its first dependency",
        "turn",
        "remaining[child] -= 1",
        "remaining[child] = 0",
    ),
    in_core(
        "a fan-in waits for one dependency too many",
        "turn",
        "if not remaining[child]:",
        "if remaining[child] < 0:",
    ),
    in_core("a skip counts as a real dependency", "turn", "if not skipped:", "if True:"),
    in_core("sequence numbers have gaps", "turn", "= job.seq + 1", "= job.seq + 2"),
    in_core("ended nodes are not counted", "turn", "job.unfinished -= 1", "job.unfinished -= 0"),
    in_core(
        "the timeout of a job never fires",
        "turn",
        "self.set_timer(deadline_at, TimerKind.JOB_TIMEOUT)",
        "pass",
    ),
    in_core(
        "a job ends while nodes are pending",
        "dispatch",
        "elif not job.unfinished and not job.is_final:",
        "elif job.unfinished <= 1 and not job.is_final:",
    ),
    in_core("run_if_skipped is ignored", "dispatch", " and not plan.run_if_skipped", ""),
    in_core("conditions are inverted", "dispatch", "holds = is_true(", "holds = not is_true("),
    in_core(
        "a retry keeps its attempt number", "loop_state", "self.number += 1", "self.number += 0"
    ),
    in_core(
        "a repeated request changes a later round",
        "completion",
        "message.round is not None and message.round < job.state.round",
        "False",
    ),
    in_core(
        "a dispatch is not stored",
        "turn",
        "                job.in_flight[node] = InFlightEntry(node, plan.id, self.now)\n",
        "                pass\n",
    ),
    in_core(
        "a retry does not link to the first attempt",
        "turn",
        "        if attempt.first_seq is None:\n            attempt.first_seq = seq\n",
        "        if True:\n            attempt.first_seq = seq\n",
    ),
    in_core(
        "a retried node does not link to its first attempt",
        "dispatch",
        "        attempt.first_seq = job.first_seqs[node] or None\n",
        "",
    ),
    # Results and retries
    in_core(
        "a result of an older attempt is accepted",
        "job",
        " or attempt.number != number:",
        ":",
    ),
    in_core(
        "a result is accepted while its node waits",
        "job",
        " or not IS_IN_FLIGHT[states[position]]",
        "",
    ),
    in_core(
        "one attempt more than allowed",
        "retries",
        "attempts_made < rule.attempts_max",
        "attempts_made <= rule.attempts_max",
    ),
    in_core(
        "one attempt less than allowed",
        "retries",
        "attempts_made < rule.attempts_max",
        "attempts_made + 1 < rule.attempts_max",
    ),
    in_core(
        "errors that are not retryable are retried",
        "retries",
        "return error.retryable",
        "return True",
    ),
    in_core("the maximum delay is ignored", "retries", ", rule.max_delay_seconds)", ", 1e9)"),
    in_core("a linear delay does not grow", "retries", "wait *= attempts_made\n", "wait *= 1\n"),
    in_core(
        "a lost process uses up attempts",
        "attempts",
        "    attempt.attempts_before += 1\n    if is_of_cluster",
        "    if is_of_cluster",
    ),
    in_core(
        "an evicted pod is replaced without a pause",
        "retries",
        "LOSS_DELAY_SECONDS = 1.0",
        "LOSS_DELAY_SECONDS = 0.0",
    ),
    in_core(
        "the delay of a plain node after an eviction is not stored",
        "rows",
        "job.late or attempt.has_progress:",
        "job.late or attempt.rate_limits:",
    ),
    in_core(
        "an attempt keeps the start of a lost worker",
        "attempts",
        "        attempt.started_at = None\n        attempt.worker_id = None\n",
        "",
    ),
    in_core(
        "the start of the next worker after a loss is ignored",
        "attempts",
        "        turn.transition(attempt, NodeMove.REDELIVER)\n",
        "",
    ),
    in_core(
        "a loss reported twice counts twice",
        "attempts",
        "message.losses <= attempt.losses:",
        "message.losses < attempt.losses:",
    ),
    in_core(
        "idempotency keys differ between attempts",
        "tasks",
        "idempotency_key=key,",
        "idempotency_key=job.task_id(attempt),",
    ),
    # Failures, cancellations, ends
    in_core(
        "nodes after a failure stay pending", "completion", "_descendants(job, [node]):", "[]:"
    ),
    in_core(
        "fail_fast lets other nodes continue", "completion", "if job.plan.fail_fast:", "if False:"
    ),
    in_core(
        "a failure is not stored until the job ends",
        "completion",
        "        turn.save_job()\n    upstream",
        "    upstream",
    ),
    in_core(
        "workers are not notified of a cancellation",
        "completion",
        "turn.withdraw(job.attempts[node])",
        "job.late.add((node, -1, job.attempts[node].number))",
    ),
    in_core(
        "a cancellation is never marked as applied",
        "completion",
        "        turn.changes.requests.append(message.request_id)\n    if job.is_final or",
        "        pass\n    if job.is_final or",
    ),
    in_core(
        "a cancellation is applied without effect",
        "completion",
        "    if job.is_final or _is_outdated(job, message):\n        return\n    reason",
        "    if True:\n        return\n    reason",
    ),
    in_core(
        "a failed job is reported as completed",
        "completion",
        "    if job.state.error is None:\n        turn.move_job",
        "    if True:\n        turn.move_job",
    ),
    # Retries of jobs
    in_core("a retry does not recount dependencies", "completion", "    job.recount(nodes)\n", ""),
    in_core(
        "a retry does not count unfinished nodes", "completion", "    job.unfinished += 1\n", ""
    ),
    in_core("a retry does not count its round", "completion", "    job.state.round += 1\n", ""),
    in_core(
        "a retry leaves out nodes that never ran",
        "completion",
        " or not wanted.isdisjoint(job.plan.parents[node])",
        "",
    ),
    in_core(
        "a retry restarts attempt numbers at one",
        "completion",
        "    job.remember_attempt(node, attempt)\n",
        "    job.remember_attempt(node, 0)\n",
    ),
    in_core(
        "the timeout of an earlier round ends a retried job",
        "advance",
        "    if turn.job.is_final or message.round != state.round:\n        return\n"
        "    if not turn.postpone(state.deadline_at, TimerKind.JOB_TIMEOUT):\n",
        "    if not turn.job.is_final:\n",
    ),
    # Rebuilding from rows
    in_core(
        "rebuilt jobs have no counters",
        "restoration",
        "    job.recount(dependents)\n",
        "",
    ),
    in_core(
        "a plain node runs although all dependencies were skipped",
        "dispatch",
        "plan.is_plain and job.live[node] and not job.large",
        "plan.is_plain and not job.large",
    ),
    in_core(
        "a plain node does not wait for large outputs",
        "dispatch",
        "plan.is_plain and job.live[node] and not job.large",
        "plan.is_plain and job.live[node]",
    ),
    in_core(
        "a retried job counts attempts from one again",
        "dispatch",
        "attempt.number += job.last_attempts.pop(node, 0)",
        "attempt.number += 0",
    ),
    in_core(
        "a result does not start dependent nodes",
        "turn",
        "        self.meet_dependents(node, skipped=False)\n",
        "",
    ),
    in_core(
        "dispatched nodes without a row are forgotten",
        "restoration",
        "    for entry in in_flight:\n",
        "    for entry in ():\n",
    ),
    in_core(
        "only the last dispatched node without a row is stored",
        "turn",
        "tuple(in_flight.values())",
        "tuple(in_flight.values())[-1:]",
    ),
    in_core(
        "nodes of a list that grew too long get no rows",
        "turn",
        "            self.changes.nodes[job.id, entry.node_id] = entry.row(job.id)\n",
        "            pass\n",
    ),
    in_core(
        "a node with a row stays listed as one without",
        "turn",
        "            job.in_flight.pop(node, None)\n",
        "            pass\n",
    ),
    in_core(
        "an allowed failure does not count after a restart",
        "job",
        "return self.plan.nodes[node].allow_failure",
        "return False",
    ),
    in_engine(
        "timers are not set again",
        "shard",
        "        self._timers.set(self.recovery.timers(self.jobs.values()))\n",
        "",
    ),
    in_engine(
        "nothing is published again after a restart",
        "shard",
        "        await self._publish_again(lost)\n        self.ready.set()",
        "        self.ready.set()",
    ),
    in_engine(
        "pending jobs are not started after a restart",
        "shard",
        "        self._carried.extend(self.recovery.hints(self.jobs.values()))\n",
        "",
    ),
    in_engine(
        "the inbox is not rewound", "shard", "        await self._broker.rewind(self.number)\n", ""
    ),
    # Commit before publish
    in_engine(
        "commits are not awaited",
        "shard",
        "                await writing\n",
        "                writing.add_done_callback(lambda done: done.cancelled() or done.exception())\n",
    ),
    in_engine(
        "an engine takes back a shard it has lost",
        "shard",
        "        except StaleLease:\n            raise\n",
        "",
    ),
    in_engine(
        "the epoch of the first lease is kept",
        "shard_lease",
        "        self.epoch = lease.epoch\n",
        "        self.epoch = self.epoch or lease.epoch\n",
    ),
    in_engine(
        "a failed read quarantines a job",
        "job_table",
        "        except StoreUnavailable:\n            raise\n        except Exception:\n            self.quarantined",
        "        except Exception:\n            self.quarantined",
    ),
    in_engine(
        "finished jobs stay in memory",
        "job_table",
        "        if job.is_final:\n            self._finished.add(job_id)\n",
        "",
    ),
    # Sweeps and timers
    in_engine(
        "lost notifications of submits are not found",
        "duties.sweeper",
        "messages += map(Submitted, lost)",
        "_ = map(Submitted, lost)",
    ),
    in_engine(
        "lost notifications of requests are not found",
        "duties.sweeper",
        "[request_message(request) for request in requests]",
        "[]",
    ),
    in_engine(
        "lost tasks are not found",
        "duties.sweeper",
        "lost = [places[task_id] for task_id in unknown if task_id in self._suspects]",
        "lost: list[tuple[str, int]] = []",
    ),
    in_engine(
        "the rest of a large step is forgotten",
        "shard",
        "self._carried.extend(Continue(job_id) for job_id in dict.fromkeys(changes.unfinished_turns))",
        "pass",
    ),
    in_engine(
        "timers fire early",
        "timers",
        "self._heap[0][0] <= now:",
        "self._heap[0][0] <= now + 400_000:",
    ),
    in_engine(
        "durations end by the wall clock",
        "timers",
        "self._durations = _TimerHeap(clock.now)",
        "self._durations = _TimerHeap(clock.wall)",
    ),
    in_engine(
        "decisions are made by the wall clock",
        "shard",
        "now, wall = self._clock.now(), self._clock.wall()",
        "now, wall = self._clock.wall(), self._clock.wall()",
    ),
    in_engine("a timer that cannot be sent is lost", "timers", "if not sent:", "if False:"),
    # Submits
    in_engine(
        "a used key is not a conflict",
        "submit",
        "        if result.conflict:\n            raise conflict(result)\n        return result\n",
        "        return result\n",
    ),
)
