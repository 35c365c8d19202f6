"""The core's verdict on a worker's report."""

from enum import StrEnum, unique


@unique
class ReportVerdict(StrEnum):
    """What became of a report. It is decided once, when the report is applied."""

    # It is the result that its attempt was waiting for.
    ACCEPTED = "accepted"
    # Its attempt has a result already.
    REPEATED = "repeated"
    # Its attempt was closed without a result (cancelled, timed out or lost), or has the result of another worker that
    # got it after this one was lost. The event result_ignored records it.
    LATE = "late"
    # There is no such attempt, or nobody claimed it.
    UNKNOWN = "unknown"


def judge_start(attempt: int, last_attempt: int, status: str) -> ReportVerdict | None:
    """Judge the report of a start by the last attempt of its node or iteration and its status.

    None if the attempt is dispatched and its claim, which counts as its start, is not recorded.
    """
    if not 0 < attempt <= last_attempt:
        return ReportVerdict.UNKNOWN
    if attempt < last_attempt:
        return ReportVerdict.LATE
    if status == "dispatched":
        return None
    if status == "running":
        return ReportVerdict.ACCEPTED
    return ReportVerdict.LATE
