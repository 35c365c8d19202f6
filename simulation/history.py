"""What the checker is fed: rows, events, the ledger of effects, and what callers were told.

Plain values only, so that a simulation, a chaos test and an audit of a live database can all supply them.
"""

from collections.abc import Mapping, Sequence

from msgspec import Raw, Struct

from windlass.core.changes import IterationRow, NodeRow
from windlass.core.events import Event
from windlass.core.jobs import JobRecord
from windlass.core.plan import Plan
from windlass.ports.store.jobs import Request


class Execution(Struct):
    """One line of the ledger: a handler that ran for an attempt. Test handlers write it; a killed one leaves no end."""

    job_id: str
    node_id: str
    attempt: int
    worker_id: str
    idempotency_key: str
    started_at: int
    # When it ended, or was asked to stop.
    finished_at: int | None = None
    # 'succeeded', 'failed', or 'stopped' when it was cancelled; None when nobody knows.
    outcome: str | None = None
    output: Raw | None = None
    # The outputs of other nodes that it was given, by node id.
    reads: Mapping[str, Raw] | None = None
    # Whether the dispatch was durable when the handler began; None where that cannot be known.
    dispatch_was_durable: bool | None = None
    # The iteration, in a loop, and the element or the chunk that it was given.
    index: int | None = None
    element: Raw | None = None
    # All its params, where a call changes those of the next.
    params: Raw | None = None


class Acknowledged(Struct, frozen=True):
    """A submit that its caller was told had succeeded."""

    job_id: str
    workflow_id: str
    idempotency_key: str | None = None
    request_digest: str | None = None


class Sunk(Struct, frozen=True):
    """What one write added to the table of a sink, and under which identity."""

    identity: str
    output: Raw


class LoopRecords(Struct, frozen=True):
    """What a job's rows tell of its loops and its series of calls, of all generations."""

    iterations: Sequence[IterationRow] = ()
    # By the node's number and its generation; pages also by index (-1 outside of loops) and call.
    collections: Mapping[tuple[int, int], Sequence[bytes]] = {}
    pages: Mapping[tuple[int, int, int, int], Raw] = {}


class JobHistory(Struct, frozen=True):
    """All there is to know about one job."""

    job: JobRecord
    plan: Plan
    nodes: Sequence[NodeRow]
    events: Sequence[Event]
    requests: Sequence[tuple[Request, bool]] = ()
    executions: Sequence[Execution] = ()
    # Whether those are all that ever ran: then what completed without one was made up.
    is_ledger_whole: bool = False
    loops: LoopRecords = LoopRecords()
    # Large values by their key.
    artifacts: Mapping[str, bytes] = {}
    # What the job's tasks wrote to sinks; None where that is not known.
    sunk: Sequence[Sunk] | None = None


class History(Struct, frozen=True):
    """All there is to know about a system."""

    jobs: Sequence[JobHistory]
    acknowledged: Sequence[Acknowledged] = ()
    # No faults any more and time enough: everything must have come to its end.
    settled: bool = False
    # Nothing was made to go wrong: no crash, no failed call, no lost message.
    undisturbed: bool = False
    # No clock was set while the jobs ran, so instants can be compared.
    clocks_steady: bool = True


class Violation(Struct, frozen=True):
    """A broken invariant, by its number, and the evidence."""

    invariant: str
    job_id: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.invariant} job {self.job_id}: {self.evidence}"
