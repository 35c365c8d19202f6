"""Looks into the database for those who wait for jobs that another process runs."""

from collections.abc import Callable, Sequence

from windlass.ports.store import Standing, Store

WATCH_SECONDS = 0.2
# Jobs asked for in one query.
ASK_MAX = 1_000

News = Callable[[Standing | None, str | None], None]


class Watcher:
    """Tells what changed since the last look, in one query for all that are waited for."""

    def __init__(self, store: Store, news: News) -> None:
        self._store = store
        self._news = news
        self._seen: dict[str, int] = {}

    async def look(self, job_ids: Sequence[str], request_ids: Sequence[str]) -> None:
        """One look at jobs, and at requests that were made and not yet applied."""
        wanted = set(job_ids)
        self._seen = {job_id: seq for job_id, seq in self._seen.items() if job_id in wanted}
        for start in range(0, len(job_ids), ASK_MAX):
            for standing in await self._store.standings(job_ids[start : start + ASK_MAX]):
                if self._seen.get(standing.job_id) != standing.seq:
                    self._seen[standing.job_id] = standing.seq
                    self._news(standing, None)
        if request_ids:
            waiting = set(await self._store.unapplied(request_ids))
            for request_id in request_ids:
                if request_id not in waiting:
                    self._news(None, request_id)
