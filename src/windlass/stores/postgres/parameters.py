"""Batches of rows as parameters of statements: one array of texts for each table, one text for each column (ADR 24)."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar

import msgspec

from windlass.core.changes import Changes
from windlass.core.jobs import JobSpec, JobState
from windlass.core.runs.changes import RunChanges
from windlass.ports.handler import LogLine
from windlass.stores.columns import (
    CALL_OUTPUT,
    CHUNK,
    COLUMNS,
    DELIVERY,
    EVENT_PAGE,
    ITERATION,
    JOB_SPEC,
    LOG,
    NODE,
    RUN,
    RUN_EVENT_PAGE,
    SCHEDULE_MARK,
    Column,
    Columns,
    job_change_values,
)
from windlass.stores.rows import event_pages, run_event_pages

# Separates elements; stands for null; the character that PostgreSQL cannot store. Neither ids nor JSON contain them. In
# other texts they are replaced.
SEPARATOR, NULL, NUL = "\x1f", "\x1e", "\0"
REPLACEMENT = "\ufffd"
_REPLACED = str.maketrans(dict.fromkeys((SEPARATOR, NULL, NUL), REPLACEMENT))

Row = TypeVar("Row")
Values = Sequence[Any]
# The texts of the columns; None for a column of nulls.
Batch = list[str | None]


class BatchParameter(Generic[Row]):
    """Converts rows of one kind to one parameter.

    A column is one text, which the server splits, because the driver inspects every element of an array (ADR 11). The
    places of the columns follow from the declarations, here and in the .sql files (`{node_arrays …}`).
    """

    def __init__(self, columns: Sequence[Column], values: Callable[[Row], Values]) -> None:
        self._values = values
        self._joins = [_join_of(column) for column in columns]

    def of(self, rows: Iterable[Row]) -> Batch | None:
        """Return the columns of rows, None when there are no rows."""
        columns = list(zip(*map(self._values, rows), strict=True))
        if not columns:
            return None
        return [join(column) for join, column in zip(self._joins, columns, strict=True)]


def _join_of(column: Column) -> Callable[[Values], str | None]:
    if column.value_type in (int, bool):
        return joined_numbers
    return joined_texts


def joined_texts(column: Values) -> str | None:
    """Return texts and nulls as one text that windlass_texts splits."""
    nulls = column.count(None)
    if nulls == len(column):
        return None
    elements = column
    if nulls:
        elements = [NULL if element is None else element for element in column]
    text = SEPARATOR.join(elements)
    if text.count(SEPARATOR) == len(column) - 1 and text.count(NULL) == nulls and NUL not in text:
        return text
    return SEPARATOR.join(
        [NULL if element is None else element.translate(_REPLACED) for element in column]
    )


def joined_numbers(column: Values) -> str | None:
    """Return integers, truth values and nulls as one text in the form of PostgreSQL's arrays."""
    nulls = column.count(None)
    if nulls == len(column):
        return None
    text = str(list(column))[1:-1]
    if nulls:
        text = text.replace("None", "NULL")
    return f"{{{text}}}"


def storable(text: str) -> str:
    """Return a text without the character that PostgreSQL cannot store."""
    return text.replace(NUL, REPLACEMENT)


def _job_change(change: tuple[str, JobState]) -> list[Any]:
    return job_change_values(*change)


_NODES = BatchParameter(NODE.columns, NODE.values)
_ITERATIONS = BatchParameter(ITERATION.columns, ITERATION.values)
_CALL_OUTPUTS = BatchParameter(CALL_OUTPUT.columns, CALL_OUTPUT.values)
_CHUNKS = BatchParameter(CHUNK.columns, CHUNK.values)
_EVENT_PAGES = BatchParameter(EVENT_PAGE.columns, EVENT_PAGE.values)
_JOB_CHANGES = BatchParameter(COLUMNS["job_change"], _job_change)
_JOBS = BatchParameter(JOB_SPEC.columns, JOB_SPEC.values)
_LOGS = BatchParameter(LOG.columns, LOG.values)


def commit_parameters(group: Sequence[Changes]) -> dict[str, object]:
    """Return the changes of several shards by the names of the parameters of the commit."""
    each = chain.from_iterable
    return {
        "nodes": _NODES.of(each(changes.nodes.values() for changes in group)),
        "iterations": _ITERATIONS.of(each(changes.iterations.values() for changes in group)),
        "call_outputs": _CALL_OUTPUTS.of(each(changes.call_outputs for changes in group)),
        "chunks": _CHUNKS.of(each(changes.chunks for changes in group)),
        "event_pages": _EVENT_PAGES.of(each(map(event_pages, group))),
        "job_changes": _JOB_CHANGES.of(each(changes.jobs.items() for changes in group)),
        "request_ids": joined_texts(
            [request_id for changes in group for request_id in changes.requests]
        ),
        "result_ids": joined_texts(
            [result_id for changes in group for result_id in changes.results]
        ),
        "result_verdicts": joined_texts(
            [verdict.value for changes in group for verdict in changes.results.values()]
        ),
        "runs": _runs_document([changes.runs for changes in group if changes.runs]),
    }


def job_parameter(jobs: Sequence[JobSpec]) -> Batch | None:
    """Return new jobs as one parameter."""
    return _JOBS.of(jobs)


def log_parameter(lines: Sequence[LogLine]) -> Batch | None:
    """Return log lines as one parameter."""
    return _LOGS.of(lines)


# Runs


def _runs_document(group: Sequence[RunChanges]) -> str | None:
    """Return changes to runs as one JSON document, None when there are none.

    Rows are objects by the names of their columns: few commits change runs, and they change few of them.
    """
    if not group:
        return None
    document: dict[str, list[Any]] = {
        "inserted": [],
        "updated": [],
        "events": [
            _record(RUN_EVENT_PAGE, page) for changes in group for page in run_event_pages(changes)
        ],
        "withdrawn": [run_id for changes in group for run_id in changes.withdrawn],
        "schedules": [
            _record(SCHEDULE_MARK, mark) for changes in group for mark in changes.schedules.values()
        ],
        "jobs": [_record(JOB_SPEC, job) for changes in group for job in changes.jobs],
        "requests": [request_id for changes in group for request_id in changes.requests],
        "deliveries": [_record(DELIVERY, row) for changes in group for row in changes.deliveries],
    }
    for changes in group:
        for run_id, row in changes.runs.items():
            kind = "inserted" if run_id in changes.inserted else "updated"
            document[kind].append(_record(RUN, row))
    return msgspec.json.encode(document).decode()


def _record(columns: Columns[Any], row: Any) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, value in zip(columns.names, columns.values(row), strict=True):
        record[name] = storable(value) if isinstance(value, str) else value
    return record
