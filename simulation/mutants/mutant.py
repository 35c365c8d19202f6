"""Mutants: deliberate errors, each one a change to the source of the package."""

from importlib.machinery import PathFinder

from msgspec import Struct


class Mutant(Struct, frozen=True):
    """One change: in `module`, `snippet` (which must occur exactly once) becomes `replacement`."""

    name: str
    module: str
    snippet: str
    replacement: str
    # Whether simulations with several engines are tried first.
    is_of_sharing: bool = False
    # Whether only simulations of runs can detect it.
    is_of_runs: bool = False

    def source(self) -> str:
        """Return the changed source of the module. Raises LookupError if the snippet does not occur once."""
        package = PathFinder.find_spec("windlass")
        assert package is not None
        assert package.submodule_search_locations is not None
        path = "/".join(self.module.split(".")[1:])
        with open(f"{package.submodule_search_locations[0]}/{path}.py", encoding="utf-8") as file:
            source = file.read()
        count = source.count(self.snippet)
        if count != 1:
            raise LookupError(
                f"{self.name}: the snippet occurs {count} times in {self.module}: {self.snippet}"
            )
        return source.replace(self.snippet, self.replacement)


def in_core(name: str, module: str, snippet: str, replacement: str) -> Mutant:
    """Return an error in a module of the core."""
    return Mutant(name, f"windlass.core.{module}", snippet, replacement)


def in_engine(name: str, module: str, snippet: str, replacement: str) -> Mutant:
    """Return an error in a module of the engine."""
    return Mutant(name, f"windlass.engine.{module}", snippet, replacement)
