"""Limits of the engine reduced so far that small workflows reach them."""

from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType

from windlass.core import dispatch, loop_state, pagination, turn
from windlass.engine import output_store
from windlass.worker import large_values

# Outputs above this size are large.
LARGE_BYTES = 400

_TIGHT: tuple[tuple[ModuleType, str, int], ...] = (
    (dispatch, "TURN_READY_MAX", 2),
    (dispatch, "BATCH_TASKS_MAX", 3),
    (turn, "IN_FLIGHT_ENTRIES_MAX", 4),
    (turn, "SHORT_LIST_ENTRIES", 1),
    (loop_state, "CHUNK_ELEMENTS", 2),
    (loop_state, "WAITING_MAX", 1),
    (output_store, "MERGE_ROWS", 2),
    (output_store, "VALUES_KEPT_MAX", 1),
    (output_store, "INLINE_BYTES_MAX", LARGE_BYTES),
    (pagination, "INLINE_BYTES_MAX", LARGE_BYTES),
    (large_values, "INLINE_BYTES_MAX", LARGE_BYTES),
)


@contextmanager
def small_bounds(*, tight: bool) -> Generator[None]:
    """Use the small limits inside the block if `tight`."""
    if not tight:
        yield
        return
    before = [(module, name, getattr(module, name)) for module, name, _ in _TIGHT]
    for module, name, bound in _TIGHT:
        setattr(module, name, bound)
    try:
        yield
    finally:
        for module, name, bound in before:
            setattr(module, name, bound)
