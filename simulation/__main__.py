"""Runs the simulator over many seeds: `python -m simulation --seeds 5000`."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor

from simulation.scenarios import prepare_seed, run_seed
from simulation.simulator import Report, Simulation

FAILURES_SHOWN_MAX = 10
VIOLATIONS_SHOWN_MAX = 5
# Seeds handed to the processes ahead of time.
AHEAD_MAX = 64


def replay_command(seed: int) -> str:
    """What to type to see a seed again."""
    return f"python -m simulation --seed {seed}"


def results(seeds: Sequence[int], processes: int) -> "Iterator[tuple[int, Future[Report]]]":
    """Each seed with its report, or with what it raised, in order."""
    with ProcessPoolExecutor(processes) as pool:
        waiting: list[tuple[int, Future[Report]]] = []
        for seed in seeds:
            waiting.append((seed, pool.submit(run_seed, seed)))
            if len(waiting) >= AHEAD_MAX:
                yield waiting.pop(0)
        yield from waiting


def run_many(first: int, count: int, processes: int) -> int:
    """Run seeds and tell of those that failed; how many."""
    began = time.perf_counter()
    failed = 0
    totals = {"jobs": 0, "events": 0, "executions": 0, "calls": 0, "restarts": 0}
    for seed, future in results(range(first, first + count), processes):
        error = future.exception()
        found = (
            [f"{type(error).__name__}: {error}"] if error is not None else [str(v) for v in future.result().violations]
        )
        if error is None:
            for name in totals:
                totals[name] += getattr(future.result(), name)
        if found:
            failed += 1
            if failed <= FAILURES_SHOWN_MAX:
                print(f"seed {seed}: {len(found)} violations; replay with: {replay_command(seed)}")
                print("\n".join(f"    {text}" for text in found[:VIOLATIONS_SHOWN_MAX]))
    seconds = time.perf_counter() - began
    told = ", ".join(f"{value:,} {name}" for name, value in totals.items())
    print(f"{count:,} seeds in {seconds:.1f} s ({1000 * seconds / count:.1f} ms each): {failed} with violations")
    print(f"  {told}")
    return failed


def run_one(seed: int) -> int:
    """Run one seed and show the timeline of every job that something is wrong with."""
    simulation, scenario = prepare_seed(seed)
    report = simulation.run(scenario.play)
    print(f"seed {seed}: {simulation.setting}")
    print(f"  {report.jobs} jobs, {report.events} events, {report.executions} executions, {report.calls} calls, "
          f"{report.restarts} restarts, {report.seconds:.1f} s of virtual time")  # fmt: skip
    for violation in report.violations:
        print(f"  {violation}")
    for job_id in sorted({violation.job_id for violation in report.violations}):
        show_job(simulation, job_id)
    print("no violations" if not report.violations else f"{len(report.violations)} violations")
    return len(report.violations)


def show_job(simulation: Simulation, job_id: str) -> None:
    """Print what happened to a job."""
    if job_id not in simulation.store.job_ids():
        return
    job = simulation.store.rows(job_id).job
    print(f"\njob {job_id} of {job.spec.workflow_id}: {job.state.status}")
    for event in simulation.store.log(job_id):
        data = "" if event.data is None else bytes(event.data).decode()[:160]
        place = (event.node_id or "") + ("" if event.index is None else f"[{event.index}]")
        print(f"  {event.seq:4} {event.at} {event.type:24} {place:10} {data}")


def main(arguments: Sequence[str]) -> int:
    """The command; 1 when something was violated."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one alone and show what happened")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        return int(run_one(chosen.seed) > 0)
    return int(run_many(chosen.first, chosen.seeds, chosen.processes) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
