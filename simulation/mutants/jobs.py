"""Mistakes made on purpose: each is one change to the core or the engine that the simulator must notice.

Run as a script with the name of a mutant, it tells the first seed that noticed it, or that none did.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from simulation.mutants.known_seeds import SEEDS_THAT_NOTICED
from simulation.mutants.loops import LOOP_MUTANTS, Mutant
from simulation.mutants.loops import in_core as _core
from simulation.mutants.loops import in_engine as _engine
from simulation.mutants.sharing import SHARING_MUTANTS

SEEDS_MAX = 400
# Some come before the crash points, which notice quickly what chance seldom reaches.
SEEDS_FIRST = 100
# Fewer than the simulator allows: a mistake that makes something spin is noticed sooner.
ROUNDS_MAX = 10_000


MUTANTS = (
    *LOOP_MUTANTS,
    *SHARING_MUTANTS,
    # The tables of states
    _core(
        "a skipped node counts as completed",
        "states",
        "SKIP      = (frozenset({N.PENDING}),                                     N.SKIPPED)",
        "SKIP      = (frozenset({N.PENDING}),                                     N.COMPLETED)",
    ),
    _core(
        "a cancelled job cannot be retried",
        "states",
        "RETRY     = (frozenset({J.COMPLETED, J.FAILED, J.CANCELLED}),  J.RUNNING)",
        "RETRY     = (frozenset({J.COMPLETED, J.FAILED}),               J.RUNNING)",
    ),
    # Counts and the order of things
    _core("a fan-in fires with its first parent", "turn", "remaining[child] -= 1", "remaining[child] = 0"),
    _core("a fan-in waits for one parent too many", "turn", "if not remaining[child]:", "if remaining[child] < 0:"),
    _core("a skip counts as a real dependency", "turn", "if not skipped:", "if True:"),
    _core("sequence numbers have gaps", "turn", "= self.job.seq + 1", "= self.job.seq + 2"),
    _core("ended nodes are not counted", "turn", "job.unfinished -= 1", "job.unfinished -= 0"),
    _core(
        "the bound of a job never fires",
        "turn",
        'self.wake(job.deadline_at, "job_timeout")',
        "pass",
    ),
    _core(
        "a job ends while nodes are pending",
        "dispatch",
        "elif not job.unfinished and not job.ended:",
        "elif job.unfinished <= 1 and not job.ended:",
    ),
    _core("run_if_skipped is ignored", "dispatch", " and not plan.run_if_skipped", ""),
    _core("conditions are turned round", "dispatch", "return None if is_true(", "return None if not is_true("),
    _core("a retry keeps its attempt number", "dispatch", "flight.attempt += 1", "flight.attempt += 0"),
    _core("a dispatch is not stored", "dispatch", "    turn.depart(node, flight)\n", "    pass\n"),
    _core(
        "a retry does not link to the first attempt",
        "dispatch",
        "    if flight.first_seq is None:\n        flight.first_seq = seq\n",
        "    flight.first_seq = seq\n",
    ),
    # Results and retries
    _core(
        "a result of an older attempt is accepted",
        "job",
        "return flight if is_out and flight is not None and flight.attempt == attempt else None",
        "return flight if is_out and flight is not None else None",
    ),
    _core(
        "a result is accepted while its node waits",
        "job",
        "            is_out = self.states[node] in IN_FLIGHT\n",
        "            is_out = True\n",
    ),
    _core(
        "one attempt more than allowed",
        "retries",
        "attempts_made >= rule.attempts_max",
        "attempts_made > rule.attempts_max",
    ),
    _core(
        "one attempt less than allowed",
        "retries",
        "attempts_made >= rule.attempts_max",
        "attempts_made + 1 >= rule.attempts_max",
    ),
    _core("errors that cannot get better are retried", "retries", "return error.retryable", "return True"),
    _core("the longest wait is not kept", "retries", ", rule.max_delay_seconds)", ", 1e9)"),
    _core("a linear wait does not grow", "retries", "wait *= attempts_made\n", "wait *= 1\n"),
    _core(
        "a lost process uses up the author's attempts",
        "attempts",
        "flight.attempts_before += 1",
        "flight.attempts_before += 0",
    ),
    _core(
        "a loss reported twice counts twice",
        "attempts",
        "message.losses <= flight.losses:",
        "message.losses < flight.losses:",
    ),
    _core(
        "idempotency keys differ between attempts",
        "job",
        "flight.attempts_before - 1, self._identity(flight),",
        "flight.attempts_before - 1, self.task_id(flight),",
    ),
    # Failures, cancels, ends
    _core("nodes after a failure stay pending", "completion", "_descendants(job, [node]):", "[]:"),
    _core("fail_fast lets the others go on", "completion", "if job.plan.fail_fast:", "if False:"),
    _core(
        "a failure is not stored until the job ends",
        "completion",
        "        turn.save_job()\n    upstream",
        "    upstream",
    ),
    _core(
        "workers are not told of a cancel",
        "completion",
        "turn.changes.cancels.append(job.task_id(flight))\n            job.late",
        "job.late",
    ),
    _core(
        "a cancel is never marked as applied",
        "completion",
        "    turn.changes.requests.append(message.request_id)\n    if job.ended:",
        "    if job.ended:",
    ),
    _core(
        "a cancel is applied and does nothing",
        "completion",
        "    if job.ended:\n        return\n    reason",
        "    if True:\n        return\n    reason",
    ),
    _core(
        "a failed job is called completed",
        "completion",
        "    if job.state.error is None:\n        turn.move_job",
        "    if True:\n        turn.move_job",
    ),
    # An operator's retry
    _core("a retry does not count dependencies anew", "completion", "    job.recount(nodes)\n", ""),
    _core("a retry forgets how many nodes are open", "completion", "    job.unfinished += 1\n", ""),
    _core("a retry does not count its round", "completion", "    job.state.round += 1\n", ""),
    _core("a retry leaves what never ran", "completion", " or not wanted.isdisjoint(job.plan.parents[node])", ""),
    _core(
        "a retry starts its attempts at one again",
        "completion",
        "    job.remember_attempt(node, attempt)\n",
        "    job.remember_attempt(node, 0)\n",
    ),
    _core(
        "the timeout of an earlier round ends a retried job",
        "advance",
        "        if job.ended or message.round != job.round:\n            return\n"
        "        if job.deadline_at is not None and turn.now < job.deadline_at:\n",
        "        if job.ended:\n            return\n        if False:\n",
    ),
    # Rebuilding from rows
    _core(
        "rebuilt jobs have no counters",
        "job",
        "        job.recount({child for node, _ in known for child in plan.children[node]})\n",
        "",
    ),
    _core(
        "a plain node runs although all before it was skipped",
        "first_attempt",
        "    if not job.live[node] and job.plan.parents[node]:\n        return False\n",
        "",
    ),
    _core("a plain node counts its attempts anew after a retry", "first_attempt", " or job.attempts_before", ""),
    _core(
        "a plain result lets nobody begin",
        "first_attempt",
        "            job.ready.append(child)\n",
        "            pass\n",
    ),
    _core(
        "nodes that are out without a row are forgotten",
        "job",
        "        for one in departed:\n",
        "        for one in ():\n",
    ),
    _core(
        "pages name only the last that went out without a row",
        "advance",
        "tuple(job.departed.values())",
        "tuple(job.departed.values())[-1:]",
    ),
    _core("nodes that came back are still called out", "first_attempt", "    job.departed.pop(node, None)\n", ""),
    _core(
        "what happens to a node leaves it without a row",
        "turn",
        "            job.departed.pop(node, None)\n",
        "            pass\n",
    ),
    _core(
        "an allowed failure is not met after a restart",
        "job",
        " or (state == _FAILED and self.plan.nodes[node].allow_failure)",
        "",
    ),
    _engine(
        "timers are not set again",
        "shard",
        "        self._timers.set(self.recovery.timers(self.jobs.values()))\n",
        "",
    ),
    _engine(
        "nothing is published again after a restart",
        "shard",
        "        await self._publish_again(lost)\n        self.ready.set()",
        "        self.ready.set()",
    ),
    _engine(
        "pending jobs are not begun after a restart",
        "shard",
        "        self._carried.extend(self.recovery.hints(self.jobs.values()))\n",
        "",
    ),
    _engine("the inbox is not rewound", "shard", "        await self._broker.rewind(self.number)\n", ""),
    # Durable before anything leaves
    _engine(
        "commits are not awaited",
        "shard",
        "                await writing\n",
        "                writing.add_done_callback(lambda done: done.cancelled() or done.exception())\n",
    ),
    _engine("a lost shard is taken back", "shard", "        except StaleLease:\n            raise\n", ""),
    _engine(
        "the epoch of the first lease is kept",
        "shard",
        "        self._lease = await self._taken()\n",
        "        lease = await self._taken()\n        self._lease = self._lease if self._lease.epoch else lease\n",
    ),
    _engine("a failed read sets a job aside", "shard", "        except StoreUnavailable:\n            raise\n", ""),
    _engine("ended jobs stay in memory", "shard", "        if job.ended:\n            self._leaving.add(job_id)\n", ""),
    # The safety net and the timers
    _engine(
        "lost hints of submits are not found", "duties.sweeper", "messages += [Submitted(one)", "_ = [Submitted(one)"
    ),
    _engine(
        "lost hints of requests are not found",
        "duties.sweeper",
        "[_message(request) for request in requests]",
        "[]",
    ),
    _engine(
        "lost tasks are not found",
        "duties.sweeper",
        "lost = [places[task_id] for task_id in unknown if task_id in self._suspects]",
        "lost: list[tuple[str, int]] = []",
    ),
    _engine(
        "the rest of a wide turn is forgotten",
        "shard",
        "self._carried.extend(Continue(job_id) for job_id in dict.fromkeys(changes.unfinished_turns))",
        "pass",
    ),
    _engine("timers fire early", "timers", "self._heap[0][0] <= now:", "self._heap[0][0] <= now + 400_000:"),
    _engine("a timer that cannot be sent is gone", "timers", "if not sent:", "if False:"),
    # Submits
    _engine("a used key is no conflict", "engine", "if answer.conflict:", "if False:"),
)


class _Mutation(MetaPathFinder, Loader):
    """Loads one module with its source changed."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        found = PathFinder.find_spec(fullname, path)
        assert found is not None
        return importlib.util.spec_from_loader(fullname, self, origin=found.origin)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        origin = module.__spec__.origin or ""
        exec(compile(mutated(self._mutant), origin, "exec"), vars(module))


def mutated(mutant: Mutant) -> str:
    """The source with the mistake in it."""
    path = PathFinder.find_spec("windlass")
    assert path is not None
    assert path.submodule_search_locations is not None
    parts = mutant.module.split(".")[1:]
    with open(f"{path.submodule_search_locations[0]}/{'/'.join(parts)}.py", encoding="utf-8") as file:
        source = file.read()
    if source.count(mutant.snippet) != 1:
        raise LookupError(f"{mutant.name}: {mutant.module} has {source.count(mutant.snippet)} times: {mutant.snippet}")
    return source.replace(mutant.snippet, mutant.replacement)


def hunt(name: str) -> str | None:
    """What noticed the mutant, or None. To be called in a process that has not imported anything of Windlass."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    sys.meta_path.insert(0, _Mutation(mutant))
    place = "before anything ran"
    try:
        for place, violations in _looks(SEEDS_THAT_NOTICED.get(name), is_of_sharing=mutant.is_of_sharing):
            found = violations()
            if found:
                return f"{place}: {found[0]}"
    except Exception as error:  # the mutant broke the simulation itself
        return f"at or after {place}: {type(error).__name__}: {error}"
    return None


def _looks(known: int | None, *, is_of_sharing: bool) -> Iterator[tuple[str, Callable[[], Sequence[object]]]]:
    """Simulations that may notice something: a seed that is known to, then all of them, the quickest first."""
    # Not before the mistake is in.
    from simulation.faults import Fault, FaultAt
    from simulation.reference_workflows import (
        REFERENCE_SETTINGS,
        SHARED_SETTING,
        a_bounded_job,
        a_task_that_kills,
        crash_points,
        forgotten_points,
        former_owner_reads_on,
        loops_of_all_kinds,
        pages_in_a_loop,
        run_reference,
        thirty_nodes,
    )
    from simulation.scenarios import SHARING_EVERY, run_seed
    from windlass.testing import virtual_time

    virtual_time.ROUNDS_MAX = ROUNDS_MAX
    if known is not None:
        yield f"seed {known}", lambda: run_seed(known).violations
    if is_of_sharing:
        yield "a former owner", lambda: former_owner_reads_on().violations
        for seed in range(SHARING_EVERY - 1, 2 * SEEDS_FIRST, SHARING_EVERY):
            yield f"seed {seed}", lambda seed=seed: run_seed(seed).violations
        for point, report in crash_points(thirty_nodes(), SHARED_SETTING, Fault.STOP):
            yield point, lambda report=report: report.violations
    for reference in (pages_in_a_loop(), loops_of_all_kinds(), a_bounded_job(), a_task_that_kills()):
        for where, setting in REFERENCE_SETTINGS.items():
            yield where, lambda r=reference, s=setting: run_reference(r, FaultAt(), s).violations
    for point, report in forgotten_points(thirty_nodes(), REFERENCE_SETTINGS["the broker survives the engine"]):
        yield point, lambda report=report: report.violations
    for seed in range(SEEDS_FIRST):
        yield f"seed {seed}", lambda seed=seed: run_seed(seed).violations
    for setting in REFERENCE_SETTINGS.values():
        for point, report in crash_points(pages_in_a_loop(), setting, Fault.FAIL_BEFORE):
            yield point, lambda report=report: report.violations
    for seed in range(SEEDS_FIRST, SEEDS_MAX):
        yield f"seed {seed}", lambda seed=seed: run_seed(seed).violations
    for reference in (thirty_nodes(), loops_of_all_kinds()):
        for setting in REFERENCE_SETTINGS.values():
            for point, report in crash_points(reference, setting, Fault.FAIL_BEFORE):
                yield point, lambda report=report: report.violations


if __name__ == "__main__":
    found = hunt(sys.argv[1])
    sys.stdout.write(f"{found or 'survived'}\n")
    sys.exit(0 if found else 1)
