"""Write every generated file, or check that none is stale: `python -m tools.generate [--check]`."""

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import tools.generate
from tools.generate.output import ROOT, Output

NOT_GENERATORS = {"__main__", "output"}


def outputs() -> Iterator[Output]:
    """Collect what every module of this package generates; each has a function `outputs`."""
    for module in iter_modules(tools.generate.__path__):
        if module.name not in NOT_GENERATORS:
            yield from import_module(f"tools.generate.{module.name}").outputs()


def main() -> int:
    """Write the files that changed; with --check, list the stale ones and return 1."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail when a file is stale"
    )
    check = parser.parse_args().check
    stale: list[str] = []
    for output in outputs():
        path = ROOT / output.path
        text = output.render()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if output.path not in stale:
            stale.append(output.path)
        if not check:
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"stale: {name}; run `make generate`" if check else f"wrote {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
