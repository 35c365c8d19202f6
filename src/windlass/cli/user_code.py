"""Imports the modules in which users declare handlers."""

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from windlass.core.errors import HandlerInvalid


def import_modules(names: Iterable[str]) -> None:
    """Import modules from the current folder or the environment; HandlerInvalid says which one could not be."""
    for name in names:
        # The installed command starts with its own folder on the path, not with the user's.
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.insert(0, here)
        try:
            import_module(name)
        except Exception as error:
            raise HandlerInvalid(
                f"the module {name} can not be imported: {type(error).__name__}: {error} (looked in {here} first)"
            ) from error
