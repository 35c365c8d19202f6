"""The rows of a job's loops in a memory store, as tests and the simulator read them."""

from collections.abc import Mapping, Sequence

from msgspec import Raw, Struct

from windlass.core.changes import IterationRow


class LoopRecords(Struct, frozen=True):
    """The rows of a job's loops and paginated nodes, of all generations."""

    iterations: Sequence[IterationRow] = ()
    # By the node's number and its generation; pages also by index (-1 outside of loops) and call.
    collections: Mapping[tuple[int, int], Sequence[bytes]] = {}
    pages: Mapping[tuple[int, int, int, int], Raw] = {}
