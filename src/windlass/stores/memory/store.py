"""A store in dictionaries: the reference that databases are compared with, and the store of simulations.

Every call takes effect in one step, without threads and without waiting.
"""

from collections.abc import Sequence

from msgspec import structs

from windlass.core.changes import Changes, IterationRow, NodeRow
from windlass.core.errors import CommitUnknown, StaleLease
from windlass.core.events import Event
from windlass.core.report_verdict import ReportVerdict
from windlass.ports.clock import Clock
from windlass.ports.store.jobs import JobSnapshot, Request
from windlass.stores.memory.jobs import MemoryJobs
from windlass.stores.memory.leases import MemoryLeases
from windlass.stores.memory.logs import MemoryLogs
from windlass.stores.memory.overview import MemoryOverview
from windlass.stores.memory.records import LoopRecords
from windlass.stores.memory.runs import MemoryRuns
from windlass.stores.memory.tables import Tables
from windlass.stores.memory.workflows import MemoryWorkflows


class MemoryStore:
    """The Store contract in the memory of one process."""

    def __init__(self, clock: Clock) -> None:
        self._tables = Tables(clock)
        self.runs = MemoryRuns(clock)
        self.workflows = MemoryWorkflows(self._tables, self.runs)
        self.leases = MemoryLeases(self._tables)
        self.logs = MemoryLogs(self._tables)
        self.jobs = MemoryJobs(self._tables, self.runs, self.logs)
        self.overview = MemoryOverview(self._tables)
        # Jobs whose recorded collections were replaced by others, which must not happen.
        self.rewritten: list[str] = []

    async def close(self) -> None:
        self._tables.is_closed = True

    async def commit(self, shard: int, epoch: int, changes: Changes) -> None:
        self._tables.check_open()
        newest = self.leases.newest_epoch(shard)
        if newest != epoch:
            raise StaleLease(f"shard {shard} has a new owner: epoch {newest}, not {epoch}")
        # All or nothing: whatever a database would refuse is found before anything is written.
        self._check(changes)
        if changes.runs is not None:
            self.runs.apply(changes.runs)
            for job in changes.runs.jobs:
                self.jobs.insert_one(job)
        for row in changes.nodes.values():
            self._tables.job(row.job_id).nodes[row.node_id] = row
        self._put_loops(changes)
        for job_id, state in changes.jobs.items():
            job = self._tables.job(job_id)
            job.row = structs.replace(job.row, state=state)
        self._append_events(changes)
        self._apply_requests_and_results(changes)

    def _check(self, changes: Changes) -> None:
        """Raise CommitUnknown for changes that a database would refuse."""
        inserted: set[str] = set()
        if changes.runs is not None:
            self.runs.check(changes.runs)
            inserted.update(job.job_id for job in changes.runs.jobs)
        job_ids = {*changes.jobs, *changes.events, *(job_id for job_id, _ in changes.nodes)}
        for job_id in job_ids - inserted:
            if job_id not in self._tables.jobs:
                raise CommitUnknown(f"commit updates a job that does not exist: {job_id}")
        for job_id, events in changes.events.items():
            log = [] if job_id in inserted else self._tables.job(job_id).events
            if log and events[0].seq <= log[-1].seq:
                raise CommitUnknown(f"job {job_id} already has an event {events[0].seq}")

    def _put_loops(self, changes: Changes) -> None:
        for row in changes.iterations.values():
            self._tables.job(row.job_id).iterations[row.number, row.generation, row.index] = row
        for output in changes.call_outputs:
            key = (output.number, output.generation, output.index, output.call)
            self._tables.job(output.job_id).call_outputs[key] = output.output
        for chunk in changes.chunks:
            chunks = self._tables.job(chunk.job_id).chunks
            key = (chunk.number, chunk.generation, chunk.chunk)
            if chunks.setdefault(key, chunk.body) != chunk.body:
                self.rewritten.append(chunk.job_id)
                chunks[key] = chunk.body

    def _append_events(self, changes: Changes) -> None:
        for job_id, events in changes.events.items():
            job = self._tables.job(job_id)
            job.events.extend(events)
            job.in_flight = changes.in_flight.get(job_id, ())

    def _apply_requests_and_results(self, changes: Changes) -> None:
        requests, results = self._tables.requests, self._tables.results
        for request_id in changes.requests:
            if request_id in requests:
                requests[request_id] = (requests[request_id][0], True)
        for result_id, verdict in changes.results.items():
            # The first verdict stays: a message that is delivered again is judged again.
            if result_id not in results or results[result_id][1] is not None:
                continue
            if verdict is ReportVerdict.UNKNOWN:
                del results[result_id]
            else:
                results[result_id] = (results[result_id][0], verdict)

    # What checkers read, without a call

    def job_ids(self) -> list[str]:
        """Return the ids of all jobs."""
        return list(self._tables.jobs)

    def records(self, job_id: str) -> LoopRecords:
        """Return the rows of a job's loops and paginated nodes."""
        rows = self._tables.job(job_id)
        collections: dict[tuple[int, int], list[bytes]] = {}
        for (number, generation, _), body in sorted(rows.chunks.items()):
            collections.setdefault((number, generation), []).append(body)
        return LoopRecords(list(rows.iterations.values()), collections, dict(rows.call_outputs))

    def rows(self, job_id: str) -> JobSnapshot:
        """Return a job with its nodes and loops; JobNotFound."""
        return self._tables.job(job_id).restored()

    def log(self, job_id: str) -> Sequence[Event]:
        """Return all events of a job; JobNotFound."""
        return self._tables.job(job_id).events

    def iteration_row(
        self, job_id: str, number: int, generation: int, index: int
    ) -> IterationRow | None:
        """Return the row of an iteration, if it has one."""
        return self._tables.job(job_id).iterations.get((number, generation, index))

    def node_row(self, job_id: str, node_id: str) -> NodeRow | None:
        """Return the row of a node that left PENDING."""
        job = self._tables.jobs.get(job_id)
        if job is None:
            return None
        if node_id in job.nodes:
            return job.nodes[node_id]
        return next(
            (entry.row(job_id) for entry in job.in_flight if entry.node_id == node_id), None
        )

    def owner_epoch(self, shard: int) -> int:
        """Return the epoch of the shard's current owner."""
        return self.leases.newest_epoch(shard) or 0

    def asked(self) -> list[tuple[Request, bool]]:
        """Return all requests, and whether each was applied."""
        return list(self._tables.requests.values())
