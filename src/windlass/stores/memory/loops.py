"""Iterations and outputs of loops and paginated nodes, in dictionaries."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Raw

from windlass.core.changes import IterationRow, MergeOutputs
from windlass.ports.store.jobs import IterationFilter
from windlass.stores.memory.tables import Tables


class MemoryLoops:
    """The part of the JobStore contract about loops and paginated nodes."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def iterations(self, wanted: IterationFilter) -> Sequence[IterationRow]:
        found: list[IterationRow] = []
        for (number, generation, index), row in sorted(
            self._tables.job(wanted.job_id).iterations.items()
        ):
            is_of_loop = (number, generation) == (wanted.number, wanted.generation)
            if is_of_loop and index > wanted.after and wanted.status in (None, row.status):
                found.append(row)
        return found[: wanted.limit]

    async def iteration_counts(
        self, job_id: str, number: int, generation: int
    ) -> Mapping[str, int]:
        rows = self._tables.job(job_id).iterations.values()
        return Counter(
            row.status for row in rows if (row.number, row.generation) == (number, generation)
        )

    async def unrecorded_iterations(self, wanted: IterationFilter, begun: int) -> Sequence[int]:
        rows = self._tables.job(wanted.job_id).iterations
        indexes = range(wanted.after + 1, begun)
        found = [
            index for index in indexes if (wanted.number, wanted.generation, index) not in rows
        ]
        return found[: wanted.limit]

    async def iteration_outputs(
        self, wanted: MergeOutputs, start: int, stop: int
    ) -> Sequence[Raw | None]:
        iterations = self._tables.job(wanted.job_id).iterations
        rows = (
            iterations.get((wanted.number, wanted.generation, index))
            for index in range(start, stop)
        )
        return [None if row is None else row.output for row in rows]

    async def call_outputs(self, wanted: MergeOutputs) -> Sequence[Raw]:
        outputs = self._tables.job(wanted.job_id).call_outputs
        assert wanted.index is not None
        keys = [
            (wanted.number, wanted.generation, wanted.index, call)
            for call in range(1, wanted.count + 1)
        ]
        return [outputs[key] for key in keys if key in outputs]
