"""How the values of the store's contract become PostgreSQL's: batches as one text a column."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, starmap
from typing import Any

import msgspec

from windlass.core.changes import Changes, NodeRow
from windlass.core.jobs import JobSpec
from windlass.core.loop_state import LoopRows
from windlass.ports.handler import LogLine
from windlass.ports.store import JobSnapshot
from windlass.stores.rows import (
    block_values,
    event_pages,
    in_flight_of,
    job_of,
    job_row_values,
    job_values,
    node_values,
    page_values,
    task_of,
    task_values,
)

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
    events = [value for changes in group for value in event_pages(changes)]
    return [
        *joined(map(node_values, each(changes.nodes.values() for changes in group)), NODES),
        *joined(map(task_values, each(changes.iterations.values() for changes in group)), TASKS),
        *joined(map(page_values, each(changes.pages for changes in group)), PAGES),
        *joined(map(block_values, each(changes.blocks for changes in group)), BLOCKS),
        *joined(zip(*[iter(events)] * len(EVENTS), strict=True), EVENTS),
        *joined(starmap(job_row_values, each(changes.jobs.items() for changes in group)), JOBS),
        texts([request_id for changes in group for request_id in changes.requests]),
        texts([result_id for changes in group for result_id in changes.results]),
    ]


def submit_columns(jobs: Sequence[JobSpec]) -> Joined:
    """New jobs."""
    return joined(map(job_values, jobs), NEW_JOBS)


def log_columns(lines: Sequence[LogLine]) -> Joined:
    """Lines of logs."""
    return joined(
        ((one.job_id, one.node_id, one.index, one.attempt, one.at, one.level, one.message) for one in lines), LOGS
    )


def storable(text: str | None) -> str | None:
    """A text without the character that PostgreSQL refuses."""
    return None if text is None else text.replace(NUL, "\ufffd")


def restored_of(text: str, nodes: Mapping[str, Sequence[NodeRow]]) -> JobSnapshot:
    """A job that came as one JSON object, and its nodes out of those of many."""
    row = _decode_job(text)
    in_flight = in_flight_of(row.pop("in_flight"))
    return JobSnapshot(job_of(row), nodes.get(row["job_id"], []), in_flight=in_flight)


def loop_of_rows(
    number: int, generation: int, blocks: Iterable[Any], completed: Sequence[int], others: Iterable[Any]
) -> LoopRows:
    """The rows of a loop."""
    bodies = [body.encode() for (body,) in blocks]
    return LoopRows(number, generation, bodies, array("l", completed), [task_of(tuple(row)) for row in others])
