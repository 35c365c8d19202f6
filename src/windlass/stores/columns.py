"""Columns of tables, derived from the structs of their rows.

A row's struct declares its columns, in order and by name. The tokens in the .sql files and the conversion between
structs and rows come from that declaration.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_args

import msgspec
from msgspec import Raw, Struct, structs

from windlass.core.changes import CallOutputRow, CollectionChunkRow, IterationRow, NodeRow
from windlass.core.jobs import JobRecord, JobSpec, JobState
from windlass.core.runs.changes import ScheduleMark
from windlass.core.runs.rows import DeliveryRow, RunRow, ScheduleRow
from windlass.ports.handler import LogLine
from windlass.ports.store.jobs import Request
from windlass.ports.store.overview import JobBrief, NodeSpan
from windlass.ports.store.runs import RunRequest
from windlass.ports.store.workflows import StoredWorkflow

# Column names that are keywords of SQL.
KEYWORDS = frozenset({"index"})

RowStruct = TypeVar("RowStruct", bound=Struct)
Convert = Callable[[Any], Any]


class EventPage(Struct, frozen=True, gc=False):
    """A page of events as stored: the events of one commit about one job, as a JSON array."""

    job_id: str
    first_seq: int
    last_seq: int
    body: str
    # The nodes that are dispatched for the first time and have no row, as a JSON array.
    in_flight: str | None = None


class RunEventPage(Struct, frozen=True):
    """A page of events of a run; an empty run id stands for the schedule of the workflow."""

    workflow_id: str
    run_id: str
    first_seq: int
    last_seq: int
    body: str


class Column(Struct, frozen=True):
    """A column: its name, and the type of its values other than null."""

    name: str
    value_type: Any


class Columns(Generic[RowStruct]):
    """The columns of one kind of row. JSON values, enums and structs are stored as text."""

    def __init__(self, row_type: type[RowStruct], *, without: Sequence[str] = ()) -> None:
        self._row_type = row_type
        declared = [field for field in structs.fields(row_type) if field.name not in without]
        self.columns = [Column(field.name, _value_type(field.type)) for field in declared]
        self.names = tuple(column.name for column in self.columns)
        # `astuple` reads all fields in one call of the C extension.
        self._fields: Callable[[RowStruct], tuple[Any, ...]] = structs.astuple
        if without:
            self._fields = attrgetter(*self.names)
        self._raw_places = [
            place for place, column in enumerate(self.columns) if column.value_type is Raw
        ]
        self._encoders: list[tuple[int, Convert]] = []
        self._decoders: list[tuple[int, Convert]] = []
        for place, column in enumerate(self.columns):
            encode, decode = _conversion(column.value_type)
            if encode is not None:
                self._encoders.append((place, encode))
            if decode is not None:
                self._decoders.append((place, decode))
        # Return the values of a row in the order of the columns.
        self.values: Callable[[RowStruct], Sequence[Any]] = self._fields
        if self._raw_places or self._encoders:
            self.values = self._encoded

    def _encoded(self, row: RowStruct) -> list[Any]:
        values = list(self._fields(row))
        # Not among the encoders: almost every row of a commit has JSON values, and this needs no call for each.
        for place in self._raw_places:
            raw = values[place]
            if raw is not None:
                values[place] = str(raw, "utf-8")
        for place, encode in self._encoders:
            if values[place] is not None:
                values[place] = encode(values[place])
        return values

    def row(self, values: Sequence[Any]) -> RowStruct:
        """Return the row with these values, which are in the order of the columns."""
        decoded = list(values)
        for place, decode in self._decoders:
            if decoded[place] is not None:
                decoded[place] = decode(decoded[place])
        return self._row_type(*decoded)


def quoted(name: str) -> str:
    """Return a column's name as SQL has it."""
    return f'"{name}"' if name in KEYWORDS else name


def _value_type(declared: Any) -> Any:
    """Return the type of a field's values other than None."""
    options = [option for option in get_args(declared) if option is not type(None)]
    return options[0] if len(options) == 1 else declared


def _conversion(value_type: Any) -> tuple[Convert | None, Convert | None]:
    """Return how values of a type become values of a column, and back; None where `values` needs no call."""
    if value_type is Raw:
        return None, _raw
    if value_type is bytes:
        return bytes.decode, str.encode
    if value_type is bool:
        # SQLite returns integers.
        return None, bool
    if isinstance(value_type, type) and issubclass(value_type, StrEnum):
        # The members are texts.
        return None, value_type
    if isinstance(value_type, type) and issubclass(value_type, Struct):
        decode = msgspec.json.Decoder(value_type).decode
        return _json, decode
    return None, None


def _raw(text: str) -> Raw:
    return Raw(text.encode())


def _json(value: Struct) -> str:
    return msgspec.json.encode(value).decode()


NODE = Columns(NodeRow)
ITERATION = Columns(IterationRow)
CALL_OUTPUT = Columns(CallOutputRow)
CHUNK = Columns(CollectionChunkRow)
EVENT_PAGE = Columns(EventPage)
JOB_SPEC = Columns(JobSpec)
JOB_STATE = Columns(JobState)
JOB_BRIEF = Columns(JobBrief)
NODE_SPAN = Columns(NodeSpan)
WORKFLOW = Columns(StoredWorkflow, without=("is_new",))
REQUEST = Columns(Request)
LOG = Columns(LogLine)
RUN = Columns(RunRow)
RUN_EVENT_PAGE = Columns(RunEventPage)
SCHEDULE = Columns(ScheduleRow)
SCHEDULE_MARK = Columns(ScheduleMark)
DELIVERY = Columns(DeliveryRow)
RUN_REQUEST = Columns(RunRequest)

# A job's row: what was requested, and what the rules change.
JOB_NAMES = JOB_SPEC.names + JOB_STATE.names

# By the name that they have in the .sql files: {node_columns}, {node_placeholders}.
COLUMNS: dict[str, list[Column]] = {
    "node": NODE.columns,
    "iteration": ITERATION.columns,
    "call_output": CALL_OUTPUT.columns,
    "chunk": CHUNK.columns,
    "event_page": EVENT_PAGE.columns,
    "job": JOB_SPEC.columns + JOB_STATE.columns,
    "job_spec": JOB_SPEC.columns,
    # The key of the row, and all that a commit may change.
    "job_change": JOB_SPEC.columns[:1] + JOB_STATE.columns,
    "job_brief": JOB_BRIEF.columns,
    "node_span": NODE_SPAN.columns,
    "workflow": WORKFLOW.columns,
    "request": REQUEST.columns,
    "log": LOG.columns,
    "run": RUN.columns,
    "run_event_page": RUN_EVENT_PAGE.columns,
    "schedule": SCHEDULE.columns,
    "schedule_mark": SCHEDULE_MARK.columns,
    "delivery": DELIVERY.columns,
    "run_request": RUN_REQUEST.columns,
}


def job_of_row(values: Sequence[Any]) -> JobRecord:
    """Return a job from the columns of its spec and its state, and the sequence number of its last event."""
    count = len(JOB_SPEC.names)
    *row, seq = values
    return JobRecord(JOB_SPEC.row(row[:count]), JOB_STATE.row(row[count:]), seq)


def job_change_values(job_id: str, state: JobState) -> list[Any]:
    """Return the values of the part of a job's row that a commit may change."""
    return [job_id, *JOB_STATE.values(state)]
