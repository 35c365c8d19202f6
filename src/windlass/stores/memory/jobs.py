"""Jobs in dictionaries."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Raw

from windlass.core.changes import IterationRow, MergeOutputs, NodeRow
from windlass.core.events import Event
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.report_verdict import ReportVerdict
from windlass.core.states import JobStatus
from windlass.ports.store.jobs import (
    IterationFilter,
    JobFilter,
    JobPosition,
    JobSnapshot,
    NodeBrief,
    Request,
    StoredResult,
    SubmitResult,
)
from windlass.stores.memory.logs import MemoryLogs
from windlass.stores.memory.runs import MemoryRuns
from windlass.stores.memory.tables import JobRows, Tables
from windlass.stores.rows import verdicts_of


class MemoryJobs:
    """The JobStore contract in the memory of one process."""

    def __init__(self, tables: Tables, runs: MemoryRuns, logs: MemoryLogs) -> None:
        self._tables = tables
        self._runs = runs
        self._logs = logs

    async def insert(self, jobs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        self._tables.check_open()
        return [self.insert_one(job) for job in jobs]

    def insert_one(self, job: JobSpec) -> SubmitResult:
        """Store one job."""
        key = None if job.idempotency_key is None else (job.workflow_id, job.idempotency_key)
        if key is not None and key in self._tables.keys:
            known = self._tables.job(self._tables.keys[key]).row
            return SubmitResult(known, created=False, conflict=known.spec.request_digest != job.request_digest)
        row = JobRecord(job)
        data = Raw(msgspec.json.encode({"workflow_id": job.workflow_id, "version": job.version}))
        created = Event(seq=1, type="job_created", node_id=None, index=None, at=job.created_at, data=data)
        self._tables.jobs[job.job_id] = JobRows(row, created)
        if key is not None:
            self._tables.keys[key] = job.job_id
        return SubmitResult(row)

    async def get(self, job_id: str) -> JobRecord:
        return self._tables.job(job_id).snapshot().job

    async def list(self, wanted: JobFilter) -> Sequence[JobRecord]:
        found = [row for row in self._tables.job_rows() if self._is_listed(row, wanted)]
        found.sort(key=lambda row: (row.spec.created_at, row.spec.job_id), reverse=True)
        return found[: wanted.limit]

    def _is_listed(self, job: JobRecord, wanted: JobFilter) -> bool:
        spec = job.spec
        if wanted.workflow_id not in (None, spec.workflow_id) or wanted.status not in (None, job.state.status):
            return False
        if wanted.before is not None and (spec.created_at, spec.job_id) >= wanted.before:
            return False
        if wanted.search is None or spec.job_id.startswith(wanted.search):
            return True
        # The other ways to find a job depend on its workflow being deployed.
        if spec.workflow_id not in self._tables.workflows:
            return False
        return spec.workflow_id.startswith(wanted.search) or spec.idempotency_key == wanted.search

    async def positions(self, job_ids: Sequence[str]) -> Sequence[JobPosition]:
        found = [self._tables.jobs[job_id].snapshot().job for job_id in job_ids if job_id in self._tables.jobs]
        return [JobPosition(job.spec.job_id, job.seq, job.state.status) for job in found]

    async def unfinished(self, shard: int) -> Sequence[str]:
        return self._ids(lambda row: row.spec.shard == shard and not row.state.is_final)

    async def pending(self, shard: int, created_before: int, limit: int) -> Sequence[str]:
        def is_wanted(job: JobRecord) -> bool:
            is_pending = job.state.status == JobStatus.PENDING
            return job.spec.shard == shard and is_pending and job.spec.created_at < created_before

        return self._ids(is_wanted)[:limit]

    def _ids(self, is_wanted: Callable[[JobRecord], bool]) -> Sequence[str]:
        found = [row for row in self._tables.job_rows() if is_wanted(row)]
        found.sort(key=lambda row: (row.spec.created_at, row.spec.job_id))
        return [row.spec.job_id for row in found]

    async def restore(self, job_id: str) -> JobSnapshot:
        return self._tables.job(job_id).restored()

    async def restore_all(self, job_ids: Sequence[str]) -> Sequence[JobSnapshot]:
        return [self._tables.jobs[job_id].restored() for job_id in job_ids if job_id in self._tables.jobs]

    async def snapshot(self, job_id: str) -> JobSnapshot:
        return self._tables.job(job_id).snapshot()

    async def nodes(self, job_id: str, node_id: str | None = None) -> Sequence[NodeRow]:
        if job_id not in self._tables.jobs:
            return []
        rows = self._tables.jobs[job_id].snapshot().all_nodes()
        return [row for row in rows if node_id in (None, row.node_id)]

    async def node_page(self, job_id: str, first: int, limit: int) -> Sequence[NodeRow]:
        found = [row for row in await self.nodes(job_id) if first <= row.number < first + limit]
        return sorted(found, key=lambda row: row.number)

    async def node_briefs(self, job_id: str, numbers: Sequence[int]) -> Sequence[NodeBrief]:
        return [_brief(row) for row in await self.nodes(job_id) if row.number in numbers]

    async def events(self, job_id: str, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        if is_run_key(job_id):
            events = self._runs.log(job_id)
        elif job_id in self._tables.jobs:
            events = self._tables.jobs[job_id].events
        else:
            return []
        return [event for event in events if event.seq > after_seq][:limit]

    async def iterations(self, wanted: IterationFilter) -> Sequence[IterationRow]:
        found: list[IterationRow] = []
        for (number, generation, index), row in sorted(self._tables.job(wanted.job_id).iterations.items()):
            is_of_loop = (number, generation) == (wanted.number, wanted.generation)
            if is_of_loop and index > wanted.after and wanted.status in (None, row.status):
                found.append(row)
        return found[: wanted.limit]

    async def iteration_counts(self, job_id: str, number: int, generation: int) -> Mapping[str, int]:
        rows = self._tables.job(job_id).iterations.values()
        return Counter(row.status for row in rows if (row.number, row.generation) == (number, generation))

    async def unrecorded_iterations(self, wanted: IterationFilter, begun: int) -> Sequence[int]:
        rows = self._tables.job(wanted.job_id).iterations
        indexes = range(wanted.after + 1, begun)
        found = [index for index in indexes if (wanted.number, wanted.generation, index) not in rows]
        return found[: wanted.limit]

    async def iteration_outputs(self, wanted: MergeOutputs, start: int, stop: int) -> Sequence[Raw | None]:
        iterations = self._tables.job(wanted.job_id).iterations
        rows = (iterations.get((wanted.number, wanted.generation, index)) for index in range(start, stop))
        return [None if row is None else row.output for row in rows]

    async def call_outputs(self, wanted: MergeOutputs) -> Sequence[Raw]:
        outputs = self._tables.job(wanted.job_id).call_outputs
        assert wanted.index is not None
        keys = [(wanted.number, wanted.generation, wanted.index, call) for call in range(1, wanted.count + 1)]
        return [outputs[key] for key in keys if key in outputs]

    async def put_request(self, request: Request) -> int:
        self._tables.check_open()
        shard = self._tables.job(request.job_id).row.spec.shard
        self._tables.requests.setdefault(request.request_id, (request, False))
        return shard

    async def requests(self, shard: int, limit: int) -> Sequence[Request]:
        found = [request for request, applied in self._tables.requests.values() if not applied]
        found = [request for request in found if self._tables.job(request.job_id).row.spec.shard == shard]
        return sorted(found, key=lambda request: (request.created_at, request.request_id))[:limit]

    async def unapplied_requests(self, request_ids: Sequence[str]) -> Sequence[str]:
        return [one for one in request_ids if self._is_unapplied(one) or self._runs.is_request_unapplied(one)]

    def _is_unapplied(self, request_id: str) -> bool:
        if request_id not in self._tables.requests:
            return False
        _, applied = self._tables.requests[request_id]
        return not applied

    async def put_result(self, result: StoredResult) -> None:
        self._tables.check_open()
        self._tables.results[result.result_id] = (result, None)

    async def verdicts(self, result_ids: Sequence[str]) -> Mapping[str, ReportVerdict]:
        results = self._tables.results
        return verdicts_of(result_ids, [(key, results[key][1]) for key in result_ids if key in results])

    async def results(self, shard: int, limit: int) -> Sequence[StoredResult]:
        held = self._tables.results.values()
        found = [result for result, verdict in held if verdict is None and result.shard == shard]
        return sorted(found, key=lambda result: (result.created_at, result.result_id))[:limit]

    async def prune(self, finished_before: int, limit: int) -> Sequence[str]:
        self._tables.check_open()
        ended: list[tuple[int, str]] = []
        for job in self._tables.job_rows():
            completed_at, job_id = job.state.completed_at, job.spec.job_id
            is_old = job.state.is_final and completed_at is not None and completed_at < finished_before
            if is_old and not self._runs.is_job_needed(job_id):
                ended.append((completed_at or 0, job_id))
        deleted = [job_id for _, job_id in sorted(ended)[:limit]]
        self._delete(deleted)
        self._logs.delete_of_jobs(deleted)
        self._runs.prune(finished_before, deleted)
        return deleted

    def _delete(self, job_ids: Sequence[str]) -> None:
        tables = self._tables
        for job_id in job_ids:
            spec = tables.jobs.pop(job_id).row.spec
            if spec.idempotency_key is not None:
                del tables.keys[spec.workflow_id, spec.idempotency_key]
        tables.requests = {key: held for key, held in tables.requests.items() if held[0].job_id not in job_ids}
        tables.results = {key: held for key, held in tables.results.items() if held[0].message.job_id not in job_ids}


def is_run_key(key: str) -> bool:
    """Return whether events are stored under the id of a run or schedule, not of a job."""
    return ":" in key


def _brief(row: NodeRow) -> NodeBrief:
    return NodeBrief(
        number=row.number,
        status=row.status,
        completed_at=row.completed_at,
        head=None if row.output is None else str(row.output, "utf-8")[:32],
        meta=row.meta,
        progress=row.progress,
    )
