"""`make bench`: Windlass and Celery + Redis, one after the other on the same machine in the same run."""

import argparse
import json
import sys

from msgspec import structs

from celery_peer import measure as measure_celery
from celery_peer import peer
from windlass.cli.bench.measurement import format_table
from windlass.cli.bench.suite import run_benchmarks
from windlass.cli.commands.bench import DEFAULT_BENCHMARKS, REPEATS

PEER_REPEATS = 3
GROUPS = {"chain": "chain", "fan": "fan", "jobs": "jobs", "bigfan": "big fan"}


def main() -> int:
    """Measure both; a table, then one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", help="groups of `windlass bench`; all by default")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--no-peer", action="store_true", help="measure Windlass alone")
    wanted = parser.parse_args()
    figures = run_benchmarks(wanted.groups or DEFAULT_BENCHMARKS, wanted.repeats)
    print(format_table(figures))
    celery: dict[str, float] = {}
    if not wanted.no_peer:
        with peer():
            celery = measure_celery(PEER_REPEATS)
        print("\nCelery + Redis (2 processes, late acks, log flushed every second), beside Windlass:")
        for group, prefix in GROUPS.items():
            ours = next((one for one in figures if one.workload.startswith(f"{prefix}:")), None)
            if ours is None:
                continue
            factor = celery[group] / ours.median if ours.unit == "ms/node" else ours.median / celery[group]
            beside = f"Celery {celery[group]:>10,.2f} {ours.unit:<8} Windlass is {factor:,.1f} x faster"
            print(f"  {ours.workload:<36} {beside}")
    print(json.dumps({"windlass": [structs.asdict(one) for one in figures], "celery": celery}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
