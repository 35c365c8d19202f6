"""Conversions from rows of PostgreSQL."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.core.changes import NodeRow
from windlass.ports.store.jobs import JobSnapshot
from windlass.stores.columns import JOB_NAMES, job_of_row
from windlass.stores.rows import in_flight_of

_decode_job = msgspec.json.Decoder(dict[str, Any]).decode


def restored_of(text: str, nodes: Mapping[str, Sequence[NodeRow]]) -> JobSnapshot:
    """Return a job from its JSON object, with its nodes out of those of several jobs."""
    row = _decode_job(text)
    job = job_of_row([row[name] for name in (*JOB_NAMES, "seq")])
    return JobSnapshot(
        job, nodes.get(job.spec.job_id, []), in_flight=in_flight_of(row["in_flight"])
    )
