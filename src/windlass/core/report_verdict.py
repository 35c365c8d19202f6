"""The core's verdict on a worker's report."""

from enum import StrEnum, unique


@unique
class ReportVerdict(StrEnum):
    """What became of a report. It is decided once, when the report is applied."""

    # It is the result that its attempt was waiting for.
    ACCEPTED = "accepted"
    # Its attempt has a result already.
    REPEATED = "repeated"
    # Its attempt was closed without a result: cancelled, timed out or lost. The event result_ignored records it.
    LATE = "late"
    # There is no such attempt.
    UNKNOWN = "unknown"
