"""`make chaos`: real processes and servers under load, killed, paused and emptied at random; then an audit of it all.

From the top folder: `python -m benchmarks.chaos --seconds 300 --seed 1`.
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
    """Run, print the report; 0 when nothing was violated."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long faults happen")
    parser.add_argument("--rate", type=float, default=RATE, help="jobs offered a second")
    parser.add_argument("--seed", type=int, help="the choice of faults and work; a new one by default")
    parser.add_argument("--brief", action="store_true", help="short leases and short pauses between faults")
    parser.add_argument("--calm", action="store_true", help="no faults: what the machine can do")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and ledgers")
    wanted = parser.parse_args()
    seed = SystemRandom().randrange(1_000_000) if wanted.seed is None else wanted.seed
    told = f"--seconds {wanted.seconds:g} --rate {wanted.rate:g} --seed {seed}{' --brief' if wanted.brief else ''}"
    print(f"replay with: python -m benchmarks.chaos {told}")
    pace = msgspec.structs.replace(BRIEF if wanted.brief else FULL, calm=wanted.calm)
    report = asyncio.run(chaos(pace, wanted.seconds, wanted.rate, seed, keep=wanted.keep, say=print))
    print(report.text())
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
