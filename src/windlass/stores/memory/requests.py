"""Requests and results that wait for the owner of their shard, in dictionaries."""

from collections.abc import Mapping, Sequence

from windlass.core.report_verdict import ReportVerdict
from windlass.ports.store.jobs import Request, StoredResult
from windlass.stores.memory.runs import MemoryRuns
from windlass.stores.memory.tables import Tables
from windlass.stores.rows import verdicts_of


class MemoryRequests:
    """The part of the JobStore contract about requests and results."""

    def __init__(self, tables: Tables, runs: MemoryRuns) -> None:
        self._tables = tables
        self._runs = runs

    async def put_request(self, request: Request) -> int:
        self._tables.check_open()
        shard = self._tables.job(request.job_id).row.spec.shard
        self._tables.requests.setdefault(request.request_id, (request, False))
        return shard

    async def requests(self, shard: int, limit: int) -> Sequence[Request]:
        found = [request for request, applied in self._tables.requests.values() if not applied]
        found = [
            request for request in found if self._tables.job(request.job_id).row.spec.shard == shard
        ]
        return sorted(found, key=lambda request: (request.created_at, request.request_id))[:limit]

    async def unapplied_requests(self, request_ids: Sequence[str]) -> Sequence[str]:
        return [
            one
            for one in request_ids
            if self._is_unapplied(one) or self._runs.is_request_unapplied(one)
        ]

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
        return verdicts_of(
            result_ids, [(key, results[key][1]) for key in result_ids if key in results]
        )

    async def results(self, shard: int, limit: int) -> Sequence[StoredResult]:
        held = self._tables.results.values()
        found = [result for result, verdict in held if verdict is None and result.shard == shard]
        return sorted(found, key=lambda result: (result.created_at, result.result_id))[:limit]
