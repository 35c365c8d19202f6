"""Runs the simulator over many seeds: `python -m simulation --seeds 5000`."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor

from simulation.scenarios import prepare_seed, run_seed
from simulation.simulator import Simulation, SimulationReport

FAILURES_SHOWN_MAX = 10
VIOLATIONS_SHOWN_MAX = 5
# Seeds that are submitted to the pool ahead of their results.
AHEAD_MAX = 64
TOTALS = ("jobs", "events", "executions", "calls", "restarts")


def replay_command(seed: int) -> str:
    """Return the command that runs a seed again and shows it."""
    return f"python -m simulation --seed {seed}"


def results(
    seeds: Sequence[int], processes: int
) -> "Iterator[tuple[int, Future[SimulationReport]]]":
    """Yield each seed with the future of its report, in order."""
    with ProcessPoolExecutor(processes) as pool:
        waiting: list[tuple[int, Future[SimulationReport]]] = []
        for seed in seeds:
            waiting.append((seed, pool.submit(run_seed, seed)))
            if len(waiting) >= AHEAD_MAX:
                yield waiting.pop(0)
        yield from waiting


def run_many(first: int, count: int, processes: int) -> int:
    """Run seeds and print those that failed; return their number."""
    started = time.perf_counter()
    failed = 0
    totals: Counter[str] = Counter()
    for seed, future in results(range(first, first + count), processes):
        found = _violations(future, totals)
        if found:
            failed += 1
            if failed <= FAILURES_SHOWN_MAX:
                print(f"seed {seed}: {len(found)} violations; replay with: {replay_command(seed)}")
                print("\n".join(f"    {text}" for text in found[:VIOLATIONS_SHOWN_MAX]))
    seconds = time.perf_counter() - started
    print(
        f"{count:,} seeds in {seconds:.1f} s ({1000 * seconds / count:.1f} ms each): {failed} with violations"
    )
    print("  " + ", ".join(f"{totals[name]:,} {name}" for name in TOTALS))
    return failed


def _violations(future: "Future[SimulationReport]", totals: "Counter[str]") -> list[str]:
    """Return what a seed violated or raised, and add its counts to the totals."""
    error = future.exception()
    if error is not None:
        return [f"{type(error).__name__}: {error}"]
    report = future.result()
    for name in TOTALS:
        totals[name] += getattr(report, name)
    return [str(violation) for violation in report.violations]


def run_one(seed: int) -> int:
    """Run one seed, print the timeline of every job with violations, and return their number."""
    simulation, scenario = prepare_seed(seed)
    report = simulation.run(scenario.run)
    print(f"seed {seed}: {simulation.config}")
    counts = ", ".join(f"{getattr(report, name)} {name}" for name in TOTALS)
    print(f"  {counts}, {report.seconds:.1f} s of virtual time")
    for violation in report.violations:
        print(f"  {violation}")
    for job_id in sorted({violation.job_id for violation in report.violations}):
        show_job(simulation, job_id)
    if report.violations:
        print(f"{len(report.violations)} violations")
    else:
        print("no violations")
    return len(report.violations)


def show_job(simulation: Simulation, job_id: str) -> None:
    """Print the events of a job."""
    if job_id not in simulation.store.job_ids():
        return
    job = simulation.store.rows(job_id).job
    print(f"\njob {job_id} of {job.spec.workflow_id}: {job.state.status}")
    for event in simulation.store.log(job_id):
        data = "" if event.data is None else bytes(event.data).decode()[:160]
        subject = event.node_id or ""
        if event.index is not None:
            subject += f"[{event.index}]"
        print(f"  {event.seq:4} {event.at} {event.type:24} {subject:10} {data}")


def main(arguments: Sequence[str]) -> int:
    """Run the command; return 1 if there were violations."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="number of seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run only this seed and show what happened")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        return int(run_one(chosen.seed) > 0)
    return int(run_many(chosen.first, chosen.seeds, chosen.processes) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
