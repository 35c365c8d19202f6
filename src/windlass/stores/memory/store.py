"""A store in plain dictionaries: the model that databases are compared with, and what simulations write to.

Every call takes effect in one step, without threads and without waiting.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Raw

from windlass.core.changes import Changes, InFlightEntry, IterationRow, MergeOutputs, NodeRow
from windlass.core.errors import CommitUnknown, RequestRefused, StaleLease, WorkflowNotFound
from windlass.core.events import Event
from windlass.core.instants import MICROSECONDS
from windlass.core.jobs import JobRecord, JobSpec
from windlass.core.loop_state import LoopRows, decode_progress
from windlass.ports.clock import Clock
from windlass.ports.handler import LogLine
from windlass.ports.store import (
    AliasTarget,
    IterationFilter,
    JobFilter,
    JobPosition,
    JobSnapshot,
    Lease,
    LeaseRow,
    NodeBrief,
    Ownership,
    Request,
    StoredLog,
    StoredResult,
    StoredWorkflow,
    SubmitResult,
    WorkflowFilter,
    no_job,
)
from windlass.stores.memory.overview import MemoryOverview, is_wanted
from windlass.stores.memory.records import LoopRecords
from windlass.stores.memory.runs import MemoryRuns

_UNFINISHED = ("pending", "running")


class _Kept:
    """All rows of one job."""

    __slots__ = ("blocks", "events", "in_flight", "nodes", "pages", "row", "tasks")

    def __init__(self, row: JobRecord, first: Event) -> None:
        self.row = row
        self.nodes: dict[str, NodeRow] = {}
        self.in_flight: tuple[InFlightEntry, ...] = ()
        # By number, generation, and then by what the rows of each kind are told apart with.
        self.tasks: dict[tuple[int, int, int], IterationRow] = {}
        self.pages: dict[tuple[int, int, int, int], Raw] = {}
        self.blocks: dict[tuple[int, int, int], bytes] = {}
        self.events: list[Event] = [first]

    def restored(self, loops: Sequence[LoopRows] = ()) -> JobSnapshot:
        """The job as its rows have it."""
        job = msgspec.structs.replace(self.row, seq=self.events[-1].seq)
        return JobSnapshot(job, list(self.nodes.values()), loops, self.in_flight)


class MemoryStore:
    """The Store contract in the memory of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.runs = MemoryRuns(self._clock)
        self._workflows: dict[str, list[StoredWorkflow]] = {}
        self._jobs: dict[str, _Kept] = {}
        self.overview = MemoryOverview(self._jobs)
        self._keys: dict[tuple[str, str], str] = {}
        # Requests by id, and whether each was applied.
        self._requests: dict[str, tuple[Request, bool]] = {}
        self._aliases: dict[str, dict[str, Sequence[AliasTarget]]] = {}
        # How many versions a workflow had when it was deleted; a further one brings it back.
        self._deleted: dict[str, int] = {}
        # Results by task id, and whether each was applied.
        self._results: dict[str, tuple[StoredResult, bool]] = {}
        self._logs: list[StoredLog] = []
        self._epochs: dict[int, int] = {}
        self._owners: dict[int, str] = {}
        # When leases end by themselves, and engines count as dead.
        self._lease_ends: dict[int, int] = {}
        self._engines: dict[str, int] = {}
        self._closed = False
        # Jobs whose recorded collections were replaced by others, which must not happen.
        self.rewritten: list[str] = []

    # Looking, without a call: what checkers read

    def job_ids(self) -> list[str]:
        """Every job there is."""
        return list(self._jobs)

    def rows(self, job_id: str) -> JobSnapshot:
        """A job's row and those of its nodes and loops."""
        kept = self._kept(job_id)
        return kept.restored(_loops(kept))

    def records(self, job_id: str) -> LoopRecords:
        """What a job's rows tell of its loops and its series of calls."""
        kept = self._kept(job_id)
        collections: dict[tuple[int, int], list[bytes]] = {}
        for (number, generation, _), body in sorted(kept.blocks.items()):
            collections.setdefault((number, generation), []).append(body)
        return LoopRecords(list(kept.tasks.values()), collections, dict(kept.pages))

    def iteration_row(self, job_id: str, number: int, generation: int, index: int) -> IterationRow | None:
        """The row of one iteration, if it has one."""
        return self._kept(job_id).tasks.get((number, generation, index))

    def node_row(self, job_id: str, node_id: str) -> NodeRow | None:
        """What is stored of one node, if anything is."""
        kept = self._jobs.get(job_id)
        if kept is None or node_id in kept.nodes:
            return None if kept is None else kept.nodes[node_id]
        return next((one.row(job_id) for one in kept.in_flight if one.node_id == node_id), None)

    def owner_epoch(self, shard: int) -> int:
        """The epoch of the shard's present owner."""
        return self._epochs.get(shard, 0)

    def log(self, job_id: str) -> Sequence[Event]:
        """Every event of a job."""
        return self._kept(job_id).events

    def asked(self) -> list[tuple[Request, bool]]:
        """Every request, and whether it was applied."""
        return list(self._requests.values())

    # Writing

    async def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise CommitUnknown("the store is closed")

    async def put_workflow(self, workflow_id: str, definition: Raw, digest: str, now: int) -> StoredWorkflow:
        self._check_open()
        versions = self._workflows.setdefault(workflow_id, [])
        if versions and versions[-1].digest == digest and not self._is_deleted(workflow_id):
            return versions[-1]
        stored = StoredWorkflow(workflow_id, len(versions) + 1, definition, digest, now)
        versions.append(stored)
        self.runs.deploy(workflow_id, stored.version, definition, now)
        return msgspec.structs.replace(stored, is_new=True)

    def _is_deleted(self, workflow_id: str) -> bool:
        return self._deleted.get(workflow_id) == len(self._workflows.get(workflow_id, ()))

    async def delete_workflow(self, workflow_id: str, now: int, *, force: bool) -> None:
        self._check_open()
        left = self._ids(lambda row: row.spec.workflow_id == workflow_id and row.state.status in _UNFINISHED)
        if left and not force:
            raise RequestRefused(f"{len(left)} jobs of workflow {workflow_id} are unfinished; cancel them, or force it")
        if workflow_id not in self._workflows or self._is_deleted(workflow_id):
            raise WorkflowNotFound(f"there is no workflow {workflow_id}; deploy it first")
        self._deleted[workflow_id] = len(self._workflows[workflow_id])
        self.runs.delete(workflow_id, now)

    async def put_alias(self, workflow_id: str, alias: str, targets: Sequence[AliasTarget], now: int) -> None:
        self._check_open()
        known = self._aliases.setdefault(workflow_id, {})
        if not targets:
            known.pop(alias, None)
            return
        count = len(self._workflows.get(workflow_id, ()))
        if not all(1 <= target.version <= count for target in targets):
            raise WorkflowNotFound(f"workflow {workflow_id} has not all of the versions that {alias} names")
        known[alias] = list(targets)

    async def put_result(self, result: StoredResult) -> bool:
        self._check_open()
        if result.task_id in self._results:
            return False
        self._results[result.task_id] = (result, False)
        return True

    async def append_logs(self, lines: Sequence[LogLine]) -> None:
        self._check_open()
        for line in lines:
            self._logs.append(StoredLog(self._logs[-1].log_id + 1 if self._logs else 1, line))

    async def submit(self, jobs: Sequence[JobSpec]) -> Sequence[SubmitResult]:
        self._check_open()
        return [self._submit(job) for job in jobs]

    def _submit(self, job: JobSpec) -> SubmitResult:
        key = None if job.idempotency_key is None else (job.workflow_id, job.idempotency_key)
        known = None if key is None else self._keys.get(key)
        if known is not None:
            row = self._jobs[known].row
            return SubmitResult(row, created=False, conflict=row.spec.request_digest != job.request_digest)
        row = JobRecord(job)
        data = Raw(msgspec.json.encode({"workflow_id": job.workflow_id, "version": job.version}))
        self._jobs[job.job_id] = _Kept(row, Event(1, "job_created", None, None, job.created_at, data))
        if key is not None:
            self._keys[key] = job.job_id
        return SubmitResult(row)

    async def request(self, request: Request) -> int:
        self._check_open()
        kept = self._kept(request.job_id)
        self._requests.setdefault(request.request_id, (request, False))
        return kept.row.spec.shard

    async def take_lease(self, shard: int, owner: str) -> Lease:
        self._check_open()
        return self._own(shard, owner)

    async def claim_lease(self, shard: int, owner: str, ttl_seconds: float) -> Lease | None:
        self._check_open()
        now = self._clock.now()
        if self._owners.get(shard, owner) != owner and not self._is_expired(shard, now):
            return None
        lease = self._own(shard, owner)
        self._lease_ends[shard] = now + round(ttl_seconds * MICROSECONDS)
        return lease

    def _own(self, shard: int, owner: str) -> Lease:
        abandoned = shard in self._owners
        self._owners[shard] = owner
        self._lease_ends.pop(shard, None)
        epoch = self._epochs[shard] = self._epochs.get(shard, 0) + 1
        return Lease(epoch, abandoned=abandoned)

    def _is_expired(self, shard: int, now: int) -> bool:
        return shard in self._owners and self._lease_ends.get(shard, now + 1) <= now

    async def beat(self, owner: str, leases: Mapping[int, int], ttl_seconds: float) -> Ownership:
        self._check_open()
        now = self._clock.now()
        ends_at = now + round(ttl_seconds * MICROSECONDS)
        self._engines = {name: at for name, at in self._engines.items() if at > now} | {owner: ends_at}
        for shard, epoch in leases.items():
            if self._owners.get(shard) == owner and self._epochs.get(shard) == epoch:
                self._lease_ends[shard] = ends_at
        return await self.ownership()

    async def ownership(self) -> Ownership:
        self._check_open()
        now = self._clock.now()
        rows = [
            LeaseRow(shard, self._owners.get(shard), epoch, self._is_expired(shard, now), self._lease_ends.get(shard))
            for shard, epoch in sorted(self._epochs.items())
        ]
        return Ownership(sorted(self._engines), rows)

    async def leave(self, owner: str) -> None:
        self._check_open()
        self._engines.pop(owner, None)

    async def epoch(self, shard: int) -> int:
        return self.owner_epoch(shard)

    async def release_lease(self, shard: int, epoch: int) -> None:
        self._check_open()
        if self._epochs.get(shard) == epoch:
            self._owners.pop(shard, None)
            self._lease_ends.pop(shard, None)

    async def commit(self, shard: int, epoch: int, changes: Changes) -> None:
        self._check_open()
        if self._epochs.get(shard) != epoch:
            raise StaleLease(f"shard {shard} has a new owner (epoch {self._epochs.get(shard)}, not {epoch})")
        # Everything or nothing: what a database would refuse is found before anything is written.
        made = [] if changes.runs is None else [job.job_id for job in changes.runs.jobs]
        for job_id in {*changes.jobs, *changes.events, *(job_id for job_id, _ in changes.nodes)}.difference(made):
            if job_id not in self._jobs and ":" not in job_id:
                raise CommitUnknown(f"there is no job {job_id} to write about")
        for job_id, events in changes.events.items():
            if job_id not in made and (log := self._log(job_id)) and events[0].seq <= log[-1].seq:
                raise CommitUnknown(f"job {job_id} has an event {events[0].seq} already")
        if changes.runs is not None:
            self.runs.check(changes.runs)
            self.runs.apply(changes.runs)
            for job in changes.runs.jobs:
                self._submit(job)
        for row in changes.nodes.values():
            self._kept(row.job_id).nodes[row.node_id] = row
        self._put_loops(changes)
        for job_id, state in changes.jobs.items():
            kept = self._kept(job_id)
            kept.row = JobRecord(kept.row.spec, state, kept.row.seq)
        for job_id, events in changes.events.items():
            self._log(job_id).extend(events)
            if job_id in self._jobs:
                self._jobs[job_id].in_flight = changes.in_flight.get(job_id, ())
        for request_id in changes.requests:
            if request_id in self._requests:
                self._requests[request_id] = (self._requests[request_id][0], True)
        for task_id in changes.results:
            if task_id in self._results:
                self._results[task_id] = (self._results[task_id][0], True)

    def _put_loops(self, changes: Changes) -> None:
        for row in changes.iterations.values():
            self._kept(row.job_id).tasks[row.number, row.generation, row.index] = row
        for page in changes.pages:
            self._kept(page.job_id).pages[page.number, page.generation, page.index, page.call] = page.output
        for block in changes.blocks:
            known = self._kept(block.job_id).blocks
            if known.setdefault((block.number, block.generation, block.chunk), block.body) != block.body:
                self.rewritten.append(block.job_id)
                known[block.number, block.generation, block.chunk] = block.body

    async def prune(self, finished_before: int, limit: int) -> Sequence[str]:
        self._check_open()
        ended = [
            (kept.row.state.completed_at, job_id)
            for job_id, kept in self._jobs.items()
            if kept.row.state.status not in _UNFINISHED
            and kept.row.state.completed_at is not None
            and kept.row.state.completed_at < finished_before
            and not self.runs.is_job_needed(job_id)
        ]
        gone = [job_id for _, job_id in sorted(ended)[:limit]]
        for job_id in gone:
            row = self._jobs.pop(job_id).row
            if row.spec.idempotency_key is not None:
                del self._keys[row.spec.workflow_id, row.spec.idempotency_key]
        self._requests = {key: held for key, held in self._requests.items() if held[0].job_id not in gone}
        self._results = {key: held for key, held in self._results.items() if held[0].message.job_id not in gone}
        self._logs = [stored for stored in self._logs if stored.line.job_id not in gone]
        self.runs.prune(finished_before, gone)
        return gone

    # Reading

    async def workflow(self, workflow_id: str, version: int | None = None) -> StoredWorkflow:
        versions = self._workflows.get(workflow_id, [])
        number = len(versions) if version is None else version
        if not 1 <= number <= len(versions) or (version is None and self._is_deleted(workflow_id)):
            raise WorkflowNotFound(f"there is no workflow {workflow_id} version {version}; deploy it first")
        return versions[number - 1]

    async def workflows(self, wanted: WorkflowFilter) -> Sequence[StoredWorkflow]:
        names = sorted(name for name in self._workflows if not self._is_deleted(name) and name > (wanted.after or ""))
        return [self._workflows[name][-1] for name in names[: wanted.limit]]

    async def versions(self, workflow_id: str) -> Sequence[StoredWorkflow]:
        if workflow_id not in self._workflows:
            raise WorkflowNotFound(f"there is no workflow {workflow_id}; deploy it first")
        return self._workflows[workflow_id][::-1]

    async def aliases(self, workflow_id: str) -> Mapping[str, Sequence[AliasTarget]]:
        return dict(self._aliases.get(workflow_id, {}))

    async def results(self, shard: int, limit: int) -> Sequence[StoredResult]:
        waiting = [result for result, applied in self._results.values() if not applied and result.shard == shard]
        return sorted(waiting, key=lambda result: (result.created_at, result.task_id))[:limit]

    async def logs(self, job_id: str, node_id: str | None = None, attempt: int | None = None, after: int = 0,
                   limit: int = 1000, index: int | None = None) -> Sequence[StoredLog]:  # fmt: skip
        found = [
            stored
            for stored in self._logs
            if stored.line.job_id == job_id
            and node_id in (None, stored.line.node_id)
            and attempt in (None, stored.line.attempt)
            and index in (None, stored.line.index)
            and stored.log_id > after
        ]
        return found[:limit]

    async def unfinished(self, shard: int) -> Sequence[str]:
        return self._ids(lambda row: row.spec.shard == shard and row.state.status in _UNFINISHED)

    async def pending(self, shard: int, created_before: int, limit: int) -> Sequence[str]:
        return self._ids(
            lambda row: (
                row.spec.shard == shard and row.state.status == "pending" and row.spec.created_at < created_before
            )
        )[:limit]

    def _ids(self, wanted: Callable[[JobRecord], bool]) -> list[str]:
        found = sorted((kept.row.spec.created_at, job_id) for job_id, kept in self._jobs.items() if wanted(kept.row))
        return [job_id for _, job_id in found]

    async def restore(self, job_id: str) -> JobSnapshot:
        return self.rows(job_id)

    async def restore_all(self, job_ids: Sequence[str]) -> Sequence[JobSnapshot]:
        return [self.rows(job_id) for job_id in job_ids if job_id in self._jobs]

    async def iteration_outputs(self, wanted: MergeOutputs, start: int, stop: int) -> Sequence[Raw | None]:
        tasks = self._kept(wanted.job_id).tasks
        rows = (tasks.get((wanted.number, wanted.generation, index)) for index in range(start, stop))
        return [None if row is None else row.output for row in rows]

    async def page_outputs(self, wanted: MergeOutputs) -> Sequence[Raw]:
        pages = self._kept(wanted.job_id).pages
        assert wanted.index is not None
        keys = [(wanted.number, wanted.generation, wanted.index, call) for call in range(1, wanted.count + 1)]
        return [pages[key] for key in keys if key in pages]

    async def iterations(self, wanted: IterationFilter) -> Sequence[IterationRow]:
        found = [
            row
            for (number, generation, index), row in sorted(self._kept(wanted.job_id).tasks.items())
            if (number, generation) == (wanted.number, wanted.generation)
            and index > wanted.after
            and wanted.status in (None, row.status)
        ]
        return found[: wanted.limit]

    async def iteration_counts(self, job_id: str, number: int, generation: int) -> Mapping[str, int]:
        rows = self._kept(job_id).tasks.values()
        return Counter(row.status for row in rows if (row.number, row.generation) == (number, generation))

    async def unrecorded(self, wanted: IterationFilter, begun: int) -> Sequence[int]:
        tasks = self._kept(wanted.job_id).tasks
        places = range(wanted.after + 1, begun)
        found = [index for index in places if (wanted.number, wanted.generation, index) not in tasks]
        return found[: wanted.limit]

    async def job_positions(self, job_ids: Sequence[str]) -> Sequence[JobPosition]:
        found = (self._jobs[job_id].restored().job for job_id in job_ids if job_id in self._jobs)
        return [JobPosition(row.spec.job_id, row.seq, row.state.status) for row in found]

    async def unapplied(self, request_ids: Sequence[str]) -> Sequence[str]:
        jobs, runs = self._requests, self.runs
        return [one for one in request_ids if runs.is_waiting(one) or not jobs.get(one, (None, True))[1]]

    async def requests(self, shard: int, limit: int) -> Sequence[Request]:
        waiting = [
            request
            for request, applied in self._requests.values()
            if not applied and self._kept(request.job_id).row.spec.shard == shard
        ]
        return sorted(waiting, key=lambda request: (request.created_at, request.request_id))[:limit]

    async def job(self, job_id: str) -> JobRecord:
        return self._kept(job_id).restored().job

    async def jobs(self, wanted: JobFilter) -> Sequence[JobRecord]:
        found = [kept.row for kept in self._jobs.values() if is_wanted(kept.row, wanted, self._workflows)]
        return sorted(found, key=lambda row: (row.spec.created_at, row.spec.job_id), reverse=True)[: wanted.limit]

    async def nodes(self, job_id: str, node_id: str | None = None) -> Sequence[NodeRow]:
        kept = self._jobs.get(job_id)
        rows = [] if kept is None else kept.restored().all_nodes()
        return [row for row in rows if node_id in (None, row.node_id)]

    async def snapshot(self, job_id: str) -> JobSnapshot:
        return self._kept(job_id).restored()

    async def node_page(self, job_id: str, first: int, limit: int) -> Sequence[NodeRow]:
        wanted = range(first, first + limit)
        found = [row for row in await self.nodes(job_id) if row.number in wanted]
        return sorted(found, key=lambda row: row.number)

    async def node_briefs(self, job_id: str, numbers: Sequence[int]) -> Sequence[NodeBrief]:
        return [_brief(row) for row in await self.nodes(job_id) if row.number in numbers]

    async def events(self, job_id: str, after_seq: int = 0, limit: int = 1000) -> Sequence[Event]:
        known = ":" in job_id or job_id in self._jobs
        return [event for event in self._log(job_id) if event.seq > after_seq][:limit] if known else []

    def _log(self, key: str) -> list[Event]:
        return self.runs.log(key) if ":" in key else self._kept(key).events

    def _kept(self, job_id: str) -> _Kept:
        kept = self._jobs.get(job_id)
        if kept is None:
            raise no_job(job_id)
        return kept


def _brief(row: NodeRow) -> NodeBrief:
    head = None if row.output is None else str(row.output, "utf-8")[:32]
    return NodeBrief(row.number, row.status, row.completed_at, head, row.meta, row.progress)


def _loops(kept: _Kept) -> list[LoopRows]:
    found: list[LoopRows] = []
    for node in kept.nodes.values():
        if node.progress is None or node.status == "completed":
            continue
        progress = decode_progress(node.progress)
        key = (node.number, progress.generation)
        blocks = [body for at, body in sorted(kept.blocks.items()) if at[:2] == key]
        rows = [row for at, row in kept.tasks.items() if at[:2] == key]
        if progress.total >= 0:
            found.append(_loop(key, blocks, rows))
    return found


def _loop(key: tuple[int, int], blocks: list[bytes], rows: list[IterationRow]) -> LoopRows:
    plain = [row for row in rows if row.status == "completed" and row.attempt == 1]
    others = [msgspec.structs.replace(row, output=None, error=None, meta=None) for row in rows if row not in plain]
    return LoopRows(*key, blocks, array("l", [row.index for row in plain]), others)
