"""`make chaos`: kills, pauses and flushes real processes and servers under load, then audits the result.

Run `python -m benchmarks.chaos --seconds 300 --seed 1` in the top folder.
"""

import argparse
import asyncio
import sys
from random import SystemRandom

import msgspec

from benchmarks.chaos.faults import BRIEF, FULL
from benchmarks.chaos.run import chaos

SECONDS = 300.0
RATE = 200.0


def main() -> int:
    """Run and print the report; return 0 if there were no violations."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="duration of the load and the faults"
    )
    parser.add_argument("--rate", type=float, default=RATE, help="jobs submitted per second")
    parser.add_argument("--seed", type=int, help="determines faults and jobs; random by default")
    parser.add_argument(
        "--brief", action="store_true", help="use short leases and short pauses between faults"
    )
    parser.add_argument(
        "--no-faults",
        action="store_true",
        help="inject no faults, to measure what the machine can do",
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs")
    options = parser.parse_args()
    seed = SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    arguments = f"--seconds {options.seconds:g} --rate {options.rate:g} --seed {seed}"
    if options.brief:
        arguments += " --brief"
    print(f"run again with: python -m benchmarks.chaos {arguments}")
    pace = msgspec.structs.replace(
        BRIEF if options.brief else FULL, has_faults=not options.no_faults
    )
    report = asyncio.run(
        chaos(pace, options.seconds, options.rate, seed, keep=options.keep, log=print)
    )
    print(report.text())
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
