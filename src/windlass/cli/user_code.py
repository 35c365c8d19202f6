"""Imports the modules in which users declare handlers, and imports them again when they change."""

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

# Never the user's, wherever it lies: what runs here, and what was installed.
OWN_PACKAGE = "windlass"
INSTALLED = frozenset({"site-packages", "dist-packages"})
LIBRARY = str(Path(os.__file__).parent) + os.sep


def import_modules(names: Iterable[str], folder: Path | None = None) -> None:
    """Import modules from this folder, another one or the environment; HandlerInvalid says which could not be."""
    # The installed command starts with its own folder on the path, not with the user's.
    here = [str(place) for place in dict.fromkeys((Path.cwd(), (folder or Path()).resolve()))]
    for name in names:
        sys.path[:0] = [place for place in here if place not in sys.path]
        try:
            importlib.import_module(name)
        except Exception as error:
            raise HandlerInvalid(
                f"the module {name} cannot be imported: {type(error).__name__}: {error} "
                f"(looked in {' and '.join(here)} first)"
            ) from error


def user_modules(names: Sequence[str], folder: Path) -> dict[str, Path]:
    """The loaded modules that are the user's, with their files: those named, and those that lie in a folder."""
    root = folder.resolve()
    found: dict[str, Path] = {}
    for name, module in list(sys.modules.items()):
        text = _file(module)
        # To resolve all the files of a program takes a twentieth of a second, and they are looked for every second.
        if text is None or name.partition(".")[0] == OWN_PACKAGE or (name not in names and _is_installed(text, root)):
            continue
        file = Path(text).resolve()
        if name in names or _within(file, root):
            found[name] = file
    return found


def import_again(names: Sequence[str], folder: Path, then: Callable[[], Result]) -> Result:
    """Import the user's modules anew and take over what `then` makes of them; on any failure the old ones stay.

    Not `importlib.reload`: it changes the old modules in place, under handlers that run and before it is known to work.
    """
    old = {name: sys.modules.pop(name) for name in user_modules(names, folder)}
    importlib.invalidate_caches()
    try:
        import_modules(names, folder)
        return then()
    except BaseException:
        for name in user_modules(names, folder):
            del sys.modules[name]
        sys.modules.update(old)
        raise


@contextmanager
def without_bytecode() -> Generator[None]:
    """Write no compiled modules: they are told apart by whole seconds, and people save twice within one."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _file(module: ModuleType | None) -> str | None:
    file: object = getattr(module, "__file__", None)
    return file if isinstance(file, str) and getattr(module, "__name__", "") != "__main__" else None


def _is_installed(file: str, root: Path) -> bool:
    below = file.removeprefix(str(root))
    return file.startswith(LIBRARY) or any(f"{os.sep}{part}{os.sep}" in below for part in INSTALLED)


def _within(file: Path, root: Path) -> bool:
    if not file.is_relative_to(root):
        return False
    return not any(part in INSTALLED or part.startswith(".") for part in file.relative_to(root).parts)
