"""Conversions from rows of PostgreSQL."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from windlass.core.changes import NodeRow
from windlass.core.loop_state import LoopRows
from windlass.ports.store.jobs import JobSnapshot
from windlass.stores.columns import ITERATION, JOB_NAMES, job_of_row
from windlass.stores.rows import chunk_bodies, in_flight_of

_decode_job = msgspec.json.Decoder(dict[str, Any]).decode


def restored_of(text: str, nodes: Mapping[str, Sequence[NodeRow]]) -> JobSnapshot:
    """Return a job from its JSON object, with its nodes out of those of several jobs."""
    row = _decode_job(text)
    job = job_of_row([row[name] for name in (*JOB_NAMES, "seq")])
    return JobSnapshot(job, nodes.get(job.spec.job_id, []), in_flight=in_flight_of(row["in_flight"]))


def loop_of_rows(
    number: int,
    generation: int,
    chunks: Iterable[Sequence[Any]],
    completed: Sequence[int],
    others: Iterable[Sequence[Any]],
) -> LoopRows:
    """Return the rows of a loop."""
    iterations = [ITERATION.row(row) for row in others]
    return LoopRows(number, generation, chunk_bodies(chunks), array("l", completed), iterations)
