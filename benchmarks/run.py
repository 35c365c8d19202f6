"""`make bench`: measures Windlass and Celery + Redis, one after the other on the same machine."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

from msgspec import structs

from celery_peer import measure as measure_celery
from celery_peer import peer
from results import aligned
from windlass.cli.bench.measurement import Measurement, format_table
from windlass.cli.bench.suite import run_benchmarks
from windlass.cli.commands.bench import DEFAULT_BENCHMARKS, REPEATS

PEER_REPEATS = 3
GROUPS = {"chain": "chain", "fan": "fan", "jobs": "jobs", "bigfan": "big fan"}


def comparison(figures: Sequence[Measurement], celery: Mapping[str, float]) -> str:
    """Return a table of the workloads that both systems ran."""
    rows = [["workload", "unit", "Windlass", "Celery", "Windlass is faster by"]]
    for group, prefix in GROUPS.items():
        for figure in figures:
            if figure.workload.startswith(f"{prefix}:"):
                factor = figure.median / celery[group]
                if figure.unit == "ms/node":
                    factor = 1 / factor
                values = [f"{figure.median:,.2f}", f"{celery[group]:,.2f}", f"{factor:,.1f} x"]
                rows.append([figure.workload, figure.unit, *values])
    return aligned(rows)


def main() -> int:
    """Measure both; print tables, then one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", help="groups of `windlass bench`; all by default")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--no-peer", action="store_true", help="measure only Windlass")
    options = parser.parse_args()
    figures = run_benchmarks(options.groups or DEFAULT_BENCHMARKS, options.repeats)
    print(format_table(figures))
    celery: dict[str, float] = {}
    if not options.no_peer:
        with peer():
            celery = measure_celery(PEER_REPEATS)
        print("\nCelery + Redis (2 processes, late acks, log flushed every second) and Windlass:")
        print(comparison(figures, celery))
    print(
        json.dumps({"windlass": [structs.asdict(figure) for figure in figures], "celery": celery})
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
