"""How the values of the store's contract become PostgreSQL's: batches as one text a column."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from windlass.core.changes import Changes, NodeRow
from windlass.core.jobs import JobSpec
from windlass.core.loop_state import LoopRows
from windlass.ports.handler import LogLine
from windlass.ports.store.jobs import JobSnapshot
from windlass.stores.columns import (
    CALL_OUTPUT,
    CHUNK,
    EVENT_PAGE,
    ITERATION,
    JOB_NAMES,
    JOB_SPEC,
    LOG,
    NODE,
    job_change_values,
    job_of_row,
)
from windlass.stores.rows import chunk_bodies, event_pages, in_flight_of

# Kinds of columns, in their order: texts and numbers.
NODES = "tttnnnnnnnnttttnt"
TASKS = "tnnntnnnnnnnnttttt"
PAGES = "tnnnnt"
BLOCKS = "tnnnt"
EVENTS = "tnntt"
JOBS = "ttnnnnt"
NEW_JOBS = "ttntnnnttn"
LOGS = "ttnnntt"

# What tells elements apart, what stands for null, and the one character that PostgreSQL's texts cannot hold: none of
# them is in an id or in JSON, and elsewhere they are replaced.
BETWEEN, NULL, NUL = "\x1f", "\x1e", "\0"
REPLACED = str.maketrans(dict.fromkeys((BETWEEN, NULL, NUL), "\ufffd"))

Column = Sequence[Any]
Joined = list[str | None]
_decode_job = msgspec.json.Decoder(dict[str, Any]).decode


def joined(rows: Iterable[Column], kinds: str) -> Joined:
    """Rows turned into columns of one text each; None for a column of nulls, and for all when there are no rows."""
    columns = list(zip(*rows, strict=True))
    if not columns:
        return [None] * len(kinds)
    return [texts(column) if kind == "t" else numbers(column) for column, kind in zip(columns, kinds, strict=True)]


def texts(column: Column) -> str | None:
    """A column of texts and nulls as one text."""
    nulls = column.count(None)
    if nulls == len(column):
        return None
    text = BETWEEN.join([NULL if one is None else one for one in column] if nulls else column)
    if text.count(BETWEEN) == len(column) - 1 and text.count(NULL) == nulls and NUL not in text:
        return text
    return BETWEEN.join([NULL if one is None else one.translate(REPLACED) for one in column])


def numbers(column: Column) -> str | None:
    """A column of integers and nulls as PostgreSQL writes arrays."""
    nulls = column.count(None)
    if nulls == len(column):
        return None
    text = str(list(column))[1:-1]
    return f"{{{text.replace('None', 'NULL') if nulls else text}}}"


def commit_columns(group: Sequence[Changes]) -> Joined:
    """The arguments of a commit of the changes of several shards, without the shards and their epochs."""
    each = chain.from_iterable
    return [
        *joined(map(NODE.values, each(changes.nodes.values() for changes in group)), NODES),
        *joined(map(ITERATION.values, each(changes.iterations.values() for changes in group)), TASKS),
        *joined(map(CALL_OUTPUT.values, each(changes.pages for changes in group)), PAGES),
        *joined(map(CHUNK.values, each(changes.blocks for changes in group)), BLOCKS),
        *joined(map(EVENT_PAGE.values, each(map(event_pages, group))), EVENTS),
        *joined((job_change_values(*one) for one in each(changes.jobs.items() for changes in group)), JOBS),
        texts([request_id for changes in group for request_id in changes.requests]),
        texts([result_id for changes in group for result_id in changes.results]),
        texts([verdict.value for changes in group for verdict in changes.results.values()]),
    ]


def submit_columns(jobs: Sequence[JobSpec]) -> Joined:
    """New jobs."""
    return joined(map(JOB_SPEC.values, jobs), NEW_JOBS)


def log_columns(lines: Sequence[LogLine]) -> Joined:
    """Lines of logs."""
    return joined(map(LOG.values, lines), LOGS)


def storable(text: str | None) -> str | None:
    """A text without the character that PostgreSQL refuses."""
    return None if text is None else text.replace(NUL, "\ufffd")


def restored_of(text: str, nodes: Mapping[str, Sequence[NodeRow]]) -> JobSnapshot:
    """A job that came as one JSON object, and its nodes out of those of many."""
    row = _decode_job(text)
    job = job_of_row([row[name] for name in (*JOB_NAMES, "seq")])
    return JobSnapshot(job, nodes.get(job.spec.job_id, []), in_flight=in_flight_of(row["in_flight"]))


def loop_of_rows(
    number: int,
    generation: int,
    chunks: Iterable[Sequence[Any]],
    completed: Sequence[int],
    others: Iterable[Sequence[Any]],
) -> LoopRows:
    """Return the rows of a loop."""
    iterations = [ITERATION.row(row) for row in others]
    return LoopRows(number, generation, chunk_bodies(chunks), array("l", completed), iterations)
