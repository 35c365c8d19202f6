"""Rows as JSON documents. A batch of rows is sent as one parameter, which the server reads with jsonb_to_recordset."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from windlass.core.changes import Changes
from windlass.core.jobs import JobSpec, JobState
from windlass.core.runs.changes import RunChanges
from windlass.ports.handler import LogLine
from windlass.stores.columns import (
    CALL_OUTPUT,
    CHUNK,
    DELIVERY,
    EVENT_PAGE,
    ITERATION,
    JOB_CHANGE_NAMES,
    JOB_SPEC,
    LOG,
    NODE,
    RUN,
    SCHEDULE_MARK,
    job_change_values,
)
from windlass.stores.rows import event_pages

# PostgreSQL cannot store this character in texts.
NUL = "\0"
REPLACEMENT = "\ufffd"
# The escape of that character: its backslash is not itself escaped by an odd number of backslashes.
_NUL_ESCAPE = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_REPLACEMENT_ESCAPE = rb"\1\\ufffd"

Row = TypeVar("Row")
_encode = msgspec.json.Encoder().encode


class Records(Generic[Row]):
    """Converts rows of one kind to records, which are encoded as JSON objects by the names of the columns.

    Nulls are left out: the server reads missing keys as nulls.
    """

    def __init__(self, names: Sequence[str], values: Callable[[Row], Sequence[Any]]) -> None:
        self._values = values
        fields = [(name, Any, None) for name in names]
        self._record: type[Struct] = msgspec.defstruct("Record", fields, omit_defaults=True, gc=False)

    def of(self, rows: Iterable[Row]) -> list[Struct]:
        """Return the records of rows."""
        record, values = self._record, self._values
        return [record(*values(row)) for row in rows]


def _job_change(change: tuple[str, JobState]) -> list[Any]:
    return job_change_values(*change)


_NODES = Records(NODE.names, NODE.values)
_ITERATIONS = Records(ITERATION.names, ITERATION.values)
_CALL_OUTPUTS = Records(CALL_OUTPUT.names, CALL_OUTPUT.values)
_CHUNKS = Records(CHUNK.names, CHUNK.values)
_EVENT_PAGES = Records(EVENT_PAGE.names, EVENT_PAGE.values)
_JOB_CHANGES = Records(JOB_CHANGE_NAMES, _job_change)
_JOBS = Records(JOB_SPEC.names, JOB_SPEC.values)
_RUNS = Records(RUN.names, RUN.values)
_SCHEDULE_MARKS = Records(SCHEDULE_MARK.names, SCHEDULE_MARK.values)
_DELIVERIES = Records(DELIVERY.names, DELIVERY.values)
_LOGS = Records(LOG.names, LOG.values)


def commit_document(group: Sequence[Changes]) -> str:
    """Return the changes of several shards by the names of their tables. Tables without changes are left out."""
    document: dict[str, Any] = {}
    for changes in group:
        _add(document, "nodes", _NODES.of(changes.nodes.values()))
        _add(document, "iterations", _ITERATIONS.of(changes.iterations.values()))
        _add(document, "call_outputs", _CALL_OUTPUTS.of(changes.pages))
        _add(document, "collection_chunks", _CHUNKS.of(changes.blocks))
        _add(document, "events", _EVENT_PAGES.of(event_pages(changes)))
        _add(document, "jobs", _JOB_CHANGES.of(changes.jobs.items()))
        _add(document, "requests", changes.requests)
        _add(document, "results", changes.results)
        if changes.runs:
            _add_runs(document.setdefault("runs", {}), changes.runs)
    return _text(document)


def _add_runs(document: dict[str, Any], changes: RunChanges) -> None:
    new = [row for run_id, row in changes.runs.items() if run_id in changes.fresh]
    known = [row for run_id, row in changes.runs.items() if run_id not in changes.fresh]
    _add(document, "new", _RUNS.of(new))
    _add(document, "known", _RUNS.of(known))
    _add(document, "withdrawn", changes.withdrawn)
    _add(document, "schedules", _SCHEDULE_MARKS.of(changes.schedules.values()))
    _add(document, "jobs", _JOBS.of(changes.jobs))
    _add(document, "requests", changes.requests)
    _add(document, "deliveries", _DELIVERIES.of(changes.deliveries))


def _add(document: dict[str, Any], key: str, rows: Sequence[Any]) -> None:
    if rows:
        document.setdefault(key, []).extend(rows)


def job_document(jobs: Sequence[JobSpec]) -> str:
    """Return new jobs as an array of objects."""
    return _text(_JOBS.of(jobs))


def log_document(lines: Sequence[LogLine]) -> str:
    """Return log lines as an array of objects."""
    return _text(_LOGS.of(lines))


def _text(value: Any) -> str:
    """Return a value as JSON text that PostgreSQL can read."""
    encoded = _encode(value)
    if rb"\u0000" in encoded:
        encoded = _NUL_ESCAPE.sub(_REPLACEMENT_ESCAPE, encoded)
    return encoded.decode()


def storable(text: str) -> str:
    """Return a text without the character that PostgreSQL cannot store."""
    return text.replace(NUL, REPLACEMENT)
