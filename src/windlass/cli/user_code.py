"""Imports the modules in which users declare handlers, again when they change."""

import importlib
import os
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from windlass.core.errors import HandlerInvalid

Result = TypeVar("Result")

# Never modules of the user: this package, installed packages and the standard library.
OWN_PACKAGE = "windlass"
INSTALLED = frozenset({"site-packages", "dist-packages"})
LIBRARY = str(Path(os.__file__).parent) + os.sep


def import_modules(names: Iterable[str], folder: Path | None = None) -> None:
    """Import modules from the current directory, `folder` or the environment. HandlerInvalid."""
    # The installed command starts with its own directory on the path, not with the user's.
    directories = [str(path) for path in dict.fromkeys((Path.cwd(), (folder or Path()).resolve()))]
    for name in names:
        sys.path[:0] = [directory for directory in directories if directory not in sys.path]
        try:
            importlib.import_module(name)
        except Exception as error:
            message = f"cannot import module {name}: {type(error).__name__}: {error}"
            if isinstance(error, ModuleNotFoundError):
                message += f" (searched first in {' and '.join(directories)})"
            raise HandlerInvalid(message) from error


def user_modules(names: Sequence[str], folder: Path) -> dict[str, Path]:
    """Return the loaded modules of the user with their files: those in `names`, and those inside `folder`."""
    root = folder.resolve()
    found: dict[str, Path] = {}
    for name, module in list(sys.modules.items()):
        text = _file(module)
        if text is None or name.partition(".")[0] == OWN_PACKAGE:
            continue
        # Resolving all files of a program takes 50 ms, and this runs every second.
        if name not in names and _is_installed(text, root):
            continue
        file = Path(text).resolve()
        if name in names or _is_inside(file, root):
            found[name] = file
    return found


def reimport_modules(names: Sequence[str], folder: Path, build: Callable[[], Result]) -> Result:
    """Import the user's modules again and return what `build` makes of them; on any error the old modules stay.

    Not `importlib.reload`: it changes modules in place, while their handlers run and before the import has succeeded.
    """
    old = {name: sys.modules.pop(name) for name in user_modules(names, folder)}
    importlib.invalidate_caches()
    try:
        import_modules(names, folder)
        return build()
    except BaseException:
        for name in user_modules(names, folder):
            del sys.modules[name]
        sys.modules.update(old)
        raise


@contextmanager
def without_bytecode() -> Generator[None]:
    """Write no compiled modules: Python compares their age in whole seconds, and users may save twice in one."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _file(module: ModuleType | None) -> str | None:
    file: object = getattr(module, "__file__", None)
    if not isinstance(file, str) or getattr(module, "__name__", "") == "__main__":
        return None
    return file


def _is_installed(file: str, root: Path) -> bool:
    if file.startswith(LIBRARY):
        return True
    below = file.removeprefix(str(root))
    return any(f"{os.sep}{part}{os.sep}" in below for part in INSTALLED)


def _is_inside(file: Path, root: Path) -> bool:
    if not file.is_relative_to(root):
        return False
    return not any(
        part in INSTALLED or part.startswith(".") for part in file.relative_to(root).parts
    )
