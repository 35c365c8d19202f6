"""Any sequence of calls has the same results on every store as on the in-memory model."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from operator import attrgetter
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.contracts.rows import T0, changes, event, job_row, new_job, node_row
from tests.contracts.stores import emptied
from windlass.clock import SystemClock
from windlass.core.changes import InFlightEntry
from windlass.core.errors import CommitUnknown, JobNotFound, StaleLease
from windlass.core.jobs import JobRecord
from windlass.ports.store import Store
from windlass.ports.store.jobs import JobFilter, Request
from windlass.ports.store.leases import EngineRow
from windlass.stores.memory.store import MemoryStore
from windlass.stores.postgres.store import PostgresStore
from windlass.stores.sqlite.store import SqliteStore

JOBS = st.sampled_from(["j1", "j2", "j3"])
KEYS = st.sampled_from([None, "k1", "k2"])
STATUSES = st.sampled_from(["pending", "running", "completed", "failed", "cancelled"])
TEXTS = st.sampled_from(['"a"', "null", '{"é":[1,null]}', "[]"])
FAILURES = (CommitUnknown, JobNotFound, StaleLease)


class StoreAgainstModel(RuleBasedStateMachine):
    """Both stores get the same calls and must return the same results."""

    async def opening(self) -> Store:
        return MemoryStore(SystemClock())

    @initialize()
    def open(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.model: Store = MemoryStore(SystemClock())
        self.store: Store = self.loop.run_until_complete(self.opening())
        self.epoch = 0
        self.submitted = 0

    def both(self, name: str, *arguments: object) -> object:
        results = [
            self.loop.run_until_complete(self.result_of(s, name, *arguments))
            for s in (self.model, self.store)
        ]
        assert results[0] == results[1], name
        return results[0]

    async def result_of(self, store: Store, name: str, *arguments: object) -> object:
        try:
            return await attrgetter(name)(store)(*arguments)
        except FAILURES as failure:
            return type(failure)

    @rule(job_id=JOBS, key=KEYS, digest=st.sampled_from(["d1", "d2"]), at=st.integers(0, 3))
    def submit(self, job_id: str, key: str | None, digest: str, at: int) -> None:
        known = self.loop.run_until_complete(self.result_of(self.model, "jobs.get", job_id))
        if not isinstance(known, JobRecord):  # ids are never used twice
            results = [
                self.loop.run_until_complete(
                    s.jobs.insert([new_job(job_id, key=key, digest=digest, created_at=T0 + at)])
                )
                for s in (self.model, self.store)
            ]
            compared = [
                [(a.job.spec.job_id, a.created, a.conflict) for a in result] for result in results
            ]
            assert compared[0] == compared[1]

    @rule(owner=st.sampled_from(["one", "two"]))
    def take(self, owner: str) -> None:
        self.both("leases.take", 0, owner)
        self.epoch += 1

    @rule(owner=st.sampled_from(["one", "two"]), ttl_seconds=st.sampled_from([0.0, 3_600.0]))
    def claim(self, owner: str, ttl_seconds: float) -> None:
        if self.both("leases.claim", 0, owner, ttl_seconds) is not None:
            self.epoch += 1

    @rule(
        owner=st.sampled_from(["one", "two"]),
        behind=st.integers(0, 1),
        ttl_seconds=st.sampled_from([0.0, 3_600.0]),
    )
    def renew(self, owner: str, behind: int, ttl_seconds: float) -> None:
        engine, leases = EngineRow(owner, 15.0), {0: self.epoch - behind}
        stores = (self.model, self.store)
        run = self.loop.run_until_complete
        renewed = [run(one.leases.renew(engine, leases, ttl_seconds)) for one in stores]
        owned = [run(one.leases.ownership()) for one in stores]
        assert renewed[0] == renewed[1]
        # Whether an engine with a time to live of zero has expired depends on microseconds.
        assert [(row.owner, row.epoch) for row in owned[0].leases] == [
            (row.owner, row.epoch) for row in owned[1].leases
        ]

    @rule(behind=st.integers(0, 1))
    def release(self, behind: int) -> None:
        self.both("leases.release", 0, self.epoch - behind)

    @rule(job_id=JOBS, node_id=st.sampled_from("ab"), status=STATUSES, text=TEXTS, behind=st.sampled_from([0, 0, 0, 1]),
          in_flight=st.sets(st.sampled_from("cd")))  # fmt: skip
    def commit(
        self, job_id: str, node_id: str, status: str, text: str, behind: int, in_flight: set[str]
    ) -> None:
        known = self.loop.run_until_complete(self.result_of(self.model, "jobs.get", job_id))
        if isinstance(known, JobRecord):
            ended = None if status in ("pending", "running") else T0 + known.seq
            # Only for an output a JSON null differs from no value.
            value = None if text == "null" else text
            committed = changes(
                jobs=[job_row(job_id, status, completed_at=ended, error=value)],
                nodes=[node_row(job_id, node_id, status, output=text)],
                events={job_id: [event(known.seq + 1, data=value), event(known.seq + 2)]},
                in_flight={
                    job_id: tuple(InFlightEntry(ord(one), one, T0) for one in sorted(in_flight))
                }
                if in_flight
                else {},
            )
            self.both("commit", 0, self.epoch - behind, committed)

    @rule(job_id=JOBS, request_id=st.sampled_from(["r1", "r2"]))
    def put_request(self, job_id: str, request_id: str) -> None:
        self.both("jobs.put_request", Request(request_id, job_id, "cancel", T0))

    @rule(request_id=st.sampled_from(["r1", "r2"]))
    def apply(self, request_id: str) -> None:
        self.both("commit", 0, self.epoch, changes(requests=[request_id]))

    @rule(at=st.integers(0, 12), limit=st.integers(0, 2))
    def prune(self, at: int, limit: int) -> None:
        before = {
            row.spec.job_id: row.state.completed_at
            for row in self.loop.run_until_complete(self.model.jobs.list(JobFilter()))
        }
        ended = [at for at in before.values() if at is not None]
        if len(set(ended)) == len(
            ended
        ):  # the order of jobs that ended at the same time is not defined
            self.both("jobs.prune", T0 + at, limit)

    @invariant()
    def both_have_the_same_state(self) -> None:
        if not hasattr(self, "store"):
            return
        for job_id in ("j1", "j2", "j3"):
            self.both("jobs.get", job_id)
            self.both("jobs.events", job_id, 1, 3)
            rows = [
                self.loop.run_until_complete(s.jobs.nodes(job_id)) for s in (self.model, self.store)
            ]
            assert sorted(rows[0], key=lambda row: row.node_id) == sorted(
                rows[1], key=lambda row: row.node_id
            )
            stores = (self.model, self.store)
            compared = [
                self.loop.run_until_complete(self.result_of(s, "jobs.restore", job_id))
                for s in stores
            ]
            assert getattr(compared[0], "in_flight", compared[0]) == getattr(
                compared[1], "in_flight", compared[1]
            )
        self.both("jobs.requests", 0, 5)
        self.both("jobs.unfinished", 0)
        self.both("jobs.pending", 0, T0 + 2, 5)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.loop.run_until_complete(self.store.close())
            self.loop.close()


def against(opened: Callable[[], Awaitable[Store]]) -> type[StoreAgainstModel]:
    class Against(StoreAgainstModel):
        async def opening(self) -> Store:
            return await opened()

    return Against


def test_sqlite_behaves_like_the_model(tmp_path: Path) -> None:
    numbers = count()

    async def opening() -> Store:
        return await SqliteStore.open(
            str(tmp_path / f"{next(numbers)}.db"), SystemClock(), synchronous="off"
        )

    bounds = settings(max_examples=40, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(against(opening), settings=bounds)


def test_postgres_behaves_like_the_model(contract_database: str) -> None:
    async def opening() -> Store:
        return await PostgresStore.open(
            await emptied(contract_database), SystemClock(), connections_max=10
        )

    bounds = settings(max_examples=15, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(against(opening), settings=bounds)
