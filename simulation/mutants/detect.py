"""Detecting mutants: runs simulations on a changed module until one reports a violation.

`python -m simulation.mutants.detect "<name>"` prints the first simulation that detects the mutant.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from simulation.mutants.jobs import JOB_MUTANTS
from simulation.mutants.known_seeds import KNOWN_SEEDS
from simulation.mutants.loops import LOOP_MUTANTS
from simulation.mutants.mutant import Mutant
from simulation.mutants.runs import RUN_MUTANTS
from simulation.mutants.sharing import SHARING_MUTANTS

MUTANTS = (*LOOP_MUTANTS, *SHARING_MUTANTS, *JOB_MUTANTS, *RUN_MUTANTS)
RUN_SEEDS_MAX = 100
SEEDS_MAX = 800
# Seeds that are tried before the crash points, which quickly detect what seeds rarely reach.
SEEDS_FIRST = 100
# Fewer than the simulator allows: a mutant that makes a loop spin is detected sooner.
ROUNDS_MAX = 10_000

Check = tuple[str, Callable[[], Sequence[object]]]


class _MutatedLoader(MetaPathFinder, Loader):
    """Loads the mutant's module with its source changed."""

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
        exec(compile(self._mutant.source(), origin, "exec"), vars(module))


def detect(name: str) -> str | None:
    """Return what detected the mutant, or None. The process must not have imported any module of Windlass yet."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    # An outdated snippet must not count as a detection.
    mutant.source()
    sys.meta_path.insert(0, _MutatedLoader(mutant))
    place = "import"
    try:
        for place, violations in _checks(mutant):
            found = violations()
            if found:
                return f"{place}: {found[0]}"
    except Exception as error:  # the mutant broke the simulation itself
        return f"at or after {place}: {type(error).__name__}: {error}"
    return None


def _checks(mutant: Mutant) -> Iterator[Check]:
    """Yield simulations that may detect the mutant: a known seed first, then all of them, the fastest first."""
    # Imported late: these modules import the mutated one.
    from windlass.testing import virtual_time

    virtual_time.ROUNDS_MAX = ROUNDS_MAX
    if mutant.is_of_runs:
        yield from _run_seeds(mutant)
        return
    known = KNOWN_SEEDS.get(mutant.name)
    if known is not None:
        yield from _seeds([known])
    if mutant.is_of_sharing:
        yield from _sharing_checks()
    yield from _reference_checks()
    yield from _seeds(range(SEEDS_FIRST))
    yield from _page_crash_points()
    yield from _seeds(range(SEEDS_FIRST, SEEDS_MAX))
    yield from _other_crash_points()


def _run_seeds(mutant: Mutant) -> Iterator[Check]:
    from simulation.run_scenarios import run_runs_seed

    known = KNOWN_SEEDS.get(mutant.name)
    for seed in [*([] if known is None else [known]), *range(RUN_SEEDS_MAX)]:
        yield f"runs, seed {seed}", lambda seed=seed: run_runs_seed(seed)


def _seeds(seeds: Sequence[int]) -> Iterator[Check]:
    from simulation.scenarios import run_seed

    for seed in seeds:
        yield f"seed {seed}", lambda seed=seed: run_seed(seed).violations


def _sharing_checks() -> Iterator[Check]:
    from simulation import reference_workflows as references
    from simulation.faults import Fault
    from simulation.scenarios import SHARING_EVERY

    yield "a former owner", lambda: references.former_owner_resumes().violations
    yield from _seeds(range(SHARING_EVERY - 1, 2 * SEEDS_FIRST, SHARING_EVERY))
    for point, report in references.crash_points(
        references.thirty_nodes(), references.SHARED_CONFIG, Fault.STOP
    ):
        yield point, lambda report=report: report.violations


def _reference_checks() -> Iterator[Check]:
    from simulation import reference_workflows as references
    from simulation.faults import FaultAtCall

    for make in (
        references.pages_in_a_loop,
        references.loops_of_all_kinds,
        references.a_bounded_job,
        references.a_task_that_kills,
    ):
        for name, config in references.REFERENCE_CONFIGS.items():
            workflow = make()
            yield (
                name,
                lambda w=workflow, c=config: (
                    references.run_reference(w, FaultAtCall(), c).violations
                ),
            )
    separate = references.REFERENCE_CONFIGS["the broker survives the engine"]
    for point, report in references.lost_commit_points(references.thirty_nodes(), separate):
        yield point, lambda report=report: report.violations


def _page_crash_points() -> Iterator[Check]:
    from simulation import reference_workflows as references
    from simulation.faults import Fault

    for config in references.REFERENCE_CONFIGS.values():
        for point, report in references.crash_points(
            references.pages_in_a_loop(), config, Fault.FAIL_BEFORE
        ):
            yield point, lambda report=report: report.violations


def _other_crash_points() -> Iterator[Check]:
    from simulation import reference_workflows as references
    from simulation.faults import Fault

    for workflow in (references.thirty_nodes(), references.loops_of_all_kinds()):
        for config in references.REFERENCE_CONFIGS.values():
            for point, report in references.crash_points(workflow, config, Fault.FAIL_BEFORE):
                yield point, lambda report=report: report.violations


if __name__ == "__main__":
    result = detect(sys.argv[1])
    sys.stdout.write(f"{result or 'not detected'}\n")
    sys.exit(0 if result else 1)
