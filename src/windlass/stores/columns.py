"""Columns of tables, derived from the structs of their rows.

A row's struct declares its columns, in order and by name. The tokens in the .sql files and the conversion between
structs and rows come from that declaration.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar, get_args

import msgspec
from msgspec import Raw, Struct, structs

from windlass.core.changes import CallOutputRow, CollectionChunkRow, IterationRow, JobRow, NodeRow
from windlass.core.runs.changes import ScheduleMark
from windlass.core.runs.rows import DeliveryRow, RunRow, ScheduleRow
from windlass.core.submits import NewJob
from windlass.ports.handler import LogLine
from windlass.ports.store.jobs import Request, StoredJob
from windlass.ports.store.overview import JobBrief, NodeSpan
from windlass.ports.store.runs import RunRequest
from windlass.ports.store.workflows import StoredWorkflow

# Column names that are keywords of SQL.
KEYWORDS = frozenset({"index"})

RowStruct = TypeVar("RowStruct", bound=Struct)
Convert = Callable[[Any], Any]


class EventPage(Struct, frozen=True):
    """A page of events as stored: the events of one commit about one job, as a JSON array."""

    job_id: str
    first_seq: int
    last_seq: int
    body: str
    # The nodes that are dispatched for the first time and have no row, as a JSON array.
    in_flight: str | None = None


class Columns(Generic[RowStruct]):
    """The columns of one kind of row. JSON values, enums and structs are stored as text."""

    def __init__(self, row_type: type[RowStruct], *, without: Sequence[str] = ()) -> None:
        self._row_type = row_type
        self._fields = [field for field in structs.fields(row_type) if field.name not in without]
        self.names = tuple(field.name for field in self._fields)
        self._encoders: list[tuple[int, Convert]] = []
        self._decoders: list[tuple[int, Convert]] = []
        for place, field in enumerate(self._fields):
            encode, decode = _conversion(_value_type(field.type))
            if encode is not None:
                self._encoders.append((place, encode))
            if decode is not None:
                self._decoders.append((place, decode))

    def values(self, row: RowStruct) -> list[Any]:
        """Return the values of a row in the order of the columns."""
        values = [getattr(row, name) for name in self.names]
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

    @property
    def sql(self) -> str:
        """The columns as a list in SQL."""
        return ", ".join(map(quoted, self.names))

    def record(self, types: Callable[[type], str]) -> str:
        """Return the columns with their types, as a record definition of PostgreSQL."""
        return ", ".join(f"{quoted(field.name)} {types(_value_type(field.type))}" for field in self._fields)


def quoted(name: str) -> str:
    """Return a column's name as SQL has it."""
    return f'"{name}"' if name in KEYWORDS else name


def _value_type(declared: Any) -> Any:
    """Return the type of a field's values other than None."""
    options = [option for option in get_args(declared) if option is not type(None)]
    return options[0] if len(options) == 1 else declared


def _conversion(value_type: Any) -> tuple[Convert | None, Convert | None]:
    """Return how values of a type become values of a column, and back; None where they are the same."""
    if value_type is Raw:
        return _text, _raw
    if value_type is bytes:
        return bytes.decode, str.encode
    if value_type is bool:
        # SQLite returns integers.
        return None, bool
    if isinstance(value_type, type) and issubclass(value_type, Enum):
        return _enum_value, value_type
    if isinstance(value_type, type) and issubclass(value_type, Struct):
        decode = msgspec.json.Decoder(value_type).decode
        return _json, decode
    return None, None


def _text(raw: Raw) -> str:
    return str(raw, "utf-8")


def _raw(text: str) -> Raw:
    return Raw(text.encode())


def _enum_value(member: Enum) -> Any:
    return member.value


def _json(value: Struct) -> str:
    return msgspec.json.encode(value).decode()


NODE = Columns(NodeRow)
ITERATION = Columns(IterationRow)
CALL_OUTPUT = Columns(CallOutputRow)
CHUNK = Columns(CollectionChunkRow)
EVENT_PAGE = Columns(EventPage)
JOB = Columns(StoredJob, without=("seq",))
NEW_JOB = Columns(NewJob)
JOB_CHANGE = Columns(JobRow)
JOB_BRIEF = Columns(JobBrief)
NODE_SPAN = Columns(NodeSpan)
WORKFLOW = Columns(StoredWorkflow, without=("is_new",))
REQUEST = Columns(Request)
LOG = Columns(LogLine)
RUN = Columns(RunRow)
SCHEDULE = Columns(ScheduleRow)
SCHEDULE_MARK = Columns(ScheduleMark)
DELIVERY = Columns(DeliveryRow)
RUN_REQUEST = Columns(RunRequest)

# By the name that they have in the .sql files: {node_columns}, {node_placeholders}.
COLUMNS: dict[str, Columns[Any]] = {
    "node": NODE,
    "iteration": ITERATION,
    "call_output": CALL_OUTPUT,
    "chunk": CHUNK,
    "event_page": EVENT_PAGE,
    "job": JOB,
    "new_job": NEW_JOB,
    "job_change": JOB_CHANGE,
    "job_brief": JOB_BRIEF,
    "node_span": NODE_SPAN,
    "workflow": WORKFLOW,
    "request": REQUEST,
    "log": LOG,
    "run": RUN,
    "schedule": SCHEDULE,
    "schedule_mark": SCHEDULE_MARK,
    "delivery": DELIVERY,
    "run_request": RUN_REQUEST,
}
