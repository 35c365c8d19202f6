"""The input of the checker: rows, events, the log of executions, and acknowledged submits.

These are plain values, so that simulations, chaos tests and audits of a live database can all supply them.
"""

from collections.abc import Mapping, Sequence

from msgspec import Raw, Struct

from windlass.core.changes import NodeRow
from windlass.core.events import Event
from windlass.core.jobs import JobRecord
from windlass.core.plan import Plan
from windlass.ports.store.jobs import Request
from windlass.stores.memory.records import LoopRecords


class Execution(Struct):
    """A run of a handler for an attempt, recorded by the handler itself. A killed handler records no end."""

    job_id: str
    node_id: str
    attempt: int
    worker_id: str
    idempotency_key: str
    started_at: int
    # When it ended or was cancelled.
    finished_at: int | None = None
    # 'succeeded', 'failed', or 'stopped' if it was cancelled; None if unknown.
    outcome: str | None = None
    output: Raw | None = None
    # The outputs of other nodes in its params, by node id.
    reads: Mapping[str, Raw] | None = None
    # Whether the dispatch was durable when the handler started; None if unknown.
    dispatch_was_durable: bool | None = None
    # The iteration of a loop, and its element or chunk.
    index: int | None = None
    element: Raw | None = None
    # All params, if a call changes those of the next one.
    params: Raw | None = None


class AcknowledgedSubmit(Struct, frozen=True):
    """A submit whose success was reported to its caller."""

    job_id: str
    workflow_id: str
    idempotency_key: str | None = None
    request_digest: str | None = None


class SinkRow(Struct, frozen=True):
    """A row that a task wrote to a sink, and its identity."""

    identity: str
    output: Raw


class JobHistory(Struct, frozen=True):
    """Everything known about one job."""

    job: JobRecord
    plan: Plan
    nodes: Sequence[NodeRow]
    events: Sequence[Event]
    requests: Sequence[tuple[Request, bool]] = ()
    executions: Sequence[Execution] = ()
    # Whether these are all executions, so that a completed attempt must have one.
    is_execution_log_complete: bool = False
    loops: LoopRecords = LoopRecords()
    # Large values by their key.
    artifacts: Mapping[str, bytes] = {}
    # The rows that the job's tasks wrote to sinks; None if unknown.
    sink_rows: Sequence[SinkRow] | None = None


class History(Struct, frozen=True):
    """Everything known about a system."""

    jobs: Sequence[JobHistory]
    acknowledged: Sequence[AcknowledgedSubmit] = ()
    # Whether everything must have ended: there were no more faults and enough time.
    settled: bool = False
    # Whether there were no faults: no crash, no failed call, no lost message.
    undisturbed: bool = False
    # Whether all engines that ran the jobs had the same time, so that times can be compared.
    clocks_steady: bool = True


class Violation(Struct, frozen=True):
    """A violated invariant, by its number, and the evidence."""

    invariant: str
    job_id: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.invariant} job {self.job_id}: {self.evidence}"
