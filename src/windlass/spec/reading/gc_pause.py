"""Keeps the garbage collector out of the way while large workflows are read."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collections_paused() -> Generator[None]:
    """Reading makes millions of values and no cycles; looking for cycles among them takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
