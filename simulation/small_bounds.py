"""Bounds of the engine made so small that small workflows reach them."""

from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType

from windlass.core import dispatch, loop_state, pagination
from windlass.engine import output_store
from windlass.worker import large_values

# Outputs beyond this many bytes are large.
LARGE_BYTES = 400

_TIGHT: tuple[tuple[ModuleType, str, int], ...] = (
    (dispatch, "TURN_READY_MAX", 2),
    (dispatch, "BATCH_TASKS_MAX", 3),
    (loop_state, "BLOCK_ELEMENTS", 2),
    (loop_state, "WAITING_MAX", 1),
    (output_store, "GATHER_ROWS", 2),
    (output_store, "KEPT_MAX", 1),
    (output_store, "INLINE_BYTES_MAX", LARGE_BYTES),
    (pagination, "INLINE_BYTES_MAX", LARGE_BYTES),
    (large_values, "INLINE_BYTES_MAX", LARGE_BYTES),
)


@contextmanager
def small_bounds(*, tight: bool) -> Generator[None]:
    """Have the bounds small inside the block, if they are to be."""
    chosen = _TIGHT if tight else ()
    before = [(module, name, getattr(module, name)) for module, name, _ in chosen]
    for module, name, bound in chosen:
        setattr(module, name, bound)
    try:
        yield
    finally:
        for module, name, bound in before:
            setattr(module, name, bound)
