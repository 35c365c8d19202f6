"""Commits to SQLite."""

import asyncio
from collections.abc import Iterable
from typing import Any, TypeVar

from msgspec import Struct

from windlass.core.changes import Changes
from windlass.core.errors import StaleLease
from windlass.core.report_verdict import ReportVerdict
from windlass.stores.columns import (
    CALL_OUTPUT,
    CHUNK,
    EVENT_PAGE,
    ITERATION,
    NODE,
    Columns,
    job_change_values,
)
from windlass.stores.rows import event_pages
from windlass.stores.sqlite.connection import Connection
from windlass.stores.sqlite.database import SqliteStatements
from windlass.stores.sqlite.runs import SqliteRuns

# A commit of up to this many values, those of a few nodes, may be written on the event loop (ADR 17).
SMALL_VALUES = 100

RowStruct = TypeVar("RowStruct", bound=Struct)


class SqliteCommits:
    """Stores the changes of shards. Values are prepared on the caller's thread and written by the writer."""

    def __init__(self, database: SqliteStatements, runs: SqliteRuns) -> None:
        self._database = database
        self._runs = runs
        self._lease_sql = database.sql("lease_get")
        self._put_nodes = database.bulk("node_put")
        self._put_iterations = database.bulk("iteration_put")
        self._put_call_outputs = database.bulk("call_output_put")
        self._put_chunks = database.bulk("chunk_put")
        self._insert_events = database.bulk("event_page_insert")
        self._update_jobs = database.bulk("job_update")

    def commit(self, shard: int, epoch: int, changes: Changes) -> "asyncio.Future[None]":
        """Store all changes or none. StaleLease, CommitUnknown."""
        statements = (
            (self._put_nodes, _values(NODE, changes.nodes.values())),
            (self._put_iterations, _values(ITERATION, changes.iterations.values())),
            (self._put_call_outputs, _values(CALL_OUTPUT, changes.call_outputs)),
            (self._put_chunks, _values(CHUNK, changes.chunks)),
            (self._insert_events, _values(EVENT_PAGE, event_pages(changes))),
            (
                self._update_jobs,
                [value for change in changes.jobs.items() for value in job_change_values(*change)],
            ),
        )
        requests = list(changes.requests)
        verdicts = _ids_by_verdict(changes)
        store_runs = self._runs.prepare(changes.runs)

        def store(connection: Connection) -> None:
            row = connection.execute(self._lease_sql, (shard,)).fetchone()
            if row is None or row[0] != epoch:
                raise StaleLease(
                    f"shard {shard} has a new owner: epoch {row and row[0]}, not {epoch}"
                )
            if store_runs is not None:
                store_runs(connection)
            for statement, values in statements:
                statement(connection.execute, values)
            if requests:
                self._database.execute(connection, "request_apply", ids=requests)
            for verdict, ids in verdicts.items():
                if verdict is ReportVerdict.UNKNOWN:
                    self._database.execute(connection, "result_refuse", ids=ids)
                else:
                    self._database.execute(
                        connection, "result_apply", verdict=verdict.value, ids=ids
                    )

        count = sum([len(values) for _, values in statements])
        is_small = store_runs is None and count <= SMALL_VALUES
        # The only refusal comes before anything is written, so there is nothing to undo.
        return self._database.writer.write(store, undo=False, small=is_small)


def _ids_by_verdict(changes: Changes) -> dict[ReportVerdict, list[str]]:
    found: dict[ReportVerdict, list[str]] = {}
    for result_id, verdict in changes.results.items():
        found.setdefault(verdict, []).append(result_id)
    return found


def _values(columns: Columns[RowStruct], rows: Iterable[RowStruct]) -> list[Any]:
    """Return the values of all rows as one flat list."""
    found: list[Any] = []
    for row in rows:
        found += columns.values(row)
    return found
